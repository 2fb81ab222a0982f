"""Task programs over places and workers, and what their start and their resizes take: the figures of ``pliant bench
scaling``."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pliant.protocol.phases import Phase
from pliant_lab.measure import programs, resizes
from pliant_lab.measure.programs import ALONE, BARE, TWO_PLACES, TWO_WORKERS, Figures, Shape

SHAPES = (BARE, ALONE, TWO_WORKERS, TWO_PLACES)
PHASES = (Phase.PREPARE, Phase.START, Phase.SYNCHRONISE, Phase.CONNECT, Phase.REDISTRIBUTE, Phase.COMMIT)
"""Those of a program of places."""


class Effort(NamedTuple):
    """How much is run: the options of each program, how often each, and of which sizes jobs are started and resized."""

    programs: dict[str, tuple[str, ...]]
    rounds: int
    startups: int
    """Jobs that are started with each number of places."""
    most: int
    """Jobs start with up to so many places, and grow and shrink by up to one less."""
    resized: tuple[str, ...]
    """The options of the tree search that is resized."""


QUICK = Effort(
    {
        "uts": ("--depth", "13"),
        "nqueens": ("--n", "15"),
        "betweenness": ("--scale", "12"),
        "pi": ("--points", "3000000000"),
    },
    rounds=1,
    startups=1,
    most=3,
    resized=("--depth", "14"),
)
FULL = Effort(
    {
        "uts": ("--depth", "14"),
        "nqueens": ("--n", "16"),
        "betweenness": ("--scale", "13"),
        "pi": ("--points", "10000000000"),
    },
    rounds=5,
    startups=5,
    most=4,
    resized=("--depth", "15"),
)


def steps(effort: Effort) -> int:
    """How often ``measure`` tells that it has come a step further."""
    jobs = effort.most * effort.startups + effort.most - 1
    return len(effort.programs) * len(SHAPES) * effort.rounds + jobs


def measure(effort: Effort, output: Path, advance: Callable[[], object]) -> Figures:
    """``programs``: seconds of each in each shape; ``startup``: seconds by number of places; ``resizes`` by number of
    places that come or go, with their phases; and what all that depends on. PliantError if a program fails."""
    around = programs.surroundings()
    found = {
        name: programs.in_turn(f"pliant.apps.{name}", options, SHAPES, effort.rounds, advance)
        for name, options in effort.programs.items()
    }
    started, resized = asyncio.run(_jobs(effort, output, advance))
    return {
        "programs": [
            {"program": name, "options": " ".join(effort.programs[name]), **_row(shape, runs)}
            for name, runs in found.items()
            for shape in SHAPES
        ],
        "startup": [
            {"places": places, "seconds": _median(job.startup_s for job in jobs), "jobs": len(jobs)}
            for places, jobs in started.items()
        ],
        "resizes": resize_rows([change for job in resized for change in job.changes]),
        "rounds": effort.rounds,
        **around,
        "sha": found["uts"][ALONE][0]["sha"],
    }


def _row(shape: Shape, runs: dict[Shape, list[Figures]]) -> dict[str, Any]:
    """A program in one shape: the median of its seconds, and of its speed-up over the kernel alone."""
    return {
        **shape._asdict(),
        "work_s": _median(run["work_s"] for run in runs[shape]),
        "speedup": round(programs.speedup(runs, shape, BARE), 4),
    }


def resize_rows(changes: Sequence[resizes.Change]) -> list[dict[str, Any]]:
    """For growths and shrinks by each number of places: how many, and the medians in seconds of the whole, of each
    phase, and of what came after it until the nodes were clean."""
    kinds = sorted({(not change.grows, change.nodes) for change in changes})
    rows = []
    for shrinks, nodes in kinds:
        some = [change for change in changes if (not change.grows, change.nodes) == (shrinks, nodes)]
        phases = {name: _median(change.phases.get(name, 0.0) for change in some) for name in PHASES}
        rows.append(
            {
                "kind": "shrink" if shrinks else "grow",
                "nodes": nodes,
                "count": len(some),
                "seconds": _median(change.seconds for change in some),
                **{f"{name}_s": value for name, value in phases.items()},
                "clean_s": _median(change.clean_s for change in some),
            }
        )
    return rows


def _median(values: Iterable[float]) -> float:
    return round(statistics.median(values), 6)


async def _jobs(
    effort: Effort, output: Path, advance: Callable[[], object]
) -> tuple[dict[int, list[resizes.Job]], list[resizes.Job]]:
    """Jobs that are started with 1, 2, ... places; and those that go back and forth between one place and 2, 3, ..."""
    started: dict[int, list[resizes.Job]] = {}
    resized = []
    short = ["-m", "pliant.apps.uts", "--depth", "10", "--json"]
    async with resizes.machine(effort.most, output) as machine:
        for _ in range(effort.startups):
            for places in range(1, effort.most + 1):
                started.setdefault(places, []).append(await machine.run(short, (places,)))
                advance()
        for places in range(2, effort.most + 1):
            command = ["-m", "pliant.apps.uts", *effort.resized, "--json"]
            resized.append(await machine.run(command, (1, places)))
            advance()
    return started, resized


def batch_text(figures: Figures) -> str:
    """A batch of all programs, each with its measured times as its model, as ``pliant simulate`` and ``pliant
    run`` take it."""
    facts = ", ".join(
        f"{key} {figures[key]}" for key in ("processors", "load_average", "architecture", "sha")
    )
    lines = [
        f"# Run times of task programs by number of places, one worker each, as measured: {facts}.",
        "# They are the jobs' models: change nodes, submit and count as you like.",
        "[cluster]",
        "nodes = 2",
        'policy = "malleable"',
    ]
    for name in dict.fromkeys(row["program"] for row in figures["programs"]):
        rows = [row for row in figures["programs"] if row["program"] == name and not row["bare"]]
        times = {row["places"]: row["work_s"] for row in rows if row["workers"] == 1}
        command = f"python -m pliant.apps.{name} {rows[0]['options']}"
        model = ", ".join(f"{places} = {seconds}" for places, seconds in times.items())
        lines += [
            "",
            "[[jobs]]",
            f'name = "{name}"',
            'kind = "places"',
            f'command = "{command}"',
            f'verify = "{command} --serial"',
            f"nodes = {{ min = 1, max = {max(times)} }}",
            f"model = {{ times = {{ {model} }} }}",
        ]
    return "\n".join(lines) + "\n"
