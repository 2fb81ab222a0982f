"""Data in all layouts, in a job that changes size: ``layouts.py STEPS [FLAG]``, until the flag is there. In each step each
array is compared with what a serial program has, and changed. The result names what was not equal, and the hooks."""

from __future__ import annotations

import pathlib
import sys
import time
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pliant import mpi

RECORD = np.dtype([("kind", "i1"), ("value", "f8")], align=True)
ARRAYS: dict[str, tuple[tuple[int, ...], Any, Any]] = {
    "block": ((37, 3), "f8", mpi.Block(halo=2)),
    "deep": ((9, 2), "i8", mpi.Block(halo=5)),
    "columns": ((5, 23), "i4", mpi.Block(axis=1)),
    "columns with halo": ((5, 23), "i4", mpi.Block(axis=1, halo=1)),
    "cyclic": ((41,), "u2", mpi.BlockCyclic()),
    "cyclic columns": ((4, 41, 2), "c16", mpi.BlockCyclic(3, axis=1)),
    "irregular": ((23,), RECORD, mpi.Irregular([5, 0, 11, 7], halo=3)),
    "weighted": ((31, 2), "M8[s]", mpi.Weighted(range(31))),
    "replicated": ((7, 2), "f4", mpi.Replicated()),
    "few": ((2,), "i8", mpi.Block()),
    "one": ((1, 3), "S5", mpi.BlockCyclic(4)),
    "none": ((0, 4), "f8", mpi.Block(halo=1)),
    "grid": ((13, 9), "f8", mpi.Grid(halo=1)),
    "torus": ((12, 10), "i4", mpi.Grid(halo=(3, 1), periods=(True, False), dims="surface")),
    "cube": ((3, 4, 5), "f4", mpi.Grid((0, 1, 2), halo=1, periods=True)),
    "planes": ((3, 8, 7), "c8", mpi.Grid((2, 1), halo=1, dims=(1, 0))),
    "turning": ((11, 8), "f8", mpi.Block()),
    "weighed": ((24,), "f8", mpi.Weighted([1] * 24, halo=1)),
}
TURNS = (mpi.Block(), mpi.Block(axis=1), mpi.Grid(halo=1, periods=True), mpi.BlockCyclic(2, axis=1))
"""The layouts that an array takes in turn, one in each step."""
ROWS, COLUMNS = 29, 12
WHOLE = 8
"""Every so many steps it is all gathered and compared as a whole; each step compares what a rank has of it."""


def whole(name: str, step: int) -> NDArray[Any]:
    """What a serial program has after so many steps."""
    shape, dtype, _ = ARRAYS[name]
    numbers = np.arange(prod(shape)).reshape(shape) + step
    if dtype is RECORD:
        made = np.empty(shape, RECORD)
        made["kind"], made["value"] = numbers % 100, numbers / 7
        return made
    return numbers.astype(dtype)


def matrix(step: int) -> mpi.Csr:
    lengths = np.arange(ROWS) % 5
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    numbers = np.arange(indptr[-1])
    return mpi.Csr(indptr, numbers * 7 % COLUMNS, numbers / 4 + step)


def cut(csr: mpi.Csr, first: int, stop: int) -> mpi.Csr:
    indptr = csr.indptr[first : stop + 1]
    elements = slice(indptr[0], indptr[-1])
    return mpi.Csr(indptr - indptr[0], csr.indices[elements], csr.data[elements])


def same(one: mpi.Csr, other: mpi.Csr) -> bool:
    return all(map(np.array_equal, one, other))


def grow(owned: NDArray[Any], index: tuple[Any, ...], name: str, step: int) -> None:
    """One step, from what there is."""
    if owned.dtype.names or owned.dtype.kind == "S":
        owned[...] = whole(name, step + 1)[index]
    else:
        owned += np.ones((), "m8[s]" if owned.dtype.kind == "M" else owned.dtype)


