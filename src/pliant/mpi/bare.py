"""A job that a bare mpiexec has started resizes itself, at the steps that its environment names (`job/timetable.py`).

Its processes start others by MPI_Comm_spawn, as the plans of Martín-Álvarez et al. 2025 say (`mpi/spawning/`). All
ranks stop for that. What newcomers cannot do before they are joined leaves the job as it is; what fails later ends it.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from mpi4py import MPI

from pliant.job import timetable
from pliant.job.decisions import NEVER, Action, Decision
from pliant.job.timetable import Host, Orders, Timetable
from pliant.model.errors import PliantError
from pliant.model.jobs import Bounds
from pliant.model.words import count
from pliant.mpi import abilities, join, spawning
from pliant.mpi.context import Context, Snapshot
from pliant.mpi.data.transport import redistribute
from pliant.mpi.errors import Released
from pliant.mpi.resizing import resize
from pliant.mpi.team import Member, Team, assemble, barrier, broadcast, count_members, gather_all, part_with
from pliant.mpi.wait import Wait, nothing, unseen
from pliant.plan.change import Change, grown, shrunk
from pliant.plan.choose import Abilities, Beside, Chosen, by_spawn
from pliant.plan.shrink import World, awake_on, shrink_plan
from pliant.plan.spawn import Method, SpawnPlan, spawn_plan
from pliant.protocol.phases import Phase

LAUNCHERS = ("PMI_", "PMIX_", "HYDI_")
"""What a launcher of MPI says to its ranks begins so."""


class News(NamedTuple):
    """What newcomers get: the job's state, its arrays and values, its worlds as they will be, which ranks go on, and on
    how many nodes the job was."""

    snapshot: Snapshot
    signature: str
    hosts: tuple[Host, ...]
    worlds: tuple[World, ...]
    way: Chosen
    epoch: int
    targets: tuple[int, ...]
    before: int


class Pending(NamedTuple):
    """A change whose newcomers start beside the job, since ``step``; ``resize`` is its number in the timetable, and
    ``last`` the step at which they are waited for, NEVER if none is. ``begin_s``: how long it took to begin."""

    change: Change
    how: str
    step: int
    resize: int
    last: int
    begin_s: float


class Bare:
    """What a rank of such a job knows beside its context: ``worlds`` are its MPI_COMM_WORLDs, in the order of its
    ranks; their nodes are numbers in ``hosts``."""

    def __init__(self, orders: Orders) -> None:
        self.orders = orders
        self.hosts: tuple[Host, ...] = ()
        self.worlds: tuple[World, ...] = ()
        self.own = spawning.OwnWorld()
        self.timetable = Timetable(orders.due, 0)
        self.way = by_spawn(Abilities(), orders.asked)
        self.starter: spawning.Starter | None = None
        self.pending: Pending | None = None
        self.arrival: spawning.Arrival | None = None
        """Of a newcomer that is not joined yet."""
        self.word: spawning.Word | None = None
        """Of a rank that has slept and is to join the job again."""
        self.late: list[spawning.Kin] = []
        """Of newcomers that this rank has started, and that were called off."""
        self.remain = False
        """Whether a process that this rank knew of stands still: that one and what it has started are ended with the
        job."""

    def command(self, plan: SpawnPlan) -> tuple[tuple[str, ...], list[str]]:
        """What newcomers are, and the names of the plan's nodes."""
        command = (sys.executable, *sys.orig_argv[1:])
        return command, [host.name for host in self.hosts[: len(plan.cores)]]

    def begin(self, own: MPI.Intracomm, bounds: Bounds, wait: Wait) -> Team:
        """The team of a job that has just been started; PliantError if its nodes are not those that were named, or it
        cannot have the sizes that are."""
        for due in self.orders.due:
            if not due.slots and not bounds.allows(due.nodes):
                raise PliantError(
                    f"{timetable.AT} names {count(due.nodes, 'node')}, and the program allows {bounds.describe()}"
                )
        here = (spawning.host(), MPI.Get_processor_name())
        places: list[tuple[str, str]] = gather_all(own, here, wait, "the nodes of the job")
        there = [node for node, _ in places]
        most = max(due.nodes for due in self.orders.due)
        self.hosts = self.orders.hosts or _same_machine(there, most)
        numbers = {host.name: number for number, host in reversed([*enumerate(self.hosts)])}
        for name in dict.fromkeys(there):
            if name not in numbers:
                raise PliantError(
                    f"{timetable.HOSTS} does not name {name!r}, where the job was started: name it first"
                )
            if (ranks := there.count(name)) > (slots := self.hosts[numbers[name]].slots):
                raise PliantError(
                    f"{name!r} has {count(ranks, 'rank')}, and {timetable.HOSTS} gives it {count(slots, 'slot')}"
                )
        used = {numbers[name] for name in there}
        if used != set(range(len(used))):
            raise PliantError(
                f"{timetable.HOSTS} names other nodes before those where the job was started: name these first"
            )
        self.worlds = (World(0, tuple(numbers[name] for name in there)),)
        self.timetable = Timetable(self.orders.due, len(used))
        try:
            self.way = by_spawn(abilities.find(places), self.orders.asked, timetable.STRATEGY)
        except ValueError as error:
            raise PliantError(f"{timetable.AT}: {error}") from None
        if own.rank == 0:
            for why in self.way.why[1:]:
                say(why)
        self.have_starter(own, wait)
        return assemble(own, self.members, wait)

    # ---- newcomers that start beside the job --------------------------------------------------------

    def have_starter(self, own: MPI.Intracomm, wait: Wait) -> bool:
        """Whether the way is asynchronous: the root has a process that starts others then, or cannot have one, and
        nobody asks again. Collective over the job."""
        if Beside.ASYNCHRONOUS not in self.way.beside:
            return False
        why = ""
        if own.rank == 0 and self.starter is None:
            try:
                self.starter = spawning.Starter(wait)
            except MPI.Exception as error:
                why = error.Get_error_string()
                say(f"not asynchronous, as no process that starts others could be started: {why}")
        if broadcast(own, why, 0, wait, "the process that starts others"):
            self.way = self.way._replace(beside=self.way.beside - {Beside.ASYNCHRONOUS})
            return False
        return True

    def ready(self) -> Decision:
        """On the root, while newcomers start: whether it is known what has come of them."""
        if self.pending is None or self.starter is None or not self.starter.ready():
            return Decision()
        return self.decision

    @property
    def decision(self) -> Decision:
        """To join those that have been started, or to learn that they have not."""
        assert self.pending is not None  # noqa: S101 - or nobody asks
        return Decision(Action.EXPAND, resize=self.pending.resize)

    def last_step(self, step: int) -> int:
        """When newcomers that are started from ``step`` on have to be there: before the next resize."""
        following = self.timetable.following(step + 1)
        return NEVER if following == NEVER else following - 1

    def part(self, *, last: bool = False) -> bool:
        """The root leaves the job, or the job ends, which is its ``last`` end: newcomers that nobody waits for any more
        go again. Whether the process that has started them stands still, or some of them, if it is the last end."""
        if self.starter is None:
            return self.remain
        if self.pending is not None:
            self.starter.give_up()
            say(
                f"the newcomers that were started at step {self.pending.step} have come too late and go again"
            )
        self.remain |= self.starter.end(last=last)
        self.starter = self.pending = None
        return self.remain

    def finish(self, own: MPI.Intracomm, wait: Wait) -> None:
        """The job ends; collective over it. Its zombies end, and those who were started and have not come. mpiexec
        waits for all processes: where one stands still for ever they are all ended, when this program has ended."""
        remain = any([self.part(last=True), *(spawning.late(kin, wait) for kin in self.late)])
        self.own.end(wait)
        said = gather_all(own, remain, wait, "those who have started others that did not come", limited=False)
        if any(said):
            rest, request = own.Idup()
            wait.request(request, "the others at the end of the job")
            atexit.register(_end_all, rest, wait)

    # ---- what is to be done -------------------------------------------------------------------------

    @property
    def members(self) -> tuple[Member, ...]:
        """A group is what a world has on a node."""
        places = ((world.id, world.nodes[rank]) for world in self.worlds for rank in world.awake)
        return count_members((world, self._name(node)) for world, node in places)

    def _name(self, node: int) -> str:
        """Nodes that are one machine are told apart."""
        return self.hosts[node].name if self.orders.hosts else f"{self.hosts[node].name}/{node}"

    def change(self, nodes: int) -> tuple[Change, str]:
        """What is to be done for so many nodes, and how and why so."""
        awake = awake_on(self.worlds)
        if nodes < len(awake):
            return self.shrinkage({node: ranks for node, ranks in awake.items() if node >= nodes})
        cores = [host.slots if number < nodes else 0 for number, host in enumerate(self.hosts)]
        running = [awake[number] for number in range(len(self.hosts))]
        method = self.way.method
        missing = {
            want - have * (method is Method.MERGE) for want, have in zip(cores, running, strict=True) if want
        }
        strategy, why = self.way.strategy_for(missing - {0})
        plan = spawn_plan(cores, running, method, strategy, one=Beside.ONE in self.way.beside)
        return grown(self.worlds, plan), f"{method} and {strategy}, {why}"

    def shrinkage(self, back: dict[int, int]) -> tuple[Change, str]:
        plan, why = shrink_plan(self.worlds, back, self.way.shrink), ""
        if plan.respawn is not None:
            strategy, why = self.way.strategy_for({group.size for group in plan.respawn.groups})
            plan = shrink_plan(
                self.worlds, back, self.way.shrink, strategy, one=Beside.ONE in self.way.beside
            )
        ends = sum(len(fate.ends) for fate in plan.fates)
        sleeps = sum(len(fate.sleeps) for fate in plan.fates)
        how = f"termination of {count(ends, 'rank')}"
        if plan.respawn is not None:
            how += f", {plan.respawn.spawned} started anew by {plan.respawn.strategy}, {why}"
        if sleeps:
            how += f", and {sleeps} that sleep and hold their nodes"
        return shrunk(self.worlds, plan), how


