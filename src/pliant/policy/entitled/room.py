"""Room: nodes that the virtual schedule holds, and that the jobs which hold them there do not need in reality."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate

Span = tuple[float, int]
"""(until, nodes): so many nodes from now on until then."""


class Room:
    """``loans`` less ``commitments``, as a step function of time: nothing that happens later makes it smaller."""

    def __init__(self, loans: Iterable[Span], commitments: Iterable[Span]) -> None:
        # What ends a commitment comes before what ends a loan at the same time.
        self._steps = [(until, -nodes) for until, nodes in commitments]
        self._steps += loans
        self.now = sum(lost for _, lost in self._steps)
        self._sort()

    def fits(self, nodes: int, until: float) -> bool:
        """Whether it has ``nodes`` nodes from now on until then."""
        return self._least[bisect_left(self._times, until)] >= nodes

    def commit(self, nodes: int, until: float) -> None:
        """So many are given away, until then."""
        self._steps.append((until, -nodes))
        self.now -= nodes
        self._sort()

    def _sort(self) -> None:
        """``_least[i]``: the least room from now on to ``_times[i]``; the last for ever."""
        self._steps.sort()
        self._times = [until for until, _ in self._steps]
        room = accumulate((-lost for _, lost in self._steps), initial=self.now)
        self._least = list(accumulate(room, min))
