"""Executes spawn plans with MPI_Comm_spawn, under a bare mpiexec: paper 1, sections 4.1 to 4.6.

The paper finds ports by name. Here they travel with the words by which the worlds wait for each other, so no name
service is needed; these words also say what has failed, and sources whose newcomers have not all come up go on as
they are.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from mpi4py import MPI

from pliant.model.errors import PliantError
from pliant.mpi import join
from pliant.mpi.resizing.admission import FEW_DESCRIPTORS, has_descriptors
from pliant.mpi.spawning import messages as m
from pliant.mpi.spawning.kin import Kin
from pliant.mpi.wait import Wait
from pliant.plan.connect import connection_plan
from pliant.plan.spawn import SOURCES, Method, SpawnPlan
from pliant.protocol.phases import Phase


class NotExpanded(PliantError):  # noqa: N818 - what has become of an expansion
    """Nothing has changed: the sources have the communicator that they had, and all newcomers go again. ``kin``: those
    of them that this process has started, if any; it looks after them at its end (``Kin.late``)."""

    def __init__(self, text: str, kin: Kin | None = None) -> None:
        super().__init__(text)
        self.kin = kin


class Expansion(NamedTuple):
    """What an expansion has come to, on one rank.

    ``comm``: all targets, in the order of Equation 9; None on a source of a Baseline expansion. ``between``, of such
    an expansion alone: from sources to targets and back, until :meth:`hand_over`. ``phases``: seconds. On rank 0 of
    the sources they tell all that they do, and ``trace`` the groups as they have come up, by id.
    """

    plan: SpawnPlan
    epoch: int
    comm: MPI.Intracomm | None
    between: MPI.Intercomm | None
    phases: dict[str, float]
    trace: tuple[m.Started, ...] = ()

    def hand_over(self, wait: Wait) -> None:
        """The targets have all that they need: leave each other. The sources have nothing more to do then."""
        if self.between is not None:
            wait.request(self.between.Ibarrier(), "sources and targets to part")
            with wait.watchdog("leaving the other side"):
                self.between.Disconnect()


class Clock:
    """Where the time goes: each phase lasts from the end of the one before."""

    def __init__(self) -> None:
        self.phases: dict[str, float] = {}
        self._last = time.perf_counter()

    def end(self, phase: Phase) -> None:
        now = time.perf_counter()
        self.phases[phase] = now - self._last
        self._last = now

    def move(self, phase: Phase, to: Phase, seconds: float) -> None:
        """``seconds`` of ``phase`` were another one's."""
        self.phases[phase] -= seconds
        self.phases[to] = seconds


# ---- sources ----------------------------------------------------------------------------------------


def expand(  # noqa: PLR0913 - what is started where, by which plan, and how long the wait for it may last
    comm: MPI.Intracomm,
    plan: SpawnPlan,
    command: Sequence[str],
    hosts: Sequence[str],
    wait: Wait,
    *,
    epoch: int = 1,
) -> Expansion:
    """Start ``command`` as ``plan`` says and join what comes up; collective over ``comm``, the sources.

    ``hosts``: the names of the plan's nodes. ``comm`` is spent by a Merge; it must not be COMM_WORLD. The command
    calls ``arrive`` first of all. NotExpanded if a newcomer cannot be started or does not come up in time.
    What dies later, or in a way that MPI cannot bear, ends the sources by the deadline of ``wait``.
    """
    clock = Clock()
    wait.come(Phase.PREPARE)
    check(comm, plan, command, hosts, wait)
    root = comm.rank == 0
    port = MPI.Open_port() if root and plan.by_port else ""
    clock.end(Phase.PREPARE)
    kin, outcome = None, None
    wait.come(Phase.START)
    if root or not plan.one:
        kin = Kin(MPI.COMM_SELF if plan.one else comm, brief(plan, command, hosts, epoch), None, wait)
        outcome = bring(kin, plan, epoch, port, wait, clock)
    return accept(comm, plan, Arrivals(epoch, port, outcome, kin), wait, clock)


def brief(plan: SpawnPlan, command: Sequence[str], hosts: Sequence[str], epoch: int) -> m.Briefing:
    """What the sources know of the expansion, and whoever starts something for them."""
    return m.Briefing(
        plan.cores, plan.running, plan.method, plan.strategy, plan.oversubscription, plan.one,
        tuple(command), tuple(hosts), epoch, SOURCES, 0, SOURCES, 0,
    )  # fmt: skip


