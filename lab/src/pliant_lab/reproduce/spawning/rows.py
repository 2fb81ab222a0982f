"""What ``pliant reproduce spawning`` measures and keeps: the tables of ``pliant bench resize``, one for each netmod and
kind of nodes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from pliant.model.errors import PliantError
from pliant_lab.measure.alike import quickest
from pliant_lab.measure.resizing import Cell
from pliant_lab.measure.ways import WAYS
from pliant_lab.reproduce.folder import left_in

FILE = "spawning.json"

MERGE, MERGE_PARALLEL = "merge", ("merge + hypercube", "merge + diffusive")
BASELINE = ("baseline + hypercube", "baseline + diffusive")
EXPANSIONS = (MERGE, *MERGE_PARALLEL, *BASELINE)
RESPAWN = ("SS + hypercube", "SS + diffusive")
SHRINKS = ("TS", *RESPAWN)
AGENT = "agent, warm"
"""By the names of ``WAYS``; EXPANSIONS and SHRINKS are those that Martín-Álvarez et al. 2025 compare."""


class Row(msgspec.Struct, frozen=True):
    """A way in a cell, as ``pliant bench resize --json`` tells it; seconds."""

    before: int
    after: int
    way: str
    total_s: float | None
    blocked_s: float | None
    freed_s: float | None
    phases: dict[str, float | None]
    runs_s: list[float]
    blocked_runs_s: list[float]
    repetitions: int
    hangs: int
    failed: str
    cannot: str
    equal_to_best: bool | None

    @property
    def cell(self) -> Cell:
        return Cell(self.before, self.after)


class Table(msgspec.Struct, frozen=True):
    """``slots``: processes of each node, over and over."""

    netmod: str
    slots: tuple[int, ...]
    rows: list[Row]

    @property
    def equal(self) -> bool:
        """All nodes have as many processes."""
        return len(set(self.slots)) == 1

    @property
    def name(self) -> str:
        return f"{self.netmod}-{'equal' if self.equal else 'different'}"

    def cells(self, *, grows: bool) -> list[Cell]:
        found = {row.cell: None for row in self.rows if (row.after > row.before) is grows}
        return list(found)

    def ways(self, *, grows: bool) -> list[str]:
        """Those that were measured, in the order of ``WAYS``."""
        there = {row.way for row in self.rows if row.repetitions or row.hangs}
        return [way.name for way in WAYS if way.grows is grows and way.name in there]

    def at(self, cell: Cell, way: str) -> Row | None:
        """None if it is not there, or was left out."""
        return next(
            (row for row in self.rows if row.cell == cell and row.way == way and not row.cannot), None
        )

    def total(self, cell: Cell, way: str) -> float | None:
        row = self.at(cell, way)
        return None if row is None else row.total_s

    def of(self, cell: Cell, ways: Iterable[str]) -> Iterator[tuple[str, float]]:
        """The median totals of these ways."""
        for way in ways:
            total = self.total(cell, way)
            if total is not None:
                yield way, total

    def quickest(self, cell: Cell, ways: Iterable[str]) -> dict[str, bool | None]:
        """Of these ways alone, as ``alike.quickest`` tells it."""
        rows = [row for way in ways if (row := self.at(cell, way)) is not None]
        return quickest({row.way: [*row.runs_s, *[math.inf] * row.hangs] for row in rows})


class Measured(msgspec.Struct, frozen=True):
    """All of it, with what it depends on. ``left_out``: tables that nobody has measured yet."""

    processors: int
    load_average: float
    python: str
    architecture: str
    quick: bool
    seconds: float
    tables: list[Table]
    left_out: list[str] = []

    def table(self, netmod: str, *, equal: bool) -> Table | None:
        return next((each for each in self.tables if each.netmod == netmod and each.equal is equal), None)

    @property
    def netmods(self) -> list[str]:
        return list(dict.fromkeys(each.netmod for each in self.tables))


def load(folder: Path) -> Measured:
    """What an earlier ``pliant reproduce spawning`` has left in ``folder``; PliantError if that cannot be read."""
    found = left_in(folder, FILE, Measured, "pliant reproduce spawning")
    if not any(row.repetitions for table in found.tables for row in table.rows):
        raise PliantError(f"--from {folder}: {FILE} has no resize in it")
    return found
