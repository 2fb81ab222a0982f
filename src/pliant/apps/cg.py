"""Conjugate gradients, as in Iserte et al. 2018: a linear system whose matrix is sparse, in CSR form, and spread by
rows.

    python -m pliant.apps.cg --side 64 --steps 200

The system is Poisson's equation on a square grid. Vectors are on all ranks, which compute alike with them; the
product with the matrix is shared. So all sums are taken in one order, and the result, the SHA-256 of the solution, is
equal to the last bit whatever the sizes on the way. As in the paper the number of iterations is fixed; those
after the solution is found leave it as it is. ``cg_rigid`` is the same program in plain mpi4py.
"""

from __future__ import annotations

import argparse
import hashlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pliant.apps import options

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]


class CsrRows(NamedTuple):
    """Some rows of a matrix: row i has the columns ``indices[indptr[i]:indptr[i + 1]]``, with these of ``data``."""

    indptr: Indices
    indices: Indices
    data: Vector


def poisson(side: int, first: int, last: int) -> CsrRows:
    """Rows ``first`` up to ``last`` of the matrix for a grid of ``side`` x ``side`` points.

    4 on the diagonal, -1 for each of a point's neighbours.
    """
    point = np.arange(first, last)[:, None]
    beside = point + np.array([-side, -1, 0, 1, side])
    row, column = point // side, point % side
    there = np.hstack([row > 0, column > 0, row >= 0, column < side - 1, row < side - 1])
    indptr = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
    entries = np.broadcast_to([-1.0, -1.0, 4.0, -1.0, -1.0], there.shape)[there]
    return CsrRows(indptr, beside[there], entries)


def right_side(side: int) -> Vector:
    """What the grid is heated by."""
    return (np.arange(side * side) * 7919 % 1009) / 1009.0


def times(rows: CsrRows, vector: Vector) -> Vector:
    """These rows of the matrix by the vector; none of them is empty."""
    products = rows.data * vector[rows.indices]
    return np.add.reduceat(products, rows.indptr[:-1]) if len(products) else products


def dot(one: Vector, other: Vector) -> float:
    """By NumPy's own sum: that of a BLAS may depend on where a vector is in memory."""
    return float((one * other).sum())


def advance(x: Vector, r: Vector, p: Vector, product: Vector) -> None:
    """One iteration in place: of the solution so far, of what is left, and of the direction, by which the matrix gives
    ``product``. With nothing left all stay as they are."""
    left, curvature = dot(r, r), dot(p, product)
    if left == 0.0 or curvature == 0.0:
        return
    x += left / curvature * p
    r -= left / curvature * product
    p *= dot(r, r) / left
    p += r


def digest(x: Vector) -> str:
    """The result: equal only if every bit is."""
    return hashlib.sha256(x.tobytes()).hexdigest()


def solve_serial(given: argparse.Namespace) -> str:
    """The reference: NumPy alone."""
    matrix = poisson(given.side, 0, given.side**2)
    x, r = np.zeros(given.side**2), right_side(given.side)
    p = r.copy()
    for _ in range(given.steps):
        advance(x, r, p, times(matrix, p))
    return digest(x)


def solve(given: argparse.Namespace) -> str | None:
    """The malleable solver; the result on rank 0, None elsewhere."""
    from pliant import mpi

    n = given.side**2
    with mpi.malleable(**options.terms(given)) as job:
        matrix = job.csr("matrix", (n, n), constant=True)
        x, r, p = (job.array(name, (n,), "f8", mpi.Replicated()) for name in ("x", "r", "p"))
        if job.fresh:
            matrix.put(poisson(given.side, *matrix.owned_rows()))
            r.local[:] = p.local[:] = right_side(given.side)
        for _ in options.turns(job, given):
            parts = job.comm.allgather(times(CsrRows(*matrix.local), p.local))
            advance(x.local, r.local, p.local, np.concatenate(parts))
        result = digest(x.local) if job.rank == 0 else None
        if result is not None:
            job.result(result)
    return result


def parser() -> argparse.ArgumentParser:
    made = options.parser("cg", __doc__)
    made.add_argument("--side", type=int, default=64, help="points along a side (default %(default)s)")
    return made


if __name__ == "__main__":
    options.run(parser().parse_args(), solve, solve_serial)
