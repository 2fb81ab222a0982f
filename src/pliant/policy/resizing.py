"""Which running jobs give or take nodes: what the policies that resize have in common."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heapreplace
from typing import Final

from pliant.model.speedup import falls
from pliant.policy.job_view import JobView
from pliant.policy.view import ClusterView, Reason, Resize

FEW = 4
"""With so many free nodes for each who may grow they are no longer handed out one by one."""

NO_GAIN: Final = 1e-12
"""A share of the time that a model only seems to save, by rounding: where a resize costs nothing, that would do."""

Limit = Callable[[JobView], int]
"""An allowed size of the job that it shall not pass."""


def smallest(job: JobView) -> int:
    return job.bounds.min


def preferred(job: JobView) -> int:
    return job.bounds.preferred


def largest(job: JobView) -> int:
    return job.bounds.floor(job.bounds.max)


def pays(view: ClusterView, job: JobView, size: int, payback: float) -> bool:
    """Whether the rest of the work saves ``payback`` times what growing to ``size`` takes."""
    spec, before = job.spec, job.size
    cost_s = view.cost.expand_s(before, size, spec.data_mb)
    gain = 1.0 - spec.speed_ratio(size, before)
    return gain > NO_GAIN and (job.remaining_s(view.now) - cost_s) * gain > payback * cost_s


def _paying(view: ClusterView, job: JobView, left_s: float, payback: float) -> Callable[[int], bool]:
    """``pays`` for many sizes of one job, of which ``left_s`` seconds are left at its present size."""
    before, data_mb, cost = job.size, job.spec.data_mb, view.cost
    ratio = job.spec.speed_ratios(before)

    def paying(size: int) -> bool:
        cost_s = cost.expand_s(before, size, data_mb)
        gain = 1.0 - ratio(size)
        return gain > NO_GAIN and (left_s - cost_s) * gain > payback * cost_s

    return paying


def just_enough(donors: list[JobView], need: int, floor: Limit, reason: Reason) -> list[Resize]:
    """Shrink the first donors until ``need`` nodes are met; then let each keep what has become superfluous,
    since a job with a factor may have to give more than was asked of it. Nothing if it cannot be met."""
    if sum(job.size - floor(job) for job in donors) < need:
        return []
    given: dict[int, int] = {}
    lacking = need
    for job in donors:
        if lacking <= 0:
            break
        size = job.bounds.floor(max(job.size - lacking, floor(job)))
        given[job.id] = job.size - size
        lacking -= job.size - size
    for job in donors:
        if job.id not in given or lacking >= 0:
            continue
        size = job.bounds.floor(min(job.size, job.size - given[job.id] - lacking))
        lacking += given[job.id] - (job.size - size)
        given[job.id] = job.size - size
    return [Resize(job.id, job.size - given[job.id], reason) for job in donors if given.get(job.id)]


def grow(
    view: ClusterView, takers: Iterable[JobView], free: int, ceiling: Limit, payback: float
) -> list[Resize]:
    """Raise the smallest sizes step by step up to ``ceiling`` while ``free`` lasts and each step pays."""
    jobs = list(takers)
    growth = _Growth(view, jobs, ceiling, payback)
    sizes = growth.hand_out(free)
    return [
        Resize(job.id, sizes[job.id], Reason("idle_nodes", figures=left_figures(job, growth.left_s(job))))
        for job in jobs
        if job.id in sizes
    ]


def left_figures(job: JobView, left_s: float) -> dict[str, float]:
    """What a reason tells of the ``left_s`` that ``job`` still takes: whether that is known, or by the user's estimate
    alone; nothing if nobody has estimated it."""
    if job.spec.model is not None or job.fraction > 0.0:
        return {"remaining_s": left_s}
    return {} if job.spec.unestimated is True else {"estimated_s": left_s}


def shrink_reason(head: JobView, saved_s: float) -> Reason:
    """Why a job shrinks for the head of the queue, which starts up to ``saved_s`` sooner then; inf if it could not
    start at all."""
    figures = {"wait_saved_s": saved_s} if saved_s < math.inf else {}
    return Reason("shrink_for_head", for_job=head.id, figures=figures)


class _Growth:
    """Nodes for whoever has fewest, one step of one job after the other."""

    def __init__(self, view: ClusterView, jobs: list[JobView], ceiling: Limit, payback: float) -> None:
        self._view = view
        self._payback = payback
        self._smallest_first = [(job.size, job.id, job, ceiling(job)) for job in jobs]
        heapify(self._smallest_first)
        self._sizes: dict[int, int] = {}
        self._known: dict[int, tuple[float, Callable[[int], bool]]] = {}
        self._most: dict[int, int] = {}
        # Between two sizes that pay all do, where time falls with nodes as these models have it: ever more slowly.
        self._jumps = all(falls(job.spec.model) for job in jobs)

    def hand_out(self, free: int) -> dict[int, int]:
        """The sizes of those who grow, by number, when ``free`` nodes are given to them all."""
        heap, sizes = self._smallest_first, self._sizes
        level = 0
        while heap and free > 0:
            if self._jumps and free > FEW * len(heap) and heap[0][0] >= level:
                free, level = self._jump(free)
            before, number, job, most = heap[0]
            size = job.bounds.above(before)
            if not size or size > most or size - before > free or not self._pays(job, size):
                heappop(heap)
                continue
            free -= size - before
            sizes[number] = size
            heapreplace(heap, (size, number, job, most))
        return sizes

    def left_s(self, job: JobView) -> float:
        """Seconds to its end at its present size."""
        return self._paying(job)[0]

    def _paying(self, job: JobView) -> tuple[float, Callable[[int], bool]]:
        known = self._known.get(job.id)
        if known is None:
            left_s = job.remaining_s(self._view.now)
            known = self._known[job.id] = left_s, _paying(self._view, job, left_s, self._payback)
        return known

    def _pays(self, job: JobView, size: int) -> bool:
        return self._paying(job)[1](size)

    def _jump(self, free: int) -> tuple[int, int]:
        """(free nodes left, level): give everybody at once what many single steps would, as long as all of these fit;
        the next step of whoever is below ``level`` + 1 may not."""
        heap = self._smallest_first
        low, high = heap[0][0], max(entry[3] for entry in heap) + 1
        middle = high - 1  # there may be enough for all
        while high - low > 1:
            if sum(self._raised(entry, middle) - entry[0] for entry in heap) <= free:
                low = middle
            else:
                high = min(middle, low + free + 1)
            middle = (low + high) // 2
        for i, entry in enumerate(heap):
            before, number, job, most = entry
            size = self._raised(entry, low)
            if size > before:
                free -= size - before
                self._sizes[number] = size
                heap[i] = size, number, job, most
        heapify(heap)
        return free, low + 1

    def _raised(self, entry: tuple[int, int, JobView, int], level: int) -> int:
        """The size of a job when all who can have come to ``level`` or above."""
        before, number, job, _ = entry
        if before >= level:
            return before
        most = self._most.get(number)
        if most is None:
            most = self._most[number] = self._last_paying(entry)
        if most <= level:
            return max(before, most)
        bounds = job.bounds
        return bounds.above(level - 1)

    def _last_paying(self, entry: tuple[int, int, JobView, int]) -> int:
        """The size up to which each step of the job pays; its present one if the first does not."""
        before, _, job, most = entry
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


def down(job: JobView, size: int, most: int = 0) -> int:
    """An allowed size a little below ``size``, by a sixteenth or ``most`` nodes; 0 if there is none."""
    step = max(1, size >> 4)
    return job.bounds.floor(size - (min(step, most) if most else step)) or job.bounds.floor(size - 1)


def up(job: JobView, size: int, most: int = 0) -> int:
    """An allowed size a little above ``size``, by a sixteenth, but no more than ``most`` nodes; else 0."""
    step = max(1, size >> 4)
    more = job.bounds.floor(size + (min(step, most) if most else step))
    if more <= size:
        more = job.bounds.above(size)
    return 0 if most and more - size > most else more
