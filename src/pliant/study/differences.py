"""What another policy changes, job by job and pair by pair: two simulations of the same jobs, one beside the other.

A pair has the same seed, window and, between policies, the same malleable jobs, so that most of what differs between
two runs of one policy is the same in both. Of figures the logarithm of the ratio is what is averaged, so that twice and
half cancel out: a mean of percentages would call +100 % and -50 % a gain of 25 %. Pairs come in units, whose pairs are
no more independent of one another than seeds are that change little in the same window: each unit counts once.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from pliant.history.distribution import bounded_slowdown, percentile
from pliant.study.confidence import interval, ratio_of_sums

LATER_S = 60.0
"""A job is later than beside it if it is so by more than this, and by more than a share of its turnaround there."""
SHARES = (0.01, 0.1)
COMPARED = (
    "turnaround_mean_s",
    "turnaround_p95_s",
    "turnaround_max_s",
    "wait_mean_s",
    "bounded_slowdown_mean",
)
"""Figures of which there are ratios."""
NO_RATIO: dict[str, float | None] = {"ratio": None, "low": None, "high": None}


class Times(NamedTuple):
    """Of the jobs of a simulation, in order of submission: turnaround and wait in seconds, NaN of one that was not
    completed."""

    turnarounds: Sequence[float] = ()
    waits: Sequence[float] = ()


class Pair(NamedTuple):
    """Two simulations of the same jobs."""

    before: Times
    after: Times


class Later(NamedTuple):
    """Of ``jobs`` jobs that were completed in both, so many have a turnaround that is longer by more than ``LATER_S``
    and by more than 1 or 10 % of what it was, by ``worst_s`` seconds at most."""

    jobs: int
    later_1: int
    later_10: int
    worst_s: float


def later(before: Sequence[float], after: Sequence[float]) -> Later:
    """Of turnarounds in seconds, of the same jobs in the same order; NaN of one that does not count."""
    both = zip(before, after, strict=True)
    pairs = [(turn, other - turn) for turn, other in both if not math.isnan(turn + other)]
    one, ten = (sum(more > LATER_S and more > share * turn for turn, more in pairs) for share in SHARES)
    return Later(len(pairs), one, ten, round(max((more for _, more in pairs if more > 0), default=0.0), 3))


def difference(
    units: Sequence[Sequence[Pair]], places: Sequence[Sequence[Collection[int]]] | None = None
) -> dict[str, Any]:
    """The ratios of ``COMPARED`` and who ends later, of all jobs, or of those in ``places`` of each pair. One without
    such jobs has no ratio, and counts as 0 of them."""
    chosen = [
        [_common(pair, None if places is None else places[i][k]) for k, pair in enumerate(unit)]
        for i, unit in enumerate(units)
    ]
    figures = [
        [(_figures(pair.before), _figures(pair.after)) for pair in unit if pair.before.turnarounds]
        for unit in chosen
    ]
    ratios = {
        key: ratio([[(before[key], after[key]) for before, after in unit] for unit in figures])
        for key in COMPARED
    }
    return ratios | _harm(chosen)


def ratio(units: Sequence[Sequence[tuple[float, float]]]) -> dict[str, float | None]:
    """The geometric mean of the second over the first of each pair, the mean of each unit first, and its 95 % interval
    by Student's t of the logarithms: ``low`` .. ``high``, None of a single unit. Where one is 0, as the mean wait of a
    window in which nobody waits, it is the ratio of all together, without an interval; None where that is none."""
    pairs = [pair for unit in units for pair in unit]
    then, now = (math.fsum(side) for side in zip(*pairs, strict=True)) if pairs else (0.0, 0.0)
    if not then or not now:
        return NO_RATIO
    if any(not before or not after for before, after in pairs):
        return {"ratio": now / then, "low": None, "high": None}
    mean, half = interval(
        [fmean(math.log(after / before) for before, after in unit) for unit in units if unit]
    )
    if half is None:
        return {"ratio": math.exp(mean), "low": None, "high": None}
    return {"ratio": math.exp(mean), "low": _exp(mean - half), "high": _exp(mean + half)}


def _exp(value: float) -> float:
    return math.exp(min(value, 700.0))  # two units far apart have an interval beyond what a number can be


def _common(pair: Pair, places: Collection[int] | None) -> Pair:
    """Of a pair the jobs in ``places``, else all, that were completed in both."""
    before, after = pair
    kept = [
        i
        for i in (range(len(before.turnarounds)) if places is None else places)
        if not math.isnan(before.turnarounds[i] + after.turnarounds[i])
    ]
    return Pair(*(Times([each.turnarounds[i] for i in kept], [each.waits[i] for i in kept]) for each in pair))


def _figures(times: Times) -> dict[str, float]:
    ordered = sorted(times.turnarounds)
    slowdowns = [bounded_slowdown(turn, turn - wait) for turn, wait in zip(*times, strict=True)]
    return {
        "turnaround_mean_s": fmean(ordered),
        "turnaround_p95_s": percentile(ordered, 0.95),
        "turnaround_max_s": ordered[-1],
        "wait_mean_s": fmean(times.waits),
        "bounded_slowdown_mean": fmean(slowdowns),
    }


def _harm(units: Sequence[Sequence[Pair]]) -> dict[str, Any]:
    """How many jobs of all end later, each unit by the mean of its pairs, and by how much at most."""
    found = [
        [later(pair.before.turnarounds, pair.after.turnarounds) for pair in unit] for unit in units if unit
    ]
    jobs = [fmean(each.jobs for each in unit) for unit in found]
    return {
        "jobs": round(math.fsum(jobs)),
        "later_1_percent": ratio_of_sums(
            [fmean(100.0 * each.later_1 for each in unit) for unit in found], jobs
        )._asdict(),
        "later_10_percent": ratio_of_sums(
            [fmean(100.0 * each.later_10 for each in unit) for unit in found], jobs
        )._asdict(),
        "worst_s": max((each.worst_s for unit in found for each in unit), default=0.0),
    }
