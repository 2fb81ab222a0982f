"""The twin of ``flexible_sleep`` in plain mpi4py: a fixed size, the same result. Run it under mpiexec."""

from __future__ import annotations

import argparse
import time

import numpy as np

from pliant.apps import options
from pliant.apps.flexible_sleep import fill, parser, solve_serial, weigh


def solve(given: argparse.Namespace) -> str | None:
    """The rigid program; the result on rank 0, None elsewhere."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    first, last = (given.bytes * part // comm.size for part in (comm.rank, comm.rank + 1))
    data = np.empty(last - first, np.uint8)
    slept = 0
    fill(data, first)
    for _ in range(given.steps):
        time.sleep(given.pace.time(comm.size) / given.steps)
        slept += 1
    total = comm.reduce(weigh(data, first))
    return f"{slept} {total}" if comm.rank == 0 else None


if __name__ == "__main__":
    options.run(parser().parse_args(), solve, solve_serial)
