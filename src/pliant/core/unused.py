"""How many nodes nobody has needed for a while: a fold, which the state attaches where nodes come and go."""

from __future__ import annotations

from collections import deque


class FewestFree:
    """The fewest nodes that were free at any moment of the last ``span_s`` seconds.

    ``_since`` holds pairs of a time and the fewest free nodes from then until now, both ascending: the sliding-window
    minimum, in constant time a change on average.
    """

    __slots__ = ("_since", "_span_s")

    def __init__(self, span_s: float) -> None:
        self._span_s = span_s
        self._since: deque[tuple[float, int]] = deque()

    def note(self, now: float, free: int) -> None:
        """From now on so many nodes are free; ``now`` never runs backwards."""
        at = now
        while self._since and self._since[-1][1] >= free:
            at = self._since.pop()[0]
        self._since.append((at, free))
        self._forget(now)

    def of(self, now: float) -> int:
        """0 as long as less than the span has been seen."""
        self._forget(now)
        at, free = self._since[0] if self._since else (now, 0)
        return free if at + self._span_s <= now else 0

    def more_at(self, now: float) -> float:
        """When there will be more if nothing changes until then."""
        self._forget(now)
        later = (at + self._span_s for at, free in self._since if free and at + self._span_s > now)
        return next(later, float("inf"))

    def snapshot(self) -> list[tuple[float, int]]:
        """What it knows, comparable."""
        return list(self._since)

    def _forget(self, now: float) -> None:
        while len(self._since) > 1 and self._since[1][0] + self._span_s <= now:
            self._since.popleft()
