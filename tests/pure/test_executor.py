"""Futures over places in one process: places that come, leave, and stay though they were to leave."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from functools import partial
from typing import Any

import numpy as np
import pytest

from pliant.apgas import (
    DeadPlaceException,
    PlaceExecutor,
    define_malleable_handler,
    disable_malleable_handler,
    here,
    places,
)
from pliant.apgas.calls.desk import Asked
from pliant.apgas.calls.hands import Hands
from pliant.apgas.errors import RemoteError
from pliant.apgas.malleable.handler import malleability
from pliant.apgas.place.payload import pack
from pliant.apgas.runtime import current
from pliant.apgas.transport.together import Together
from pliant.model.errors import PliantError

SEEDS = range(6)
_OPEN: list[bool] = []
"""Calls end when there is something in it."""


def pause(times: int) -> int:
    for _ in range(times):
        current().threads.pause()
    return here().id


def large(array: np.ndarray[Any, Any]) -> tuple[int, int]:
    return int(array.sum()), here().id


def when_open() -> int:
    with current().monitor:
        current().monitor.wait_for(lambda: bool(_OPEN), None)
    return here().id


def wait_for(futures: list[Future[Any]]) -> None:
    """Nobody may wait here as other programs do: one thread runs at a time."""
    for _ in range(20_000):
        if all(future.done() for future in futures):
            return
        pause(1)
    raise AssertionError(f"{sum(not future.done() for future in futures)} calls have no end")


_LOG: list[Any] = []
"""What calls anywhere have done: functions of this module travel by name, so that all places have one."""


@pytest.fixture(autouse=True)
def _shut() -> None:
    _OPEN.clear()
    _LOG.clear()


def let_go() -> None:
    _OPEN.append(True)


def settled(executor: Executor, fn: Callable[..., object], *args: object) -> Future[Any]:
    """A call that is over."""
    future: Future[Any] = executor.submit(fn, *args)
    wait_for([future])
    return future


@pytest.mark.parametrize("use_place_0", [True, False])
def test_keywords_of_a_call_may_have_any_name(use_place_0: bool) -> None:  # noqa: FBT001
    def main() -> None:
        executor = PlaceExecutor(use_place_0=use_place_0)
        future: Future[Any] = executor.submit(dict, self=1, fn=2, args=3, kwargs=4)
        wait_for([future])
        assert future.result() == {"self": 1, "fn": 2, "args": 3, "kwargs": 4}

    Together(1).begin(main, places=2)


@pytest.mark.parametrize("seed", SEEDS)
def test_calls_are_exact_while_places_come_and_leave(seed: int) -> None:
    world = Together(seed)

    def square(x: int) -> tuple[int, int]:
        return pause(x % 7), x * x

    def start(numbers: list[int]) -> None:
        for number in numbers:
            world.newcomer(number, 2)

    def main() -> None:
        executor = PlaceExecutor()
        futures = [executor.submit(square, x) for x in range(100)]
        sizes = [executor.num_workers]
        for numbers in ([1, 2], [3]):
            malleability().grow(numbers, partial(start, numbers), 60.0)
            sizes.append(executor.num_workers)
            more = [executor.submit(square, x) for x in range(len(futures), len(futures) + 100)]
            futures += more
            pause(20 * seed)
            malleability().shrink(1, 60.0)
            sizes.append(executor.num_workers)
        wait_for(futures)
        answers = [future.result() for future in futures]
        assert [value for _, value in answers] == [x * x for x in range(300)]
        assert len({where for where, _ in answers}) > 2
        assert sizes == [2, 6, 4, 6, 4]
        executor.shutdown()

    world.begin(main, 1, workers=2)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_place_that_was_to_leave_and_is_busy_gets_work_again(seed: int) -> None:
    def main() -> None:
        executor = PlaceExecutor()
        long = [executor.submit(when_open) for _ in range(4)]
        pause(100)
        with pytest.raises(PliantError, match=r"place\(1\) still had tasks 5 s after pre_shrink; they stay"):
            malleability().shrink(1, 5.0)
        assert executor.num_workers == 4
        assert len(places()) == 2
        more = [executor.submit(pause, 10) for _ in range(40)]
        _OPEN.append(True)
        for runtime in world.runtimes.values():
            runtime.monitor.notify_all()
        wait_for([*long, *more])
        assert {future.result() for future in long} == {future.result() for future in more} == {0, 1}
        executor.shutdown()

    world = Together(seed)
    world.begin(main, 2, workers=2)


# ---- every future ends ---------------------------------------------------------------------------------------


class _Unmade:
    """Can be pickled, and not be made again."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error

    def __reduce__(self) -> tuple[Any, ...]:
        return (raised, (self.error,)) if self.error is not None else (int, ("x",))


