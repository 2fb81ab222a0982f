"""EASY and FCFS on rigid jobs as a bare loop in pyss' order of events: what ``--instant pyss`` is held against.

The loop shares no line with the simulator, the core or the policies.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from heapq import heappop, heappush

from pliant.core import records as r
from pliant.core.settings import Settings
from pliant.plan.cost import INSTANT
from pliant.policy.easy import Easy
from pliant.policy.fcfs import Fcfs
from pliant.sim.instant import Instant
from pliant.sim.simulator import Conditions, simulate
from pliant.workloads.job import SimJob


class Loop:
    """Jobs are numbers, in the order of submission; ``start`` holds when each started."""

    def __init__(self, jobs: Sequence[SimJob], processors: int, *, backfill: bool) -> None:
        self.submit = [job.spec.submit_s for job in jobs]
        self.size = [job.spec.nodes.min for job in jobs]
        self.estimate = [job.spec.walltime_s for job in jobs]
        self.length = [job.runtime_s or 0.0 for job in jobs]
        self.start: dict[int, float] = {}
        self._backfill = backfill
        self._free = processors
        self._queue: list[int] = []
        self._running: list[tuple[float, int]] = []  # (end by the estimate, job), in this order
        self._ends: list[tuple[float, int, int]] = []  # (true end, which start it was, job), a heap

    def run(self) -> dict[int, float]:
        coming = 0
        while coming < len(self.submit) or self._ends:
            now = min(self.submit[coming : coming + 1] + [end for end, _, _ in self._ends[:1]])
            over = []
            while self._ends and self._ends[0][0] == now:
                over.append(heappop(self._ends)[2])
            early = [job for job in over if self.length[job] < self.estimate[job]]
            for job in over:
                if job not in early:
                    self._release(job)
            while coming < len(self.submit) and self.submit[coming] == now:
                self._queue.append(coming)
                coming += 1
                self._pass(now)
            for job in over:
                if job in early:
                    self._release(job)
                self._pass(now)
        return self.start

    def _release(self, job: int) -> None:
        self._free += self.size[job]
        del self._running[bisect_left(self._running, (self.start[job] + self.estimate[job], job))]

    def _begin(self, job: int, now: float) -> None:
        self._free -= self.size[job]
        heappush(self._ends, (now + self.length[job], len(self.start), job))
        self.start[job] = now
        insort(self._running, (now + self.estimate[job], job))

    def _pass(self, now: float) -> None:
        queue = self._queue
        heads = 0
        while heads < len(queue) and self.size[queue[heads]] <= self._free:
            self._begin(queue[heads], now)
            heads += 1
        del queue[:heads]
        if not (self._backfill and queue and self._free):
            return
        shadow, spare = self._reservation(self.size[queue[0]])
        stay = queue[:1]
        for job in queue[1:]:
            harmless = now + self.estimate[job] <= shadow
            if self.size[job] > self._free or not (harmless or self.size[job] <= spare):
                stay.append(job)
                continue
            if not harmless:
                spare -= self.size[job]
            self._begin(job, now)
        self._queue = stay

    def _reservation(self, need: int) -> tuple[float, int]:
        """When ``need`` processors are free by the estimates, and how many more are free at that time."""
        free, shadow = self._free, None
        for end, job in self._running:
            if shadow is not None and end > shadow:
                break
            free += self.size[job]
            if shadow is None and free >= need:
                shadow = end
        assert shadow is not None
        return shadow, free - need


def loop_starts(jobs: Sequence[SimJob], processors: int, *, backfill: bool) -> list[float]:
    """When each of ``jobs``, which are in the order of submission, starts."""
    starts = Loop(jobs, processors, backfill=backfill).run()
    return [starts[job] for job in range(len(jobs))]


def simulated_starts(jobs: Sequence[SimJob], processors: int, *, backfill: bool) -> list[float]:
    """The same, by the simulator."""
    starts = [0.0] * len(jobs)

    def sink(record: r.Record) -> None:
        if isinstance(record, r.JobStarted):
            starts[record.job - 1] = record.at

    policy = Easy() if backfill else Fcfs()
    simulate(jobs, processors, policy, Conditions(Settings(cost=INSTANT), instant=Instant.PYSS), sink)
    return starts
