"""``pliant bench resize --mpi``: the same resizes with each MPI that is here."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from pliant.daemon.detect import DetectedMpi, installed, of_library
from pliant.model.errors import PliantError
from pliant.terminal.working import Working
from pliant_lab.measure import flavours
from pliant_lab.measure.programs import Figures, surroundings

ALL = "all"
COLUMNS = ("grow_blocked_s", "grow_total_s", "shrink_blocked_s", "shrink_freed_s")


def named(words: Sequence[str]) -> list[DetectedMpi]:
    """What ``--mpi`` says: ``all`` that are found, or files of their libraries."""
    found: list[DetectedMpi] = []
    for word in words:
        if word == ALL:
            found += installed(os.environ)
        elif (library := of_library(Path(word).absolute(), os.environ)) is not None:
            found.append(library)
        else:
            raise PliantError(f"--mpi {word}: no MPI library; say all, or a file as in lib/libmpi.so.12")
    if not found:
        raise PliantError("--mpi: no MPI was found here; see pliant doctor")
    return list(dict.fromkeys(found))


def compare(words: Sequence[str], asked: flavours.Cycles) -> Figures:
    """Rows of all MPIs that were named, and where they were measured."""
    found = named(words)
    around = surroundings()
    with tempfile.TemporaryDirectory() as place, Working("measuring", unit="resizes") as progress:
        rows = asyncio.run(flavours.measure(found, asked, Path(place), progress.reach))
    return {"sizes": list(asked.sizes), "slots": asked.slots, **around, "rows": rows}


def show(figures: Figures, console: Console) -> None:
    """The table, and why some have no figures."""
    first, last = figures["sizes"]
    shown = Table(
        title=f"resizes from {first} to {last} nodes and back by agents, {figures['slots']} processes a node",
        caption=f"milliseconds, medians; {figures['processors']} processors, "
        f"load {figures['load_average']} at the start",
    )
    shown.add_column("MPI", no_wrap=True)
    for name in ("growth: blocked", "total", "over MPICH", "shrink: blocked", "node free", "resizes"):
        shown.add_column(name, justify="right")
    for row in figures["rows"]:
        times = ["" if row[name] is None else f"{1000 * row[name]:.0f}" for name in COLUMNS]
        ratio = "" if row["blocked_over_mpich"] is None else f"{row['blocked_over_mpich']:.2f}"
        shown.add_row(row["mpi"], times[0], times[1], ratio, *times[2:], str(row["resizes"] or ""))
    console.print(shown)
    for row in figures["rows"]:
        if row["error"]:
            console.print(f"{row['mpi']}: {row['error']}", markup=False, highlight=False)
