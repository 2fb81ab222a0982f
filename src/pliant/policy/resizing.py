"""Which running jobs give or take nodes: what the policies that resize have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heapreplace

from pliant.policy.view import ClusterView, JobView, Reason, Resize

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
    return (job.remaining_s(view.now) - cost_s) * (1.0 - spec.speed_ratio(size, before)) > payback * cost_s


def _paying(view: ClusterView, job: JobView, left_s: float, payback: float) -> Callable[[int], bool]:
    """``pays`` for many sizes of one job, of which ``left_s`` seconds are left at its present size."""
    before, data_mb, cost = job.size, job.spec.data_mb, view.cost
    ratio = job.spec.speed_ratios(before)

    def paying(size: int) -> bool:
        cost_s = cost.expand_s(before, size, data_mb)
        return (left_s - cost_s) * (1.0 - ratio(size)) > payback * cost_s

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
    smallest_first = [(job.size, job.id, job, ceiling(job)) for job in jobs]
    heapify(smallest_first)
    sizes: dict[int, int] = {}
    known: dict[int, tuple[float, Callable[[int], bool]]] = {}
    while smallest_first and free > 0:
        before, number, job, most = smallest_first[0]
        size = job.bounds.above(before)
        if size and number not in known:
            left_s = job.remaining_s(view.now)
            known[number] = left_s, _paying(view, job, left_s, payback)
        if not size or size > most or size - before > free or not known[number][1](size):
            heappop(smallest_first)
            continue
        free -= size - before
        sizes[number] = size
        heapreplace(smallest_first, (size, number, job, most))
    return [
        Resize(job.id, sizes[job.id], Reason("idle_nodes", figures={"remaining_s": known[job.id][0]}))
        for job in jobs
        if job.id in sizes
    ]


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
