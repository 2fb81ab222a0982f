"""The twin of ``nbody`` in plain mpi4py: a fixed size, the same result. Run it under mpiexec."""

from __future__ import annotations

import argparse

import numpy as np

from pliant.apps import options
from pliant.apps.nbody import digest, initial, move, parser, solve_serial


def solve(given: argparse.Namespace) -> str | None:
    """The rigid program; the result on rank 0, None elsewhere."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    first, last = (given.bodies * part // comm.size for part in (comm.rank, comm.rank + 1))
    bodies = initial(first, last)
    for _ in range(given.steps):
        places = comm.allgather(bodies[:, :3])
        move(bodies, np.concatenate(places))
    parts = comm.gather(bodies)
    return None if parts is None else digest(np.concatenate(parts))


if __name__ == "__main__":
    options.run(parser().parse_args(), solve, solve_serial)
