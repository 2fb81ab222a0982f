"""Global load balancing: the lifeline graph, bags that go wrong, and places that come, go and die."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.apgas import MultipleException, Place, glb, here, places, uncounted_async_at
from pliant.apgas.malleable.handler import malleability
from pliant.apgas.runtime import current
from pliant.apgas.transport.together import Together
from pliant.model.errors import PliantError
from pliant_lab.injection import balanced
from pliant_lab.injection.balanced import Seen, Tree


@given(
    st.sets(st.integers(0, 1000), min_size=1, max_size=200).map(sorted),
    st.integers(2, 6),
)
def test_lifelines_connect_all_places_by_few_edges_and_short_ways(there: list[int], base: int) -> None:
    strategy = glb.CyclicHypercube(base)
    edges = {place: strategy.lifelines(place, there) for place in there}
    digits = 0
    while base**digits < len(there):
        digits += 1
    for place, asked in edges.items():
        assert set(asked) <= set(there) - {place}
        assert len(asked) == len(set(asked)) <= digits
    reached, ways = {there[-1]}, 0
    while len(reached) < len(there):
        reached |= {each for place in reached for each in edges[place]}
        ways += 1
        assert ways <= 2 * digits * (base - 1)


def test_a_base_below_two_is_refused() -> None:
    with pytest.raises(ValueError, match="must be at least 2"):
        glb.CyclicHypercube(1)


class Lossy(Tree):
    """A split loses a task."""

    def split(self, take_all: bool) -> Self:  # noqa: FBT001
        other = super().split(take_all)
        other._tasks[:] = other._tasks[1:]
        return other


def test_a_bag_that_loses_tasks_is_found_out_if_asked_for() -> None:
    def main() -> None:
        bag = Lossy([(4, 6)] * 9)
        glb.run(bag, Seen(), settings=glb.Settings(grain=1, check=True))

    with pytest.raises(MultipleException) as caught:
        Together(1).begin(main, 3)
    assert any("split of a Lossy made" in str(error) for error in caught.value.exceptions)


class Poisoned(Tree):
    def process(self, n: int) -> bool:
        if self._seen.count > 5:
            raise ValueError("enough")
        return super().process(n)


def test_a_bag_that_raises_ends_the_computation_with_place_and_task_and_nobody_hangs() -> None:
    def main() -> int:
        with pytest.raises(MultipleException) as caught:
            glb.run(Poisoned([(4, 6)] * 9), Seen(), settings=glb.Settings(grain=1))
        (first, *_) = caught.value.exceptions
        assert str(first) == "enough"
        assert "raised in place(" in str(first.__cause__)
        return len(places())

    assert Together(2).begin(main, 3) == 3


def test_each_place_may_begin_with_a_part_of_its_own() -> None:
    rng = random.Random(3)
    parts = [Tree.drawn(rng, 5)._tasks for _ in range(4)]
    expected = Tree([task for part in parts for task in part]).alone()

    def main() -> tuple[int, int]:
        def part(rank: int, count: int) -> Tree:
            assert count == 4
            return Tree(list(parts[rank]))

        outcome = glb.run(None, Seen(), initial=part, settings=glb.Settings(grain=2))
        assert all(each.calls for each in outcome.statistics.values())
        return outcome.result.count, outcome.result.marks

    assert Together(3).begin(main, 4) == expected


def test_it_is_started_at_place_0_alone() -> None:
    from pliant.apgas import at, place

    def main() -> None:
        with pytest.raises(PliantError, match=r"is started at place\(0\), this is place\(1\)"):
            at(place(1), lambda: glb.run(Tree([]), Seen()))

    Together(4).begin(main, 2)


@pytest.mark.long
def test_places_that_come_and_go_lose_nothing_and_do_nothing_twice() -> None:
    trials = [balanced.attempt(seed, depth=9) for seed in range(8)]
    assert not [trial for trial in trials if not trial.exact]
    assert min(sum(trial.grown for trial in trials), sum(trial.shrunk for trial in trials)) > 8


def test_a_growth_that_comes_to_nothing_leaves_the_computation_as_it_was() -> None:
    world, bag = Together(8), Tree.drawn(random.Random(8), 6)
    expected = bag.alone()
    zero = world.place(0, 2)
    said: list[str] = []

    def lose_both() -> None:
        zero.lost(7, "it was killed")
        zero.lost(8, "it was killed")

    def change() -> None:
        with zero.within(None):
            while not said or "no malleable handler" in said[-1]:
                zero.threads.pause()
                try:
                    malleability().grow([7, 8], lose_both, 60.0)
                except PliantError as error:
                    said.append(str(error))

    def main() -> tuple[int, int, list[int]]:
        zero.threads.start(change, "change")
        found = glb.run(bag, Seen(), settings=glb.Settings(grain=1)).result
        return found.count, found.marks, [place.id for place in places()]

    assert world.begin(main, 2, 2) == (*expected, [0, 1])
    assert "did not come" in said[-1]


@pytest.mark.long
def test_work_reaches_a_hundred_places() -> None:
    bag = Tree.drawn(random.Random(14), 9)
    expected = bag.alone()

    def main() -> tuple[int, int, int]:
        outcome = glb.run(bag, Seen(), settings=glb.Settings(grain=5))
        worked = sum(bool(each.calls) for each in outcome.statistics.values())
        return outcome.result.count, outcome.result.marks, worked

    count, marks, worked = Together(14).begin(main, 100, workers=1)
    assert (count, marks) == expected
    assert worked > 50


@pytest.mark.long
def test_what_a_dead_place_had_is_done_again_exactly_once() -> None:
    """Every second seed lets places come and go as well."""
    trials = [balanced.attempt(seed, deaths=2, changing=seed % 2 == 1, pause=60) for seed in range(8)]
    assert not [trial for trial in trials if not trial.exact]
    assert sum(trial.deaths for trial in trials) > 8


_CALLS: list[int] = []
"""At which place something was worked on, call by call."""
_BUSY: list[bool] = []


class Told(Tree):
    def process(self, n: int) -> bool:
        _CALLS.append(here().id)
        return super().process(n)


def be_busy() -> None:
    with current().monitor:
        current().monitor.wait_for(lambda: not _BUSY, None)


@pytest.mark.parametrize("seed", range(4))
def test_a_place_that_was_to_leave_and_is_busy_works_on(seed: int) -> None:
    """What keeps it is no task of the computation, which has let it go already."""
    world = Together(seed)
    parts = [Tree.drawn(random.Random(number), 9)._tasks for number in (14, 15)]
    expected = Tree([task for part in parts for task in part]).alone()
    before: list[int] = []
    _CALLS.clear()
    _BUSY[:] = [True]

    def shrink() -> None:
        with world.runtimes[0].within(None):
            while 1 not in _CALLS:
                current().threads.pause()
            uncounted_async_at(Place(1), be_busy)
            with pytest.raises(PliantError, match=r"place\(1\) still had tasks"):
                malleability().shrink(1, 0.0)
            before.append(_CALLS.count(1))
            _BUSY.clear()

    def main() -> None:
        world.runtimes[0].threads.start(shrink, "shrink")
        settings = glb.Settings(grain=1, check=True)
        outcome = glb.run(None, Seen(), initial=lambda rank, _: Told(parts[rank]), settings=settings)
        assert (outcome.result.count, outcome.result.marks) == expected
        assert _CALLS.count(1) > before[0] + 20
        assert set(outcome.statistics) == {0, 1}

    world.begin(main, 2, workers=2)


class Ring:
    """Each asks the place before it."""

    def lifelines(self, place: int, places: Sequence[int]) -> tuple[int, ...]:
        return (places[places.index(place) - 1],)


@pytest.mark.parametrize("seed", [0, 27, 34, 37, 43, 49])
def test_a_new_place_gets_work_though_others_hear_of_it_later_than_from_it(seed: int) -> None:
    world = Together(seed)
    _CALLS.clear()

    def grow() -> None:
        with world.runtimes[0].within(None):
            while not {1, 2} <= set(_CALLS):
                current().threads.pause()
            malleability().grow([3], lambda: world.newcomer(3, 1), 60.0)

    def main() -> glb.Outcome[Seen]:
        world.runtimes[0].threads.start(grow, "grow")
        parts = [Tree.drawn(random.Random(14), 7)._tasks for _ in range(3)]
        # Nobody is asked at random: a place that is not heard gets nothing.
        settings = glb.Settings(grain=1, random_steals=0, strategy=Ring())
        return glb.run(None, Seen(), initial=lambda rank, _: Told(parts[rank]), settings=settings)

    assert world.begin(main, 3, workers=1).statistics[3].calls


def test_the_same_seed_gives_the_same_computation() -> None:
    assert balanced.attempt(3, deaths=1, pause=60) == balanced.attempt(3, deaths=1, pause=60)


def test_without_resilience_a_dead_place_is_an_exception() -> None:
    world = Together(5)

    def main() -> None:
        from pliant.apgas import DeadPlaceException

        def kill() -> None:
            for _ in range(100):
                current().threads.pause()
            world.kill(1)

        current().threads.start(lambda: kill_in(kill), "kill")
        with pytest.raises(MultipleException) as caught:
            glb.run(Tree([(4, 9)] * 9), Seen(), settings=glb.Settings(grain=1))
        assert isinstance(caught.value.exceptions[0], DeadPlaceException)
        assert len(places()) == 2

    def kill_in(kill: Callable[[], None]) -> None:
        with world.runtimes[0].within(None):
            kill()

    world.begin(main, 3)
