"""Means of few runs, with 95 % confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import mean, stdev
from typing import NamedTuple

STUDENT_95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Two-sided 95 % quantiles of Student's t with 1 .. 30 degrees of freedom."""
NORMAL_95 = 1.960


class Interval(NamedTuple):
    """``mean`` - ``half`` .. ``mean`` + ``half``; of a single value, nobody knows how far it may be off."""

    mean: float
    half: float | None


def interval(values: Sequence[float]) -> Interval:
    """The mean of independent ``values``, at least one, and half the width of its interval."""
    if len(values) < 2:
        return Interval(mean(values), None)
    freedom = len(values) - 1
    # Between 30 and infinity, the quantile falls almost as 1 / freedom: by 2.5 / freedom from 1.96 on.
    quantile = STUDENT_95[freedom - 1] if freedom <= len(STUDENT_95) else NORMAL_95 + 2.5 / freedom
    return Interval(mean(values), quantile * stdev(values) / math.sqrt(len(values)))


def ratio_of_sums(values: Sequence[float], sizes: Sequence[float]) -> Interval:
    """The sum of ``values`` over that of ``sizes``, as a share of jobs of which some samples have more than others, and
    half the width of its interval by the usual estimator of a ratio (Cochran, Sampling Techniques, section 2.11):
    the deviations of the values from what their sizes would have. 0 where there is nothing of any size."""
    whole = math.fsum(sizes)
    if not whole:
        return Interval(0.0, None)
    share = math.fsum(values) / whole
    spread = interval([value - share * size for value, size in zip(values, sizes, strict=True)]).half
    return Interval(share, None if spread is None else spread * len(sizes) / whole)
