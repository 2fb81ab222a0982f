"""What load balancing costs: programs against their bare kernels, both in this process, one worker at one place.

    python -m pliant_lab.measure.overhead --pairs 5 uts pi     # a JSON object: the ratios of each, a pair each

A ratio is work per processor second of the worker over work per processor second of the kernel.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from pliant.apps import balanced, betweenness, nqueens, pi, uts
from pliant.model.errors import PliantError


class Program(NamedTuple):
    """A way to compute something as a bag, and by the kernel alone. ``chunk``: tasks a call of ``process`` takes;
    ``told``: a text of all that was found, and the same only for the same."""

    bag: Callable[[], Any]
    result: Callable[[], Any]
    bare: Callable[[], Any]
    work: Callable[[Any], float]
    chunk: int
    told: Callable[[Any], str] = repr


def programs(*, quick: bool) -> dict[str, Program]:
    """All of them, with as much to do as takes a second, or some tenths of one."""
    depth, queens, points, scale = (12, 14, 10**9, 11) if quick else (13, 15, 3 * 10**9, 12)
    return {
        "uts": Program(
            lambda: uts.TreeBag(depth), uts.UtsTree, lambda: uts.bare(depth),
            lambda tree: float(tree.hashes), uts.CHUNK,
        ),
        "nqueens": Program(
            lambda: nqueens.QueensBag(queens), nqueens.Solutions, lambda: nqueens.bare(queens),
            lambda found: float(found.tried), nqueens.CHUNK,
        ),
        "pi": Program(
            lambda: pi.PointsBag(points), pi.Points, lambda: pi.bare(points),
            lambda found: float(found.points), pi.CHUNK,
        ),
        "betweenness": Program(
            lambda: betweenness.SourcesBag(scale), betweenness.Centrality, lambda: betweenness.bare(scale),
            lambda _found: 2.0**scale, betweenness.chunk(scale), betweenness.Centrality.checksum,
        ),
    }  # fmt: skip


def ratio(program: Program, *, bare_first: bool) -> float:
    """One pair; PliantError if the two do not find the same."""
    if bare_first:
        alone, expected = _alone(program)
        speed, found = _balanced(program)
    else:
        speed, found = _balanced(program)
        alone, expected = _alone(program)
    if program.told(found) != program.told(expected):
        raise PliantError(f"the bag has found {found}, the kernel alone {expected}")
    return speed / alone


def _alone(program: Program) -> tuple[float, Any]:
    """Work per processor second of the kernel, and what it has found."""
    begin = time.thread_time()
    found = program.bare()
    return program.work(found) / (time.thread_time() - begin), found


def _balanced(program: Program) -> tuple[float, Any]:
    found = program.result()
    figures: dict[str, Any] = balanced.run(program.bag(), found, program.chunk, str)
    return program.work(found) / figures["cpu_s"], found


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--pairs", type=balanced.whole(1, 1000), default=5)
    options.add_argument("--quick", action="store_true")
    options.add_argument("names", nargs="+", choices=list(programs(quick=True)), help="programs")
    chosen = options.parse_args()
    there = programs(quick=chosen.quick)
    ratios: dict[str, list[float]] = {name: [] for name in chosen.names}
    for name in ratios:
        there[name].bag().prepare()
    for pair in range(chosen.pairs):
        for name, found in ratios.items():
            found.append(ratio(there[name], bare_first=pair % 2 == 0))
    print(json.dumps(ratios))  # noqa: T201


if __name__ == "__main__":
    balanced.main(main)
