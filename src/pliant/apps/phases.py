"""Adaptive quadrature in phases, on an evolving job: each phase asks for as many nodes as it has work for.

    python -m pliant.apps.phases --slow 0.002

A phase takes the intervals that are left: Simpson's rule is applied to each and to its halves, and where the two differ
by too much the halves are left for the next phase. So the work grows while the peaks of the function are found, and
falls when only they are left. The result is the integral and the number of intervals, equal to the last bit whatever
the sizes on the way; ``--serial`` computes it with NumPy alone.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
PEAKS = ((0.11, 1e-4), (0.37, 3e-6), (0.52, 1e-5), (0.78, 1e-7))
"""Where they are, and the squares of their widths."""
BLOCK = 16
"""Intervals that all ranks together take in one step: between two steps the job may be resized."""


def function(x: Numbers) -> Numbers:
    """Peaks; only sums, products and quotients, which round alike in arrays of any length."""
    total = np.ones_like(x)
    for centre, width in PEAKS:
        total += width / ((x - centre) * (x - centre) + width)
    return total


def refine(left: Numbers, right: Numbers) -> tuple[Numbers, Numbers]:
    """The integral over each interval by its halves, and by how much that differs from the one by the whole."""
    middle, length = (left + right) / 2, right - left
    ends, centre = function(left) + function(right), function(middle)
    quarters = function((left + middle) / 2) + function((middle + right) / 2)
    whole = length / 6 * (ends + 4 * centre)
    halves = length / 12 * (ends + 2 * centre + 4 * quarters)
    return halves, np.abs(halves - whole)


class Integral:
    """What is known so far: ``todo`` and ``following`` are the intervals of this phase and of the next one."""

    def __init__(self, tolerance: float) -> None:
        self.tolerance = tolerance
        self.total, self.intervals = 0.0, 0
        edges = np.linspace(0.0, 1.0, 9)
        self.todo: list[tuple[float, float]] = list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
        self.following: list[tuple[float, float]] = []

    def block(self) -> tuple[Numbers, Numbers]:
        """The intervals that are next: their left ends, and their right ones."""
        ends = np.array(self.todo[:BLOCK])
        return ends[:, 0], ends[:, 1]

    def take(self, halves: Numbers, errors: Numbers) -> bool:
        """These are the sums of the block, in its order. Whether another phase begins."""
        done, self.todo = self.todo[:BLOCK], self.todo[BLOCK:]
        self.intervals += len(done)
        for (left, right), value, error in zip(done, halves.tolist(), errors.tolist(), strict=True):
            if error <= self.tolerance * (right - left):
                self.total += value
            else:
                middle = (left + right) / 2
                self.following += [(left, middle), (middle, right)]
        if self.todo:
            return False
        self.todo, self.following = self.following, []
        return True

    def text(self) -> str:
        return f"{self.total!r} {self.intervals}"


def solve_serial(tolerance: float) -> str:
    """The reference: NumPy alone."""
    integral = Integral(tolerance)
    while integral.todo:
        integral.take(*refine(*integral.block()))
    return integral.text()


def solve(options: argparse.Namespace) -> str | None:
    """The evolving solver; the result on rank 0, None elsewhere."""
    from pliant import mpi

    with mpi.malleable(min=1, max=options.max) as job:
        known = job.value("integral", Integral(options.tolerance))
        begins = job.value("begins", True)
        for _ in job.steps(options.steps):
            integral = known.value
            if begins.value:
                nodes = min(options.max, 1 + len(integral.todo) // options.share)
                job.request(min=nodes, max=nodes, keep=True)
            left, right = integral.block()
            mine = slice(len(left) * job.rank // job.size, len(left) * (job.rank + 1) // job.size)
            time.sleep(options.slow * len(left[mine]))
            parts = job.comm.allgather(refine(left[mine], right[mine]))
            halves, errors = (np.concatenate(each) for each in zip(*parts, strict=True))
            begins.value = integral.take(halves, errors)
            if not integral.todo:
                break
        result = integral.text() if job.rank == 0 else None
        if result is not None:
            job.result(result)
    return result


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = options.add_argument
    add(
        "--tolerance", type=float, default=1e-7, help="error allowed per unit of length (default %(default)s)"
    )
    add(
        "--share",
        type=int,
        default=40,
        help="intervals that one more node is asked for (default %(default)s)",
    )
    add("--max", type=int, default=4, help="most nodes (default %(default)s)")
    add(
        "--slow", type=float, default=0.0, help="seconds that an interval takes besides (default %(default)s)"
    )
    add("--steps", type=int, default=1_000_000, help="most steps (default %(default)s)")
    add("--serial", action="store_true", help="compute with NumPy alone, without MPI")
    return options


if __name__ == "__main__":
    given = parser().parse_args()
    outcome = solve_serial(given.tolerance) if given.serial else solve(given)
    if outcome is not None:
        print(outcome, flush=True)  # noqa: T201 - the last line of output is the result
