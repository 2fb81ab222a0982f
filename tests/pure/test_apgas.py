"""Places in one process, in an order that a seed draws: finishes, values, exceptions, places that die, come and go."""

from __future__ import annotations

import contextlib
import random
import threading

import numpy as np
import pytest
from place_log import LOG, log, logged, pause

from pliant.apgas import (
    BadPlaceException,
    DeadPlaceException,
    GlobalRef,
    MultipleException,
    Place,
    PlaceLocalObject,
    async_at,
    async_local,
    at,
    finish,
    here,
    immediate_async_at,
    place,
    places,
    uncounted_async_at,
)
from pliant.apgas.malleable.handler import (
    HandlerError,
    define_malleable_handler,
    disable_malleable_handler,
    malleability,
)
from pliant.apgas.runtime import current
from pliant.apgas.transport.together import StuckError, Together
from pliant.model.errors import PliantError

SEEDS = range(8)


@pytest.fixture(autouse=True)
def _empty_log() -> None:
    LOG.clear()


# ---- finish ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_a_finish_waits_for_tasks_that_tasks_spawn_anywhere(seed: int) -> None:
    def task(depth: int, seed: float) -> None:
        rng = random.Random(seed)
        log("begun")
        pause(rng.randrange(3))
        spawn = [rng.choice(places()) for _ in range(rng.randrange(4) if depth < 4 else 0)]
        if rng.random() < 0.3:
            with finish():
                for each in spawn:
                    async_at(each, task, depth + 1, rng.random())
        else:
            for each in spawn:
                async_at(each, task, depth + 1, rng.random())
        if rng.random() < 0.3:
            assert at(rng.choice(places()), lambda value: value + here().id - here().id, 7) == 7
        pause(rng.randrange(3))
        log("ended")

    def main() -> None:
        for number in range(3):
            with finish():
                for each in places():
                    async_at(each, task, 0, number + seed / 1000)
            assert LOG.count("begun") == LOG.count("ended") >= (number + 1) * len(places())

    Together(seed).begin(main, 1 + seed % 9)


def test_tasks_of_this_place_wait_in_depth_without_a_thread_each() -> None:
    def fib(n: int) -> int:
        if n < 2:
            return n
        parts = [0, 0]

        def part(i: int) -> None:
            parts[i] = fib(n - 1 - i)

        with finish():
            async_local(part, 0)
            async_local(part, 1)
        return sum(parts)

    before = threading.active_count()
    threads: list[int] = []

    def main() -> int:
        value = fib(13)
        threads.append(threading.active_count() - before)
        return value

    assert Together(1).begin(main, workers=2) == 233
    assert threads[0] <= 6


def test_the_same_seed_gives_the_same_run() -> None:
    def main() -> None:
        for each in places() * 3:
            async_at(each, pause, 5)

    def steps(seed: int) -> int:
        world = Together(seed)
        world.begin(main, 6)
        return world.steps

    assert [steps(seed) for seed in range(5)] == [steps(seed) for seed in range(5)]
    assert len({steps(seed) for seed in range(5)}) > 1


def test_all_exceptions_of_a_finish_are_gathered_with_the_place_and_the_traceback() -> None:
    def fail(number: int) -> None:
        raise ValueError(number)

    def main() -> None:
        with finish():
            for each in places():
                async_at(each, fail, each.id)
            raise KeyError("body")

    with pytest.raises(MultipleException) as caught:
        Together(2).begin(main, 5)
    inner = caught.value.exceptions
    assert sorted(str(error) for error in inner) == ["'body'", "0", "1", "2", "3", "4"]
    said = str(next(error for error in inner if str(error) == "3").__cause__)
    assert "place(3), task" in said
    assert "raise ValueError(number)" in said


def test_a_body_that_raises_alone_raises_just_that_and_waits_for_its_tasks() -> None:
    def task() -> None:
        pause(20)
        log("done")

    def main() -> None:
        with finish():
            async_at(place(1), task)
            raise KeyError("body")

    with pytest.raises(KeyError):
        Together(3).begin(main, 2)
    assert LOG == ["done"]


class _StubbornError(Exception):
    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a} and {b}")


