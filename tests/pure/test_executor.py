"""Futures over places in one process: places that come, leave, and stay though they were to leave."""

from __future__ import annotations

from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

from pliant.apgas import PlaceExecutor, here, places
from pliant.apgas.malleable.handler import malleability
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


@pytest.fixture(autouse=True)
def _shut() -> None:
    _OPEN.clear()


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