def _same_machine(there: list[str], most: int) -> tuple[Host, ...]:
    names = set(there)
    if len(names) > 1:
        raise PliantError(
            f"the job was started on {count(len(names), 'node')}, and {timetable.AT} wants it resized: name the nodes "
            f"that it may use in {timetable.HOSTS}, such as n0:2,n1:2"
        )
    return (Host(there[0], len(there)),) * most


def of(environ: Mapping[str, str] = os.environ) -> Bare | None:
    """What the environment says, None if nothing; PliantError that names what is wrong there."""
    orders = timetable.read(environ)
    if orders is not None and not any(name.startswith(LAUNCHERS) for name in environ):
        raise PliantError(
            f"{timetable.AT}: others are started by mpiexec: start this by it too, as mpiexec -n 1 ..."
        )
    if orders is not None and any("\n" in word for word in sys.orig_argv):
        raise PliantError(
            f"{timetable.AT}: mpiexec cannot pass on an argument of several lines: put the program into a file"
        )
    return None if orders is None else Bare(orders)


# ---- resizes ----------------------------------------------------------------------------------------


def perform(context: Context, decision: Decision, snapshot: Snapshot) -> bool:
    """Do what the timetable says; collective over the job. False if nothing has changed, as where there is none."""
    if (bare := context.bare) is None:
        return False
    begin, team = time.perf_counter(), context.joined("the job")
    pending, bare.pending = bare.pending, None
    barrier(team.own, context.wait, "all ranks to stop for the resize", limited=False)
    pending = pending or _planned(bare, decision, team, snapshot.step)
    if pending is None:
        return False
    change = pending.change
    # Who goes on speaks; the first of the job where nobody does.
    speaks = team.own.rank == min(change.stays, default=0)
    try:
        with logged(context.wait, snapshot.step, speaks=speaks):
            if pending.step == snapshot.step and _begin_beside(context, bare, pending, begin):
                return False
            snapshot = context.stop(snapshot)
            carry_out(context, bare, change, snapshot, beside=pending.step < snapshot.step)
    except spawning.NotExpanded as error:
        if error.kin is not None:
            bare.late.append(error.kin)
        if team.own.rank == 0:
            say(f"at step {snapshot.step}: {error}")
        return False
    context.epoch += 1
    if speaks:
        seconds = time.perf_counter() - begin + pending.begin_s
        nodes = len(awake_on(change.after))
        how = pending.how
        if pending.step < snapshot.step:
            how += f"; newcomers were started beside the job at step {pending.step}"
        elif change.spawn is not None and change.spawn.one:
            how += "; one rank started newcomers, and told the rest"
        say(
            f"at step {snapshot.step} from {team.nodes} to {count(nodes, 'node')} in {seconds:.3f} s, by {how}"
        )
    return True