def test_what_cannot_be_pickled_is_said_with_task_and_place() -> None:
    lock = threading.Lock()

    def give() -> object:
        return lock

    def fail() -> None:
        raise _StubbornError(1, 2)

    def main() -> None:
        with pytest.raises(TypeError, match=r"print cannot be sent to place\(1\): .*lock"):
            async_at(place(1), print, threading.Lock())
        with pytest.raises(Exception, match=r"1 and 2") as caught:
            at(place(1), fail)
        assert "_StubbornError" in str(caught.value)
        assert at(place(1), lambda: 5) == 5

    Together(4).begin(main, 2)
    with pytest.raises(PliantError, match="no place here"):
        here()
    assert give() is lock


# ---- values and references -----------------------------------------------------------------------------------


def test_values_travel_and_arrays_are_writable_and_not_shared() -> None:
    def main() -> None:
        array = np.arange(10.0)
        double = at(place(1), lambda x: x * 2, array)
        double += 1
        assert (double == np.arange(10.0) * 2 + 1).all()

        def change(x: np.ndarray) -> None:
            x[:] = -1

        with finish():
            async_at(place(1), change, array)
            array[0] = 7  # as soon as it is sent
        assert array.tolist() == [7.0, *range(1, 10)]

    Together(5).begin(main, 2)


@pytest.mark.parametrize("where", [0, 1])
def test_tasks_have_copies_also_at_the_place_that_spawns_them(where: int) -> None:
    def grow(numbers: list[int]) -> list[int]:
        numbers.append(1)
        return numbers

    def main() -> None:
        numbers: list[int] = []
        answer = at(place(where), grow, numbers)
        with finish():
            async_at(place(where), grow, numbers)
            uncounted_async_at(place(where), grow, numbers)
        assert (answer, numbers) == ([1], [])
        kept = [0]
        assert at(place(where), lambda: kept) is not kept
        with pytest.raises(TypeError, match="lock"):
            at(place(where), len, [threading.Lock()])
        with pytest.raises(TypeError, match="lock"):
            async_at(place(where), len, [threading.Lock()])
        with finish():
            async_local(grow, kept)  # the one way to share
        assert kept == [0, 1]

    Together(5).begin(main, 2)


def test_references_open_where_they_belong() -> None:
    def main() -> None:
        ref = GlobalRef(["here"])
        with pytest.raises(BadPlaceException, match=r"of place\(0\)"):
            at(place(1), ref)
        at(place(1), lambda: at(ref.home, lambda: ref().append("there")))
        assert ref() == ["here", "there"]
        ref.forget()
        with pytest.raises(BadPlaceException, match="forgotten"):
            ref()
        local = PlaceLocalObject(lambda: [here().id])
        with finish():
            for each in places():
                async_at(each, lambda: local().append(here().id))
        assert [at(each, local) for each in places()] == [[i, i] for i in range(3)]

    Together(6).begin(main, 3)


