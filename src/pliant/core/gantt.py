"""Who held which nodes when: a fold over records, drawn by others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NamedTuple

from pliant.core import records as r
from pliant.model.nodes import NodeSet


class Segment(NamedTuple):
    """Job number ``job`` held ``nodes``, all of them and no others, from ``from_s`` to ``to_s``."""

    job: int
    name: str
    nodes: NodeSet
    from_s: float
    to_s: float


class Mark(NamedTuple):
    """A resize was done: ``nodes`` joined the job (expand) or left it (shrink)."""

    job: int
    at: float
    kind: str
    nodes: NodeSet


class _Held:
    __slots__ = ("mask", "name", "since")

    def __init__(self, name: str) -> None:
        self.name = name
        self.mask = 0
        self.since = 0.0


class Gantt:
    """Add every record of a run, in order.

    ``segments`` and ``marks`` are in order of time (segments by their end); ``curve`` is the step function
    of nodes in use: (time, nodes from then on), one step an instant.
    """

    IGNORES: ClassVar[r.Ignores] = frozenset({
        r.JobPromised, r.JobLaunched, r.JobRunning, r.JobMalleable, r.JobPinned, r.JobProgressed,
        r.ResizeOffered, r.ResizeWithdrawn, r.ResizeAccepted, r.ResizeDeclined, r.ResizeFailed,
        r.JobEnding, r.ControllerResumed, r.PolicyFailed, r.PolicyRemembers, r.NodesGranted, r.NodesClean,
        r.NodesLost, r.NodesBack, r.NodesOrdered, r.NodesRefused, r.NodesReclaimed, r.NodesReturned,
    })  # fmt: skip

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.marks: list[Mark] = []
        self.curve: list[tuple[float, int]] = []
        self.now = 0.0
        self._jobs: dict[int, _Held] = {}
        self._in_use = 0
        self._fold: dict[type[r.Record], Callable[[Any], None]] = {
            r.JobSubmitted: self._submitted,
            r.JobStarted: self._started,
            r.ResizeDone: self._resized,
            r.GroupsLost: self._groups_lost,
            r.JobEnded: self._ended,
        }

    def add(self, record: r.Record) -> None:
        self.now = record.at
        fold = self._fold.get(type(record))
        if fold is not None:
            fold(record)

    def running(self) -> list[Segment]:
        """The segments that are still open, as if they ended with the last record."""
        return [
            Segment(number, held.name, NodeSet(held.mask), held.since, self.now)
            for number, held in self._jobs.items()
            if held.mask
        ]

    def _submitted(self, record: r.JobSubmitted) -> None:
        self._jobs[record.job] = _Held(record.spec.name)

    def _started(self, record: r.JobStarted) -> None:
        self._hold(record.job, record.nodes.mask)

    def _resized(self, record: r.ResizeDone) -> None:
        mask = self._jobs[record.job].mask
        self._hold(record.job, (mask | record.gained.mask) & ~record.released.mask)
        if record.gained:
            self.marks.append(Mark(record.job, record.at, "expand", record.gained))
        if record.released:
            self.marks.append(Mark(record.job, record.at, "shrink", record.released))

    def _groups_lost(self, record: r.GroupsLost) -> None:
        self._hold(record.job, self._jobs[record.job].mask & ~record.nodes.mask)

    def _ended(self, record: r.JobEnded) -> None:
        self._hold(record.job, 0)
        del self._jobs[record.job]

    def _hold(self, number: int, mask: int) -> None:
        """From now on the job holds ``mask``."""
        held, now = self._jobs[number], self.now
        if held.mask and now > held.since:
            self.segments.append(Segment(number, held.name, NodeSet(held.mask), held.since, now))
        grown = mask.bit_count() - held.mask.bit_count()
        held.mask, held.since = mask, now
        if grown:
            self._in_use += grown
            if self.curve and self.curve[-1][0] == now:
                self.curve[-1] = (now, self._in_use)
            else:
                self.curve.append((now, self._in_use))


def gantt(records: Iterable[r.Record]) -> Gantt:
    """The chart of a whole run."""
    chart = Gantt()
    for record in records:
        chart.add(record)
    return chart
