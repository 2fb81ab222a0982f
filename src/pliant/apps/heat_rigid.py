"""The twin of ``heat`` in plain mpi4py: a fixed size, the same result. Run it under mpiexec.

It is here to be compared: ``heat`` may not be much longer for being malleable.
"""

from __future__ import annotations

import argparse

import numpy as np

from pliant.apps.heat import Field, digest, initial, parser, relax
from pliant.model.words import count


def solve(options: argparse.Namespace) -> str | None:
    """The rigid solver; the result on rank 0, None elsewhere."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    rank, size = comm.rank, comm.size
    if size > options.rows:
        raise SystemExit(f"{count(size, 'rank')} cannot share {options.rows} rows: start fewer")
    each, longer = divmod(options.rows, size)
    counts = [each + (part < longer) for part in range(size)]
    start = sum(counts[:rank])
    first, last = max(0, start - 1), min(options.rows, start + counts[rank] + 1)
    above, below = start - first, last - start - counts[rank]
    field = initial((slice(first, last), slice(0, options.cols)))
    up = rank - 1 if rank > 0 else MPI.PROC_NULL
    down = rank + 1 if rank < size - 1 else MPI.PROC_NULL
    for _ in range(options.steps):
        comm.Sendrecv(field[above], up, recvbuf=field[-1] if below else None, source=down)
        comm.Sendrecv(field[-1 - below], down, recvbuf=field[0] if above else None, source=up)
        relax(field)
    mine = np.ascontiguousarray(field[above : len(field) - below])
    whole: Field | None = np.empty((options.rows, options.cols)) if rank == 0 else None
    blocks = [count * options.cols for count in counts]
    comm.Gatherv(mine, None if whole is None else (whole, blocks), root=0)
    return None if whole is None else digest(whole)


def main() -> None:
    result = solve(parser().parse_args())
    if result is not None:
        print(result, flush=True)  # noqa: T201 - the last line of output is the result


if __name__ == "__main__":
    main()
