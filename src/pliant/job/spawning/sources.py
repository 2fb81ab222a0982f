"""The sources' part in an expansion: Martín-Álvarez et al. 2025, sections 4.1 to 4.6.

The paper finds ports by name. Here they travel with the words by which the worlds wait for each other, so no name
service is needed; these words also say what has failed, and sources whose newcomers have not all come up go on as
they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pliant.job.errors import FEW_DESCRIPTORS
from pliant.job.spawning import messages as m
from pliant.job.spawning import operations as o
from pliant.job.spawning.clock import PhaseClock
from pliant.job.spawning.spawn_tree import SpawnTreeNode, patience
from pliant.model.errors import PliantError
from pliant.model.words import count
from pliant.plan.connect import connection_plan
from pliant.plan.spawn import SOURCES, Method, SpawnPlan
from pliant.protocol.phases import Phase


class NotExpanded(PliantError):  # noqa: N818 - what has become of an expansion
    """Nothing has changed: the sources have the communicator that they had, and all newcomers go again. ``kin``: those
    of them that this process has started, if any; it looks after them at its end (``SpawnTreeNode.late``)."""

    def __init__(self, text: str, kin: SpawnTreeNode | None = None) -> None:
        super().__init__(text)
        self.kin = kin


class Expanded(NamedTuple):
    """What an expansion has come to, on one rank.

    ``comm``: all targets, in the order of Equation 9; None on a source of a Baseline expansion. ``between``, of such
    an expansion alone: from sources to targets and back. ``phases``: seconds. On rank 0 of the sources they tell all
    that they do, and ``trace`` the groups as they have come up, by id.
    """

    plan: SpawnPlan
    epoch: int
    comm: o.Comm | None
    between: o.Comm | None
    phases: dict[str, float]
    trace: tuple[m.Started, ...] = ()


class Arrivals(NamedTuple):
    """Newcomers that have been started. ``outcome``, on rank 0 of the sources, is what has come of them; ``kin`` is
    there on sources that have started some; and ``starter`` leads to the process that has, where that is none of them.
    That one is ``lost`` if it says nothing: nothing more is to be heard of it.
    """

    epoch: int
    port: str
    outcome: m.Outcome | None
    kin: SpawnTreeNode | None = None
    starter: o.Comm | None = None
    lost: bool = False

    def call(self, *, go: bool) -> o.Steps[None]:
        """On rank 0 of the sources: have the newcomers connect, or end."""
        comm = self.starter
        if self.kin is not None:
            comm = self.kin.children[0].comm
        assert comm is not None  # noqa: S101 - somebody has started them
        sent = yield o.Send(comm, 0, m.Come(go))
        yield o.Await(sent, "the newcomers to be called")


def expand(comm: o.Comm, plan: SpawnPlan, briefing: m.Briefing, clock: PhaseClock) -> o.Steps[Expanded]:
    """Start newcomers as ``plan`` says and join what comes up; collective over ``comm``, the sources, which a Merge
    spends. NotExpanded if a newcomer cannot be started or does not come up in time."""
    yield o.Reach(Phase.PREPARE)
    yield from check(comm, plan, briefing.command, briefing.hosts)
    root = comm.rank == 0
    port: str = (yield o.OpenPort()) if root and plan.by_port else ""
    clock.end(Phase.PREPARE)
    kin, outcome = None, None
    yield o.Reach(Phase.START)
    if root or not plan.one:
        own: o.Comm = (yield o.Alone()) if plan.one else comm
        kin = SpawnTreeNode(own, briefing, None)
        outcome = yield from bring(kin, plan, briefing.epoch, port, clock)
    return (yield from accept(comm, plan, Arrivals(briefing.epoch, port, outcome, kin), clock))


def brief(plan: SpawnPlan, command: Sequence[str], hosts: Sequence[str], epoch: int) -> m.Briefing:
    """What the sources know of the expansion, and whoever starts something for them."""
    return m.Briefing(
        plan.cores, plan.running, plan.method, plan.strategy, plan.oversubscription, plan.one,
        tuple(command), tuple(hosts), epoch, SOURCES, 0, SOURCES, 0,
    )  # fmt: skip


def bring(
    kin: SpawnTreeNode, plan: SpawnPlan, epoch: int, port: str, clock: PhaseClock
) -> o.Steps[m.Outcome]:
    """Start the newcomers, and wait until they are one; by all who start some. Where they are not they go again, and
    nobody waits for that before the end of the job (``SpawnTreeNode.late``)."""
    yield o.Reach(Phase.START)
    yield from kin.start()
    clock.end(Phase.START)
    yield o.Reach(Phase.SYNCHRONISE)
    report = yield from kin.upside({connection_plan(len(plan.calls), epoch).source_key: port} if port else {})
    verdict = yield from kin.downside(m.Verdict(report.error, report.ports) if kin.first else None)
    clock.end(Phase.SYNCHRONISE)
    if verdict.error:
        yield from kin.call_off(verdict)
    elif plan.by_port:
        yield from kin.part()
    if not verdict.error and plan.by_port and kin.first:
        yield o.Reach(Phase.CONNECT)
        (joined,) = yield o.Receive(((kin.children[0].comm, 0),), m.Joined, "the newcomers to join")
        clock.end(Phase.CONNECT)
        clock.move(Phase.CONNECT, Phase.REORDER, joined.reorder_s)
    trace = tuple(sorted(report.started, key=lambda each: each.group))
    return m.Outcome(verdict.error, trace, clock.phases)


def accept(comm: o.Comm, plan: SpawnPlan, arrivals: Arrivals, clock: PhaseClock) -> o.Steps[Expanded]:
    """The sources join the newcomers, if these are there; collective over ``comm``. NotExpanded if they are not."""
    port, kin, outcome, root = arrivals.port, arrivals.kin, arrivals.outcome, comm.rank == 0
    verdict = m.Verdict(outcome.error) if outcome is not None else None
    what = "the newcomers to join"
    # The root may have waited so long itself, for a process that starts others beside the job.
    word: m.Verdict = yield o.Tell(comm, verdict, m.Verdict, what, share=patience(plan) + 1)
    if word.error:
        if port:
            yield o.ClosePort(port)
        raise NotExpanded(f"the job stays at {count(comm.size, 'rank')}: {word.error}", kin)
    between: o.Comm
    if plan.by_port:
        yield o.Reach(Phase.CONNECT)
        if root:
            yield from arrivals.call(go=True)
        between = yield o.Accept(comm, port, "accepting the newcomers")
        if port:
            yield o.ClosePort(port)
    else:
        assert kin is not None  # noqa: S101 - all sources have started them
        between = kin.children[0].comm
    expanded = yield from finish(comm, between, plan, epoch=arrivals.epoch, clock=clock, high=False)
    if kin is not None:
        yield from kin.gone()
        clock.end(Phase.COMMIT)
    if root and outcome is not None:
        return expanded._replace(trace=outcome.trace)
    return expanded


def check(comm: o.Comm, plan: SpawnPlan, command: Sequence[str], hosts: Sequence[str]) -> o.Steps[None]:
    """ValueError for what does not fit; NotExpanded on all sources if there is no such program where one of them is,
    or one has no free file descriptors.

    A program that does not exist would hang MPI_Comm_spawn.
    """
    if comm.size != plan.sources:
        raise ValueError(f"{comm.size} ranks are to expand, and the plan is for {plan.sources} sources")
    if len(hosts) != len(plan.cores):
        raise ValueError(f"{len(hosts)} hosts are named, and the plan has {len(plan.cores)} nodes: name all")
    if not plan.groups:
        raise ValueError("the plan starts nothing: every node has its processes already")
    if not command:
        raise ValueError("no command is given: newcomers need a program")
    program, descriptors = yield o.Look(comm, command[0], "the sources to look for the program")
    if not program:
        raise NotExpanded(
            f"the job stays at {count(comm.size, 'rank')}: there is no program {command[0]!r} that can be executed, "
            "at least for one of them; give its full path"
        )
    if not descriptors:
        raise NotExpanded(f"the job stays at {count(comm.size, 'rank')}: {FEW_DESCRIPTORS}")


def finish(  # noqa: PLR0913 - both sides of any expansion end here
    comm: o.Comm, between: o.Comm, plan: SpawnPlan, *, epoch: int, clock: PhaseClock, high: bool
) -> o.Steps[Expanded]:
    """Merge, or keep both sides: ``high`` are the newcomers."""
    yield o.Reach(Phase.MERGE)
    if plan.method is Method.MERGE:
        merged: o.Comm = yield o.Unite(comm, between, high)
        clock.end(Phase.MERGE)
        return Expanded(plan, epoch, merged, None, clock.phases)
    clock.end(Phase.MERGE)
    return Expanded(plan, epoch, comm if high else None, between, clock.phases)


def hand_over(expanded: Expanded) -> o.Steps[None]:
    """The targets have all that they need: leave each other. The sources have nothing more to do then."""
    if expanded.between is not None:
        parting = yield o.Part(expanded.between)
        yield o.Await(parting, "sources and targets to part")
        yield o.Leave((expanded.between,), "leaving the other side")
