"""Which nodes there are, and whose: a part of the state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pliant.core import records as r
from pliant.core.settings import NEVER, Settings, end_of, leaving_s
from pliant.model.nodes import hostlist, without
from pliant.policy.view import Expiring

if TYPE_CHECKING:
    from pliant.core.job import ScheduledJob
    from pliant.model.need import Need

KNOWN = (
    "all_mask", "awaited", "free", "free_mask", "lost_mask", "parked_mask", "reclaimed_mask", "returning", "total",
    "until", "unwanted",
)  # fmt: skip
"""The fields that ``snapshot`` gives as they are. It copies those by number."""


class NodeStates:
    """Nodes are free, a job's, or ``dirty``: to be proved clean of the job that had them.

    Nodes of ``reclaimed_mask`` are to be given back; those of them that nobody uses any more are in ``parked_mask``.
    ``awaited`` nodes were asked for and have neither come nor been refused. ``unwanted`` of them have been withdrawn.
    ``needs`` counts those that have to have something, by what that is. ``returning`` counts dirty nodes that stay.

    ``expiry`` has the nodes that expire, by when, in seconds. If all nodes expire, ``until`` is when the last of them
    does; it stays when all have gone. ``ends``: nodes expire, have expired, or may come that do.
    """

    def __init__(self, running: list[tuple[float, int, ScheduledJob]], settings: Settings) -> None:
        """``running`` are the jobs that run, as the state has them."""
        self._running = running
        self._settings = settings
        self.free_mask = 0
        self.all_mask = 0
        self.lost_mask = 0
        self.reclaimed_mask = 0
        self.parked_mask = 0
        self.awaited = self.unwanted = 0
        self.needs: dict[Need, int] = {}
        self.expiry: dict[float, int] = {}
        self.until = NEVER
        pool = settings.pool
        self._leased = self.ends = pool is not None and pool.lease_s != NEVER
        self.dirty: dict[int, int] = {}
        self.names: dict[int, str] = {}
        self.slots: dict[int, int] = {}
        self.labels: dict[int, tuple[str, ...]] = {}
        self.sources: dict[int, str] = {}
        self.free = 0
        self.total = 0
        self.returning = 0

    @property
    def coming(self) -> int:
        """How many nodes were asked for and are still wanted."""
        return self.awaited - self.unwanted

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
        if self.labels or record.labels:
            self.labels |= dict.fromkeys(record.nodes, ()) | dict(
                zip(record.nodes, record.labels, strict=False)
            )
        if self.sources or record.source:
            self.sources |= dict.fromkeys(record.nodes, record.source)
        self._answered((record.nodes.mask & ~self.all_mask).bit_count(), record.need)
        self.there(record)
        if record.until is not None:
            self._expire(record.nodes.mask or self._without_sooner(record.until), record.until)
        elif self.ends:
            self._expire(record.nodes.mask, NEVER)

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
        if record.need is not None:
            self.needs[record.need] = self.needs.get(record.need, 0) + record.count

    def refused(self, record: r.NodesRefused) -> None:
        self.unwanted = max(0, self.unwanted - record.count)
        self._answered(record.count, record.need)

    def withdrawn(self, record: r.NodesWithdrawn) -> None:
        self.unwanted = min(self.awaited, self.unwanted + record.count)

    def _answered(self, count: int, need: Need | None) -> None:
        """So many nodes have come or will not."""
        self.awaited = max(0, self.awaited - count)
        self.unwanted = min(self.unwanted, self.awaited)
        if need in self.needs and (left := self.needs.pop(need) - count) > 0:
            self.needs[need] = left

    def wanted(self, rest: int | None = None) -> Iterator[tuple[Need | None, int]]:
        """What the awaited nodes have to have, and how many of them; of the first ``rest`` of them, where that is
        given."""
        rest = self.awaited if rest is None else rest
        for need, number in self.needs.items():
            if number := min(number, rest):
                rest -= number
                yield need, number
        if rest:
            yield None, rest

    def expire(self, record: r.NodesExpire) -> None:
        self._expire(record.nodes.mask & self.all_mask, record.until)

    def reclaimed(self, record: r.NodesReclaimed) -> None:
        mask = record.nodes.mask & self.all_mask & ~self.reclaimed_mask
        self.reclaimed_mask |= mask
        for dirty in self.dirty.values():
            self.returning -= (dirty & mask).bit_count()  # nobody waits for them any more
        free = mask & self.free_mask
        self.take(free, free.bit_count())
        self.give(free)
        if record.by is not None:
            self._expire(record.nodes.mask & self.all_mask, record.by)
        elif self.ends:
            self._find_until()

    def returned(self, record: r.NodesReturned) -> None:
        keep = ~record.nodes.mask
        self.all_mask &= keep
        self.lost_mask &= keep
        self.reclaimed_mask &= keep
        self.parked_mask &= keep
        self._count()
        if self.expiry:
            self._expire(record.nodes.mask, NEVER)

    def _expire(self, mask: int, at: float) -> None:
        """These nodes expire then."""
        for other, nodes in list(self.expiry.items()):
            if left := without(nodes, mask):
                self.expiry[other] = left
            else:
                del self.expiry[other]
        if at != NEVER and mask:
            self.expiry[at] = self.expiry.get(at, 0) | mask
        self._find_until()

    def _without_sooner(self, until: float) -> int:
        """All nodes, but those that are asked back by an earlier time."""
        sooner = 0
        for at, nodes in self.expiry.items():
            sooner |= nodes & self.reclaimed_mask if at < until else 0
        return without(self.all_mask, sooner)

    def _find_until(self) -> None:
        staying = without(self.all_mask, self.reclaimed_mask | self.expired_by(NEVER))
        if staying:
            self.until = NEVER
        elif self.expiry:
            self.until = max(self.expiry)
        self.ends = self._leased or bool(self.expiry) or self.until != NEVER

    def expiring(self) -> tuple[Expiring, ...]:
        """The nodes that expire, by when they have to be empty."""
        there, settings = without(self.all_mask, self.lost_mask | self.parked_mask), self._settings
        found: list[Expiring] = []
        for until in sorted(self.expiry):
            if nodes := self.expiry[until] & there:
                at, free = end_of(until, settings), nodes & self.free_mask
                found.append(Expiring(at, at - leaving_s(settings), nodes.bit_count(), free.bit_count()))
        return tuple(found)

    def classes(self) -> list[int]:
        """The free nodes as ``expiring`` has them, and then those that stay."""
        there = without(self.all_mask, self.lost_mask | self.parked_mask)
        each = (self.expiry[until] for until in sorted(self.expiry))
        return [
            *(nodes & self.free_mask for nodes in each if nodes & there),
            without(self.free_mask, self.expired_by(NEVER)),
        ]

    def expired_by(self, by: float) -> int:
        """The nodes that expire by then."""
        found = 0
        for until, nodes in self.expiry.items():
            found |= nodes if until <= by else 0
        return found

    def end_on(self, mask: int) -> float:
        """By when the first of these nodes has to be empty; NEVER where none expires."""
        soonest = min((until for until, nodes in self.expiry.items() if nodes & mask), default=NEVER)
        return end_of(soonest, self._settings)

    def lasting(self, nodes: int, at: float) -> int:
        """How many of these last until then."""
        for until, mask in self.expiry.items():
            if end_of(until, self._settings) < at:
                nodes = without(nodes, mask)
        return without(nodes, self.reclaimed_mask).bit_count()

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
        return known | {
            "dirty": dict(self.dirty),
            "expiry": dict(self.expiry),
            "labels": dict(self.labels),
            "names": dict(self.names),
            "needs": dict(self.needs),
            "slots": dict(self.slots),
            "sources": dict(self.sources),
        }
