"""How long resizes of MPI jobs take, by every way there is: the figures of ``pliant bench resize``.

All ways take turns, round by round, so that what else the machine does meets them alike. Ratios are of the pairs of
a round.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import cycle, islice
from typing import NamedTuple, Protocol

from pliant.model.errors import PliantError
from pliant_lab.measure.alike import quickest
from pliant_lab.measure.programs import Figures
from pliant_lab.measure.trials import Surface


class Hung(PliantError):  # noqa: N818 - what has become of a run
    """It has not come to its end in time, and was ended."""


class Cell(NamedTuple):
    """From how many nodes to how many."""

    before: int
    after: int


class Setting(NamedTuple):
    """``slots``: processes of each node, over and over; ``limit_s``: what one run may take."""

    hosts: tuple[str, ...]
    slots: tuple[int, ...]
    surface: Surface
    limit_s: float

    def fill(self, nodes: int, of: int) -> tuple[int, ...]:
        """Processes by node: ``of`` nodes, the first ``nodes`` of them in use."""
        slots = islice(cycle(self.slots), of)
        return tuple(each if node < nodes else 0 for node, each in enumerate(slots))


class Timing(NamedTuple):
    """Seconds: until the job goes on at its new size, of these those in which it could not compute, and until the
    processes that had to end have, where that can be seen."""

    total_s: float
    blocked_s: float
    freed_s: float | None
    phases: dict[str, float]


class Way(Protocol):
    """One way to resize a job: a row in each cell that it can do."""

    @property
    def name(self) -> str: ...

    @property
    def grows(self) -> bool: ...

    def resize(self, cell: Cell, setting: Setting) -> Timing:
        """Once, in a job of its own. ValueError if it cannot do this cell; Hung; PliantError for other failures."""
        ...


class Ratio(NamedTuple):
    """Of way ``over`` to way ``under``, by the time called ``field``, between the least nodes and the most."""

    name: str
    over: str
    under: str
    field: str


# ---- measuring ----------------------------------------------------------------------------------------------


class Series:
    """What a way has shown in a cell; None for a round in which it failed."""

    def __init__(self, way: Way, cell: Cell) -> None:
        self.way, self.cell = way, cell
        self.runs: list[Timing | None] = []
        self.hangs = 0
        self.failed = ""
        """The last words of the last run that failed."""
        self.cannot = ""

    def once(self, setting: Setting) -> None:
        """Run it again; one that cannot do this cell is not asked twice."""
        if self.cannot:
            return
        resize = None
        try:
            resize = self.way.resize(self.cell, setting)
        except ValueError as error:
            self.cannot = str(error)
        except Hung:
            self.hangs += 1
        except PliantError as error:
            self.failed = str(error)
        self.runs.append(resize)

    def median_s(self, field: str) -> float | None:
        found = [getattr(each, field) for each in self.runs if each is not None]
        return _median(each for each in found if each is not None)

    def row(self) -> Figures:
        good = [each for each in self.runs if each is not None]
        names = dict.fromkeys(name for each in good for name in each.phases)
        return {
            "before": self.cell.before,
            "after": self.cell.after,
            "way": self.way.name,
            **{field: self.median_s(field) for field in ("total_s", "blocked_s", "freed_s")},
            "phases": {name: _median(each.phases.get(name, 0.0) for each in good) for name in names},
            "runs_s": [round(each.total_s, 5) for each in good],
            "blocked_runs_s": [round(each.blocked_s, 5) for each in good],
            "repetitions": len(good),
            "hangs": self.hangs,
            "failed": self.failed,
            "cannot": self.cannot,
        }


class Effort(NamedTuple):
    """``ways`` between all of ``sizes``, or between its least and most alone. After ``budget_s`` no round is begun
    that may not end in it, but there are ``least``."""

    sizes: tuple[int, ...]
    ways: tuple[Way, ...]
    repetitions: int
    ends_only: bool = False
    budget_s: float = float("inf")
    least: int = 2

    def series(self) -> list[Series]:
        ends = min(self.sizes), max(self.sizes)
        sizes = ends if self.ends_only else self.sizes
        cells = [Cell(before, after) for before in sizes for after in sizes if before != after]
        return [
            Series(way, cell)
            for cell in cells
            for way in self.ways
            if way.grows == (cell.after > cell.before)
        ]


def needed(ways: Iterable[Way], wanted: Iterable[Ratio]) -> tuple[Way, ...]:
    """Those of ``ways`` that the ratios are of."""
    names = {name for ratio in wanted for name in (ratio.over, ratio.under)}
    return tuple(way for way in ways if way.name in names)


def measure(effort: Effort, setting: Setting, advance: Callable[[int, int], object]) -> list[Series]:
    """``advance`` is told after each run how many have been, and of how many."""
    series = effort.series()
    began, done = time.perf_counter(), 0
    for number in range(effort.repetitions):
        taken_s = time.perf_counter() - began
        if number >= effort.least and taken_s * (number + 1) / number > effort.budget_s:
            break
        for each in series:
            each.once(setting)
            done += 1
            advance(done, effort.repetitions * len(series))
    return series


def rows_of(series: Iterable[Series]) -> list[Figures]:
    """A row of each, with ``equal_to_best``: whether its total cannot be told from the least in its cell; None if the
    runs are too few to say, or there are none."""
    made = [each.row() for each in series]
    for before, after in {(row["before"], row["after"]): None for row in made}:
        cell = [row for row in made if (row["before"], row["after"]) == (before, after)]
        told = quickest({row["way"]: [*row["runs_s"], *[math.inf] * row["hangs"]] for row in cell})
        for row in cell:
            row["equal_to_best"] = told.get(row["way"])
    return made


def ratios(series: Sequence[Series], wanted: Iterable[Ratio]) -> Figures:
    """By name: the median of the ratios of each round, with the medians of both and the number of rounds."""
    found: Figures = {"ratios": {}, "medians_s": {}, "repetitions": {}}
    for ratio in wanted:
        over, under = _ends(series, ratio.over), _ends(series, ratio.under)
        if over is None or under is None:
            continue
        pairs = [
            (getattr(a, ratio.field), getattr(b, ratio.field))
            for a, b in zip(over.runs, under.runs, strict=False)
            if a is not None and b is not None
        ]
        if pairs:
            found["ratios"][ratio.name] = round(statistics.median(a / b for a, b in pairs), 4)
            found["medians_s"][ratio.name] = [
                round(statistics.median(side), 5) for side in zip(*pairs, strict=True)
            ]
            found["repetitions"][ratio.name] = len(pairs)
    return found


def _ends(series: Sequence[Series], name: str) -> Series | None:
    """Of the cells of this way, the one with the widest change."""
    mine = [each for each in series if each.way.name == name]
    return max(mine, key=lambda each: abs(each.cell.after - each.cell.before), default=None)


def _median(values: Iterable[float]) -> float | None:
    found = list(values)
    return round(statistics.median(found), 5) if found else None
