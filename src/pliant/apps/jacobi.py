"""Jacobi, as in Iserte et al. 2018: ``heat`` with the iterations and sizes of their Table 1.

    python -m pliant.apps.jacobi --rows 256 --cols 256 --steps 400

``heat_rigid`` is its twin in plain mpi4py too.
"""

from __future__ import annotations

import argparse

from pliant.apps import heat, options


def solve_serial(given: argparse.Namespace) -> str:
    """The reference: NumPy alone."""
    return heat.solve_serial(given.rows, given.cols, given.steps)


def solve(given: argparse.Namespace) -> str | None:
    """The malleable solver; the result on rank 0, None elsewhere."""
    from pliant import mpi

    with mpi.malleable(**options.terms(given)) as job:
        grid = job.array("grid", (given.rows, given.cols), "f8", mpi.Block(axis=0, halo=1))
        if job.fresh:
            grid.local[...] = heat.initial(grid.index)
        for _ in options.turns(job, given):
            grid.exchange_halo()
            heat.relax(grid.local)
        field = grid.gather()
        result = None if field is None else heat.digest(field)
        if result is not None:
            job.result(result)
    return result


def parser() -> argparse.ArgumentParser:
    made = options.parser("jacobi", __doc__)
    made.add_argument("--rows", type=int, default=256, help="rows of the plate (default %(default)s)")
    made.add_argument("--cols", type=int, default=256, help="columns of the plate (default %(default)s)")
    return made


if __name__ == "__main__":
    options.run(parser().parse_args(), solve, solve_serial)
