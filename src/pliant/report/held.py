"""Node-time without work on it: reserved for an expansion, left but not proved clean, lost, or given back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, NamedTuple

from pliant.core import records as r
from pliant.model.nodes import NodeSet

RESERVED = "reserved"
CLEANING = "cleaning"
LOST = "lost"
AWAY = "away"


class Held(NamedTuple):
    """Nobody computed on ``nodes`` from ``from_s`` to ``to_s``, for ``kind``'s reason; job 0 if lost or away: given back, or not
    there yet."""

    job: int
    kind: str
    nodes: NodeSet
    from_s: float
    to_s: float


class _Fold:
    IGNORES: ClassVar[r.Ignores] = frozenset({
        r.JobSubmitted, r.JobPromised, r.JobStarted, r.JobLaunched, r.JobRunning, r.JobMalleable,
        r.JobPinned, r.JobProgressed, r.ResizeAccepted, r.JobEnding, r.ControllerResumed, r.PolicyFailed,
        r.PolicyRemembers, r.NodesOrdered, r.NodesRefused, r.NodesReclaimed,
    })  # fmt: skip

    def __init__(self) -> None:
        self.done: list[Held] = []
        self.reserved: dict[int, tuple[int, float]] = {}
        self.dirty: dict[int, list[tuple[int, float]]] = {}
        self.lost: list[tuple[int, float]] = []
        self.away: list[tuple[int, float]] = []
        self._granted: dict[int, float] = {}

    def add(self, record: r.Record) -> None:
        at = record.at
        match record:
            case r.ResizeOffered():
                self.reserved[record.job] = (record.nodes.mask, at)
            case r.ResizeWithdrawn():
                mask, since = self.reserved.get(record.job, (0, at))
                self._close(record.job, RESERVED, mask & record.freed.mask, since, at)
                self.reserved[record.job] = (mask & ~record.freed.mask, since)
            case r.ResizeDone():
                self._settle(record.job, at)
                self._left(record.job, record.released, at)
            case r.ResizeFailed():
                self._settle(record.job, at)
                self._left(record.job, record.dirty, at)
            case r.GroupsLost():
                lost = 0
                for mask, _ in self.lost:
                    lost |= mask
                self._left(record.job, NodeSet(record.nodes.mask & ~lost), at)
            case r.ResizeDeclined():
                self._settle(record.job, at)
            case r.JobEnded():
                self._settle(record.job, at)
                self._left(record.job, record.nodes, at)
            case r.NodesClean():
                self._clean(record.job, record.nodes.mask, at)
            case r.NodesLost():
                mask = record.nodes.mask
                for job in list(self.dirty):
                    self._clean(job, mask, at)
                for job, (reserved, since) in self.reserved.items():  # what is lost is not waited for
                    self._close(job, RESERVED, reserved & mask, since, at)
                    self.reserved[job] = (reserved & ~mask, since)
                for already, _ in self.lost:
                    mask &= ~already
                self.lost.append((mask, at))
            case r.NodesBack():
                self.lost = self._split(self.lost, record.nodes.mask, 0, LOST, at)
            case r.NodesReturned():
                self.lost = self._split(self.lost, record.nodes.mask, 0, LOST, at)
                self.away.append((record.nodes.mask, at))
            case r.NodesGranted():
                mask = record.nodes.mask
                self.lost = self._split(self.lost, mask, 0, LOST, at)
                self.away = self._split(self.away, mask, 0, AWAY, at)
                for first in list(self._granted.values())[:1]:  # what comes later was not there until then
                    self._close(0, AWAY, NodeSet.of(set(record.nodes) - self._granted.keys()).mask, first, at)
                self._granted |= dict.fromkeys(set(record.nodes) - self._granted.keys(), at)
            case _:
                pass

    def finish(self, at: float) -> list[Held]:
        """Whatever is still open ends with the records."""
        for job in list(self.reserved):
            self._settle(job, at)
        for job in list(self.dirty):
            self._clean(job, -1, at)
        self._split(self.lost, -1, 0, LOST, at)
        self._split(self.away, -1, 0, AWAY, at)
        return self.done

    def _settle(self, job: int, at: float) -> None:
        mask, since = self.reserved.pop(job, (0, at))
        self._close(job, RESERVED, mask, since, at)

    def _left(self, job: int, nodes: NodeSet, at: float) -> None:
        if nodes:
            self.dirty.setdefault(job, []).append((nodes.mask, at))

    def _clean(self, job: int, mask: int, at: float) -> None:
        rest = self._split(self.dirty.pop(job, []), mask, job, CLEANING, at)
        if rest:
            self.dirty[job] = rest

    def _split(
        self, open_: list[tuple[int, float]], mask: int, job: int, kind: str, at: float
    ) -> list[tuple[int, float]]:
        """Close what ``mask`` holds of ``open_``; the rest stays open."""
        for nodes, since in open_:
            self._close(job, kind, nodes & mask, since, at)
        return [(nodes & ~mask, since) for nodes, since in open_ if nodes & ~mask]

    def _close(self, job: int, kind: str, mask: int, since: float, at: float) -> None:
        if mask and at > since:
            self.done.append(Held(job, kind, NodeSet(mask), since, at))


def held(records: Iterable[r.Record]) -> list[Held]:
    """All such node-time of a run, in order of its end."""
    fold = _Fold()
    at = 0.0
    for record in records:
        at = record.at
        fold.add(record)
    return fold.finish(at)
