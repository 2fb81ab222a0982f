"""What another policy changes, job by job and pair by pair: two simulations of the same jobs, one beside the other.

A pair has the same seed, window and, between policies, the same malleable jobs, so that most of what differs between
two runs of one policy is the same in both. Of figures the logarithm of the ratio is what is averaged, so that twice and
half cancel out: a mean of percentages would call +100 % and -50 % a gain of 25 %.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from pliant.history.distribution import percentile
from pliant.study.confidence import interval

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
"""Figures of a run of which there are ratios."""
NO_RATIO: dict[str, float | None] = {"ratio": None, "low": None, "high": None}


class Later(NamedTuple):
    """Of ``jobs`` jobs those, in per cent, whose turnaround is longer by more than ``LATER_S`` and by more than 1 or
    10 % of what it is beside it, and by how many seconds at most."""

    jobs: int
    later_1_percent: float
    later_10_percent: float
    worst_s: float


def later(before: Iterable[float], after: Iterable[float]) -> Later:
    """Of turnarounds in seconds, of the same jobs in the same order; a job that has none in one of them (NaN) does
    not count."""
    both = zip(before, after, strict=True)
    pairs = [(turn, other - turn) for turn, other in both if not math.isnan(turn + other)]
    one, ten = (
        100.0 * sum(more > LATER_S and more > share * turn for turn, more in pairs) / len(pairs)
        if pairs
        else 0.0
        for share in SHARES
    )
    return Later(len(pairs), one, ten, round(max((more for _, more in pairs if more > 0), default=0.0), 3))


def ratio(pairs: Sequence[tuple[float | None, float | None]]) -> dict[str, float | None]:
    """The geometric mean of the second over the first of each pair, and its 95 % interval by Student's t of the
    logarithms: ``low`` .. ``high``, None of a single pair. All None where something is 0 or there is no pair."""
    if not pairs or any(not then or not now for then, now in pairs):
        return NO_RATIO
    mean, half = interval([math.log((now or 1.0) / (then or 1.0)) for then, now in pairs])
    if half is None:
        return {"ratio": math.exp(mean), "low": None, "high": None}
    return {"ratio": math.exp(mean), "low": math.exp(mean - half), "high": math.exp(mean + half)}


def harm(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> dict[str, Any]:
    """Of the turnarounds of each pair of runs: how many jobs end later, as means over the pairs with their intervals,
    and the most of all."""
    found = [later(before, after) for before, after in pairs]
    return {
        "jobs": sum(each.jobs for each in found),
        "later_1_percent": interval([each.later_1_percent for each in found])._asdict(),
        "later_10_percent": interval([each.later_10_percent for each in found])._asdict(),
        "worst_s": max(each.worst_s for each in found),
    }


def turnaround_ratios(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> dict[str, Any]:
    """The ratios of mean, 95th percentile and maximum of some jobs' turnarounds, of each pair of runs."""
    figures = [tuple(_tails(turns) for turns in pair) for pair in pairs]
    return {
        key: ratio([(before[key], after[key]) for before, after in figures])
        for key in ("turnaround_mean_s", "turnaround_p95_s", "turnaround_max_s")
    }


def _tails(turnarounds: Sequence[float]) -> dict[str, float | None]:
    ordered = sorted(each for each in turnarounds if not math.isnan(each))
    if not ordered:
        return dict.fromkeys(COMPARED)
    return {
        "turnaround_mean_s": math.fsum(ordered) / len(ordered),
        "turnaround_p95_s": percentile(ordered, 0.95),
        "turnaround_max_s": ordered[-1],
    }
