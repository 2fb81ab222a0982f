"""An executor and its script: what travels, calls that wait for calls, every end, and a program without shutdown."""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import Executor
from typing import Any

import numpy as np

from pliant.apgas import DeadPlaceException, PlaceExecutor, at, here, place, run

PATIENCE_S = 30.0
LARGE = 300_000
SCALE = 2
SEEN: dict[str, int] = {}


class Unsendable:
    """A variable of the script that would raise if it travelled."""

    def __reduce__(self) -> tuple[Any, ...]:
        raise AssertionError("it was sent")


HERE = Unsendable()


class OwnError(Exception):
    pass


def start(scale: int) -> None:
    global SCALE  # noqa: PLW0603
    SCALE = scale


def seen(key: str) -> tuple[bool, bool]:
    SEEN[key] = SEEN.get(key, 0) + 1
    return SEEN[key] > 1, isinstance(HERE, Unsendable)


def scaled(x: int) -> int:
    return x * SCALE


def fail() -> None:
    raise OwnError(here().id)


class Unmade:
    def __reduce__(self) -> tuple[Any, ...]:
        return int, ("x",)


def fib(executor: Executor, n: int) -> int:
    if n < 2:
        return n
    parts = [executor.submit(fib, executor, n - 1), executor.submit(fib, executor, n - 2)]
    return sum(part.result(PATIENCE_S) for part in parts)


def ends(executor: Executor) -> list[str]:
    calls: list[tuple[Any, ...]] = [(sys.exit, 3), (Unmade,), (print, Unmade()), (fail,)]
    failed = [executor.submit(*call).exception(PATIENCE_S) for call in calls]
    assert isinstance(failed[-1], OwnError)  # the script's own class
    assert "raised in place(" in str(failed[-1].__cause__)
    return [type(error).__name__ for error in failed]


def last(executor: Executor, text: str) -> None:
    executor.submit(print, text)


def main() -> None:
    told: dict[str, Any] = {}
    told["seen"] = [at(place(1), seen, "a"), at(place(1), lambda: seen("a")), at(place(0), seen, "a")]
    executor = PlaceExecutor()
    told["fib"] = executor.submit(fib, executor, 7).result(PATIENCE_S)
    told["ends"] = ends(executor)
    with PlaceExecutor(1, start, (7,), use_place_0=False) as others:
        told["scaled"] = [
            others.submit(scaled, 3).result(PATIENCE_S),
            others.submit(lambda: SCALE).result(PATIENCE_S),
        ]
        told["elsewhere"] = ends(others)
    doubled = executor.submit(np.add, np.ones(LARGE), 1).result(PATIENCE_S)
    doubled += 1
    told["array"] = bool((doubled == 3).all())
    with PlaceExecutor(use_place_0=False) as dying:
        lost = [dying.submit(os._exit, 1) for _ in range(2)]
        told["lost"] = all(isinstance(each.exception(PATIENCE_S), DeadPlaceException) for each in lost)
        told["after"] = dying.submit(scaled, 1).result(PATIENCE_S)
    print(json.dumps(told))
    executor.submit(last, executor, "made after the end of main")


if __name__ == "__main__":
    run(main, places=3, workers=1)