class _StubbornError(Exception):
    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a} and {b}")


def raised(error: BaseException) -> None:
    raise error


def stubborn() -> None:
    raise _StubbornError(1, 2)


def interrupted() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("use_place_0", [True, False])
@pytest.mark.parametrize(
    ("fn", "args", "expected"),
    [
        (sys.exit, (3,), SystemExit),
        (interrupted, (), KeyboardInterrupt),
        (_Unmade, (), ValueError),
        (_Unmade, (SystemExit(4),), SystemExit),
        (print, (_Unmade(),), ValueError),
        (print, (_Unmade(KeyboardInterrupt()),), KeyboardInterrupt),
        (threading.Lock, (), TypeError),
        (len, ([threading.Lock()],), TypeError),
        (stubborn, (), RemoteError),
    ],
)
def test_whatever_a_call_does_its_future_ends(
    fn: Callable[..., object], args: tuple[object, ...], expected: type[BaseException], *, use_place_0: bool
) -> None:
    def main() -> None:
        executor = PlaceExecutor(use_place_0=use_place_0)
        failed = settled(executor, fn, *args).exception()
        assert type(failed) is expected
        assert settled(executor, pow, 2, 3).result() == 8
        executor.shutdown()

    Together(1).begin(main, 2, workers=1)


@pytest.mark.parametrize("where", [0, 1])
def test_an_exception_has_its_type_and_the_remote_traceback_as_its_cause(where: int) -> None:
    def main() -> None:
        with PlaceExecutor(use_place_0=not where) as executor:
            error = settled(executor, int, "x").exception()
        assert type(error) is ValueError
        assert f"raised in place({where}), task int" in str(error.__cause__)

    Together(2).begin(main, 1 + where)


@pytest.mark.parametrize("seed", SEEDS)
def test_all_calls_end_though_a_place_dies_and_shutdown_returns(seed: int) -> None:
    world = Together(seed)

    def main() -> None:
        executor = PlaceExecutor(3 if seed % 2 else None)
        futures = [executor.submit(pause, x % 5) for x in range(80)]
        pause(30 * seed)
        world.kill(1)
        futures += [executor.submit(pause, x % 5) for x in range(20)]
        executor.shutdown()
        lost = [future for future in futures if future.exception()]
        assert all(isinstance(future.exception(), DeadPlaceException) for future in lost)
        assert {future.result() for future in futures if future not in lost} <= {0, 1, 2}
        assert any(future not in lost for future in futures[80:])
        with pytest.raises(RuntimeError, match="after shutdown"):
            executor.submit(pause, 1)

    world.begin(main, 3, workers=2)


@pytest.mark.parametrize("wait", [True, False])
def test_shutdown_cancels_what_waits_and_the_rest_ends(*, wait: bool) -> None:
    def main() -> None:
        executor = PlaceExecutor()
        futures = [executor.submit(pause, 3) for _ in range(20)]
        executor.shutdown(wait=wait, cancel_futures=True)
        wait_for(futures)
        assert 14 <= sum(future.cancelled() for future in futures) <= 16
        pause(50)
        for runtime in world.runtimes.values():
            assert not [key for key in runtime.objects if key.endswith(" desk")]

    world = Together(4)
    world.begin(main, 2, workers=2)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_call_that_waits_for_one_behind_it_does_not_wait_for_ever(seed: int) -> None:
    """Short calls go to places ahead; what another place could make is given back."""

    def main() -> None:
        executor = PlaceExecutor()
        wait_for([executor.submit(pause, 0) for _ in range(20)])
        futures = [executor.submit(when_open) for _ in range(3)]
        futures += [executor.submit(pause, 0) for _ in range(10)]
        wait_for([*futures[3:], executor.submit(let_go)])
        for runtime in world.runtimes.values():
            runtime.monitor.notify_all()
        executor.shutdown()
        assert all(future.done() for future in futures)

    world = Together(seed)
    world.begin(main, 4, workers=1)


