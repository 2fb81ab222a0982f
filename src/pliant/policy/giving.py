"""The engine of the policies that resize: who gives nodes to those that wait, and who gets those that are left over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from typing import NamedTuple

from pliant.model.speedup import falls
from pliant.policy.easy import NEVER, Reservation
from pliant.policy.job_view import JobView
from pliant.policy.resizing import Limit, idle_nodes, paying, shrink_reason
from pliant.policy.view import ClusterView, Reason, Resize

FEW = 4
"""With so many free nodes for each who may grow they are no longer handed out one by one."""


class Able(NamedTuple):
    """The jobs that can give nodes, the first giver in front, and the ``surplus`` of all."""

    entries: list[tuple[float, int, JobView]]
    surplus: int


class Attempt(NamedTuple):
    """To get ``wanted`` nodes from jobs above ``floor``, if that saves the head more than ``patience_s`` seconds."""

    wanted: int
    floor: Limit
    patience_s: float = 0.0


class Precedence(NamedTuple):
    """The job with the largest ``measure`` gives first; the job with the smallest gets first. ``stepwise``: a step at a
    time, measured anew; default: all at once."""

    measure: Callable[[JobView, int], float]
    stepwise: bool = False

    def able(self, donors: Iterable[JobView], floor: Limit, sizes: Mapping[int, int] | None = None) -> Able:
        """Those of the donors who can give; ``sizes`` are the present ones (default: those that they have)."""
        able: list[tuple[float, int, JobView]] = []
        surplus = 0
        for job in donors:
            size = job.size if sizes is None else sizes[job.id]
            above = size - floor(job)
            if above > 0:
                surplus += above
                able.append((-self.measure(job, size), job.id, job))
        return Able(sorted(able), surplus)

    def take(
        self, able: Able, need: int, floor: Limit, sizes: Mapping[int, int] | None = None
    ) -> dict[int, int]:
        """How many nodes each donor gives so that ``need`` is met. The donors must have enough.

        Just enough: where a job with a factor has to give more than was asked of it, the donors keep
        every step that has become superfluous.
        """
        heap = able.entries.copy()
        left: dict[int, int] = {}
        givers: dict[int, tuple[JobView, int]] = {}
        while need > 0:
            _, number, job = heappop(heap)
            if number not in givers:
                givers[number] = job, job.size if sizes is None else sizes[number]
                left[number] = givers[number][1]
            size = left[number]
            after = job.bounds.floor(size - 1 if self.stepwise else max(size - need, floor(job)))
            need -= size - after
            left[number] = after
            if self.stepwise and after > floor(job):
                heappush(heap, (-self.measure(job, after), number, job))
        for number, (job, before) in givers.items():
            above = job.bounds.above(left[number])
            while need < 0 and above and above <= before and above - left[number] <= -need:
                need += above - left[number]
                left[number] = above
                above = job.bounds.above(above)
        return {
            number: before - left[number] for number, (_, before) in givers.items() if left[number] < before
        }

    def just_enough(self, able: Able, need: int, floor: Limit, reason: Reason) -> list[Resize]:
        """The shrinks of ``take``; none if the donors do not have enough."""
        given = self.take(able, need, floor) if able.surplus >= need else {}
        donors = [job for _, number, job in able.entries if number in given]
        return [Resize(job.id, job.size - given[job.id], reason) for job in donors]

    def shrink_for_head(
        self,
        view: ClusterView,
        head: JobView,
        reservation: Reservation | None,
        free: int,
        attempts: Sequence[Attempt],
    ) -> list[Resize]:
        """The shrinks of the first attempt that succeeds. None where nodes on their way back are enough for the last,
        which wants least, or where the head does not start earlier by more than a shrink takes."""
        have = free + view.returning()
        saved_s = NEVER if reservation is None else reservation.at - view.now
        if attempts[-1].wanted <= have or saved_s <= view.cost.shrink_s():
            return []
        donors = [job for job in view.elastic if job.size > job.bounds.min and view.resizable(job)]
        reason = shrink_reason(head, saved_s)
        for wanted, floor, patience_s in attempts:
            able = self.able(donors, floor)
            if saved_s > patience_s and (shrinks := self.just_enough(able, wanted - have, floor, reason)):
                return shrinks
        return []

    def grow(self, view: ClusterView, free: int, ceilings: Iterable[Limit], payback: float) -> list[Resize]:
        """Growth into ``free`` nodes up to each of ``ceilings`` in turn, where it pays for itself ``payback`` times."""
        if not free:
            return []
        jobs = [job for job in view.elastic if view.resizable(job, grow=True)]
        growth = _Growth(view, jobs, self, payback)
        for ceiling in ceilings:
            free = growth.hand_out(free, ceiling)
        sizes = growth.sizes
        return [Resize(job.id, sizes[job.id], idle_nodes(view, job)) for job in jobs if job.id in sizes]


def size_of(_job: JobView, size: int) -> float:
    return size


def above_preferred(job: JobView, size: int) -> float:
    return size - job.bounds.preferred


EVENLY = Precedence(size_of, stepwise=True)


def growable(view: ClusterView, head: JobView | None, reservation: Reservation | None, free: int) -> int:
    """How many free nodes running jobs may grow into: those that the head can spare. None while others are on their way
    back: a job then grows once, into all of them."""
    if head is not None:
        free = 0 if reservation is None else min(free, reservation.spare)
    return free if free and view.returning() == 0 else 0


Entry = tuple[float, int, int, int, JobView]
"""A job that may grow: its measure, its number, its size so far and the one that it may not pass."""


class _Growth:
    """Hands nodes to the jobs with the smallest measure. ``sizes`` are those of the jobs that grow, by number."""

    def __init__(self, view: ClusterView, jobs: list[JobView], by: Precedence, payback: float) -> None:
        self._view = view
        self._payback = payback
        self._jobs = jobs
        self._measure, self._stepwise = by
        self._heap: list[Entry] = []
        self.sizes: dict[int, int] = {}
        self._paying: dict[int, Callable[[int], bool]] = {}
        self._last: dict[int, int] = {}
        # Between two sizes that pay all do, where time falls with nodes as these models have it: ever more slowly.
        self._jumps = by == EVENLY and all(falls(job.spec.model) for job in jobs)

    def hand_out(self, free: int, ceiling: Limit) -> int:
        """Give ``free`` nodes to them all, up to ``ceiling``; how many are left."""
        sizes, heap, level = self.sizes, self._heap, 0
        self._last.clear()
        heap[:] = [self._entry(sizes.get(job.id, job.size), ceiling(job), job) for job in self._jobs]
        heapify(heap)
        while heap and free > 0:
            if self._jumps and free > FEW * len(heap) and heap[0][2] >= level:
                free, level = self._jump(free)
            _, number, before, most, job = heap[0]
            size = self._next(job, before, min(most, before + free))
            if size > before:
                free -= size - before
                sizes[number] = size
            if size > before and self._stepwise:
                heapreplace(heap, self._entry(size, most, job))
            else:
                heappop(heap)
        return free

    def _entry(self, size: int, most: int, job: JobView) -> Entry:
        return self._measure(job, size), job.id, size, most, job

    def _next(self, job: JobView, before: int, limit: int) -> int:
        """The size to which ``job`` grows from ``before``, ``limit`` at most; 0 if none of them pays."""
        above = job.bounds.above(before)
        if not above or above > limit:
            return 0
        if self._stepwise:
            return above if self._pays(job, above) else 0
        size = job.bounds.floor(limit) if self._may_pay(job) else 0
        while size > before and not self._pays(job, size):
            size = job.bounds.floor(size - 1)
        return size

    def _may_pay(self, job: JobView) -> bool:
        """Whether some growth could pay: a growth saves less than what is left of the work."""
        cost_s = self._view.cost.expand_s(job.size, job.bounds.above(job.size), job.spec.data_mb)
        return job.remaining_s(self._view.now) > self._payback * cost_s

    def _pays(self, job: JobView, size: int) -> bool:
        known = self._paying.get(job.id)
        if known is None:
            known = self._paying[job.id] = paying(self._view, job, self._payback)
        return known(size)

    def _jump(self, free: int) -> tuple[int, int]:
        """(free nodes left, level): give everybody at once what many single steps would, as long as all of these fit;
        the next step of whoever is below ``level`` + 1 may not."""
        heap = self._heap
        low, high = heap[0][2], max(entry[3] for entry in heap) + 1
        middle = high - 1  # there may be enough for all
        while high - low > 1:
            if sum(self._raised(entry, middle) - entry[2] for entry in heap) <= free:
                low = middle
            else:
                high = min(middle, low + free + 1)
            middle = (low + high) // 2
        for i, entry in enumerate(heap):
            _, number, before, most, job = entry
            size = self._raised(entry, low)
            if size > before:
                free -= size - before
                self.sizes[number] = size
                heap[i] = self._entry(size, most, job)
        heapify(heap)
        return free, low + 1

    def _raised(self, entry: Entry, level: int) -> int:
        """The size of a job when all who can have come to ``level`` or above."""
        _, number, before, _, job = entry
        if before >= level:
            return before
        last = self._last.get(number)
        if last is None:
            last = self._last[number] = self._last_paying(entry)
        return max(before, last) if last <= level else job.bounds.above(level - 1)

    def _last_paying(self, entry: Entry) -> int:
        """The size up to which each step of the job pays; its present one if the first does not."""
        _, _, before, most, job = entry
        bounds = job.bounds
        first, last = bounds.above(before), bounds.floor(most)
        if not first or first > last or not self._pays(job, first):
            return before
        if self._pays(job, last):
            return last
        low, high = first, last  # the lower one pays, the upper one does not
        while (middle := bounds.floor((low + high) // 2)) > low or (middle := bounds.above(low)) < high:
            if self._pays(job, middle):
                low = middle
            else:
                high = middle
        return low
