"""The checking inhibitor: which calls ask, by what the root says to all, and the environment's words for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.job import environment
from pliant.model.errors import PliantError
from pliant.mpi.inhibitor import Inhibitor, Period, period


def asking_calls(period: Period, turns: list[float]) -> list[int]:
    """The calls, from 0, that ask, where a turn takes so long; another rank, whose clock stands, goes along."""
    now, calls = 0.0, []
    root, other = Inhibitor(period, now), Inhibitor(period, 0.0)
    for call, turn_s in enumerate(turns):
        inhibited = root.holds()
        assert other.holds() == inhibited
        if not inhibited:
            if word := root.look(now):
                root.take(word)
                other.take(word)
            else:
                calls.append(call)
                root.restart(now)
                other.restart(0.0)
        now += turn_s
    return calls


@given(st.integers(0, 20), st.integers(0, 100))
def test_of_so_many_calls_the_last_one_asks(steps: int, calls: int) -> None:
    assert asking_calls(Period(0.0, steps), [1.0] * calls) == [
        call for call in range(calls) if (call + 1) % max(1, steps) == 0
    ]


@given(st.floats(0.01, 50.0), st.lists(st.floats(1e-3, 10.0), max_size=200))
def test_nobody_asks_within_the_seconds(seconds: float, turns: list[float]) -> None:
    at = [sum(turns[:call]) for call in asking_calls(Period(seconds), turns)]
    assert all(later - sooner >= seconds * 0.999 for sooner, later in zip([0.0, *at], at, strict=False))


@given(st.floats(1.0, 50.0), st.floats(0.01, 2.0))
def test_where_turns_are_alike_the_first_call_after_the_seconds_asks(seconds: float, turn_s: float) -> None:
    turns = [turn_s] * int(3 * seconds / turn_s)
    at = [call * turn_s for call in asking_calls(Period(seconds), turns)]
    assert all(
        later - sooner <= seconds + 2.01 * turn_s for sooner, later in zip([0.0, *at], at, strict=False)
    )


@given(st.floats(1.0, 20.0), st.integers(1, 50), st.floats(1.0, 20.0))
def test_turns_that_become_longer_make_it_late_by_as_much_at_most(
    seconds: float, quick: int, longer: float
) -> None:
    turn_s = seconds / 100
    turns = [turn_s] * quick + [turn_s * longer] * 1000
    first = asking_calls(Period(seconds), turns)[0]
    assert sum(turns[:first]) <= seconds * (1 + longer / 2) + 2 * turn_s * longer


@pytest.mark.parametrize("text", ["x", "-1", "nan", "inf", "1 s"])
def test_seconds_that_are_none_are_named(text: str) -> None:
    with pytest.raises(PliantError, match=f"PLIANT_INHIBIT is '{text}'; it must be a number of seconds"):
        environment.inhibit_s({"PLIANT_INHIBIT": text})


@pytest.mark.parametrize("text", ["x", "-1", "1.5", "²"])
def test_steps_that_are_none_are_named(text: str) -> None:
    with pytest.raises(PliantError, match=f"PLIANT_INHIBIT_STEPS is '{text}'; it must be a whole number"):
        environment.inhibit_steps({"PLIANT_INHIBIT_STEPS": text})


def test_the_environment_comes_before_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    assert period(2.0, 3) == Period(2.0, 3)
    monkeypatch.setenv("PLIANT_INHIBIT", "0.5")
    assert period(2.0, 3) == Period(0.5, 3)
    monkeypatch.setenv("PLIANT_INHIBIT_STEPS", "0")
    assert period(2.0, 3) == Period(0.5, 0)
    with pytest.raises(ValueError, match="inhibit=-1"):
        period(-1.0, 0)
    with pytest.raises(ValueError, match="inhibit_steps=-1"):
        period(0.0, -1)