# ---- what an executor of the standard library has ---------------------------------------------------------------


def test_executors_at_once_and_one_after_the_other_beside_a_handler_or_none() -> None:
    def main() -> None:
        first, second = PlaceExecutor(), PlaceExecutor()
        futures = [each.submit(pause, 2) for each in [first, second] * 9]
        define_malleable_handler(_Chooses())
        malleability().shrink(1, 60.0)
        disable_malleable_handler()
        assert places()[-1].id == 1
        malleability().shrink(1, 60.0)  # now they are asked
        assert len(places()) == 1
        wait_for(futures)
        first.shutdown()
        second.shutdown()
        with PlaceExecutor() as third:
            assert third.num_workers == 2
            assert settled(third, pause, 2).result() == 0
        with pytest.raises(PliantError, match="no malleable handler"):
            malleability().shrink(1, 60.0)

    Together(5).begin(main, 3, workers=2)


class _Chooses:
    def pre_shrink(self, count: int) -> Any:
        return places()[-count:]

    def post_shrink(self, count: int, removed: object) -> None:
        pass

    def pre_grow(self, count: int) -> None:
        pass

    def post_grow(self, count: int, continued: object, new: object) -> None:
        pass


def greet(name: str) -> None:
    _LOG.append((here().id, name))


@pytest.mark.parametrize("seed", SEEDS)
def test_an_initializer_runs_once_at_each_place_before_its_first_call(seed: int) -> None:
    def main() -> None:
        with PlaceExecutor(None, greet, ("hello",)) as executor:
            wait_for([executor.submit(greet, "call") for _ in range(30)])

    Together(seed).begin(main, 3, workers=2)
    for number in {number for number, _ in _LOG}:
        names = [name for where, name in _LOG if where == number]
        assert names[0] == "hello"
        assert names.count("hello") == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_an_initializer_that_raises_ends_all_futures(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    def main() -> None:
        with PlaceExecutor(initializer=int, initargs=("x",), use_place_0=bool(seed % 2)) as executor:
            futures = [executor.submit(pause, 3) for _ in range(30)]
            wait_for(futures)
            for future in futures:
                with pytest.raises(
                    BrokenExecutor, match=r"initializer failed at place\(\d\): ValueError: invalid lit"
                ):
                    future.result()
            with pytest.raises(BrokenExecutor):
                executor.submit(pause, 3)

    Together(seed).begin(main, 3, workers=2)
    assert "Exception in initializer" in caplog.text


def count() -> int:
    _LOG.append(1)
    most = len(_LOG)
    pause(4)
    _LOG.pop()
    return most


@pytest.mark.parametrize("most", [1, 2, 3, 99])
def test_no_more_calls_run_at_a_time_than_max_workers(most: int) -> None:
    def main() -> None:
        with PlaceExecutor(most) as executor:
            assert executor.num_workers == min(most, 6)
            futures = [executor.submit(count) for _ in range(60)]
            wait_for(futures)
        assert min(2, most) <= max(future.result() for future in futures) <= most
        with pytest.raises(ValueError, match="max_workers must be greater than 0"):
            PlaceExecutor(0)

    Together(6).begin(main, 3, workers=2)


def spread(executor: Executor, depth: int) -> None:
    _LOG.append(here().id)
    for _ in range(2 if depth else 0):
        executor.submit(spread, executor, depth - 1)


def late(executor: Executor) -> None:
    future = executor.submit(pow, 2, 3)
    future.add_done_callback(lambda done: _LOG.append(done.exception()))


@pytest.mark.parametrize("seed", SEEDS)
def test_tasks_submit_and_the_program_waits_for_all_of_it(seed: int) -> None:
    def main() -> None:
        executor = PlaceExecutor()
        executor.submit(spread, executor, 4)

    Together(seed).begin(main, 3, workers=1)
    assert len(_LOG) == 31
    assert len({*_LOG}) > 1


@pytest.mark.parametrize("count", [1, 2])
def test_a_task_that_submits_after_shutdown_is_told(count: int) -> None:
    def main() -> None:
        closed, executor = PlaceExecutor(), PlaceExecutor(use_place_0=False)
        closed.shutdown()
        settled(executor, late, closed)
        while not _LOG:
            pause(1)

    Together(7).begin(main, count)
    (error,) = _LOG
    assert "after shutdown" in str(error)


def test_arguments_are_those_of_the_moment_and_values_are_writable_and_nobody_elses() -> None:
    def main() -> None:
        array = np.zeros(100_000)
        with PlaceExecutor() as executor:
            futures = [executor.submit(np.add, array, 1) for _ in range(12)]
            array[:] = 7
            wait_for(futures)
            for future in futures:
                assert future.result().max() == 1
                future.result()[:] = 5

    Together(8).begin(main, 2, workers=1)


@pytest.mark.parametrize("workers", [1, 2])
def test_place_0_gives_large_calls_back_to_those_that_come(workers: int) -> None:
    world = Together(12)

    def main() -> None:
        with PlaceExecutor() as executor:
            wait_for([executor.submit(pause, 0) for _ in range(30)])  # so short that more are sent ahead
            gate = [executor.submit(when_open) for _ in range(workers)]
            sums = [executor.submit(large, np.full(20_000, x)) for x in range(20)]
            executor.dispatch()
            malleability().grow([1], lambda: world.newcomer(1, workers), 60.0)
            pause(400)
            let_go()
            current().flush()
            wait_for(gate + sums)
            assert [future.result()[0] for future in sums] == [20_000 * x for x in range(20)]
            assert {future.result()[1] for future in sums} >= {1}

    world.begin(main, 1, workers=workers)


def test_shutdown_fails_what_a_place_has_given_back() -> None:
    def main() -> None:
        executor = PlaceExecutor()
        future = executor.submit(when_open)
        Hands.of(current()).leaving.add(0)  # nobody makes it now
        executor.returned(0, [Asked(1, pack((when_open, (), {})))])
        executor.shutdown(cancel_futures=True)
        with pytest.raises(RuntimeError, match="shut down before the call was made"):
            future.result()
        let_go()

    Together(13).begin(main, 1)


class Unsaid(Exception):  # noqa: N818 - what it does is what matters
    def __reduce__(self) -> str:
        raise TypeError

    def __str__(self) -> str:
        raise RuntimeError


class Noted(Unsaid):
    def __str__(self) -> str:
        return "the text"


def raise_noted() -> None:
    error = Noted()
    error.add_note("a hint")
    raise error


def raise_unsaid() -> None:
    raise Unsaid


def test_an_exception_that_cannot_be_sent_has_its_text_and_its_notes() -> None:
    def main() -> None:
        with PlaceExecutor() as executor:
            error = settled(executor, raise_noted).exception()
        assert isinstance(error, RemoteError)
        assert str(error).endswith("Noted: the text\na hint")

    Together(14).begin(main, 2)


def test_an_initializer_whose_exception_has_no_text_ends_all_futures() -> None:
    def main() -> None:
        with PlaceExecutor(initializer=raise_unsaid) as executor:
            futures = [executor.submit(pause, 1) for _ in range(4)]
            wait_for(futures)
            assert all(isinstance(future.exception(), BrokenExecutor) for future in futures)

    Together(15).begin(main, 2)


def test_a_program_that_fails_does_not_wait_for_its_futures() -> None:
    def main() -> None:
        PlaceExecutor().submit(when_open)
        raise KeyError("main")

    with pytest.raises(KeyError):
        Together(9).begin(main, 1)


@pytest.mark.parametrize("chunksize", [1, 3, 7, 100])
def test_a_map_in_chunks_is_that_of_single_calls(chunksize: int) -> None:
    def main() -> None:
        executor = PlaceExecutor()
        answers = executor.map(pow, range(20), range(20), chunksize=chunksize)
        executor.shutdown()
        assert list(answers) == [x**x for x in range(20)]
        with pytest.raises(ValueError, match="chunksize must be >= 1"):
            executor.map(pow, range(4), range(4), chunksize=0)

    Together(10).begin(main, 2)
