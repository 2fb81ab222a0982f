"""Whether a program has too much to do for its places, or too little. No I/O, no clock.

The thresholds are apart, and no change goes so far that the load it leads to would ask for the reverse: so a load that
stays as it is makes a program grow or shrink until it is between them, never to and fro.
"""

from __future__ import annotations

import math
from typing import NamedTuple

SMOOTHING = 0.5
"""How much of what was found before gives way to the latest measure."""
PATIENCE = 3
"""Measures of an unchanged number of places that come before a decision."""


class Thresholds(NamedTuple):
    """Tasks a worker, ready or running, above which a program wants more places and below which it needs fewer."""

    grow_above: float
    give_back_below: float

    def check(self) -> None:
        """ValueError if a program could not follow these."""
        if not 0 < 2 * self.give_back_below <= self.grow_above < math.inf:
            raise ValueError(
                f"grow_above={self.grow_above:g}, give_back_below={self.give_back_below:g}: the first must be at "
                "least twice the second, and both positive, or one place more would be given back at once"
            )


class LoadSample(NamedTuple):
    """What all places together have to do, and to do it with."""

    tasks: float
    workers: int
    places: int


class LoadTrend(NamedTuple):
    """What is known of the load since the number of places has changed."""

    places: int = 0
    tasks: float = 0.0
    measures: int = 0
    asked: int = 0
    """How many more places were asked for last, in vain so far."""


def decide(seen: LoadTrend, load: LoadSample, thresholds: Thresholds) -> tuple[LoadTrend, int]:
    """What is known after a measure, and how many places to ask for (above 0) or to give back (below 0).

    A program at most doubles or halves at a time, and keeps a place. What is asked for in vain is halved.
    """
    if load.places != seen.places:
        return LoadTrend(load.places, load.tasks, 1), 0
    tasks = seen.tasks + SMOOTHING * (load.tasks - seen.tasks)
    seen = seen._replace(tasks=tasks, measures=seen.measures + 1)
    if seen.measures < PATIENCE:
        return seen, 0
    change = _change(load._replace(tasks=tasks), thresholds)
    if change > 0 and seen.asked:
        change = min(change, max(1, seen.asked // 2))
    if change:
        seen = seen._replace(measures=0)
    return seen._replace(asked=max(0, change)), change


def _change(load: LoadSample, thresholds: Thresholds) -> int:
    each = load.workers / load.places
    if load.tasks > thresholds.grow_above * load.workers:
        most = math.floor(load.tasks / (thresholds.give_back_below * each))
        return min(load.places, most - load.places)
    if load.tasks < thresholds.give_back_below * load.workers:
        least = max(1, math.ceil(load.tasks / (thresholds.grow_above * each)))
        return -min(load.places // 2, load.places - least)
    return 0