def _planned(bare: Bare, decision: Decision, team: Team, step: int) -> Pending | None:
    """What the timetable wants; None where it has come about already, as a resize before this one has failed."""
    if (nodes := bare.timetable.due(decision.resize).nodes) == team.nodes:
        return None
    change, how = bare.change(nodes)
    if change.is_nothing:
        return None
    return Pending(change, how, step, decision.resize, bare.last_step(step), 0.0)


def _begin_beside(context: Context, bare: Bare, pending: Pending, begin: float) -> bool:
    """Have newcomers started beside the job, if that is the way and there is something to start, and time for it."""
    plan, team = pending.change.spawn, context.joined("the job")
    if plan is None or pending.last == pending.step or not bare.have_starter(team.own, context.wait):
        return False
    command, hosts = bare.command(plan)
    spawning.check(team.own, plan, command, hosts, context.wait)
    if team.own.rank == 0:
        assert bare.starter is not None  # noqa: S101 - it is there
        bare.starter.begin(spawning.brief(plan, command, hosts, context.epoch + 1))
    bare.pending = pending._replace(begin_s=time.perf_counter() - begin)
    return True


def carry_out(context: Context, bare: Bare, change: Change, snapshot: Snapshot, *, beside: bool) -> None:
    """The sources' part."""
    team, wait = context.joined("the job"), context.wait
    comm, between = team.own, None
    if (plan := change.spawn) is not None:
        began = _expand(context, bare, plan, beside=beside)
        comm, between = began.comm or comm, began.between
    if plan is not None:
        wait.come(Phase.REORDER)
    with wait.watchdog("leaving the old communicator"):
        part_with(team.comm)
    if between is not None:
        comm = join.unite(comm, between, wait, high=False)
    news = News(
        snapshot, context.signature(), bare.hosts, change.after, bare.way, context.epoch + 1, change.targets,
        team.nodes,
    )  # fmt: skip
    if plan is not None:
        broadcast(comm, news, 0, wait, "the job's state")
    _hand_over(context, comm, change.sources, news)