def wholes(arrays: dict[str, mpi.Array], rows: mpi.Rows, step: int) -> list[str]:
    """What is wrong when it is all in one place; nothing but on rank 0."""
    gathered = {name: array.gather() for name, array in arrays.items()}
    csr = rows.gather()
    if csr is None:
        return []
    bad = [
        name
        for name, array in gathered.items()
        if array is None or not np.array_equal(array, whole(name, step))
    ]
    return [f"whole {name}" for name in (bad if same(csr, matrix(step)) else [*bad, "rows"])]


def change(arrays: dict[str, mpi.Array], growing: mpi.Array, step: int) -> list[str]:
    """What takes another layout or shape before the next step; what is wrong with it then."""
    arrays["turning"].to(TURNS[(step + 1) % len(TURNS)])
    arrays["weighed"].to(mpi.Weighted(weights(step + 1), halo=1), at_resize=True)
    shape = (3 + (step + 1) % 5, 2 + (step + 1) % 3)
    expected, before = np.zeros(shape), numbered(growing.shape, step)
    both = tuple(slice(0, min(each)) for each in zip(shape, growing.shape, strict=True))
    expected[both] = before[both]
    growing.resize(shape)
    good = np.array_equal(growing.local, expected[growing.index])
    growing.owned[...] = numbered(shape, step + 1)[growing.owned_index]
    return [] if good else ["growing"]


def numbered(shape: tuple[int, ...], step: int) -> NDArray[Any]:
    return np.arange(prod(shape), dtype="f8").reshape(shape) + step


def weights(step: int) -> list[int]:
    return [1 + (row * step) % 7 for row in range(24)]


def balance(weighed: mpi.Array, job: mpi.Job, step: int) -> list[str]:
    """Whether an array has the weights that there were at the last resize."""
    expected = mpi.Weighted(weights(step)).split(24, job.size).span(job.rank)
    return [] if weighed.owned_rows() == expected else ["weights"]


def main(steps: int, until: Callable[[], bool]) -> None:
    with mpi.malleable(min=1, max=4) as job:
        arrays = {name: job.array(name, *what) for name, what in ARRAYS.items()}
        rows = job.csr("rows", (ROWS, COLUMNS), "f4", mpi.Weighted(1 + np.arange(ROWS) % 5), index="i4")
        growing = job.array("growing", (3, 2), "f8", mpi.Grid(halo=1, dims="surface"))
        wrong, hooks, resized = job.value("wrong", []), job.value("hooks", ""), job.value("resized", 0)

        @job.before_resize
        def before() -> None:
            hooks.value += f"{job.size}-"

        @job.after_resize
        def after() -> None:
            hooks.value += f"{job.size} "
            resized.value = -1

        if job.fresh:
            for name, array in arrays.items():
                array.owned[...] = whole(name, 0)[array.owned_index]
            growing.owned[...] = numbered(growing.shape, 0)[growing.owned_index]
            rows.put(cut(matrix(0), *rows.owned_rows()))
        for step in job.steps(steps):
            bad = []
            for name, array in arrays.items():
                array.exchange_halo()
                expected = whole(name, step)[array.index]
                bad += [] if np.array_equal(array.local, expected) else [name]
                grow(array.owned, array.owned_index, name, step)
            good = same(rows.local, cut(matrix(step), *rows.owned_rows()))
            bad += [] if good else ["rows"]
            rows.local.data[...] += 1
            if resized.value < 0:
                resized.value = step
            bad += balance(arrays["weighed"], job, resized.value) + change(arrays, growing, step)
            done = job.comm.bcast(until()) or step == steps - 1
            if step % WHOLE == 0 or done:
                bad += wholes(arrays, rows, step + 1)
            every = job.comm.allgather(bad)
            wrong.value = [
                *wrong.value,
                *(f"{step}/{rank} {name}" for rank, some in enumerate(every) for name in some),
            ]
            if done:
                break
        if job.rank == 0:
            text = f"wrong: {wrong.value[:8]}, resizes: {hooks.value.strip()}"
            job.result(text)
            print(text)


if __name__ == "__main__":
    FLAG = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None

    def told() -> bool:
        time.sleep(0.01 if FLAG else 0)
        return FLAG is not None and FLAG.exists()

    main(int(sys.argv[1]), told)