def bring(  # noqa: PLR0913, PLR0917 - who starts what for whom
    kin: Kin, plan: SpawnPlan, epoch: int, port: str, wait: Wait, clock: Clock
) -> m.Outcome:
    """Start the newcomers, and wait until they are one; by all who start some. Where they are not they go again, and
    nobody waits for that before the end of the job (``Kin.late``)."""
    wait.come(Phase.START)
    kin.start()
    clock.end(Phase.START)
    wait.come(Phase.SYNCHRONISE)
    report = kin.upside({connection_plan(len(plan.calls), epoch).source_key: port} if port else {})
    verdict = kin.downside(m.Verdict(report.error, report.ports) if kin.first else None)
    clock.end(Phase.SYNCHRONISE)
    if verdict.error:
        kin.call_off(verdict)
    elif plan.by_port:
        kin.part()
    if not verdict.error and plan.by_port and kin.first:
        wait.come(Phase.CONNECT)
        joined = m.receive(kin.children[0].comm, 0, m.Joined, wait, "the newcomers to join")
        clock.end(Phase.CONNECT)
        clock.move(Phase.CONNECT, Phase.REORDER, joined.reorder_s)
    trace = tuple(sorted(report.started, key=lambda each: each.group))
    return m.Outcome(verdict.error, trace, clock.phases)


class Arrivals(NamedTuple):
    """Newcomers that have been started. ``outcome``, on rank 0 of the sources, is what has come of them; ``kin`` is
    there on sources that have started some; and ``starter`` leads to the process that has, where that is none of them.
    """

    epoch: int
    port: str
    outcome: m.Outcome | None
    kin: Kin | None = None
    starter: MPI.Intercomm | None = None

    def call(self, *, go: bool, wait: Wait) -> None:
        """On rank 0 of the sources: have the newcomers connect, or end."""
        comm = self.starter
        if self.kin is not None:
            comm = self.kin.children[0].comm
        assert comm is not None  # noqa: S101 - somebody has started them
        wait.requests(m.send(comm, 0, m.Come(go)), "the newcomers to be called")


def accept(comm: MPI.Intracomm, plan: SpawnPlan, arrivals: Arrivals, wait: Wait, clock: Clock) -> Expansion:
    """The sources join the newcomers, if these are there; collective over ``comm``. NotExpanded if they are not."""
    port, kin, outcome, root = arrivals.port, arrivals.kin, arrivals.outcome, comm.rank == 0
    word = m.Verdict(outcome.error) if outcome is not None else None
    word = m.tell(comm, word, m.Verdict, wait, "the newcomers to join")
    if word.error:
        if port:
            MPI.Close_port(port)
        raise NotExpanded(f"the job stays at {comm.size} ranks: {word.error}", kin)
    if plan.by_port:
        wait.come(Phase.CONNECT)
        if root:
            arrivals.call(go=True, wait=wait)
        with wait.watchdog("accepting the newcomers"):
            between = comm.Accept(port, root=0)
        if port:
            MPI.Close_port(port)
    else:
        assert kin is not None  # noqa: S101 - all sources have started them
        between = kin.children[0].comm
    expansion = finish(comm, between, plan, epoch=arrivals.epoch, clock=clock, wait=wait, high=False)
    if kin is not None:
        kin.gone()
        clock.end(Phase.COMMIT)
    if root and outcome is not None:
        return expansion._replace(trace=outcome.trace)
    return expansion


def check(
    comm: MPI.Intracomm, plan: SpawnPlan, command: Sequence[str], hosts: Sequence[str], wait: Wait
) -> None:
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
    found = np.array([shutil.which(command[0]) is not None, has_descriptors()], "i4")
    everywhere = np.empty_like(found)
    wait.request(comm.Iallreduce(found, everywhere, MPI.MIN), "the sources to look for the program")
    if not everywhere[0]:
        raise NotExpanded(
            f"the job stays at {comm.size} ranks: there is no program {command[0]!r} that can be executed, "
            "at least for one of them; give its full path"
        )
    if not everywhere[1]:
        raise NotExpanded(f"the job stays at {comm.size} ranks: {FEW_DESCRIPTORS}")


def finish(  # noqa: PLR0913 - both sides of any expansion end here
    comm: MPI.Intracomm,
    between: MPI.Intercomm,
    plan: SpawnPlan,
    *,
    epoch: int,
    clock: Clock,
    wait: Wait,
    high: bool,
) -> Expansion:
    """Merge, or keep both sides: ``high`` are the newcomers."""
    wait.come(Phase.MERGE)
    if plan.method is Method.MERGE:
        merged = join.unite(comm, between, wait, high=high)
        clock.end(Phase.MERGE)
        return Expansion(plan, epoch, merged, None, clock.phases)
    clock.end(Phase.MERGE)
    return Expansion(plan, epoch, comm if high else None, between, clock.phases)
