"""N-body, as in Iserte et al. 2018: bodies that attract each other, each by each, and move in small steps.

    python -m pliant.apps.nbody --bodies 512

A rank moves its own bodies and sees all of them. What pulls at one body is summed in one order everywhere, so that the
result, the SHA-256 of all bodies, is equal to the last bit whatever the sizes on the way.
``nbody_rigid`` is the same program in plain mpi4py.
"""

from __future__ import annotations

import argparse
import hashlib

import numpy as np
from numpy.typing import NDArray

from pliant.apps import options

Bodies = NDArray[np.float64]
"""A row a body: where it is (3), and how fast it is (3). All weigh the same, together 1."""
STEP_S = 1e-3
SOFT = 1e-4
"""Added to squares of distances, so that bodies that meet part again."""


def initial(first: int, last: int) -> Bodies:
    """Bodies ``first`` up to ``last``, at rest in a cube of side 1."""
    body = np.arange(first, last)[:, None]
    places = (body * np.array([7919, 104729, 1299709]) + 17) % 1_000_003 / 1_000_003
    return np.hstack([places, np.zeros_like(places)])


def pull(places: Bodies, at: Bodies) -> Bodies:
    """The acceleration of what is ``at`` a place by bodies at ``places``, three rows of coordinates."""
    away = places - at[:, None]
    square = (away * away).sum(axis=0) + SOFT
    force: Bodies = (away / (square * np.sqrt(square))).sum(axis=1) / places.shape[1]
    return force


def move(mine: Bodies, places: Bodies) -> None:
    """One step of these bodies in place; ``places`` are those of all bodies, a row each."""
    coordinates = np.ascontiguousarray(places.T)
    for body in mine:
        body[3:] += STEP_S * pull(coordinates, body[:3])
    mine[:, :3] += STEP_S * mine[:, 3:]


def digest(bodies: Bodies) -> str:
    """The result: equal only if every bit is."""
    return hashlib.sha256(np.ascontiguousarray(bodies).tobytes()).hexdigest()


def solve_serial(given: argparse.Namespace) -> str:
    """The reference: NumPy alone."""
    bodies = initial(0, given.bodies)
    for _ in range(given.steps):
        move(bodies, bodies[:, :3].copy())
    return digest(bodies)


def solve(given: argparse.Namespace) -> str | None:
    """The malleable program; the result on rank 0, None elsewhere."""
    from pliant import mpi

    with mpi.malleable(**options.terms(given)) as job:
        bodies = job.array("bodies", (given.bodies, 6), "f8", mpi.Block())
        if job.fresh:
            bodies.owned[:] = initial(*bodies.owned_rows())
        for _ in options.turns(job, given):
            places = job.comm.allgather(bodies.owned[:, :3])
            move(bodies.owned, np.concatenate(places))
        whole = bodies.gather()
        result = None if whole is None else digest(whole)
        if result is not None:
            job.result(result)
    return result


def parser() -> argparse.ArgumentParser:
    made = options.parser("n-body", __doc__)
    made.add_argument("--bodies", type=int, default=512, help="how many (default %(default)s)")
    return made


if __name__ == "__main__":
    options.run(parser().parse_args(), solve, solve_serial)