def test_uncounted_and_immediate_tasks_keep_no_finish_and_no_worker_waiting(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def late() -> None:
        pause(200)
        log("late")

    def busy() -> None:
        # The only worker of place 1 does not end before the immediate task has run.
        while not logged("now"):
            pause(1)
        log("not busy")

    def main() -> None:
        with finish():
            async_at(place(1), busy)
            uncounted_async_at(place(1), int, "no number")
            pause(50)
            assert not LOG
            immediate_async_at(place(1), log, "now")
        assert LOG == ["now", "not busy"]
        with finish():
            uncounted_async_at(place(1), late)
        log("over")
        pause(2000)

    Together(7).begin(main, 2, workers=1)
    assert LOG == ["now", "not busy", "over", "late"]
    assert "place(1): uncounted task int failed: ValueError" in capsys.readouterr().err


def test_who_is_not_there_is_named() -> None:
    def main() -> None:
        with pytest.raises(BadPlaceException, match=r"no place\(9\); there are place\(0\), place\(1\)"):
            async_at(Place(9), print)
        with pytest.raises(BadPlaceException, match=r"no place\(9\)"):
            place(9)

    Together(8).begin(main, 2)


# ---- places that die -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_a_dead_place_is_an_exception_to_who_waits_on_it_and_the_others_go_on(seed: int) -> None:
    world = Together(seed)
    rng = random.Random(seed)
    left: list[int] = []

    def task(depth: int, seed: float) -> None:
        own = random.Random(seed)
        pause(own.randrange(3))
        for _ in range(own.randrange(4) if depth < 4 else 0):
            with contextlib.suppress(DeadPlaceException, BadPlaceException):
                async_at(own.choice(places()), task, depth + 1, own.random())
        if own.random() < 0.3:
            with contextlib.suppress(DeadPlaceException, BadPlaceException):
                assert at(own.choice(places()), lambda: 5) == 5

    def kill() -> None:
        for _ in range(rng.randrange(1, 3)):
            pause(rng.randrange(30))
            others = [each.id for each in places() if each.id]
            if others:
                world.kill(rng.choice(others))

    def main() -> None:
        for number in range(3):
            try:
                with finish():
                    if number == 1:
                        async_local(kill)
                    for each in places():
                        async_at(each, task, 0, rng.random())
            except* DeadPlaceException:
                if not number:  # nobody has died yet
                    raise
            # Nothing of the finish is left at any place that lives.
            for each in places():
                runtime = world.runtimes[each.id]
                assert not [task for task in runtime.machine.ready if task.finish is not None]
        left.append(len(places()))

    world.begin(main, 2 + seed % 6)
    assert left[0] >= 1


@pytest.mark.parametrize("seed", range(40))
def test_a_place_that_dies_after_its_answer_takes_no_task_along(seed: int) -> None:
    world = Together(seed)

    def main() -> None:
        with finish():
            at(place(1), log, "asked")
            world.kill(1)

    world.begin(main, places=2)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_belongs_to_a_dead_place_is_not_begun_and_leaves_nothing_behind(seed: int) -> None:
    """Place 1 opens a finish over tasks at place 2, which can do one at a time, and dies."""
    world = Together(seed)

    def double(x: int) -> int:
        pause(3)
        return 2 * x

    def task(number: int) -> None:
        log(("begun", number))
        while not logged("killed") or 1 in current().machine.members.others:
            pause(1)
        async_local(log, "spawned by an orphan")  # belongs to nobody as well
        async_at(place(0), log, "sent by an orphan")
        log(("ended", number, at(place(0), double, number)))  # but somebody waits for this

    def waits_for_them() -> None:
        with finish():
            for number in range(20):
                async_at(place(2), task, number)

    def main() -> None:
        uncounted_async_at(place(1), waits_for_them)
        while not [each for each in LOG if each[0] == "begun"]:  # type: ignore[index]
            pause(1)
        pause(random.Random(seed).randrange(200))
        world.kill(1)
        log("killed")
        there = world.runtimes[2].machine
        while 1 in there.members.others or there.tasks:
            current().wait(lambda: False, 1.0)
        define_malleable_handler(_Noted([Place(2)]))
        malleability().shrink(1, 60.0)

    world.begin(main, 3, workers=1)
    assert LOG == [("begun", 0), "killed", ("ended", 0, 0)] or LOG[1:] == [("begun", 0), ("ended", 0, 0)]
    for number in (0, 2):
        machine = world.runtimes[number].machine
        assert not machine._parts, f"place({number}) remembers finishes"
        assert not machine.ready


def test_a_task_that_hangs_on_nothing_is_found() -> None:
    def main() -> None:
        runtime = current()
        with runtime.monitor:
            runtime.wait(lambda: False)

    with pytest.raises(StuckError, match="main"):
        Together(9).begin(main, 2)


# ---- places that come and go -------------------------------------------------------------------------------------


class _Noted:
    """A handler that writes down what it is asked."""

    def __init__(self, chosen: list[Place] | Exception) -> None:
        self.asked: list[object] = []
        self._chosen = chosen

    def pre_shrink(self, count: int) -> list[Place]:
        self.asked.append(("pre_shrink", count))
        if isinstance(self._chosen, Exception):
            raise self._chosen
        return self._chosen

    def post_shrink(self, count: int, removed: object) -> None:
        self.asked.append(("post_shrink", count, removed))

    def pre_grow(self, count: int) -> None:
        self.asked.append(("pre_grow", count))

    def post_grow(self, count: int, continued: object, new: object) -> None:
        self.asked.append(("post_grow", count, continued, new))


def test_a_handler_is_asked_before_and_after_and_ids_are_not_used_again() -> None:
    world = Together(10)
    handler = _Noted([Place(1)])

    def start() -> None:
        world.newcomer(3, 2)
        world.newcomer(4, 2)

    def main() -> None:
        with pytest.raises(HandlerError, match="no malleable handler"):
            malleability().shrink(1, 60.0)
        define_malleable_handler(handler)
        with pytest.raises(PliantError, match="one at a time"):
            define_malleable_handler(handler)
        malleability().shrink(1, 60.0)
        assert places() == (Place(0), Place(2))
        with pytest.raises(BadPlaceException, match="has left"):
            async_at(Place(1), print)
        malleability().grow([3, 4], start, 60.0)
        assert places() == (Place(0), Place(2), Place(3), Place(4))
        assert at(place(4), lambda: [each.id for each in places()]) == [0, 2, 3, 4]
        disable_malleable_handler()
        with pytest.raises(HandlerError, match="no malleable handler"):
            malleability().grow([5], lambda: None, 60.0)

    world.begin(main, 3)
    assert handler.asked == [
        ("pre_shrink", 1),
        ("post_shrink", 1, (Place(1),)),
        ("pre_grow", 2),
        ("post_grow", 2, (Place(0), Place(2)), (Place(3), Place(4))),
    ]


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ([Place(0)], r"named place\(0\), which runs the program"),
        ([Place(7)], r"named place\(7\), which is not there"),
        ([], "named 0 places"),
        ([Place(1), Place(1)], "named 1 places"),
        (ValueError("no"), "pre_shrink raised ValueError: no"),
    ],
)
def test_a_handler_that_names_what_cannot_leave_is_told(chosen: list[Place] | Exception, said: str) -> None:
    def main() -> None:
        handler = _Noted(chosen)
        define_malleable_handler(handler)
        with pytest.raises(HandlerError, match=said):
            malleability().shrink(1, 60.0)
        told = [] if isinstance(chosen, Exception) else [("post_shrink", 1, ())]  # none has left
        assert handler.asked == [("pre_shrink", 1), *told]
        assert len(places()) == 3
        assert at(place(2), lambda: here().id) == 2

    Together(11).begin(main, 3)


