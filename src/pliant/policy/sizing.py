"""How large jobs start, who gives nodes and who gets them: the sizing axis of the 3 x 3 malleable policies of
PECS'23 (10.1007/978-3-031-48803-0_14), with the sign of its average put right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from pliant.policy.job_view import JobView
from pliant.policy.resizing import Limit, largest, left_figures, pays, preferred, smallest
from pliant.policy.view import ClusterView, Reason, Resize


class Able(NamedTuple):
    """Who can give nodes, who is to give first at the front, and the ``surplus`` of them all."""

    entries: list[tuple[float, int, JobView]]
    surplus: int


class Sizing(NamedTuple):
    """One value of the axis.

    ``start`` is the rule of ``start_size``. ``attempts`` are (size wanted by a waiting job, floor of the
    donors), tried in this order. Who has the most by ``measure`` gives first, who has the least gets first,
    up to each of ``ceilings`` in turn: all at once, or, ``stepwise``, a step at a time, measured anew.
    """

    name: str
    start: str
    attempts: tuple[tuple[Limit, Limit], ...]
    ceilings: tuple[Limit, ...]
    measure: Callable[[JobView, int], float]
    stepwise: bool = False

    def take(
        self, donors: Iterable[JobView], sizes: Mapping[int, int], need: int, floor: Limit
    ) -> dict[int, int] | None:
        """How many nodes each donor gives so that ``need`` are met, or None; ``sizes`` are the present ones.

        Just enough: where a job with a factor has to give more than was asked of it, the donors keep
        every step that has become superfluous.
        """
        able = self.able(donors, sizes, floor)
        return self.take_of(able, sizes, need, floor) if able.surplus >= need else None

    def able(self, donors: Iterable[JobView], sizes: Mapping[int, int], floor: Limit) -> Able:
        """Those of the donors who can give."""
        able: list[tuple[float, int, JobView]] = []
        surplus = 0
        for job in donors:
            above = sizes[job.id] - floor(job)
            if above > 0:
                surplus += above
                able.append((-self.measure(job, sizes[job.id]), job.id, job))
        return Able(sorted(able), surplus)

    def take_of(self, able: Able, sizes: Mapping[int, int], need: int, floor: Limit) -> dict[int, int]:
        """As ``take``, from those who can give, who have enough."""
        heap = able.entries.copy()
        left: dict[int, int] = {}
        givers: dict[int, JobView] = {}
        while need > 0:
            _, number, job = heappop(heap)
            size = left.get(number, sizes[number])
            after = size - 1 if self.stepwise else max(size - need, floor(job))
            after = job.bounds.floor(after)
            need -= size - after
            left[number] = after
            givers[number] = job
            if self.stepwise and after > floor(job):
                heappush(heap, (-self.measure(job, after), number, job))
        for number, job in givers.items():
            above = job.bounds.above(left[number])
            while need < 0 and above and above <= sizes[number] and above - left[number] <= -need:
                need += above - left[number]
                left[number] = above
                above = job.bounds.above(above)
        return {number: sizes[number] - size for number, size in left.items() if size < sizes[number]}

    def give(self, view: ClusterView, takers: Iterable[JobView], free: int, payback: float) -> list[Resize]:
        """Growth into ``free`` nodes, where it pays for itself ``payback`` times."""
        jobs = [job for job in takers if _may_pay(view, job, payback)]
        sizes = {job.id: job.size for job in jobs}
        for ceiling in self.ceilings:
            heap = [(self.measure(job, sizes[job.id]), job.id, job) for job in jobs]
            heapify(heap)
            while heap and free > 0:
                _, number, job = heappop(heap)
                before = sizes[number]
                limit = min(ceiling(job), before + free)
                size = job.bounds.above(before) if self.stepwise else job.bounds.floor(limit)
                if size > limit:
                    continue
                while size > before and not pays(view, job, size, payback):
                    size = job.bounds.floor(size - 1)
                if size > before:
                    free -= size - before
                    sizes[number] = size
                    if self.stepwise:
                        heappush(heap, (self.measure(job, size), number, job))
        return [Resize(job.id, sizes[job.id], _idle(view, job)) for job in jobs if sizes[job.id] > job.size]


def _may_pay(view: ClusterView, job: JobView, payback: float) -> bool:
    """Whether some growth of ``job`` could pay: a growth saves less than what is left of the work."""
    above = job.bounds.above(job.size)
    return bool(above) and job.remaining_s(view.now) > payback * view.cost.expand_s(
        job.size, above, job.spec.data_mb
    )


def _idle(view: ClusterView, job: JobView) -> Reason:
    return Reason("idle_nodes", figures=left_figures(job, job.remaining_s(view.now)))


def _above_min(job: JobView, size: int) -> float:
    return size - job.bounds.min


def _above_preferred(job: JobView, size: int) -> float:
    return size - job.bounds.preferred


def _share_of_range(job: JobView, size: int) -> float:
    low, high = job.bounds.min, job.bounds.max
    return (size - low) / (high - low) if high > low else 1.0


MIN = Sizing("min", "min", ((smallest, smallest),), (largest,), _above_min)
PREFERRED = Sizing(
    "preferred",
    "preferred",
    ((preferred, preferred), (smallest, preferred), (smallest, smallest)),
    (preferred, largest),
    _above_preferred,
)
AVERAGE = Sizing("average", "min", ((smallest, smallest),), (largest,), _share_of_range, stepwise=True)
