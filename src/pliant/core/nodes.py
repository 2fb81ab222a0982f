"""Which nodes there are, and whose: a part of the state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pliant.core import records as r
from pliant.core.settings import NEVER
from pliant.model.nodes import hostlist, without

if TYPE_CHECKING:
    from pliant.core.job import Job

KNOWN = (
    "all_mask", "awaited", "free", "free_mask", "lost_mask", "parked_mask", "reclaimed_mask", "returning", "total",
    "until",
)  # fmt: skip
"""What is known of them, beside what is known by number."""


class Nodes:
    """Nodes are free, a job's, or ``dirty``: to be proved clean of the job that had them.

    Nodes of ``reclaimed_mask`` are to be given back; those of them that nobody uses any more are in ``parked_mask``.
    ``awaited`` nodes were asked for, and ``returning`` ones are dirty and stay. ``until``: when all of them are taken
    back.
    """

    def __init__(self, running: list[tuple[float, int, Job]]) -> None:
        """``running`` are the jobs that run, as the state has them."""
        self._running = running
        self.free_mask = 0
        self.all_mask = 0
        self.lost_mask = 0
        self.reclaimed_mask = 0
        self.parked_mask = 0
        self.awaited = 0
        self.until = NEVER
        self.dirty: dict[int, int] = {}
        self.names: dict[int, str] = {}
        self.slots: dict[int, int] = {}
        self.free = 0
        self.total = 0
        self.returning = 0

    def called(self, nodes: Iterable[int]) -> tuple[str, ...]:
        """The names of these nodes."""
        return tuple(self.names.get(node, f"n{node}") for node in nodes)

    def hosts(self, nodes: Iterable[int]) -> str:
        """The same, as a hostlist."""
        return hostlist(self.called(nodes))

    def granted(self, record: r.NodesGranted) -> None:
        if self.names or record.names:
            # A number may be another node's now, and a node have another number.
            old = {
                n: name
                for n, name in self.names.items()
                if n not in record.nodes and name not in record.names
            }
            self.names = old | dict(zip(record.nodes, record.names, strict=False))
        if self.slots or record.slots:
            self.slots |= dict.fromkeys(record.nodes, 1) | dict(zip(record.nodes, record.slots, strict=False))
        self.awaited = max(0, self.awaited - (record.nodes.mask & ~self.all_mask).bit_count())
        if record.until is not None:
            self.until = record.until
        self.there(record)

    def there(self, record: r.NodesGranted | r.NodesBack) -> None:
        mask = record.nodes.mask
        new = mask & ~(self.all_mask & ~self.lost_mask)
        self.all_mask |= mask
        self.lost_mask &= ~mask
        self._count()
        # A node may be back before the job that lost it has ended: it is free when it is proved clean.
        for _, _, job in self._running:
            new &= ~job.nodes
            if job.resize is not None:
                new &= ~job.resize.nodes
        self.give(new)

    def clean(self, record: r.NodesClean) -> None:
        dirty = self.dirty.get(record.job, 0)
        mask = record.nodes.mask & dirty
        count = without(mask, self.reclaimed_mask).bit_count()
        self.returning -= count
        if mask == dirty:
            self.dirty.pop(record.job, None)
        else:
            self.dirty[record.job] = without(dirty, mask)
        self.give(without(mask, self.lost_mask), None if self.lost_mask else count)

    def lost(self, record: r.NodesLost) -> None:
        mask = record.nodes.mask & self.all_mask
        self.take(mask & self.free_mask, (mask & self.free_mask).bit_count())
        self.lost_mask |= mask
        self.parked_mask &= ~mask
        self._count()
        for number in list(self.dirty):
            self.returning -= (self.dirty[number] & mask & ~self.reclaimed_mask).bit_count()
            if left := self.dirty[number] & ~mask:
                self.dirty[number] = left
            else:
                del self.dirty[number]

    def ordered(self, record: r.NodesOrdered) -> None:
        self.awaited += record.count

    def refused(self, record: r.NodesRefused) -> None:
        self.awaited = max(0, self.awaited - record.count)

    def reclaimed(self, record: r.NodesReclaimed) -> None:
        mask = record.nodes.mask & self.all_mask & ~self.reclaimed_mask
        self.reclaimed_mask |= mask
        for dirty in self.dirty.values():
            self.returning -= (dirty & mask).bit_count()  # nobody waits for them any more
        free = mask & self.free_mask
        self.take(free, free.bit_count())
        self.give(free)

    def returned(self, record: r.NodesReturned) -> None:
        keep = ~record.nodes.mask
        self.all_mask &= keep
        self.lost_mask &= keep
        self.reclaimed_mask &= keep
        self.parked_mask &= keep
        self._count()

    def _count(self) -> None:
        self.total = (self.all_mask & ~self.lost_mask & ~self.parked_mask).bit_count()

    def take(self, mask: int, count: int) -> None:
        self.free_mask = without(self.free_mask, mask)
        self.free -= count

    def give(self, mask: int, count: int | None = None) -> None:
        """Nobody uses these any more: free, or on their way back to the provider. ``count`` of them are free now, where
        that is known."""
        if going := mask & self.reclaimed_mask:
            self.parked_mask |= going
            mask = without(mask, going)
            self._count()
        self.free_mask |= mask
        self.free += mask.bit_count() if count is None else count

    def soil(self, number: int, mask: int, count: int | None = None) -> None:
        """These, ``count`` where that is known, are to be proved clean of the job."""
        if self.lost_mask or self.reclaimed_mask:
            mask, count = without(mask, self.lost_mask), None
        if mask:
            before = self.dirty.get(number, 0)
            self.dirty[number] = before | mask
            if before or count is None:
                count = without(mask, before | self.reclaimed_mask).bit_count()
            self.returning += count

    def snapshot(self) -> dict[str, object]:
        """All of it, comparable."""
        known = {name: getattr(self, name) for name in KNOWN}
        return known | {"dirty": dict(self.dirty), "names": dict(self.names), "slots": dict(self.slots)}
