"""The parts of ``pliant.mpi`` that need no MPI: the timetable, the lag, the agreed value."""

# ruff: noqa: E402 - MPI must not be initialised by the first import

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

mpi4py = pytest.importorskip("mpi4py")
mpi4py.rc.initialize = mpi4py.rc.finalize = False

from pliant.job.decisions import Action, Decision
from pliant.job.errors import Stalled
from pliant.model.jobs import Bounds
from pliant.model.speedup import Amdahl
from pliant.mpi.checks import APART_S, FIRST_S, MAX_LAG, better_lag, likely_cost
from pliant.mpi.context import Context
from pliant.mpi.loop import Loop
from pliant.mpi.pace import Pace
from pliant.mpi.resizing.scheduled import AgentResizer
from pliant.mpi.snapshot import LoopPlace
from pliant.mpi.team import Member, Team
from pliant.mpi.wait import Wait
from pliant.protocol.phases import Phase


@given(st.sampled_from(Action), st.integers(1, MAX_LAG), st.integers(0, 2**32 - 1))
def test_the_agreed_value_survives_its_8_bytes(action: Action, lag: int, resize: int) -> None:
    decision = Decision(action, lag, resize)
    assert len(decision.pack()) == 8
    assert Decision.unpack(decision.pack()) == decision


@given(st.floats(1e-7, 1e-2), st.floats(1e-7, 10.0))
def test_checking_stays_cheap(cost_s: float, step_s: float) -> None:
    lag = better_lag(cost_s, step_s)
    assert lag == 1 or lag * step_s <= APART_S
    assert lag in {1, MAX_LAG, int(APART_S / step_s)} or cost_s <= 0.00125 * lag * step_s * (1 + 1e-9)
    assert lag == 1 or cost_s >= 0.00125 * (lag - 1) * step_s * (1 - 1e-9)


@given(st.lists(st.floats(1e-6, 1.0), min_size=1), st.floats(5e-6, 1e-4))
def test_an_interrupted_check_does_not_stretch_the_time_between_checks(
    interrupted_s: list[float], cost_s: float
) -> None:
    estimate_s = 0.0
    for measured_s in interrupted_s:  # each between two that are not
        estimate_s = likely_cost(likely_cost(estimate_s, measured_s), cost_s)
    assert estimate_s <= max(FIRST_S, 4 * cost_s) * (1 + 1e-9)
    for _ in range(40):
        estimate_s = likely_cost(estimate_s, 10 * cost_s)
    assert estimate_s >= 0.9 * 10 * cost_s  # what each of them takes is believed


def test_a_timetable_follows_the_model_and_forgets_blocked_time() -> None:
    pace = Pace(Amdahl(100.0), 100)
    pace.begin(0, 1, 1000.0)
    assert pace.start_of(10) == 1010.0
    pace.end(10, 1011.0)
    assert pace.sums(10, 1011.0) == (10.0, 11.0)
    pace.begin(10, 4, 1016.0)  # 5 s for a resize
    assert pace.start_of(14) == 1017.0
    assert pace.sums(14, 1017.0) == (11.0, 12.0)


def test_without_a_model_nothing_is_paced() -> None:
    pace = Pace(None, 10)
    pace.begin(0, 3, 5.0)
    assert pace.start_of(7) == 5.0
    assert pace.sums(7, 9.0) == (0.0, 0.0)


class NeverDone:
    """A request that is done after so many tests, if ever."""

    def __init__(self, tests: int = 1 << 60) -> None:
        self.left = tests

    def Test(self) -> bool:  # noqa: N802 - as MPI has it
        self.left -= 1
        return self.left < 0


def never(tests: int = 1 << 60) -> Any:
    return NeverDone(tests)


def test_a_wait_for_user_code_has_no_limit_until_all_have_stopped_for_a_resize() -> None:
    wait = Wait(0.01)
    for wait.phase in (None, Phase.SYNCHRONISE):
        wait.request(never(200), "the others", limited=False)  # far longer than the limit
    for wait.phase in set(Phase) - {Phase.PREPARE, Phase.START, Phase.SYNCHRONISE}:
        with pytest.raises(Stalled, match=f"in the phase {wait.phase} of a resize"):
            wait.request(never(), "a halo", limited=False)


def test_the_root_waits_shorter_for_newcomers_than_others_wait_for_the_root() -> None:
    wait = Wait(0.03)
    wait.phase = Phase.REDISTRIBUTE
    with (
        pytest.raises(Stalled, match=r"^waited 0\.02 s .* \(the limit is 0\.67 times PLIANT_DEADLINE"),
        wait.looking(lambda: None, 2 / 3),
    ):
        wait.request(never(), "the data")
    with pytest.raises(Stalled, match=r"^waited 0\.03 s .* \(the limit is PLIANT_DEADLINE, "):
        wait.request(never(), "the data")


class Root:
    """The communicator of rank 0 of two; what it says has arrived at once."""

    rank, size = 0, 2

    def Ibcast(self, _buffer: object, root: int) -> Any:  # noqa: N802 - as MPI has it
        assert root == 0
        return never(0)


@pytest.mark.parametrize("action", [Action.EXPAND, Action.SLOTS])
def test_a_resize_that_leaves_the_job_as_it_is_does_not_count_as_the_cost_of_a_check(
    action: Action, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0

    def clock() -> float:
        nonlocal now
        now += 10e-6
        return now

    def perform(*_: object, **__: object) -> bool:
        nonlocal now
        now += 2.0
        return False

    comm: Any = Root()
    somewhere: Any = object()
    context = Context(Bounds(1, 4), Wait(1.0))
    context.resizer = AgentResizer(context, somewhere)
    context.team = Team(comm, comm, (Member(0, "n0", 2),), {})
    monkeypatch.setattr(time, "perf_counter", clock)
    monkeypatch.setattr("pliant.mpi.resizing.resize.perform", perform)
    monkeypatch.setattr("pliant.mpi.resizing.slots.perform", perform)
    loop = Loop(context, LoopPlace(0, 0, 100), None, None)
    said, lags = {5: Decision(action)}, []
    monkeypatch.setattr(loop, "_decide", lambda: said.pop(loop.step, Decision()))
    for loop.step in range(40):
        loop._turn()
        lags.append(loop._lag)
        now += 0.05
    assert not said
    assert lags == [1] * 40
