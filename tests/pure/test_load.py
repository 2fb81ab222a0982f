"""When a program asks for places and gives them back: the decision, and a program that follows it."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.apgas import PlaceExecutor, follow_load, places
from pliant.apgas.malleable.handler import malleability
from pliant.apgas.malleable.load import PATIENCE, LoadSample, LoadTrend, Thresholds, decide
from pliant.apgas.runtime import current
from pliant.apgas.transport.together import Together
from pliant.model.jobs import Bounds

thresholds = st.floats(0.01, 10).flatmap(
    lambda low: st.floats(2 * low, 40).map(lambda high: Thresholds(high, low))
)


def follow(limits: Thresholds, tasks: float, there: int, workers: int, most: int) -> list[int]:
    """The numbers of places of a program that always has so many tasks and gets what it asks for, up to ``most``."""
    sizes, seen = [there], LoadTrend()
    for _ in range(200):
        seen, change = decide(seen, LoadSample(tasks, there * workers, there), limits)
        if change and there + change <= most:
            there += change
            sizes.append(there)
    return sizes


@given(thresholds, st.floats(0, 1e4), st.integers(1, 100), st.integers(1, 16))
def test_a_steady_load_is_followed_in_one_direction_and_met(
    limits: Thresholds, tasks: float, there: int, workers: int
) -> None:
    most = 128
    sizes = follow(limits, tasks, there, workers, most)
    assert sizes in (sorted(sizes), sorted(sizes, reverse=True))
    assert all(max(a, b) <= 2 * min(a, b) + 1 for a, b in pairwise(sizes))
    last = sizes[-1]
    assert 1 <= last <= most
    assert last == most or tasks <= limits.grow_above * last * workers * (1 + 1e-9)
    assert last == 1 or tasks >= limits.give_back_below * last * workers * (1 - 1e-9)


@given(thresholds, st.lists(st.floats(0, 1), max_size=50), st.integers(1, 50))
def test_a_load_between_the_thresholds_changes_nothing(
    limits: Thresholds, shares: list[float], there: int
) -> None:
    seen = LoadTrend()
    low, high = limits.give_back_below * there, limits.grow_above * there
    for share in shares:
        tasks = low + (high - low) * (0.01 + 0.98 * share)
        seen, change = decide(seen, LoadSample(tasks, there, there), limits)
        assert not change


@given(st.lists(st.floats(0, 1000), max_size=200))
def test_a_number_of_places_stays_for_some_measures(loads: list[float]) -> None:
    seen, there, since = LoadTrend(), 1, 0
    for tasks in loads:
        seen, change = decide(seen, LoadSample(tasks, there, there), Thresholds(2, 0.5))
        since += 1
        if change:
            assert since >= PATIENCE
            there, since = there + change, 0


def test_what_is_asked_for_in_vain_is_halved() -> None:
    seen, asked = LoadTrend(), []
    for _ in range(30):
        seen, change = decide(seen, LoadSample(1000, 8, 8), Thresholds(2, 0.5))
        asked += [change] if change else []
    assert asked[:5] == [8, 4, 2, 1, 1]


@pytest.mark.parametrize(
    ("above", "below"), [(1.0, 0.6), (0.0, 0.0), (2.0, -1.0), (math.inf, 1.0), (math.nan, 1.0)]
)
def test_thresholds_that_cannot_be_followed_are_refused(above: float, below: float) -> None:
    def main() -> None:
        with pytest.raises(ValueError, match="at least twice the second"):
            follow_load(grow_above=above, give_back_below=below)
        with pytest.raises(ValueError, match="positive number of seconds"):
            follow_load(every_s=0)

    Together(1).begin(main)


def hold_a_worker() -> None:
    with current().monitor:
        current().monitor.wait_for(lambda: False, 40.0)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_an_executor_grows_with_what_is_to_be_done_and_gives_back_when_it_is_done(seed: int) -> None:
    """A scheduler of four nodes gives what it is asked for, if it can."""
    world = Together(seed)
    sizes: list[int] = []

    def scheduler(bounds: Bounds, *, keep: bool = False) -> None:
        world.runtimes[0].threads.start(lambda: resize(bounds), "scheduler")

    def resize(bounds: Bounds) -> None:
        with world.runtimes[0].within(None):
            there = len(places())
            if there < bounds.min <= 4:
                first = len(world.runtimes)
                new = range(first, first + bounds.min - there)
                malleability().grow(new, lambda: start(new), 60.0)
            elif bounds.max < there:
                malleability().shrink(there - bounds.max, 60.0)
            sizes.append(len(places()))

    def start(new: range) -> None:
        for number in new:
            world.newcomer(number, 1)

    def main() -> None:
        malleability().want = scheduler
        executor = PlaceExecutor(follow_load=True)
        futures = [executor.submit(hold_a_worker) for _ in range(60)]
        runtime = current()
        with runtime.monitor:
            runtime.wait(lambda: 4 in sizes)
            runtime.wait(lambda: bool(sizes) and sizes[-1] == 1)
        executor.shutdown()
        assert all(future.result() is None for future in futures)

    world.begin(main, 1, workers=1)
    assert sorted(sizes[: sizes.index(4)]) == sizes[: sizes.index(4)]
    assert sorted(sizes[sizes.index(4) :], reverse=True) == sizes[sizes.index(4) :]


def test_without_a_scheduler_nothing_happens() -> None:
    def main() -> None:
        executor = PlaceExecutor(follow_load=True)
        futures = [executor.submit(hold_a_worker) for _ in range(9)]
        runtime = current()
        with runtime.monitor:
            runtime.wait(lambda: False, 240.0)
        assert len(places()) == 2
        assert all(future.done() for future in futures)
        executor.shutdown()

    Together(2).begin(main, 2, workers=1)
