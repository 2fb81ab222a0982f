"""What the programs of Iserte et al. 2018 have in common on the command line: the defaults of their Table 1, and the
pace."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pliant.apps import checked
from pliant.model.speedup import Model, scaled
from pliant.model.table1 import FACTOR, TABLE1, model, wider

if TYPE_CHECKING:
    from pliant.mpi import Job

Solve = Callable[[argparse.Namespace], str | None]


def parser(program: str, about: str | None) -> argparse.ArgumentParser:
    """The options of a line of Table 1; the program adds its own. ``pace`` is what ``job.steps`` takes."""

    def slower(text: str) -> Model:
        scale, _, nodes = text.partition("/")
        return scaled(wider(model(program), int(nodes or 1)), float(scale))

    row = TABLE1[program]
    made = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    add = made.add_argument
    add("--steps", type=int, default=row.iterations, help="iterations (default %(default)s)")
    add(
        "--pace",
        type=slower,
        metavar="SCALE[/N]",
        default=False,
        help="as slow as its model with N times the nodes, times SCALE",
    )
    add(
        "--check",
        choices=checked.WAYS,
        default="",
        help="a loop that asks the scheduler before each step that its inhibitor (Table 1's, or PLIANT_INHIBIT) lets, "
        "and waits for the answer or uses it at the next",
    )
    add("--serial", action="store_true", help="compute with NumPy alone, without MPI")
    add("--min", type=int, default=row.min, help="fewest nodes (default %(default)s)")
    add("--max", type=int, default=row.max, help="most nodes (default %(default)s)")
    add("--factor", type=int, default=FACTOR, help="sizes are min * factor^k (default %(default)s); 1: all")
    add("--preferred", type=int, default=row.preferred, help="preferred nodes (default %(default)s; 0: min)")
    made.set_defaults(inhibit=row.inhibit_s)  # PLIANT_INHIBIT says another
    return made


def terms(options: argparse.Namespace) -> dict[str, Any]:
    """What ``mpi.malleable`` takes: the sizes, and for how long the program does not look at the scheduler again."""
    return {name: getattr(options, name) for name in ("min", "max", "factor", "preferred", "inhibit")}


def turns(job: Job, options: argparse.Namespace) -> Iterator[int]:
    """The steps of the loop: ``job.steps()``, or with ``--check`` those of a loop that asks for itself."""
    if options.check:
        return checked.turns(job, options.steps, options.pace or None, options.check)
    return job.steps(options.steps, pace=options.pace)


def run(options: argparse.Namespace, solve: Solve, solve_serial: Solve) -> None:
    """Print the result, as the last line of output, on the rank that has it."""
    result = solve_serial(options) if options.serial else solve(options)
    if result is not None:
        print(result, flush=True)  # noqa: T201 - the last line of output is the result
