"""What job.check(), job.request() and mpi.malleable() are given: the numbers of any library, and nothing else."""

from __future__ import annotations

import re
from fractions import Fraction
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

np = pytest.importorskip("numpy")
mpi4py = pytest.importorskip("mpi4py")
mpi4py.rc.initialize = mpi4py.rc.finalize = False

from pliant.model.jobs import Bounds  # noqa: E402
from pliant.mpi.arguments import RequestedSizes, seconds, whole  # noqa: E402
from pliant.mpi.inhibitor import Period, period  # noqa: E402
from pliant.mpi.job import malleable  # noqa: E402

FROM_1_TO_4 = Bounds(1, 4)


@pytest.mark.parametrize("number", [2, np.int64(2), np.uint8(2)])
def test_whole_numbers_are_of_any_library(number: Any) -> None:
    assert type(whole("f", "n", number)) is int
    wish = RequestedSizes.of("job.check", min=number, preferred=number)
    assert wish == RequestedSizes(2, 0, 0, 2)
    assert repr(wish) == repr(RequestedSizes(2, 0, 0, 2))  # ranks compare that


@pytest.mark.parametrize("value", [2.0, 1.5, True, "2", None, np.float64(2), np.bool_(True)])
def test_what_is_no_whole_number_is_refused_by_name(value: Any) -> None:
    with pytest.raises(TypeError) as refused:
        RequestedSizes.of("job.icheck", min=1, max=value)
    assert str(refused.value) == f"job.icheck(max={value!r}): it must be a whole number"
    with pytest.raises(TypeError, match=r"mpi\.malleable\(factor="):
        malleable(factor=value)
    with pytest.raises(TypeError, match=r"mpi\.malleable\(inhibit_steps="):
        malleable(inhibit_steps=value)


def test_a_size_below_0_is_refused_with_what_it_must_be() -> None:
    with pytest.raises(ValueError, match=r"job\.check\(preferred=-1\): it must be a whole number, 0 or more"):
        RequestedSizes.of("job.check", preferred=-1)


@pytest.mark.parametrize("value", [0, 1e-9, 2.5, np.float32(1.0), np.int64(3), Fraction(1, 2), inf])
def test_times_are_numbers_of_any_library(value: Any) -> None:
    assert seconds("job.check", "timeout_s", value) == value
    assert type(seconds("job.check", "timeout_s", value)) is float


@pytest.mark.parametrize(
    ("value", "error"), [("3", TypeError), (None, TypeError), (True, TypeError), (1j, TypeError), (-1, ValueError), (nan, ValueError)]
)  # fmt: skip
def test_a_time_that_is_none_is_refused_by_name(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"job\.check\(timeout_s=.*\): it must be a number of seconds"):
        seconds("job.check", "timeout_s", value)


@pytest.mark.parametrize("value", ["0.1", True, inf])
def test_an_inhibitor_takes_a_time_that_ends(value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"mpi\.malleable\(inhibit=.*\): it must be a number"):
        period(value, 0)
    assert period(np.float64(0.5), np.int64(3)) == Period(0.5, 3)


@pytest.mark.parametrize(
    ("wish", "allowed", "bounds"),
    [
        (RequestedSizes(), FROM_1_TO_4, Bounds(1, 4)),
        (RequestedSizes(2, 9), FROM_1_TO_4, Bounds(2, 9)),
        (RequestedSizes(preferred=3), FROM_1_TO_4, Bounds(1, 4, 1, 3)),
        (RequestedSizes(preferred=4), Bounds(1, 1), Bounds(1, 1)),
        (RequestedSizes(preferred=4), Bounds(2, 3), Bounds(2, 3, 1, 3)),
        (RequestedSizes(1, 8, 2, 5), Bounds(1, 8), Bounds(1, 8, 2, 4)),
        (RequestedSizes(1, 8, 2, 9), Bounds(2, 6), Bounds(1, 8, 2, 4)),
        (RequestedSizes(max=8, preferred=3), Bounds(2, 32, 2), Bounds(2, 8, 1, 2)),
    ],
)
def test_what_is_asked_for_prefers_the_nearest_allowed_size(
    wish: RequestedSizes, allowed: Bounds, bounds: Bounds
) -> None:
    assert wish.within(allowed, "job.check") == bounds


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        (RequestedSizes(5, 9), "job.request: none of the job's sizes (1:4) is from 5 to 9 nodes"),
        (RequestedSizes(5), "job.request: none of the job's sizes (1:4) is at least 5"),
        (
            RequestedSizes(5, 9, 2),
            "job.request: none of the job's sizes (1:4) is from 5 to 9 nodes, by factor 2",
        ),
        (RequestedSizes(3, 2), "max 2 is below min 3"),
    ],
)
def test_sizes_that_the_job_does_not_have_are_told_in_the_callers_words(
    wish: RequestedSizes, told: str
) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(told)}$"):
        wish.within(FROM_1_TO_4, "job.request")


def test_at_most_so_many_nodes_where_a_job_needs_more() -> None:
    with pytest.raises(ValueError, match=r"none of the job's sizes \(2:4\) is at most 1"):
        RequestedSizes(max=1).within(Bounds(2, 4), "job.check")


bounds_ = st.tuples(st.integers(1, 9), st.integers(0, 20), st.integers(1, 3)).map(
    lambda drawn: Bounds(drawn[0], drawn[0] + drawn[1], drawn[2])
)


@given(bounds_, *[st.integers(0, 12)] * 2, st.integers(0, 3), st.integers(0, 40))
def test_what_is_asked_for_can_be_had(
    allowed: Bounds, low: int, high: int, factor: int, preferred: int
) -> None:
    wish = RequestedSizes(low, high, factor, preferred)
    try:
        asked = wish.within(allowed, "job.check")
    except ValueError:
        row = {n for n in range(1, 41) if n <= (high or allowed.max)} if low <= high or not high else set()
        start, sizes = low or allowed.min, set[int]()
        while start <= (high or allowed.max):
            sizes.add(start)
            start = start * factor if factor > 1 else start + 1
        assert not [n for n in sizes & row if allowed.allows(n)]
        return
    common = asked.intersect(allowed)
    assert common is not None
    if preferred:
        assert common.allows(asked.preferred)
