"""Teams, collecting finishes and handlers of lost places, in one process and in an order that a seed draws."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable

import numpy as np
import pytest
from place_log import LOG, log, pause

from pliant.apgas import (
    BadPlaceException,
    DeadPlaceException,
    MultipleException,
    Place,
    Team,
    async_at,
    at,
    collecting_finish,
    finish,
    here,
    is_dead,
    offer,
    on_lost_place,
    place,
    places,
)
from pliant.apgas.transport.together import Together
from pliant.model.errors import PliantError

SEEDS = range(10)


@pytest.fixture(autouse=True)
def _empty_log() -> None:
    LOG.clear()


# ---- teams ---------------------------------------------------------------------------------------------------


def steps(team: Team, seed: int, rounds: int) -> None:
    """Barriers, broadcasts and sums in an order that the seed draws; each place is as quick as it likes."""
    draw, own = random.Random(seed), random.Random(f"{seed} {here().id}")
    for number in range(rounds):
        pause(own.randrange(4))
        match draw.choice(["barrier", "broadcast", "allreduce", "arrays"]):
            case "barrier":
                log(came := (team.places, number))
                team.barrier()
                assert LOG.count(came) == len(team.places)
            case "broadcast":
                root = draw.choice(team.places)
                value = np.arange(20_000) * number if here() == root else None
                found = team.broadcast(value, root)
                assert found is not None
                assert found[7] == 7 * number
                found += 1  # nobody else's
            case "allreduce":
                order = team.allreduce((here().id,), operator.add)
                assert order == tuple(each.id for each in team.places)
            case _:
                total = team.allreduce(np.full(9000, float(here().id)))
                assert total[0] == sum(each.id for each in team.places)


def at_all(task: Callable[[Team], None], seed: int) -> None:
    """Each of three places does the task, with one team."""

    def main() -> None:
        team = Team()
        with finish():
            for each in team.places:
                async_at(each, task, team)

    Together(seed).begin(main, places=3)


@pytest.mark.parametrize("seed", SEEDS)
def test_places_of_a_team_meet_in_each_operation(seed: int) -> None:
    def main() -> None:
        for team in (Team(), Team([place(2), place(1), place(2)]), Team([place(0)])):
            with finish():
                for each in team.places:
                    async_at(each, steps, team, seed, 12)

    Together(seed).begin(main, places=4)


def until_lost(team: Team) -> None:
    """What a task of a team hears of a loss; it never gets further than one more operation."""
    try:
        for number in range(1000):
            pause(1)
            team.allreduce(number)
    except DeadPlaceException as error:
        log(("heard", here().id, error.place))
        with pytest.raises(DeadPlaceException):
            team.barrier()


@pytest.mark.parametrize(("first", "victim"), [(0, 1), (0, 3), (1, 1), (1, 3)])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_lost_place_is_an_error_at_all_others(seed: int, first: int, victim: int) -> None:
    """The first place of the team dies, or another. Place 0 never does: that ends the program."""
    world = Together(seed)
    kill = random.Random(seed).randrange(150)

    def main() -> None:
        team = Team(places()[first:])
        with pytest.raises(MultipleException) as caught, finish():  # noqa: PT012
            for each in team.places:
                async_at(each, until_lost, team)
            pause(kill)
            world.kill(victim)
        assert {type(each) for each in caught.value.exceptions} == {DeadPlaceException}
        with finish():
            again = Team()
            for each in again.places:
                async_at(each, steps, again, seed, 3)

    world.begin(main, places=4)
    assert sorted(_only_heard()) == [(each, victim) for each in range(first, 4) if each != victim]


def _only_heard() -> list[tuple[int, int]]:
    return [(each[1], each[2]) for each in LOG if isinstance(each, tuple) and each[0] == "heard"]


def gives_up(team: Team, timeout_s: float | None) -> None:
    with pytest.raises(
        TimeoutError, match=r"place\(1\) gave up its barrier after 5 s: place\(0\) had not come"
    ):
        team.barrier(timeout_s)
    log(here().id)


@pytest.mark.parametrize("seed", range(8))
def test_a_place_that_gives_up_is_told_to_all(seed: int) -> None:
    """Place 0 comes later, and hears of it."""

    def main() -> None:
        team = Team()
        with finish():
            async_at(place(1), gives_up, team, 5)
            async_at(place(2), gives_up, team, None)
        gives_up(team, None)

    Together(seed).begin(main, places=3)
    assert sorted(map(str, LOG)) == ["0", "1", "2"]


@pytest.mark.parametrize("seed", range(8))
def test_places_that_call_different_operations_are_told_which(seed: int) -> None:
    def other(team: Team) -> None:
        with pytest.raises(PliantError, match=r"called broadcast of place\(.\)|called barrier"):
            team.barrier() if here().id else team.broadcast(1, root=place(1))

    at_all(other, seed)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("bad", [0, 2])
def test_what_one_place_raises_in_an_operation_all_raise(seed: int, bad: int) -> None:
    def sums(team: Team) -> None:
        value = open("/dev/null") if here().id == bad else 1  # noqa: PTH123, SIM115
        with pytest.raises(TypeError):  # it cannot be pickled, or not be added
            team.allreduce(value)
        if not isinstance(value, int):
            value.close()

    at_all(sums, seed)


def test_who_is_not_of_a_team_is_told_and_one_operation_goes_on_at_a_time() -> None:
    def main() -> None:
        team = Team([place(1)])
        with pytest.raises(
            BadPlaceException, match=r"place\(0\) is not of this team, which has \[place\(1\)\]"
        ):
            team.barrier()
        with pytest.raises(ValueError, match="a team needs a place"):
            Team([])
        with pytest.raises(BadPlaceException, match=r"place\(0\) is not of this team"):
            at(place(1), lambda: team.broadcast(1, root=place(0)))
        both = Team()

        def twice() -> None:
            with finish():
                async_at(here(), both.barrier, 1.0)
                async_at(here(), both.barrier, 1.0)

        with pytest.raises(MultipleException, match="2 of the tasks failed") as caught:
            at(place(1), twice)
        said = " and ".join(map(str, caught.value.exceptions))
        assert "gave up its barrier" in said
        assert "is still in this team's barrier: a place calls one operation at a time" in said
        both.forget()

    Together(1).begin(main, places=2)


# ---- what tasks offer ------------------------------------------------------------------------------------------


def offers(depth: int, seed: int) -> None:
    draw = random.Random(seed)
    array = np.full(3, 1.0)
    for _ in range(draw.randrange(4)):
        offer(array)
        log(1)
        pause(draw.randrange(2))
    array[:] = -1  # what was offered stays
    if depth:
        for each in places():
            if draw.random() < 0.6:
                async_at(each, offers, depth - 1, draw.randrange(1 << 30))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("home", [0, 1])
def test_a_finish_collects_what_all_its_tasks_offer(seed: int, home: int) -> None:
    def collects() -> float:
        with collecting_finish(operator.add, np.zeros(3)) as found:
            offers(3, seed)
        return float(found.value[0])

    def main() -> None:
        assert at(place(home), collects) == len(LOG)
        pause(1000)  # what is kept elsewhere is let go of

    world = Together(seed)
    world.begin(main, places=3)
    keys = [key for each in world.runtimes.values() for key in each.objects if str(key).startswith("offers")]
    assert not keys, "nothing is kept of a finish that is over"


def test_an_offer_needs_a_finish_that_collects() -> None:
    def main() -> None:
        with collecting_finish(max, 0) as found:
            pass
        assert found.value == 0
        for where in (place(0), place(1)):
            with pytest.raises(MultipleException) as caught, collecting_finish(max, 0), finish():
                async_at(where, offer, 1)
            [said] = caught.value.exceptions
            assert "offer() is for tasks whose innermost finish is" in str(said)
        with collecting_finish(operator.add, 0) as outer:
            with collecting_finish(operator.mul, 1) as inner:
                offer(3)
                async_at(place(1), offer, 5)
            offer(inner.value)
            offer(2)
        assert outer.value == 17
        with (
            pytest.raises(MultipleException, match="1 of the tasks failed"),
            collecting_finish(operator.add, 0),
        ):
            async_at(place(1), offer, "no number")

    Together(1).begin(main, places=2)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_dead_place_has_offered_is_there_or_missed_by_its_finish(seed: int) -> None:
    world, kill = Together(seed), random.Random(seed).randrange(60)

    def many() -> None:
        for _ in range(10):
            pause(1)
            offer(1)

    def main() -> None:
        try:
            with collecting_finish(operator.add, 0) as found:
                async_at(place(1), many)
                async_at(place(2), many)
                pause(kill)
                world.kill(1)
            assert found.value == 20
        except* DeadPlaceException:
            assert 10 <= found.value <= 20

    world.begin(main, places=3)


# ---- lost places -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_a_handler_is_told_of_each_place_that_dies(seed: int) -> None:
    world = Together(seed)

    def hear(lost: Place) -> None:
        log((here().id, lost.id, is_dead(lost)))
        assert at(place(3), here) == place(3), "it may wait for others"
        if lost.id == 1:
            raise ValueError("and go wrong")

    def main() -> None:
        with on_lost_place(hear):
            for victim in (1, 2):
                assert not is_dead(place(victim))
                world.kill(victim)
            while len(LOG) < 2:
                pause(1)
        world.kill(4)
        while not is_dead(Place(4)):
            pause(1)
        pause(50)

    world.begin(main, places=5)
    assert sorted(map(str, LOG)) == ["(0, 1, True)", "(0, 2, True)"]
