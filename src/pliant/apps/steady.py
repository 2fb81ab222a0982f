"""Heat on a plate at a steady pace: an evolving job that asks for nodes by how long its steps take.

    python -m pliant.apps.steady --slow 0.0005

A step is a number of Jacobi sweeps that rises and falls, as if the plate were heated and left alone by turns. The job
measures its steps. Where they take longer than the target it asks for a node more, and where they take less than half
of it, for a node fewer. What lies between is left alone, and after each look and each resize it measures anew:
otherwise it would ask to and fro. The result is the SHA-256 of the final field, equal to the last bit whatever the
sizes on the way; ``--serial`` computes it with NumPy alone.
"""

from __future__ import annotations

import argparse
import statistics
import time

from pliant.apps.heat import digest, initial, relax

COLUMNS = 64
SWEEPS, FEW = 8, 1
"""In one step while the plate is heated, and while it is not."""


def sweeps(step: int, period: int) -> int:
    """How much there is to do in a step; the heat comes and goes with this period, in steps."""
    return SWEEPS if step % (2 * period) < period else FEW


class SteadyLoad:
    """What the last ``window`` steps took, in seconds, on the slowest rank of each."""

    def __init__(self, target_s: float, window: int) -> None:
        self.target_s = target_s
        self.window = window
        self.nodes = 0
        self.took: list[float] = []

    def lacking(self, took_s: float, nodes: int) -> int | None:
        """How many nodes are lacking, negative if there are too many, after a step of ``took_s`` seconds; None while
        that is not known."""
        if nodes != self.nodes:
            self.nodes, self.took = nodes, []
        self.took.append(took_s)
        if len(self.took) < self.window:
            return None
        step_s = statistics.median(self.took)
        self.took = []
        return (step_s > self.target_s) - (step_s < self.target_s / 2)


def solve_serial(rows: int, steps: int, period: int) -> str:
    """The reference: NumPy alone."""
    field = initial((slice(0, rows), slice(0, COLUMNS)))
    for step in range(steps):
        for _ in range(sweeps(step, period)):
            relax(field)
    return digest(field)


def solve(options: argparse.Namespace) -> str | None:
    """The evolving solver; the result on rank 0, None elsewhere."""
    from pliant import mpi

    with mpi.malleable(min=1, max=options.max) as job:
        plate = job.array("plate", (options.rows, COLUMNS), "f8", mpi.Block(axis=0, halo=1))
        if job.fresh:
            plate.local[...] = initial(plate.index)
        load = job.value("load", SteadyLoad(options.target, options.window))
        for step in job.steps(options.steps):
            began = time.perf_counter()
            for _ in range(sweeps(step, options.period)):
                plate.exchange_halo()
                relax(plate.local)
                time.sleep(options.slow * len(plate.owned))
            took_s = max(job.comm.allgather(time.perf_counter() - began))  # all ranks have to wish alike
            if (more := load.value.lacking(took_s, job.nodes)) is not None:
                nodes = min(max(job.nodes + more, 1), options.max)
                job.request(
                    min=nodes, max=nodes, keep=True
                )  # as many as it has: a wish of before is taken back
        field = plate.gather()
        result = None if field is None else digest(field)
        if result is not None:
            job.result(result)
    return result


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = options.add_argument
    add("--rows", type=int, default=64, help="rows of the plate (default %(default)s)")
    add("--steps", type=int, default=200, help="steps (default %(default)s)")
    add(
        "--period",
        type=int,
        default=50,
        help="steps with much to do, and then with little (default %(default)s)",
    )
    add("--target", type=float, default=0.2, help="seconds that a step should take (default %(default)s)")
    add("--window", type=int, default=5, help="steps that are measured before it asks (default %(default)s)")
    add("--max", type=int, default=4, help="most nodes (default %(default)s)")
    add(
        "--slow",
        type=float,
        default=0.0,
        help="seconds that a row takes in a sweep besides (default %(default)s)",
    )
    add("--serial", action="store_true", help="compute with NumPy alone, without MPI")
    return options


if __name__ == "__main__":
    given = parser().parse_args()
    serial = given.rows, given.steps, given.period
    outcome = solve_serial(*serial) if given.serial else solve(given)
    if outcome is not None:
        print(outcome, flush=True)  # noqa: T201 - the last line of output is the result
