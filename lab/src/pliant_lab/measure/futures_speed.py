"""Calls a second of a PlaceExecutor and of a ProcessPoolExecutor, in turn.

``python -m pliant_lab.measure.futures_speed`` runs it. Both have two workers that are processes: place 0 is left out.
It prints the medians: calls one by one, calls in chunks, and megabytes a second of
arrays of 64 and of 500 MB that go there and come back.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from typing import Any

import numpy as np

from pliant.apgas import PlaceExecutor, run
from pliant.model.errors import PliantError

ROUNDS = 5
ONE_BY_ONE, IN_CHUNKS, CHUNK = 4000, 200_000, 100
MEGABYTES = (64, 500)


def same(x: int) -> int:
    """A call that does nothing."""
    return x


def doubled(array: Any) -> Any:
    """A call that moves much."""
    return array + array


def _rates(executor: Executor) -> Iterator[float]:
    """The rates, without the start of the workers."""
    list(executor.map(same, range(10)))
    for count, chunk in ((ONE_BY_ONE, 1), (IN_CHUNKS, CHUNK)):
        begun = time.perf_counter()
        _check(sum(executor.map(same, range(count), chunksize=chunk)), sum(range(count)))
        yield count / (time.perf_counter() - begun)
    for megabytes in MEGABYTES:
        array = np.ones(megabytes * 1_000_000 // 8)
        for _ in range(2):  # the first pays for connections and memory
            begun = time.perf_counter()
            _check(executor.submit(doubled, array).result()[-1], 2)
            seconds = time.perf_counter() - begun
        yield 2 * megabytes / seconds


def _check(found: float, expected: float) -> None:
    if found != expected:
        raise PliantError(f"a call has returned {found}, not {expected}")


def _tell(make: Callable[[], Executor]) -> None:
    with make() as executor:
        sys.stdout.write(" ".join(str(rate) for rate in _rates(executor)) + "\n")
        sys.stdout.flush()


def _in_pool() -> None:
    _tell(lambda: ProcessPoolExecutor(2))


def _in_places() -> None:
    _tell(lambda: PlaceExecutor(use_place_0=False))


def main() -> None:
    """Measure both, or what the first argument names."""
    if len(sys.argv) > 1:
        if sys.argv[1] == "pool":
            _in_pool()
        else:
            run(_in_places, places=3, workers=1)
        return
    found: dict[str, list[list[float]]] = {"pool": [], "places": []}
    for _ in range(ROUNDS):
        for which, rows in found.items():
            done = subprocess.run(
                [sys.executable, "-m", "pliant_lab.measure.futures_speed", which],
                env=os.environ,
                capture_output=True,
                text=True,
                check=True,
                timeout=120,
            )
            rows.append([float(word) for word in done.stdout.split()])
    for what, pool, places in zip(
        (
            "calls/s one by one",
            f"calls/s in chunks of {CHUNK}",
            *(f"MB/s of {megabytes} MB there and back" for megabytes in MEGABYTES),
        ),
        *([statistics.median(column) for column in zip(*rows, strict=True)] for rows in found.values()),
        strict=True,
    ):
        line = f"{what}: ProcessPoolExecutor {pool:,.0f}, PlaceExecutor {places:,.0f}, {places / pool:.2f}"
        sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()
