"""What the processes of such a job run in the world, around the coroutines that are tried: as `mpi/bare.py` does."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from pliant.job.spawning import messages as m
from pliant.job.spawning import newcomer, sources, starter
from pliant.job.spawning import operations as o
from pliant.job.spawning.clock import PhaseClock
from pliant.job.spawning.spawn_tree import SpawnTreeNode
from pliant.job.spawning.starter import Ordered
from pliant.plan.spawn import SpawnPlan
from pliant.protocol.phases import Phase
from pliant_lab.injection.spawning.processes import CPU_S, Compute, Doing, EndAll, Gather, Handle, Probe, Proc

T = TypeVar("T")
Running: TypeAlias = Generator[Doing, Any, T]

STEPS = 3
"""That the job computes when the resize is over."""


@dataclass
class Job:
    """``last``: how many steps sources compute at most beside the starts, of ``step_s`` at least; a job that
    ``ends_early`` ends then, without having waited. ``results``: what has come of the expansion, by process."""

    plan: SpawnPlan
    briefing: m.Briefing
    now: Callable[[], float]
    last: int = 0
    ends_early: bool = False
    step_s: float = 0.0
    starter: Handle | None = None
    results: dict[Proc, sources.Expanded | sources.NotExpanded] = field(default_factory=dict)
    late: bool = False
    failed: int = 0
    lost: bool = False
    """What the root knows of the process that starts others."""
    remain: list[Proc] = field(default_factory=list)
    """Who has been told that this one stands still."""

    @property
    def computes_s(self) -> float:
        """At most, while newcomers start beside the job."""
        return self.last * (self.step_s + CPU_S[1]) if self.starter is not None else 0.0

    def source(self, proc: Proc, own: Handle) -> Running[None]:
        comm: o.Comm | None = own
        kins: list[SpawnTreeNode] = []
        order: Ordered | None = None
        yield Compute()
        try:
            if self.starter is not None:
                order = yield from self._ordered(own)
                come = yield from self._beside(own)
                expanded = None
                if come:
                    ordered, order = order, None
                    expanded = yield from self._join(own, ordered)
            else:
                expanded = yield from sources.expand(own, self.plan, self.briefing, PhaseClock(self.now))
        except sources.NotExpanded as error:
            self.results[proc] = error
            order = None
            if error.kin is not None:
                kins.append(error.kin)
        else:
            if expanded is not None:
                self.results[proc] = expanded
                comm = expanded.comm
                yield from self._settle(proc, expanded)
        yield o.Reach(None)
        if comm is not None:
            yield from self._work(comm)
        yield from self._finish(proc, comm or own, kins, order, alone=comm is None)

    def _ordered(self, own: Handle) -> Running[Ordered | None]:
        yield o.Reach(None)
        yield o.Reach(Phase.PREPARE)
        yield from sources.check(own, self.plan, self.briefing.command, self.briefing.hosts)
        yield o.Reach(None)
        if own.rank == 0 and self.starter is not None:
            return (yield from starter.order(self.starter, self.briefing))
        return None

    def _beside(self, own: Handle) -> Running[bool]:
        """Whether newcomers are waited for: the job computes until they are there, or until its last step."""
        for _ in range(self.last):
            yield Compute(self.step_s)
            ready = False
            if own.rank == 0 and self.starter is not None:
                ready = yield Probe(self.starter)
            if any((yield Gather(own, ready))):
                return True
        return not self.ends_early

    def _join(self, own: Handle, order: Ordered | None) -> Running[sources.Expanded]:
        there = sources.Arrivals(self.briefing.epoch, "", None)
        yield o.Reach(Phase.SYNCHRONISE)
        if order is not None and self.starter is not None:
            there = self._heard((yield from starter.arrivals(self.starter, order)))
        return (yield from sources.accept(own, self.plan, there, PhaseClock(self.now)))

    def _heard(self, there: sources.Arrivals) -> sources.Arrivals:
        self.lost = there.lost
        self.failed += there.outcome is not None and bool(there.outcome.error)
        return there

    def newcomer(self, proc: Proc, parent: Handle) -> Running[None]:
        arrival = yield from newcomer.begin(parent, PhaseClock(self.now))
        yield Compute()
        proc.in_loop = True
        expanded = yield from newcomer.join_job(arrival)
        self.results[proc] = expanded
        yield from self._settle(proc, expanded)
        yield o.Reach(None)
        assert expanded.comm is not None  # noqa: S101 - newcomers are targets
        yield from self._work(expanded.comm)
        yield from self._finish(proc, expanded.comm, [], None, alone=False)

    @staticmethod
    def _work(comm: o.Comm) -> Running[None]:
        for _ in range(STEPS):
            yield Compute()
            yield Gather(comm, None)

    def _finish(
        self, proc: Proc, comm: o.Comm, kins: list[SpawnTreeNode], order: Ordered | None, *, alone: bool
    ) -> Running[None]:
        """``alone``: this source has nobody to end with, as the job goes on without it."""
        if alone:
            return
        remain = proc in self.remain
        if self.starter is not None and proc.world < 0 and proc.rank == 0:
            if order is not None:
                self._heard((yield from starter.give_up(self.starter, order)))
            remain = self.lost
            if not remain:
                remain = yield from starter.end(self.starter, last=True, failed=self.failed)
        for kin in kins:
            remain |= yield from kin.late()
        if any((yield Gather(comm, remain))):
            self.late = True
            if comm.rank == 0:
                yield EndAll()

    def _settle(self, proc: Proc, expanded: sources.Expanded) -> Running[None]:
        """The job's state and its data, which all have to take their part in."""
        yield o.Reach(Phase.REORDER)
        if expanded.between is not None:
            remain = False
            if self.starter is not None and proc.was_there and proc.rank == 0:
                remain = yield from starter.end(self.starter, last=False)
            if any((yield Gather(expanded.between, remain, 2))):
                self.remain.append(proc)
        yield from sources.hand_over(expanded)
        if expanded.comm is not None:
            begun = yield o.Part(expanded.comm)
            proc.joined = True
            yield o.Await(begun, "the job's state")
