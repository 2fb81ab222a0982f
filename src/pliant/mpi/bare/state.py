"""What a rank knows of a job that a bare mpiexec has started, and the plan of each of its resizes."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Mapping
from typing import NamedTuple

from mpi4py import MPI

from pliant.job import timetable
from pliant.job.decisions import NEVER, Action, Decision
from pliant.job.timetable import Timetable, TimetableHost, TimetableOrders
from pliant.model.errors import PliantError
from pliant.model.jobs import Bounds
from pliant.model.words import count
from pliant.mpi import abilities
from pliant.mpi.bare import spawning
from pliant.mpi.resizer import drain, say
from pliant.mpi.team import Member, Team, assemble, barrier, broadcast, count_members, gather_all
from pliant.mpi.wait import Wait
from pliant.plan.change import WorldChange, grown, shrunk
from pliant.plan.choose import Abilities, SpawnOption, by_spawn
from pliant.plan.shrink import SpawnedWorld, awake_on, shrink_plan
from pliant.plan.spawn import Method, SpawnPlan, spawn_plan

LAUNCHERS = ("PMI_", "PMIX_", "HYDI_")
"""What a launcher of MPI says to its ranks begins so."""


class Pending(NamedTuple):
    """A change whose newcomers start beside the job, since ``step``; ``resize`` is its number in the timetable, and
    ``last`` the step at which they are waited for, NEVER if none is. ``begin_s``: how long it took to begin."""

    change: WorldChange
    how: str
    step: int
    resize: int
    last: int
    begin_s: float


class Bare:
    """What a rank of such a job knows beside its context: ``worlds`` are its MPI_COMM_WORLDs, in the order of its
    ranks; their nodes are numbers in ``hosts``."""

    def __init__(self, orders: TimetableOrders) -> None:
        self.orders = orders
        self.hosts: tuple[TimetableHost, ...] = ()
        self.worlds: tuple[SpawnedWorld, ...] = ()
        self.own = spawning.OwnWorld()
        self.timetable = Timetable(orders.due, 0)
        self.way = by_spawn(Abilities(), orders.asked)
        self.starter: spawning.SpawnStarter | None = None
        self.pending: Pending | None = None
        self.arrival: spawning.Arrival | None = None
        """Of a newcomer that is not joined yet."""
        self.word: spawning.ZombieOrder | None = None
        """Of a rank that has slept and is to join the job again."""
        self.late: list[spawning.SpawnTreeNode] = []
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
        self.worlds = (SpawnedWorld(0, tuple(numbers[name] for name in there)),)
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
        if SpawnOption.ASYNCHRONOUS not in self.way.beside:
            return False
        why = ""
        if own.rank == 0 and self.starter is None:
            try:
                self.starter = spawning.SpawnStarter(wait)
            except MPI.Exception as error:
                why = error.Get_error_string()
                say(f"not asynchronous, as no process that starts others could be started: {why}")
        if broadcast(own, why, 0, wait, "the process that starts others"):
            self.way = self.way._replace(beside=self.way.beside - {SpawnOption.ASYNCHRONOUS})
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

    def change(self, nodes: int) -> tuple[WorldChange, str]:
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
        plan = spawn_plan(cores, running, method, strategy, one=SpawnOption.ONE in self.way.beside)
        return grown(self.worlds, plan), f"{method} and {strategy}, {why}"

    def shrinkage(self, back: dict[int, int]) -> tuple[WorldChange, str]:
        plan, why = shrink_plan(self.worlds, back, self.way.shrink), ""
        if plan.respawn is not None:
            strategy, why = self.way.strategy_for({group.size for group in plan.respawn.groups})
            plan = shrink_plan(
                self.worlds, back, self.way.shrink, strategy, one=SpawnOption.ONE in self.way.beside
            )
        ends = sum(len(fate.ends) for fate in plan.fates)
        sleeps = sum(len(fate.sleeps) for fate in plan.fates)
        how = f"termination of {count(ends, 'rank')}"
        if plan.respawn is not None:
            how += f", {plan.respawn.spawned} started anew by {plan.respawn.strategy}, {why}"
        if sleeps:
            how += f", and {sleeps} that sleep and hold their nodes"
        return shrunk(self.worlds, plan), how


def _same_machine(there: list[str], most: int) -> tuple[TimetableHost, ...]:
    names = set(there)
    if len(names) > 1:
        raise PliantError(
            f"the job was started on {count(len(names), 'node')}, and {timetable.AT} wants it resized: name the nodes "
            f"that it may use in {timetable.HOSTS}, such as n0:2,n1:2"
        )
    return (TimetableHost(there[0], len(there)),) * most


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


def _end_all(rest: MPI.Intracomm, wait: Wait) -> None:
    """When the program has ended on all ranks of the job."""
    if rest.rank == 0:
        say("processes that were started for a resize, and called off, are there still: they are ended")
    drain()
    barrier(rest, wait, "the others of the job to end", limited=False)
    if rest.rank == 0:
        spawning.end_job(0)
