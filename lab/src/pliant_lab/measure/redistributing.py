"""What it takes to move data: each method against messages written by hand, and whole resizes of a job that has much of
it. The figures of ``pliant bench redistribute``."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec

from pliant.model.errors import PliantError
from pliant.model.kinds import JobKind
from pliant.plan.data.methods import MoveMethod
from pliant_lab.measure import resizes
from pliant_lab.measure.programs import Figures
from pliant_lab.measure.resizes import Change
from pliant_lab.measure.trials import MPIEXEC

PROGRAM, FLEXIBLE = "pliant_lab.measure.redistributed", "pliant_lab.measure.flexible"
BARE = "bare"
SLACK_S = 60.0
"""Beyond what a program may measure it may take so long."""
LIMIT_S = 300.0
TIMES = ("scheduling_s", "resize_s", "blocked_s")


class Effort(NamedTuple):
    """``bytes`` are moved by each method in each of ``cells``, (ranks before, ranks after), ``rounds`` times within
    ``budget_s``. A job that holds ``flexible_bytes`` goes through all of ``sizes``, nodes, ``passes`` times; they are
    ``constant`` then, so that an expansion moves them beside the steps."""

    bytes: int
    cells: tuple[tuple[int, int], ...]
    methods: tuple[str, ...]
    rounds: int
    budget_s: float
    flexible_bytes: int
    sizes: tuple[int, ...]
    passes: int
    constant: bool = False


def effort(size: int, *, quick: bool, constant: bool = False) -> Effort:
    """What is measured of arrays of ``size`` bytes; quick: in less than a minute."""
    methods = (BARE, *MoveMethod)
    if quick:
        return Effort(size, ((2, 4),), methods, 15, 20.0, size // 8, around((1, 2)), 1, constant)
    cells = ((1, 2), (2, 4), (4, 8), (8, 4), (4, 2), (2, 1))
    return Effort(size, cells, methods, 7, 600.0, size, around((1, 2, 4, 8)), 10, constant)


def around(sizes: Sequence[int]) -> tuple[int, ...]:
    """Through all sizes and back, so that the next pass begins where this one has ended: each resize between
    neighbours occurs once."""
    return (*sizes, *sizes[-2:0:-1])


# ---- moves ----------------------------------------------------------------------------------------------


def moves(asked: Effort) -> list[Figures]:
    """What the program says of each move, under mpiexec. PliantError if it fails, or moved anything wrongly."""
    wanted = {
        "bytes": asked.bytes, "cells": asked.cells, "methods": asked.methods, "rounds": asked.rounds,
        "budget_s": min(asked.budget_s, 1e9),
    }  # fmt: skip
    ranks = max(size for cell in asked.cells for size in cell)
    if not MPIEXEC.exists():
        raise PliantError(f"there is no {MPIEXEC}: pip install 'pliant[mpi]'")
    command = [str(MPIEXEC), "-n", str(ranks), sys.executable, "-m", "mpi4py", "-m", PROGRAM]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    try:
        ran = subprocess.run(
            [*command, msgspec.json.encode(wanted).decode()], env=env, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, errors="replace", timeout=asked.budget_s + SLACK_S + LIMIT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise PliantError(f"moves of {asked.bytes} bytes have not ended in time") from None
    if ran.returncode:
        lines = ran.stderr.strip().splitlines() or [f"exit code {ran.returncode}"]
        raise PliantError(f"moves of {asked.bytes} bytes have failed: {lines[-1]}")
    found = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    if wrong := [row for row in found if row["wrong"]]:
        raise PliantError(f"{wrong[0]['method']} has moved data wrongly")
    return found


def table(found: Sequence[Figures], size: int) -> list[Figures]:
    """A row for each cell and method: medians, and the median of the ratios to what was moved by hand in the same
    round, as bandwidths. ``peak_extra_ratio`` is the worst: of what a rank held before and after."""
    rows: list[Figures] = []
    for before, after, method in {(row["before"], row["after"], row["method"]): None for row in found}:
        mine, bare = (
            [row for row in found if (row["before"], row["after"], row["method"]) == (before, after, which)]
            for which in (method, BARE)
        )
        ratios = [b["seconds"] / m["seconds"] for b, m in zip(bare, mine, strict=False)]
        seconds = statistics.median(row["seconds"] for row in mine)
        rows.append({
            "before": before, "after": after, "method": method,
            "seconds": round(seconds, 5),
            "gb_s": round(size / seconds / 1e9, 3),
            "bandwidth_ratio": round(statistics.median(ratios), 4) if ratios else None,
            "peak_extra_ratio": round(max(row["extra"] for row in mine), 4),
            "runs_s": [round(row["seconds"], 5) for row in mine],
        })  # fmt: skip
    return rows


def summary(rows: Iterable[Figures]) -> Figures:
    """The figures that have bars: of the method that is taken where none is named, from 2 ranks to 4."""
    cell = [row for row in rows if (row["before"], row["after"]) == (2, 4)]
    ours = next(row for row in cell if row["method"] == MoveMethod.P2P)
    bare = next(row for row in cell if row["method"] == BARE)
    return {
        "bandwidth_ratio": ours["bandwidth_ratio"],
        "peak_extra_ratio": ours["peak_extra_ratio"],
        "medians_s": {"bandwidth_ratio": [ours["seconds"], bare["seconds"]]},
        "repetitions": len(ours["runs_s"]),
    }


# ---- resizes --------------------------------------------------------------------------------------------


def resized(asked: Effort, advance: Callable[[], object]) -> list[Figures]:
    """A row for each expansion and shrink of a job that holds data, under a controller: Iserte et al. 2018, Figure 3.

    ``scheduling_s``: from the offer until all are there, joined and stopped; ``resize_s``: until the data are where
    they belong and the job goes on; ``blocked_s``: the job stood still. Means, as there, medians and the longest.
    """
    with tempfile.TemporaryDirectory() as place:
        changes = asyncio.run(_changes(asked, Path(place), advance))
    steps = [*pairwise((*asked.sizes, asked.sizes[0]))]
    rows: list[Figures] = []
    for number, (before, after) in enumerate(steps):
        mine = [_split(each) for each in changes[number :: len(steps)]]
        if mine:
            row: Figures = {"before": before, "after": after, "repetitions": len(mine)}
            for name, values in zip(TIMES, zip(*mine, strict=True), strict=True):
                row[name] = round(statistics.mean(values), 5)
                row[f"{name}_median"] = round(statistics.median(values), 5)
                row[f"{name}_max"] = round(max(values), 5)
            rows.append(row)
    return rows


def _split(change: Change) -> tuple[float, float, float]:
    """Seconds of ``TIMES``."""
    resize_s = change.phases.get("redistribute", 0.0) + change.phases.get("commit", 0.0)
    return change.seconds - change.clean_s - resize_s, resize_s, change.blocked_s


async def _changes(asked: Effort, place: Path, advance: Callable[[], object]) -> list[Change]:
    end, wanted = place / "end", asked.passes * len(asked.sizes)
    changes: list[Change] = []

    def watch(change: Change) -> bool:
        changes.append(change)
        advance()
        if len(changes) == wanted:
            end.touch()
        return len(changes) < wanted

    async with asyncio.timeout(LIMIT_S + asked.budget_s), resizes.machine(max(asked.sizes), place) as machine:
        program = ["-m", FLEXIBLE, str(end), str(asked.flexible_bytes), *(["constant"] * asked.constant)]
        job = await machine.run(program, asked.sizes, JobKind.MPI, watch)
    if not job.figures["right"]:
        raise PliantError("a job's data were not the same after its resizes")
    return changes
