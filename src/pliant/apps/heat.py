"""Heat on a plate: 2-D Jacobi with a fixed boundary, on a malleable job.

    python -m pliant.apps.heat --rows 256 --cols 256 --steps 400

The result is the SHA-256 of the final field, equal to the last bit whatever the sizes on the way;
``--serial`` computes it with NumPy alone. ``heat_rigid`` is the same program in plain mpi4py.
"""

from __future__ import annotations

import argparse
import hashlib

import numpy as np
from numpy.typing import NDArray

Field = NDArray[np.float64]


def initial(index: tuple[slice, ...]) -> Field:
    """The field at the start, of the part of the plate that ``index`` cuts out."""
    i, j = np.ogrid[index]
    field: Field = ((i * 7919 + j * 104729) % 1009) / 1009.0
    return field


def relax(field: Field) -> None:
    """One Jacobi step in place; the outermost rows and columns, boundary or halo, stay.

    The sum is taken in one order everywhere, so that every decomposition rounds alike.
    """
    inner = field[:-2, 1:-1] + field[2:, 1:-1]
    inner += field[1:-1, :-2]
    inner += field[1:-1, 2:]
    inner *= 0.25
    field[1:-1, 1:-1] = inner


def digest(field: Field) -> str:
    """The result: equal only if every bit is."""
    return hashlib.sha256(np.ascontiguousarray(field).tobytes()).hexdigest()


def solve_serial(rows: int, cols: int, steps: int) -> str:
    """The reference: NumPy alone."""
    field = initial((slice(0, rows), slice(0, cols)))
    for _ in range(steps):
        relax(field)
    return digest(field)


def solve(options: argparse.Namespace) -> str | None:
    """The malleable solver; the result on rank 0, None elsewhere."""
    from pliant import mpi

    bounds = {name: getattr(options, name) for name in ("min", "max", "factor", "preferred")}
    with mpi.malleable(**bounds) as job:
        grid = job.array("grid", (options.rows, options.cols), "f8", mpi.Block(axis=0, halo=1))
        if job.fresh:
            grid.local[...] = initial(grid.index)
        for _ in job.steps(options.steps, pace=options.pace):
            grid.exchange_halo()
            relax(grid.local)
        field = grid.gather()
        result = None if field is None else digest(field)
        if result is not None:
            job.result(result)
    return result


def parser() -> argparse.ArgumentParser:
    """The options; those of the twin are the first three."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--rows", type=int, default=256, help="rows of the plate (default %(default)s)")
    options.add_argument("--cols", type=int, default=256, help="columns of the plate (default %(default)s)")
    options.add_argument("--steps", type=int, default=400, help="Jacobi steps (default %(default)s)")
    options.add_argument("--pace", action="store_true", help="as slow as the job's speed-up model says")
    options.add_argument("--serial", action="store_true", help="compute with NumPy alone, without MPI")
    options.add_argument("--min", type=int, default=1, help="fewest nodes (default %(default)s)")
    options.add_argument("--max", type=int, default=8, help="most nodes (default %(default)s)")
    options.add_argument("--factor", type=int, default=1, help="sizes are min * factor^k; 1: all")
    options.add_argument("--preferred", type=int, default=0, help="preferred nodes (default: min)")
    return options


def main() -> None:
    options = parser().parse_args()
    if options.serial:
        result: str | None = solve_serial(options.rows, options.cols, options.steps)
    else:
        result = solve(options)
    if result is not None:
        print(result, flush=True)  # noqa: T201 - the last line of output is the result


if __name__ == "__main__":
    main()
