"""The waiting jobs by their sizes and estimates, so that a pass finds those that may start without a look at all
others.

An index has rows of jobs, in order of their numbers. A policy says of each row how long the estimates may be, and is
told the jobs that have them, in order. By a ``Measure`` a row has the jobs that need the same number of nodes. Where
more than that counts, a row has the jobs of the same sizes and class (``Like``): a policy starts each of them with as
many nodes as any other, and only their estimates differ.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Iterable, Iterator
from heapq import heapify, heappop, heappush, heapreplace
from math import nextafter
from typing import NamedTuple

from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.model.speedup import Amdahl, Downey, Model, falls
from pliant.policy.job_view import JobView

BLOCK = 32
INDEXES = 4
"""So many by measures are kept, those that were made last."""
LONG_S = 1e300
"""No estimate counts as longer; what has gone does."""
GONE = float("inf")
NONE_S = -1.0
"""Every estimate is longer."""
MIXED = object()
"""Jobs of the same estimate have several models."""

Measure = Callable[[JobView], tuple[int, float]]
"""How many nodes a job needs, and an estimate in seconds; equal for equal jobs."""

Nodes = Callable[[], float]
"""So many nodes a job may need; there may be fewer from one job to the next."""


class EstimateRange(NamedTuple):
    """Estimates of more than ``over`` seconds and no more than ``most``. If all who have them are ``alike``, the first
    of them stands for the others."""

    over: float
    most: float
    alike: bool = True


ANYBODY = (EstimateRange(NONE_S, LONG_S, alike=False),)


class BacklogRow:
    """Jobs that need so many nodes, with the shortest and the longest estimate of each block of them; ``least_s`` is
    the shortest of all."""

    __slots__ = ("_estimates", "_jobs", "_longest", "_numbers", "_shortest", "_sorted", "least_s", "need")

    def __init__(self, need: int) -> None:
        self.need = need
        self.least_s = GONE
        self._numbers: list[int] = []
        self._jobs: list[JobView] = []
        self._estimates: list[float] = []
        self._shortest: list[float] = []
        self._longest: list[float] = []
        self._sorted: list[float] = []

    def add(self, job: JobView, estimate_s: float) -> None:
        """Its number is above all others'."""
        self._append(job, estimate_s)
        insort(self._sorted, estimate_s)
        self.least_s = self._sorted[0]

    def _append(self, job: JobView, estimate_s: float) -> None:
        if len(self._numbers) % BLOCK:
            self._shortest[-1] = min(self._shortest[-1], estimate_s)
            self._longest[-1] = max(self._longest[-1], estimate_s)
        else:
            self._shortest.append(estimate_s)
            self._longest.append(estimate_s)
        self._numbers.append(job.id)
        self._jobs.append(job)
        self._estimates.append(estimate_s)

    def discard(self, number: int) -> None:
        i = bisect_left(self._numbers, number)
        estimates = self._estimates
        estimate_s = estimates[i]
        del self._sorted[bisect_left(self._sorted, estimate_s)]
        self.least_s = self._sorted[0] if self._sorted else GONE
        estimates[i] = GONE
        block = i // BLOCK
        if estimate_s in (self._shortest[block], self._longest[block]):
            left = [each for each in estimates[block * BLOCK : (block + 1) * BLOCK] if each < GONE]
            self._shortest[block], self._longest[block] = min(left, default=GONE), max(left, default=NONE_S)
        if len(self._numbers) > BLOCK + 2 * len(self._sorted):
            self._tidy()

    def quick(self, after: int, most: float) -> JobView | None:
        """The first job after number ``after`` whose estimate is no more than ``most``."""
        estimates = self._estimates
        i = bisect_right(self._numbers, after)
        for block in range(i // BLOCK, len(self._shortest)):
            if self._shortest[block] <= most:
                for j in range(max(i, block * BLOCK), min(len(estimates), (block + 1) * BLOCK)):
                    if estimates[j] <= most:
                        return self._jobs[j]
        return None

    def first(self, after: int, over: float, most: float) -> JobView | None:
        """The first job after number ``after`` whose estimate is more than ``over`` and no more than ``most``."""
        there = bisect_right(self._sorted, over)
        if there == len(self._sorted) or self._sorted[there] > most:
            return None
        estimates = self._estimates
        i = bisect_right(self._numbers, after)
        for block in range(i // BLOCK, len(self._shortest)):
            if self._shortest[block] <= most and self._longest[block] > over:
                for j in range(max(i, block * BLOCK), min(len(estimates), (block + 1) * BLOCK)):
                    if over < estimates[j] <= most:
                        return self._jobs[j]
        return None

    def _tidy(self) -> None:
        kept = [each for each in zip(self._jobs, self._estimates, strict=True) if each[1] < GONE]
        for each in (self._numbers, self._jobs, self._estimates, self._shortest, self._longest):
            each.clear()
        for job, estimate_s in kept:
            self._append(job, estimate_s)


class Like(BacklogRow):
    """Jobs of the same bounds and class; ``one`` is one of those that are or were among them.

    Estimates are for the preferred size. The row is ``opaque`` where its jobs have a choice of sizes and times that may
    not fall with more nodes: then nothing follows for other sizes, and the estimates are for the least one.
    """

    __slots__ = ("_models", "_ratios", "_speedups", "fixed", "one", "opaque")

    def __init__(self, one: JobView, *, opaque: bool) -> None:
        super().__init__(one.bounds.min)
        self.one = one
        self.opaque = opaque
        self.fixed = one.bounds.min == one.bounds.max
        self._models: dict[float, object] = {}
        self._speedups: dict[object, JobSpec] = {}
        self._ratios: dict[int, tuple[float, float]] = {}

    def add(self, job: JobView, estimate_s: float) -> None:
        super().add(job, estimate_s)
        spec = job.spec
        if self._models.setdefault(estimate_s, spec.model) != spec.model:
            self._models[estimate_s] = MIXED
        if not self.opaque:
            speedup = _speedup(spec.model)
            if speedup not in self._speedups:
                self._speedups[speedup] = spec
                for size, (least, most) in self._ratios.items():
                    ratio = _ratio(spec, size)
                    self._ratios[size] = min(least, ratio), max(most, ratio)

    def ratios(self, size: int) -> tuple[float, float]:
        """The least and the largest ratio of their times at ``size`` to those at the preferred size; not of opaque
        ones."""
        found = self._ratios.get(size)
        if found is None:
            ratios = [_ratio(spec, size) for spec in self._speedups.values()]
            found = self._ratios[size] = min(ratios), max(ratios)
        return found

    def each(self, over: float, most: float) -> list[EstimateRange]:
        """One span for each estimate of more than ``over`` and no more than ``most``."""
        found: list[EstimateRange] = []
        i = bisect_right(self._sorted, over)
        while i < len(self._sorted) and (estimate_s := self._sorted[i]) <= most:
            alike = self._models[estimate_s] is not MIXED
            found.append(EstimateRange(nextafter(estimate_s, NONE_S), estimate_s, alike))
            i = bisect_right(self._sorted, estimate_s, i)
        return found


class _Index:
    """Rows by a measure, those of the lowest need first."""

    def __init__(self, measure: Measure, jobs: Iterable[JobView]) -> None:
        self.rows: list[BacklogRow] = []
        self._measure = measure
        self._by_need: dict[int, BacklogRow] = {}
        self._row_of: dict[int, BacklogRow] = {}
        for job in jobs:
            self.add(job)

    def add(self, job: JobView) -> None:
        need, estimate_s = self._measure(job)
        row = self._by_need.get(need)
        if row is None:
            row = self._by_need[need] = BacklogRow(need)
            insort(self.rows, row, key=_need)
        row.add(job, min(LONG_S, estimate_s))
        self._row_of[job.id] = row

    def discard(self, number: int) -> None:
        self._row_of.pop(number).discard(number)


class _Likes:
    """Rows of jobs that are like each other, those of the lowest need first."""

    def __init__(self, jobs: Iterable[JobView]) -> None:
        self.rows: list[Like] = []
        self._by_sizes: dict[tuple[Bounds, JobClass, bool], Like] = {}
        self._row_of: dict[int, Like] = {}
        for job in jobs:
            self.add(job)

    def add(self, job: JobView) -> None:
        bounds, spec = job.bounds, job.spec
        opaque = bounds.min < bounds.max and not falls(spec.model)
        key = bounds, spec.job_class, opaque
        row = self._by_sizes.get(key)
        if row is None:
            row = self._by_sizes[key] = Like(job, opaque=opaque)
            insort(self.rows, row, key=_need)
        row.add(job, min(LONG_S, spec.estimate(bounds.min) if opaque else spec.walltime_s))
        self._row_of[job.id] = row

    def discard(self, number: int) -> None:
        self._row_of.pop(number).discard(number)


Entry = tuple[int, JobView, Like, EstimateRange]
"""A job by its number, its row, and the span in which its estimate is: ready for a heap."""


class Backlog:
    """Pending jobs in order of their numbers, and indexes of them, each made when it is first asked for."""

    def __init__(self, jobs: Iterable[JobView]) -> None:
        self._waiting = {job.id: job for job in jobs}
        self._order = list(self._waiting)
        self._indexes: dict[Measure, _Index] = {}
        self._likes: list[_Likes] = []  # one, once it is asked for
        self._left_out: Collection[int] = ()

    def add(self, job: JobView) -> None:
        """Its number is above all others'."""
        self._waiting[job.id] = job
        self._order.append(job.id)
        for index in self._indexes.values():
            index.add(job)
        for likes in self._likes:
            likes.add(job)

    def discard(self, job: JobView) -> None:
        del self._waiting[job.id]
        del self._order[bisect_left(self._order, job.id)]
        for index in self._indexes.values():
            index.discard(job.id)
        for likes in self._likes:
            likes.discard(job.id)

    def without(self, numbers: Collection[int]) -> Backlog:
        """The same without these jobs, as long as nothing is added or discarded."""
        rest = Backlog(())
        rest._waiting, rest._order = self._waiting, self._order
        rest._indexes, rest._likes = self._indexes, self._likes
        rest._left_out = {*self._left_out, *numbers}
        return rest

    def __len__(self) -> int:
        return len(self._numbers())

    def get(self, number: int) -> JobView | None:
        return None if number in self._left_out else self._waiting.get(number)

    def after(self, number: int) -> list[JobView]:
        """Those with higher numbers, in their order."""
        order = self._numbers()
        return [self._waiting[each] for each in order[bisect_right(order, number) :]]

    def last_of(self, most: int, number: int) -> int:
        """The number of the last of so many jobs after ``number``, or of fewer if there are no more."""
        order = self._numbers()
        i = bisect_right(order, number) + most
        return order[min(i, len(order)) - 1]

    def _numbers(self) -> list[int]:
        if not self._left_out:
            return self._order
        return [each for each in self._order if each not in self._left_out]

    def behind(
        self, number: int, nodes: Nodes, measure: Measure, most: Callable[[int], float]
    ) -> Iterator[JobView]:
        """The jobs after ``number``, in order, that need no more than ``nodes()`` nodes by ``measure``, and whose
        estimates are no longer than what is the ``most`` for their need."""
        heap: list[tuple[int, JobView, BacklogRow, float]] = []
        free = nodes()
        for row in self._by(measure).rows:
            if row.need > free:
                break
            if row.least_s < GONE and row.least_s <= (most_s := most(row.need)):
                job = self._quick(row, number, most_s)
                if job is not None:
                    heap.append((job.id, job, row, most_s))
        heapify(heap)
        while heap:
            number, job, row, most_s = heap[0]
            if row.need > nodes():
                heappop(heap)
                continue
            yield job
            further = self._quick(row, number, most_s)
            if further is None:
                heappop(heap)
            else:
                heapreplace(heap, (further.id, further, row, most_s))

    def _quick(self, row: BacklogRow, number: int, most_s: float) -> JobView | None:
        most_s = min(most_s, LONG_S)
        job = row.quick(number, most_s)
        while job is not None and job.id in self._left_out:
            job = row.quick(job.id, most_s)
        return job

    def _by(self, measure: Measure) -> _Index:
        index = self._indexes.get(measure)
        if index is None:
            while len(self._indexes) >= INDEXES:
                del self._indexes[next(iter(self._indexes))]
            index = self._indexes[measure] = _Index(measure, self._waiting.values())
        return index

    def like(
        self, number: int, nodes: Nodes, spans: Callable[[Like], Iterable[EstimateRange]]
    ) -> Iterator[JobView]:
        """The jobs after ``number``, in order, that need no more than ``nodes()`` nodes at least, and whose estimates
        are in one of the ``spans`` of their row, which do not overlap; of those who are alike only the first."""
        if not self._likes:
            self._likes.append(_Likes(self._waiting.values()))
        heap: list[Entry] = []
        free = nodes()
        for row in self._likes[0].rows:
            if row.need > free:
                break
            if row.least_s < GONE:
                for span in spans(row):
                    if row.least_s <= span.most:
                        self._enter(heap, number, row, span)
        while heap:
            number, job, row, span = heappop(heap)
            if row.need > nodes():
                continue
            yield job
            if not span.alike:
                self._enter(heap, number, row, span)

    def _enter(self, heap: list[Entry], number: int, row: Like, span: EstimateRange) -> None:
        """Note the next one of the row after ``number`` whose estimate is in this span."""
        over, most, _ = span
        job = row.first(number, over, most)
        while job is not None and job.id in self._left_out:
            job = row.first(job.id, over, most)
        if job is not None:
            heappush(heap, (job.id, job, row, span))


class Rest:
    """A queue without some of its jobs, or with one of them before all others; read as often as one likes."""

    def __init__(
        self, queue: Iterable[JobView], left_out: Collection[int], first: JobView | None = None
    ) -> None:
        self._queue = queue
        self._left_out = left_out
        self._first = first

    def __iter__(self) -> Iterator[JobView]:
        if self._first is not None:
            yield self._first
        for job in self._queue:
            if job.id not in self._left_out:
                yield job


def named(queue: Iterable[JobView], backlog: Backlog | None, numbers: Collection[int]) -> list[JobView]:
    """Those waiting jobs that have these numbers, in the order of the queue."""
    if backlog is not None:
        return [job for job in map(backlog.get, sorted(numbers)) if job is not None]
    found: list[JobView] = []
    if numbers:
        for job in queue:
            if job.id in numbers:
                found.append(job)
                if len(found) == len(numbers):
                    break
    return found


def _need(row: BacklogRow) -> int:
    return row.need


def _ratio(spec: JobSpec, size: int) -> float:
    """As ``JobSpec.estimate`` has it."""
    preferred = spec.nodes.preferred
    if size == preferred or (spec.model is None and size > preferred):
        return 1.0
    return spec.speed_ratio(size, preferred)


def _speedup(model: Model | None) -> object:
    """What jobs of the same preferred size have in common if their times compare in the same way at all sizes."""
    match model:
        case Amdahl(work_s=work_s, serial_fraction=serial, io_s=io_s):
            return serial, io_s / work_s
        case Downey(work_s=work_s, parallelism=parallelism, sigma=sigma, io_s=io_s):
            return parallelism, sigma, io_s / work_s
    return None
