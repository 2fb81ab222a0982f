"""Jacobi, as in paper 3: ``heat`` with the iterations and sizes of its Table 1.

    python -m pliant.apps.jacobi --rows 256 --cols 256 --steps 400

``heat_rigid`` is its twin in plain mpi4py too.
"""

from __future__ import annotations

import argparse

from pliant.apps import heat, options


def parser() -> argparse.ArgumentParser:
    made = options.parser("jacobi", __doc__)
    made.add_argument("--rows", type=int, default=256, help="rows of the plate (default %(default)s)")
    made.add_argument("--cols", type=int, default=256, help="columns of the plate (default %(default)s)")
    return made


def solve_serial(given: argparse.Namespace) -> str:
    return heat.solve_serial(given.rows, given.cols, given.steps)


if __name__ == "__main__":
    options.run(parser().parse_args(), heat.solve, solve_serial)
