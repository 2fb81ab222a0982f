"""Whom a place asks for work when it has none: the lifeline graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class LifelineStrategy(Protocol):
    """Directed edges between places. The graph has to be connected: who has no lifeline path to work gets none."""

    def lifelines(self, place: int, places: Sequence[int]) -> tuple[int, ...]:
        """The places that ``place`` asks, of ``places``: all there are, in ascending order, with gaps."""


class CyclicHypercube:
    """Places are numbered in base ``base`` by their rank among those that are there; a place asks those whose number
    differs by +1 in one digit, cyclic (Saraswat et al., "Lifeline-based global load balancing", 2011).

    Where that number is not there, the digit goes round to 0: all numbers below a place's are there, so the graph is
    strongly connected. For n places the out-degree is at most the number d of digits of n - 1, and the diameter at most
    2 d (base - 1).
    """

    def __init__(self, base: int = 2) -> None:
        if base < 2:
            raise ValueError(f"the base of a cyclic hypercube is {base}; it must be at least 2")
        self._base = base

    def lifelines(self, place: int, places: Sequence[int]) -> tuple[int, ...]:
        rank, count, base = places.index(place), len(places), self._base
        found: list[int] = []
        weight = 1
        while weight < count:
            digit = rank // weight % base
            following = rank + weight if digit + 1 < base else count
            if following >= count:
                following = rank - digit * weight
            if following != rank:
                found.append(places[following])
            weight *= base
        return tuple(found)
