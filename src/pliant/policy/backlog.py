"""The waiting jobs by what they need, so that a pass finds those that may start without a look at all others."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heapreplace

from pliant.model.jobs import JobClass
from pliant.model.speedup import falls
from pliant.policy.view import JobView

BLOCK = 32
ONE_SIZE, MALLEABLE, CHOICE = range(3)
LONG_S = 1e300
"""No estimate counts as longer; what has gone does."""
GONE = float("inf")


class Backlog:
    """Pending jobs in order of their numbers. Those of one size are kept apart, as are those that the scheduler may
    resize, and those with a choice of sizes that it may not."""

    def __init__(self, jobs: Iterable[JobView]) -> None:
        self._kinds: tuple[dict[int, _Row], ...] = ({}, {}, {})
        self._needs: tuple[list[int], ...] = ([], [], [])
        self._waiting: dict[int, JobView] = {}
        self._order: list[int] = []
        self._elastic: dict[int, _Row] | None = None
        """The malleable ones by what they take at their preferred sizes, once somebody has asked."""
        for job in jobs:
            self.add(job)

    def add(self, job: JobView) -> None:
        """Its number is above all others'."""
        self._waiting[job.id] = job
        self._order.append(job.id)
        if self._elastic is not None:
            self._add_elastic(self._elastic, job)
        kind, need = _kind(job), job.bounds.min
        row = self._kinds[kind].get(need)
        if row is None:
            row = self._kinds[kind][need] = _Row()
            insort(self._needs[kind], need)
        row.add(job, min(LONG_S, job.spec.estimate(need)))

    def discard(self, job: JobView) -> None:
        del self._waiting[job.id]
        del self._order[bisect_left(self._order, job.id)]
        if self._elastic is not None and _kind(job) == MALLEABLE:
            self._elastic[job.bounds.min].discard(job.id)
        self._kinds[_kind(job)][job.bounds.min].discard(job.id)

    def __len__(self) -> int:
        return len(self._waiting)

    def get(self, number: int) -> JobView | None:
        return self._waiting.get(number)

    def after(self, number: int) -> list[JobView]:
        """Those with higher numbers, in their order."""
        return [self._waiting[each] for each in self._order[bisect_right(self._order, number) :]]

    def last_of(self, most: int, number: int) -> int:
        """The number of the last of so many jobs after ``number``, or of fewer if there are no more."""
        i = bisect_right(self._order, number) + most
        return self._order[min(i, len(self._order)) - 1]

    def behind(
        self, number: int, free: int, spare: float, limits: tuple[float, float, float]
    ) -> JobView | None:
        """The first job after ``number`` that needs no more than ``free`` nodes at least, and either no more than
        ``spare`` or no more time on them than the limit of its kind: of one size, malleable, or any other."""
        found: JobView | None = None
        for rows, needs, limit in zip(self._kinds, self._needs, limits, strict=True):
            most_s = min(limit, LONG_S)
            for need in needs:
                if need > free:
                    break
                job = rows[need].first(number, LONG_S if need <= spare else most_s)
                if job is not None and (found is None or job.id < found.id):
                    found = job
        return found

    def promising(
        self, number: int, there: int, quick_s: float, spare: float, limit: float
    ) -> Iterator[JobView]:
        """The jobs after ``number``, in order, that take no longer than this at their preferred sizes: ``limit``, if
        they need more than ``spare`` nodes, and ``quick_s`` over the nodes that they lack, if they need more than are
        ``there``. Those that may be quicker on fewer nodes count as taking no time, and those with a choice of sizes
        that the scheduler may not resize are among them in any case."""
        if self._elastic is None:
            self._elastic = {}
            for each in self._waiting.values():
                self._add_elastic(self._elastic, each)
        heap = [
            (job.id, LONG_S, row, job)
            for row in self._kinds[CHOICE].values()
            if (job := row.first(number, LONG_S)) is not None
        ]
        for rows in (self._kinds[ONE_SIZE], self._elastic):
            for need, row in rows.items():
                most_s = limit if need > spare else LONG_S
                if need > there:
                    most_s = min(most_s, quick_s / (need - there))
                most_s = min(most_s, LONG_S)
                if (job := row.first(number, most_s)) is not None:
                    heap.append((job.id, most_s, row, job))
        heapify(heap)
        while heap:
            number, most_s, row, job = heap[0]
            yield job
            further = row.first(number, most_s)
            if further is None:
                heappop(heap)
            else:
                heapreplace(heap, (further.id, most_s, row, further))

    def _add_elastic(self, rows: dict[int, _Row], job: JobView) -> None:
        if _kind(job) == MALLEABLE:
            spec, need = job.spec, job.bounds.min
            takes_s = min(LONG_S, spec.walltime_s) if falls(spec.model) else 0.0
            rows.setdefault(need, _Row()).add(job, takes_s)


class _Row:
    """Jobs with one need, in order of their numbers, with the shortest estimate of each block of them."""

    __slots__ = ("_estimates", "_jobs", "_least", "_left", "_numbers", "_shortest")

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._jobs: list[JobView] = []
        self._estimates: list[float] = []
        self._shortest: list[float] = []
        self._least = GONE
        self._left = 0

    def add(self, job: JobView, estimate_s: float) -> None:
        if len(self._numbers) % BLOCK:
            self._shortest[-1] = min(self._shortest[-1], estimate_s)
        else:
            self._shortest.append(estimate_s)
        self._numbers.append(job.id)
        self._jobs.append(job)
        self._estimates.append(estimate_s)
        self._least = min(self._least, estimate_s)
        self._left += 1

    def discard(self, number: int) -> None:
        i = bisect_left(self._numbers, number)
        self._estimates[i] = GONE
        block = i // BLOCK
        self._shortest[block] = min(self._estimates[block * BLOCK : (block + 1) * BLOCK])
        self._least = min(self._shortest)
        self._left -= 1
        if len(self._numbers) > BLOCK + 2 * self._left:
            self._tidy()

    def first(self, after: int, limit: float) -> JobView | None:
        if self._least > limit:
            return None
        estimates = self._estimates
        i = bisect_right(self._numbers, after)
        for block in range(i // BLOCK, len(self._shortest)):
            if self._shortest[block] <= limit:
                for j in range(max(i, block * BLOCK), min(len(estimates), (block + 1) * BLOCK)):
                    if estimates[j] <= limit:
                        return self._jobs[j]
        return None

    def _tidy(self) -> None:
        kept = [each for each in zip(self._jobs, self._estimates, strict=True) if each[1] < GONE]
        for each in (self._numbers, self._jobs, self._estimates, self._shortest):
            each.clear()
        self._least = GONE
        self._left = 0
        for job, estimate_s in kept:
            self.add(job, estimate_s)


def _kind(job: JobView) -> int:
    if job.bounds.min == job.bounds.max:
        return ONE_SIZE
    return MALLEABLE if job.spec.job_class is JobClass.MALLEABLE else CHOICE
