"""The twin of ``cg`` in plain mpi4py: a fixed size, the same result. Run it under mpiexec."""

from __future__ import annotations

import argparse

import numpy as np

from pliant.apps import options
from pliant.apps.cg import advance, digest, parser, poisson, right_side, solve_serial, times


def solve(given: argparse.Namespace) -> str | None:
    """The rigid solver; the result on rank 0, None elsewhere."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    n = given.side**2
    first, last = (n * part // comm.size for part in (comm.rank, comm.rank + 1))
    matrix = poisson(given.side, first, last)
    x, r = np.zeros(n), right_side(given.side)
    p = r.copy()
    for _ in range(given.steps):
        parts = comm.allgather(times(matrix, p))
        advance(x, r, p, np.concatenate(parts))
    return digest(x) if comm.rank == 0 else None


if __name__ == "__main__":
    options.run(parser().parse_args(), solve, solve_serial)
