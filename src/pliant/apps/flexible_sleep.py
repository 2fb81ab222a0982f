"""Flexible Sleep, the synthetic program of Iserte et al. 2018: it sleeps, and has so many bytes to move at a resize.

    python -m pliant.apps.flexible_sleep --steps 2 --bytes 1000000000     # as in the paper's section 7.3

Twice the ranks sleep half as long. The result is the number of steps and the sum of the bytes, so that one that
was lost or doubled on the way is seen. ``flexible_sleep_rigid`` is the same program in plain mpi4py.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from pliant.apps import options
from pliant.model.table1 import model

BLOCK = 1 << 20


def content(first: int, last: int) -> NDArray[np.uint8]:
    """The bytes from ``first`` up to ``last``: any two that are a little apart differ."""
    return (np.arange(first, last) % 251).astype(np.uint8)


def fill(mine: NDArray[np.uint8], first: int) -> None:
    """Put them there, some at a time: they may be all the memory there is."""
    for start in range(0, len(mine), BLOCK):
        part = mine[start : start + BLOCK]
        part[:] = content(first + start, first + start + len(part))


def weigh(mine: NDArray[np.uint8], first: int) -> int:
    """The sum of the bytes, each times its place: the same however they are spread, as they are integers."""
    total = 0
    for start in range(0, len(mine), BLOCK):
        part = mine[start : start + BLOCK].astype("i8")
        total += int(part @ np.arange(len(part))) + (first + start) * int(part.sum())
    return total


def solve_serial(given: argparse.Namespace) -> str:
    """The reference, without the sleep."""
    total = sum(weigh(content(n, min(n + BLOCK, given.bytes)), n) for n in range(0, given.bytes, BLOCK))
    return f"{given.steps} {total}"


def solve(given: argparse.Namespace) -> str | None:
    """The malleable program; the result on rank 0, None elsewhere."""
    from pliant import mpi

    with mpi.malleable(**options.terms(given)) as job:
        data = job.array("data", (given.bytes,), "u1", mpi.Block())
        slept = job.value("slept", 0)
        if job.fresh:
            fill(data.owned, data.owned_rows()[0])
        for _ in options.turns(job, given):  # the pace is the sleep
            slept.value += 1
        total = job.comm.reduce(weigh(data.owned, data.owned_rows()[0]))
        result = f"{slept.value} {total}" if job.rank == 0 else None
        if result is not None:
            job.result(result)
    return result


def parser() -> argparse.ArgumentParser:
    made = options.parser("flexible-sleep", __doc__)
    made.set_defaults(pace=model("flexible-sleep"))
    made.add_argument(
        "--bytes", type=int, default=1 << 30, help="what there is to move (default %(default)s)"
    )
    return made


if __name__ == "__main__":
    options.run(parser().parse_args(), solve, solve_serial)
