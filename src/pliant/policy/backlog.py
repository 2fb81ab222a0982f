"""The waiting jobs by what they need, so that a pass finds those that may start without a look at all others."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from itertools import takewhile

from pliant.model.jobs import JobClass
from pliant.policy.view import JobView

BLOCK = 32
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
        for job in jobs:
            self.add(job)

    def add(self, job: JobView) -> None:
        """Its number is above all others'."""
        self._waiting[job.id] = job
        kind, need = _kind(job), job.bounds.min
        row = self._kinds[kind].get(need)
        if row is None:
            row = self._kinds[kind][need] = _Row()
            insort(self._needs[kind], need)
        row.add(job, min(LONG_S, job.spec.estimate(need)))

    def discard(self, job: JobView) -> None:
        del self._waiting[job.id]
        self._kinds[_kind(job)][job.bounds.min].discard(job.id)

    def __len__(self) -> int:
        return len(self._waiting)

    def get(self, number: int) -> JobView | None:
        return self._waiting.get(number)

    def after(self, number: int) -> list[JobView]:
        """All with higher numbers, in their order."""
        behind = list(takewhile(lambda each: each > number, reversed(self._waiting)))
        return [self._waiting[each] for each in reversed(behind)]

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


class _Row:
    """Jobs with one need, in order of their numbers, with the shortest estimate of each block of them."""

    __slots__ = ("_estimates", "_jobs", "_left", "_numbers", "_shortest")

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._jobs: list[JobView] = []
        self._estimates: list[float] = []
        self._shortest: list[float] = []
        self._left = 0

    def add(self, job: JobView, estimate_s: float) -> None:
        if len(self._numbers) % BLOCK:
            self._shortest[-1] = min(self._shortest[-1], estimate_s)
        else:
            self._shortest.append(estimate_s)
        self._numbers.append(job.id)
        self._jobs.append(job)
        self._estimates.append(estimate_s)
        self._left += 1

    def discard(self, number: int) -> None:
        i = bisect_left(self._numbers, number)
        self._estimates[i] = GONE
        block = i // BLOCK
        self._shortest[block] = min(self._estimates[block * BLOCK : (block + 1) * BLOCK])
        self._left -= 1
        if len(self._numbers) > BLOCK + 2 * self._left:
            self._tidy()

    def first(self, after: int, limit: float) -> JobView | None:
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
        self._left = 0
        for job, estimate_s in kept:
            self.add(job, estimate_s)


def _kind(job: JobView) -> int:
    if job.bounds.min == job.bounds.max:
        return 0
    return 1 if job.spec.job_class is JobClass.MALLEABLE else 2
