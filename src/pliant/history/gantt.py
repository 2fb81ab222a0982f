"""Who held which nodes when, and when nobody computed on them: rows of a run kept to be drawn by others."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from pliant.core import records as r
from pliant.history.timeline import Life, Listener, Stretch
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


class Gantt(Listener):
    """``segments``, ``stretches`` and ``marks`` are in order of time (of their end); ``curve`` is the step function
    of nodes in use: (time, nodes from then on), one step an instant; ``there`` is that of the nodes that there are,
    which are granted and neither lost nor given back.
    """

    IGNORES: ClassVar[frozenset[str]] = frozenset({
        "began", "submitted", "launched", "offered", "accepted", "withdrawn", "settled", "noted", "used",
    })  # fmt: skip

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.stretches: list[Stretch] = []
        self.marks: list[Mark] = []
        self.curve: list[tuple[float, int]] = []
        self.there: list[tuple[float, int]] = []
        self._in_use = 0
        self._there = 0

    def running(self) -> list[Segment]:
        """The segments that are still open, as if they ended with the last record."""
        return [self._segment(life) for life in self.lives.jobs.values() if life.mask]

    def idle_time(self) -> list[Stretch]:
        """All stretches in which nobody computed on some nodes; the open ones end with the last record."""
        return self.stretches + self.lives.idle()

    def held(self, life: Life) -> None:
        self.segments.append(self._segment(life))

    def wasted(self, job: int, kind: str, mask: int, since: float) -> None:
        self.idle(job, kind, mask, since)

    def idle(self, job: int, kind: str, mask: int, since: float) -> None:
        self.stretches.append(Stretch(job, kind, NodeSet(mask), since, self.lives.now))

    def started(self, _life: Life) -> None:
        self._step()

    def groups_lost(self, _life: Life, _loss: r.GroupsLost) -> None:
        self._step()

    def ended(self, _life: Life, _end: r.JobEnded, _size: int) -> None:
        self._step()

    def nodes_there(self, mask: int) -> None:
        self._recount(self._there | mask)

    def nodes_lost(self, mask: int) -> None:
        self._recount(self._there & ~mask)

    def nodes_returned(self, mask: int) -> None:
        self._recount(self._there & ~mask)

    def _recount(self, there: int) -> None:
        self._there = there
        _note(self.there, self.lives.now, there.bit_count())

    def _step(self) -> None:
        if self.lives.held != self._in_use:
            self._in_use = self.lives.held
            _note(self.curve, self.lives.now, self._in_use)

    def resized(self, life: Life, done: r.ResizeDone, _kind: str, _before: int) -> None:
        if done.gained:
            self.marks.append(Mark(life.job, done.at, "expand", done.gained))
        if done.released:
            self.marks.append(Mark(life.job, done.at, "shrink", done.released))
        self._step()

    def _segment(self, life: Life) -> Segment:
        return Segment(life.job, life.spec.name, NodeSet(life.mask), life.since, self.lives.now)


def _note(steps: list[tuple[float, int]], now: float, value: int) -> None:
    """One step an instant."""
    if steps and steps[-1][0] == now:
        steps.pop()
    steps.append((now, value))