def _expand(context: Context, bare: Bare, plan: SpawnPlan, *, beside: bool) -> spawning.Expansion:
    """Start newcomers and join them, or join those that have been started ``beside`` the job."""
    comm, epoch, wait = context.joined("the job").own, context.epoch + 1, context.wait
    if not beside:
        return spawning.expand(comm, plan, *bare.command(plan), wait, epoch=epoch)
    arrivals = spawning.Arrivals(epoch, "", None)
    wait.come(Phase.SYNCHRONISE)
    if comm.rank == 0:
        assert bare.starter is not None  # noqa: S101 - which has started them
        arrivals = bare.starter.arrivals()
        if bare.starter.lost:
            bare.starter, bare.remain = None, True
    return spawning.accept(comm, plan, arrivals, wait, spawning.clock())


def arrive(context: Context) -> Snapshot:
    """A newcomer reaches its loop: it joins the job; returns the job's state."""
    bare, wait = context.bare, context.wait
    if bare is None or bare.arrival is None:
        raise RuntimeError("only what is started by an agent, or by a job that resizes itself, joins one")
    try:
        joined = spawning.join_job(bare.arrival, wait)
    except Released:
        context.released = True
        raise
    assert joined.comm is not None  # noqa: S101 - newcomers are targets
    comm = joined.comm
    wait.come(Phase.REORDER)
    if joined.between is not None:
        comm = join.unite(comm, joined.between, wait, high=True)
    news = News(*broadcast(comm, None, 0, wait, "the job's state"))
    snapshot = news.snapshot
    if news.signature != (mine := context.signature()):
        raise PliantError(f"the job has {news.signature}, and a newcomer has registered {mine}")
    bare.hosts, bare.way, context.epoch = news.hosts, news.way, news.epoch
    context.restore(snapshot)
    _hand_over(context, comm, joined.plan.sources, news)
    wait.come(None)
    return snapshot