def test_a_place_that_does_not_become_quiet_stays_and_works_on() -> None:
    def main() -> None:
        handler = _Noted([Place(1)])
        define_malleable_handler(handler)
        stop: GlobalRef[list[bool]] = GlobalRef([])

        def busy() -> None:
            while not at(stop.home, stop):
                pause(1)
                current().monitor.wait_for(lambda: False, 1.0)

        with finish():
            async_at(place(1), busy)
            with pytest.raises(PliantError, match=r"place\(1\) still had tasks 5 s after"):
                malleability().shrink(1, 5.0)
            assert handler.asked.pop() == ("post_shrink", 1, ())
            assert at(place(1), lambda: 3) == 3
            stop().append(True)
        malleability().shrink(1, 5.0)
        assert places() == (Place(0),)
        assert handler.asked.pop() == ("post_shrink", 1, (Place(1),))

    Together(12).begin(main, 2)


@pytest.mark.parametrize("seed", [0, 1, 5, 34, 35, 36, 43, 52, 59])
def test_a_place_that_is_told_to_stay_while_it_says_farewell_does_one_of_both(seed: int) -> None:
    """No task is sent to it before it is clear which, so that each finish ends and nothing is lost."""
    rng = random.Random(seed)

    def main() -> None:
        define_malleable_handler(_Noted([Place(1)]))
        for _ in range(4):
            with contextlib.suppress(PliantError):
                malleability().shrink(1, 0.0)
            LOG.clear()
            there = places()
            with finish():
                for each in there:
                    async_at(each, spread)
                pause(rng.randrange(20))
            assert {*LOG} == {each.id for each in there}
            assert len(LOG) == len(there) * (len(there) + 1)

    def spread() -> None:
        for each in places():
            async_at(each, lambda: log(here().id))
        log(here().id)

    Together(seed).begin(main, 3, workers=1)


def test_a_place_that_is_lost_before_it_has_come_is_not_waited_for() -> None:
    world = Together(14)

    def main() -> None:
        current().lost(3, "its group was lost")
        assert current().await_arrival([2, 3], 5.0) == {2}
        assert current().await_arrival([3], 5.0) == set()
        assert places() == (Place(0), Place(1))

    world.begin(main, 2)


def test_newcomers_that_do_not_come_are_named_and_nothing_has_changed() -> None:
    world = Together(13)

    handler = _Noted([])

    def main() -> None:
        define_malleable_handler(handler)
        with pytest.raises(PliantError, match=r"place\(3\) did not come within 5 s"):
            malleability().grow([2, 3], lambda: world.newcomer(2, 1), 5.0)
        assert places() == (Place(0), Place(1))
        assert handler.asked == [("pre_grow", 2), ("post_grow", 2, (Place(0), Place(1)), ())]

    world.begin(main, 2)
