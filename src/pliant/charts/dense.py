"""A long run in little room: nodes in use and queue length by bins of time, and how waits were distributed.

For runs of so many jobs that nobody could look at each.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import ClassVar, NamedTuple

from pliant.core import records as r
from pliant.history.distribution import bounded_slowdown, percentile
from pliant.history.timeline import Life, Listener
from pliant.model.jobs import JobClass, JobSpec

BINS = 1024
"""At most so many; when they are used up they are merged in pairs, so that at least half of them are used."""
FINEST_S = 2.0**-10
"""The first bins are this wide, in seconds."""


class Bin(NamedTuple):
    """What a count was from ``from_s`` to ``to_s``: ``mean`` is over time."""

    from_s: float
    to_s: float
    low: int
    mean: float
    high: int


class Binned:
    """A count that changes in steps, from ``origin`` seconds on, kept as its least, mean and greatest value in
    each of at most ``BINS`` bins of equal width.

    Values that lasted for no time do not count: within an instant, nodes pass from job to job. The memory
    needed does not depend on the number of steps.
    """

    def __init__(self, origin: float) -> None:
        self._origin = self._since = origin
        self._value = 0
        self._width = FINEST_S
        self._bins = 0
        self._area = array("d", [0.0]) * BINS
        self._low = array("q", [0]) * BINS
        self._high = array("q", [0]) * BINS

    def set(self, at: float, value: int) -> None:
        """From ``at`` seconds on it is ``value``; times do not decrease."""
        self._spend(at)
        self._value = value

    def bins(self, until: float) -> list[Bin]:
        """The bins up to ``until`` seconds, times counted from the origin; the last may be narrower."""
        self._spend(until)
        found: list[Bin] = []
        end = self._since - self._origin
        for i in range(self._bins):
            from_s, to_s = i * self._width, min((i + 1) * self._width, end)
            if to_s > from_s:
                mean = self._area[i] / (to_s - from_s)
                found.append(Bin(from_s, to_s, self._low[i], mean, self._high[i]))
        return found

    def _spend(self, at: float) -> None:
        """Book the present value up to ``at``."""
        if at <= self._since:
            return
        end = at - self._origin
        while end > BINS * self._width:
            self._merge()
        start, value, width = self._since - self._origin, self._value, self._width
        i = int(start / width)
        while start < end:
            stop = min(end, (i + 1) * width)
            self._book(i, value, stop - start)
            start = stop
            i += 1
        self._since = at

    def _book(self, i: int, value: int, lasted: float) -> None:
        if i >= self._bins:
            self._bins = i + 1
            self._low[i] = self._high[i] = value
        elif value < self._low[i]:
            self._low[i] = value
        elif value > self._high[i]:
            self._high[i] = value
        self._area[i] += value * lasted

    def _merge(self) -> None:
        """Bins twice as wide, half as many."""
        area, low, high = self._area, self._low, self._high
        half = (self._bins + 1) // 2
        for i in range(half):
            a, b = 2 * i, min(2 * i + 1, self._bins - 1)
            area[i] = area[a] + (area[b] if b > a else 0.0)
            low[i] = min(low[a], low[b])
            high[i] = max(high[a], high[b])
        for i in range(half, self._bins):
            area[i] = 0.0
        self._bins = half
        self._width *= 2


class FigureSample(NamedTuple):
    """How a figure was distributed over jobs; ``values`` in ascending order."""

    values: Sequence[float]

    def quantile(self, share: float) -> float:
        """As in the metrics (``distribution.percentile``); 0 without jobs."""
        return percentile(self.values, share)

    @property
    def mean(self) -> float:
        return sum(self.values) / len(self.values) if self.values else 0.0

    def curve(self, most: int = 400) -> list[tuple[float, float]]:
        """Points (value, share of the jobs with at most that) of the empirical distribution, at most ``most``
        and one more of them, evenly over the jobs; equal values are one point."""
        values, count = self.values, len(self.values)
        step = max(1, -(-count // most))
        chosen = {values[rank - 1] for rank in (*range(step, count, step), count)} if count else set()
        return [(value, bisect_right(values, value) / count) for value in sorted(chosen)]


class Dense(Listener):
    """Listens to the life of every job. Of each ended one it keeps three numbers.

    ``wait``, ``turnaround`` and ``slowdown`` (bounded, as in the metrics) are distributions over the jobs that
    started and ended: all of them, or those that were malleable, or those that were not. With ``counted``, the
    specifications of some jobs by their identity, ``jobs`` and these are of these jobs alone.
    """

    IGNORES: ClassVar[frozenset[str]] = frozenset({
        "launched", "offered", "accepted", "withdrawn", "resized", "settled", "groups_lost", "held", "wasted", "idle",
        "noted", "nodes_there", "nodes_lost", "nodes_returned",
    })  # fmt: skip

    def __init__(self, counted: Iterable[JobSpec] | None = None) -> None:
        self._counted = None if counted is None else {id(spec) for spec in counted}
        self.jobs = 0
        self.origin = 0.0
        self.end = 0.0
        self._nodes: Binned | None = None
        self._queue: Binned | None = None
        self._kept = {malleable: (array("d"), array("d"), array("d")) for malleable in (False, True)}

    def nodes(self) -> list[Bin]:
        """Nodes in use, from the first submission to the last end."""
        if self._nodes is None:
            return []
        self._nodes.set(self.lives.since, self.lives.held)
        return self._nodes.bins(self.end)

    def queue(self) -> list[Bin]:
        """Jobs that waited to be started, over the same time."""
        return self._queue.bins(self.end) if self._queue is not None else []

    def wait(self, *, malleable: bool | None = None) -> FigureSample:
        return self._spread(0, malleable=malleable)

    def turnaround(self, *, malleable: bool | None = None) -> FigureSample:
        return self._spread(1, malleable=malleable)

    def slowdown(self, *, malleable: bool | None = None) -> FigureSample:
        return self._spread(2, malleable=malleable)

    def _spread(self, which: int, *, malleable: bool | None) -> FigureSample:
        kinds = (False, True) if malleable is None else (malleable,)
        return FigureSample(sorted(value for kind in kinds for value in self._kept[kind][which]))

    def began(self, at: float) -> None:
        self.origin = at
        self._nodes, self._queue = Binned(at), Binned(at)

    def submitted(self, life: Life) -> None:
        self.jobs += not life.again and self._counts(life)
        self._waits()

    def started(self, _life: Life) -> None:
        self._waits()

    def used(self, held: int, _in_use: int, from_s: float, _to_s: float) -> None:
        if self._nodes is not None:
            self._nodes.set(from_s, held)

    def ended(self, life: Life, end: r.JobEnded, _size: int) -> None:
        at = self.end = end.at
        if life.start is None:
            self._waits()
        elif not end.requeued and self._counts(life):
            turnaround = at - life.submit
            waits, turnarounds, slowdowns = self._kept[life.spec.job_class is JobClass.MALLEABLE]
            waits.append(life.start - life.submit)
            turnarounds.append(turnaround)
            slowdowns.append(bounded_slowdown(turnaround, at - life.start))

    def _counts(self, life: Life) -> bool:
        return self._counted is None or id(life.spec) in self._counted

    def _waits(self) -> None:
        if self._queue is not None:
            self._queue.set(self.lives.now, self.lives.waiting)
