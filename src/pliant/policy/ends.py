"""How many nodes of each end will be free when, where nodes expire: a profile for each end.

One profile of all nodes does not do: of two nodes that are free for a minute one may go as the other one comes.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable

from pliant.policy.view import ClusterView

SOON_S = 1e-3
"""Nodes that may become free at any moment are promised for so long from now: their jobs have outrun their estimates,
or leave them."""

Taken = list[tuple[int, float, float, int]]
"""Nodes that were taken: (index of their end, from when, to when, how many)."""


class ExpiryProfile:
    """Free nodes as step functions: ``_free[c][i]`` of those of end ``c`` from ``times[i]`` on, the last for ever.

    Entry 0 is what can be used at once.
    """

    __slots__ = ("_at", "_free", "times")

    def __init__(self, view: ClusterView) -> None:
        self.times = [view.now]
        self._at = [*(each.at for each in view.expiring), math.inf]
        usable = [each.free for each in view.expiring]
        usable.append(max(0, view.free - sum(usable)))
        self._free = [[nodes] for nodes in usable]
        soon = view.now + SOON_S
        returning = [have - free for have, free in zip(self._apart(view, 0), usable, strict=True)]
        for at, counts in [
            (soon, returning),
            *((max(end, soon), self._apart(view, i)) for end, i, _ in view.running),
        ]:
            self._add((c, at, math.inf, nodes) for c, nodes in enumerate(counts))

    def _apart(self, view: ClusterView, job: int) -> list[int]:
        """The nodes of a job, or for 0 those of nobody, by their ends."""
        lasting = [view.lasting(at, job) for at in self._at]
        return [these - longer for these, longer in zip(lasting, [*lasting[1:], 0], strict=True)]

    @property
    def free(self) -> int:
        """What can be used at once."""
        return sum(each[0] for each in self._free)

    def counts(self, entry: int, length: float, *, whole: bool) -> list[int]:
        """By end, how many nodes are free from this entry on for ``length`` seconds. Without ``whole`` those count too
        that expire before, if they are free until then."""
        since, counts = self.times[entry], []
        for at, free in zip(self._at, self._free, strict=True):
            until = since + length
            if at < until:
                until = since if whole else at
            last = bisect_left(self.times, until, entry)
            counts.append(max(0, min(free[entry:last], default=0)))
        return counts

    def earliest(self, nodes: int, length: float, since: float, *, whole: bool) -> int | None:
        """The first entry, not before ``since``, from which so many nodes stay free."""
        for entry in range(self._entry(since), len(self.times)):
            if sum(self.counts(entry, length, whole=whole)) >= nodes:
                return entry
        return None

    def take(self, entry: int, nodes: int, length: float, *, whole: bool) -> Taken:
        """Take so many that are free from this entry on, by an entry of ``times``, for ``length`` seconds: those that
        expire soonest; where they need not last for the ``whole`` time, those that last longest."""
        since, taken = self.times[entry], Taken()
        counts = [*enumerate(self.counts(entry, length, whole=whole))]
        for c, free in counts if whole else reversed(counts):
            if part := min(nodes, free):
                taken.append((c, since, min(since + length, self._at[c]), part))
                nodes -= part
        self._add((c, at, until, -part) for c, at, until, part in taken)
        return taken

    def give_back(self, taken: Taken) -> None:
        self._add(taken)

    def _entry(self, at: float) -> int:
        """The entry that begins then."""
        entry = bisect_left(self.times, at)
        if entry == len(self.times) or self.times[entry] != at:
            self.times.insert(entry, at)
            for free in self._free:
                free.insert(entry, free[entry - 1])
        return entry

    def _add(self, nodes: Iterable[tuple[int, float, float, int]]) -> None:
        for c, since, until, count in nodes:
            if count:
                first = self._entry(since)
                last = len(self.times) if until == math.inf else self._entry(until)
                free = self._free[c]
                for entry in range(first, last):
                    free[entry] += count
