"""Task programs run in processes of their own, over places and workers, and what their figures say."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pliant.model.errors import PliantError

LIMIT_S = 600.0
"""What a program may take."""

Figures = dict[str, Any]
"""What a program prints with ``--json``."""


class Shape(NamedTuple):
    """Over how many places a program runs, and how many workers each has. ``bare``: by the kernel alone instead."""

    places: int = 1
    workers: int = 1
    bare: bool = False


ALONE, TWO_WORKERS, TWO_PLACES, BARE = Shape(), Shape(1, 2), Shape(2, 1), Shape(bare=True)


def surroundings() -> Figures:
    """What figures depend on, beside the program: to be asked for before anything runs."""
    return {
        "processors": len(os.sched_getaffinity(0)),
        "load_average": round(os.getloadavg()[0], 2),
        "python": sys.version.partition(" ")[0],
        "architecture": platform.machine(),
    }


def run(module: str, options: Sequence[str], shape: Shape = ALONE) -> Figures:
    """What ``python -m module ... `` prints as JSON; PliantError if it fails, or takes longer than LIMIT_S."""
    own = {key: value for key, value in os.environ.items() if not key.startswith("PLIANT_PLACE")}
    env = {**own, "PLIANT_PLACES": str(shape.places), "PLIANT_WORKERS": str(shape.workers)}
    command = [sys.executable, "-m", module, *options]
    try:
        done = subprocess.run(
            command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise PliantError(f"{' '.join(command[1:])} has not ended within {LIMIT_S:.0f} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise PliantError(f"{' '.join(command[1:])} has failed: {lines[-1]}")
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def in_turn(
    module: str,
    options: Sequence[str],
    shapes: Sequence[Shape],
    repetitions: int,
    advance: Callable[[], object],
) -> dict[Shape, list[Figures]]:
    """The figures of a program in each of ``shapes``, all of them run one after the other, ``repetitions`` times;
    ``advance`` is told of each run. PliantError if their results differ."""
    found: dict[Shape, list[Figures]] = {shape: [] for shape in shapes}
    results = set()
    for _ in range(repetitions):
        for shape in shapes:
            words = [*options, "--json", *(["--serial"] if shape.bare else [])]
            figures = run(module, words, shape)
            results.add(str(next(iter(figures.values()))))  # what is said first is the result
            found[shape].append(figures)
            advance()
    if len(results) > 1:
        raise PliantError(
            f"{module} {' '.join(options)} gave different results: {', '.join(sorted(results))}"
        )
    return found


def speedup(found: dict[Shape, list[Figures]], shape: Shape, base: Shape = ALONE) -> float:
    """By how much the program is quicker in ``shape`` than in ``base``, by the time within its main function:
    the median of the pairs that ran one after the other."""
    pairs = zip(found[base], found[shape], strict=True)
    return statistics.median(float(alone["work_s"] / together["work_s"]) for alone, together in pairs)