def _hand_over(context: Context, comm: MPI.Intracomm, sources: int, news: News) -> None:
    """The first ``sources`` ranks of ``comm``, which is spent, have the job's data: the targets get it, and those who
    are none leave."""
    bare, wait, arrays = context.bare, context.wait, list(context.arrays.values())
    assert bare is not None  # noqa: S101 - whose resize it is
    wait.come(Phase.REDISTRIBUTE)
    redistribute(arrays, comm, range(sources), news.targets, wait, hooks=context.during)
    context.team, bare.worlds = None, news.worlds
    if leaving := set(range(comm.size)).difference(news.targets):
        for array in arrays if comm.rank in leaving else ():
            array.settle()
        remain = comm.rank in leaving and bare.part()
        # Who goes on looks after what stands still, at the end of the job; who leaves may have waited for it.
        with wait.looking(nothing, 2):
            bare.remain |= any(gather_all(comm, remain, wait, "the end of the redistribution"))
        left = bare.own.shrink(comm, leaving, wait)
        if left.comm is None:
            bare.word = left.word
            context.released = left.word is None
            return
        comm = left.comm
    with wait.during(Phase.REDISTRIBUTE):
        context.team = assemble(comm, bare.members, wait)
        for array in arrays:
            array.exchange_halo()
    wait.come(Phase.COMMIT)
    resize.go_on(context, news.snapshot.step, news.before)


@contextmanager
def logged(wait: Wait, step: int, *, speaks: bool) -> Iterator[None]:
    """Who speaks for the job says each phase of the block on standard error when the job comes to it, in a line of its
    own, as others write there too. mpiexec ends all processes of a program at once when one fails: what was said before
    is all that then tells where that was."""

    def come(phase: Phase | None) -> None:
        if phase is not None:
            say(f"resizing at step {step}: {phase}")

    if speaks:
        wait.on_phase = come
    try:
        yield
    finally:
        wait.on_phase = unseen
        wait.come(None)


def _end_all(rest: MPI.Intracomm, wait: Wait) -> None:
    """When the program has ended on all ranks of the job."""
    if rest.rank == 0:
        say("processes that were started for a resize, and called off, are there still: they are ended")
    spawning.drain()
    barrier(rest, wait, "the others of the job to end", limited=False)
    if rest.rank == 0:
        spawning.end_job(0)


def say(text: str) -> None:
    sys.stderr.write(f"pliant: {text}\n")
    sys.stderr.flush()
