"""Which of several ways are the quickest, as far as a few runs of each can tell: a rank test, exact, of our own.

That of Mann and Whitney: it asks nothing of how times are spread, and one run that was far too slow counts as the last
one and no more. Numbers are counted and never approximated, for five runs are no crowd.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from itertools import count

LEVEL = 0.05
"""How likely the way that is truly the quickest may be left out of those that are said to be."""


def chance(quick: Sequence[float], slow: Sequence[float]) -> float:
    """How likely it is that ``slow`` ranks as far behind ``quick`` as it does, or farther, if both are alike: of all
    ways to deal these times out, the share. Equal times share their ranks. ValueError if either has none."""
    if not quick or not slow:
        raise ValueError("times of two ways are to be compared, and one has none")
    times = sorted([*quick, *slow])
    # Twice the rank, so that a mean of two is a whole number.
    ranks = {time: 2 * times.index(time) + times.count(time) + 1 for time in set(times)}
    # deals[k]: in how many ways k of the times seen so far have a sum of ranks, each number in a field of bits of its
    # own, the field of a sum at its place. No field runs over: there are fewer deals than sets of times.
    field = len(times)
    deals = [1] + [0] * len(slow)
    for time in times:
        for chosen in range(len(slow), 0, -1):
            deals[chosen] += deals[chosen - 1] << (field * ranks[time])
    at_least = deals[-1] >> (field * sum(ranks[time] for time in slow))
    # A number is the sum of its digits, but for multiples of its base less one.
    return at_least % ((1 << field) - 1) / math.comb(len(times), len(slow))


def quickest(runs: Mapping[str, Sequence[float]]) -> dict[str, bool | None]:
    """Of each way with runs: whether it can be told from the one with the least median, by that test, at LEVEL shared
    out over the comparisons. So the truly quickest is among those that cannot, but for one time in twenty.

    None where even the farthest apart that so few runs can be would tell nothing, and of all if that is so of all.
    A run that hung is one of ``math.inf`` seconds; no way is the quickest if each hung in most of its runs.
    """
    there = {way: times for way, times in runs.items() if times}
    if not there:
        return {}
    best = min(there, key=lambda way: statistics.median(there[way]))
    if math.isinf(statistics.median(there[best])):
        return dict.fromkeys(there)
    level = LEVEL / max(len(there) - 1, 1)
    found: dict[str, bool | None] = {
        way: chance(there[best], times) > level
        if 1 / math.comb(len(times) + len(there[best]), len(times)) <= level
        else None
        for way, times in there.items()
        if way != best
    }
    found[best] = None if all(told is None for told in found.values()) else True
    return {way: found[way] for way in there}


def runs_needed(ways: int) -> int:
    """Of each way, so that the quickest of so many can be told."""
    return next(runs for runs in count(1) if math.comb(2 * runs, runs) >= max(ways - 1, 1) / LEVEL)
