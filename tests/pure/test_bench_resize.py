"""What ``pliant bench resize`` makes of runs: rounds, ratios, rows, and how they are shown."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from commands import command
from rich.console import Console
from rich.table import Table

from pliant.model.errors import PliantError
from pliant.plan.spawn import Method, Strategy
from pliant_lab.commands.bench_resize import notes, table, write_csv
from pliant_lab.measure.resizing import Cell, Effort, Hung, Setting, Timing, measure, needed, ratios, rows_of
from pliant_lab.measure.trials import Surface
from pliant_lab.measure.ways import RATIOS, WAYS, Agent, Leave, Spawn

SETTING = Setting(tuple("abcdefgh"), (1,), Surface(), 60.0)
FIGURES = {"netmod": "ofi", "slots": [1], "processors": 2, "load_average": 0.1}


class Told(NamedTuple):
    """A way whose runs are known."""

    name: str
    grows: bool
    runs: Callable[[Cell], float]

    def resize(self, cell: Cell, setting: Setting) -> Timing:
        assert setting is SETTING
        seconds = self.runs(cell)
        return Timing(seconds, seconds / 2, None, {"start": seconds})


def hangs(_: Cell) -> float:
    raise Hung("not ended within 60 s")


def cannot(_: Cell) -> float:
    raise ValueError("nodes differ")


def measured(*ways: Told, repetitions: int = 3) -> list[Any]:
    said: list[tuple[int, int]] = []
    series = measure(
        Effort((1, 2, 4), ways, repetitions), SETTING, lambda done, total: said.append((done, total))
    )
    assert said == [(n, len(said)) for n in range(1, len(said) + 1)]
    return series


def text(shown: Table) -> str:
    console = Console(width=120, record=True, file=StringIO())
    console.print(shown)
    return console.export_text()


def test_every_way_takes_its_turn_in_every_cell_of_its_direction() -> None:
    turns: list[tuple[str, Cell]] = []

    def way(name: str, *, grows: bool) -> Told:
        return Told(name, grows, lambda cell: turns.append((name, cell)) or 1.0)  # type: ignore[func-returns-value]

    series = measured(way("a", grows=True), way("b", grows=True), way("c", grows=False), repetitions=2)
    assert [(each.way.name, tuple(each.cell)) for each in series[:4]] == [
        ("a", (1, 2)), ("b", (1, 2)), ("a", (1, 4)), ("b", (1, 4)),
    ]  # fmt: skip
    assert turns == [(each.way.name, each.cell) for each in series] * 2
    assert {tuple(each.cell) for each in series if each.way.name == "c"} == {(2, 1), (4, 1), (4, 2)}


def test_ratios_are_of_the_pairs_of_a_round_in_the_widest_cell() -> None:
    base = iter([1.0, 2.0, 4.0])
    times = {"merge": lambda cell: next(base) if cell == (1, 4) else 9.0}

    def hypercube(cell: Cell) -> float:
        return {1: 9.0}.get(cell.after - cell.before, 3.0)

    series = measured(
        Told("merge", grows=True, runs=times["merge"]),
        Told("merge + hypercube", grows=True, runs=hypercube),
        Told("merge + diffusive", grows=True, runs=hangs),
    )
    assert ratios(series, RATIOS) == {
        "ratios": {"hypercube_over_merge": 1.5},
        "medians_s": {"hypercube_over_merge": [3.0, 2.0]},
        "repetitions": {"hypercube_over_merge": 3},
    }


def test_what_hangs_fails_or_cannot_be_done_is_told(tmp_path: Path) -> None:
    def fails(_: Cell) -> float:
        raise PliantError("exit code 1: no")

    ways = Told("good", grows=True, runs=lambda _: 0.25), Told("hangs", grows=True, runs=hangs)
    series = measured(
        *ways, Told("fails", grows=True, runs=fails), Told("equal", grows=True, runs=cannot), repetitions=2
    )
    rows = rows_of(series)[:4]
    assert [(row["way"], row["total_s"], row["repetitions"], row["hangs"]) for row in rows] == [
        ("good", 0.25, 2, 0), ("hangs", None, 0, 2), ("fails", None, 0, 0), ("equal", None, 0, 0),
    ]  # fmt: skip
    figures = {**FIGURES, **ratios(series, RATIOS)}
    assert table(rows, figures).row_count == 3
    assert list(notes(rows, figures)) == [
        "fails, 1 to 2 nodes: failed: exit code 1: no",
        "?: too few runs to tell which are the quickest; 1 ways take 3 runs each",
        "equal: left out: nodes differ",
    ]
    write_csv(tmp_path / "rows.csv", rows)
    with (tmp_path / "rows.csv").open(newline="") as file:
        first = next(csv.DictReader(file))
    assert (first["way"], first["before"], first["total_s"], first["runs_s"]) == (
        "good",
        "1",
        "0.25",
        "0.25 0.25",
    )


def test_the_quickest_of_a_cell_are_marked_where_the_runs_can_tell_them() -> None:
    """Five runs of three ways: one overlaps with the least median, one does not, one hung in all but two."""
    times = {
        "least": iter([1.0, 1.4, 1.1, 1.3, 1.2]),
        "like it": iter([1.35, 1.15, 1.25, 1.45, 1.05]),
        "slower": iter([1.6, 1.7, 1.8, 1.9, 1.5]),
        "hangs": iter([0.1, 0.1, None, None, None]),
    }

    def way(name: str) -> Told:
        return Told(name, grows=True, runs=lambda cell: next(times[name]) or hangs(cell))

    ways = tuple(map(way, times))
    effort = Effort((1, 2), ways, 5)
    rows = rows_of(measure(effort, SETTING, lambda *_: None))
    assert {row["way"]: row["equal_to_best"] for row in rows} == {
        "least": True, "like it": True, "slower": False, "hangs": True,
    }  # fmt: skip
    lines = text(table(rows, FIGURES)).splitlines()
    assert [line.count("*") for line in lines if "1 to 2" in line] == [1, 1, 0, 1]
    assert "too few" not in "".join(notes(rows, {**FIGURES, "ratios": {}}))


def test_few_runs_tell_no_quickest_and_that_is_said() -> None:
    ways = tuple(
        Told(name, grows=True, runs=dict.fromkeys([Cell(1, 2)], at).__getitem__)
        for name, at in zip("abcd", (1.0, 2.0, 3.0, 4.0), strict=True)
    )
    rows = rows_of(measure(Effort((1, 2), ways, 3), SETTING, lambda *_: None))
    assert [row["equal_to_best"] for row in rows] == [None] * 4
    lines = text(table(rows, FIGURES)).splitlines()
    assert [line.count("?") for line in lines if "1 to 2" in line] == [1, 1, 1, 1]
    assert list(notes(rows, {**FIGURES, "ratios": {}})) == [
        "?: too few runs to tell which are the quickest; 4 ways take 4 runs each"
    ]


def test_no_round_is_begun_that_would_not_end_in_time() -> None:
    effort = Effort((1, 2), (Told("a", grows=True, runs=lambda _: 1.0),), 50, budget_s=0.0)
    [series] = measure(effort, SETTING, lambda *_: None)
    assert len(series.runs) == 2


def test_a_quick_run_has_what_the_ratios_need_between_the_least_and_the_most_nodes() -> None:
    series = Effort((1, 2, 4, 8), needed(WAYS, RATIOS), 9, ends_only=True).series()
    assert [(each.way.name, tuple(each.cell)) for each in series] == [
        ("merge", (1, 8)), ("merge + hypercube", (1, 8)), ("merge + diffusive", (1, 8)), ("agent, warm", (1, 8)),
        ("TS", (8, 1)), ("SS + diffusive", (8, 1)),
    ]  # fmt: skip


def test_ways_are_told_apart_and_hypercube_refuses_nodes_that_differ() -> None:
    assert len({way.name for way in WAYS}) == len(WAYS)
    assert {type(way) for way in WAYS} == {Spawn, Leave, Agent}
    unequal = SETTING._replace(slots=(1, 3))
    assert unequal.fill(3, 4) == (1, 3, 1, 0)
    way = Spawn("x", Method.MERGE, Strategy.HYPERCUBE)
    with pytest.raises(ValueError, match="take diffusive"):
        way.resize(Cell(1, 4), unequal)
    with pytest.raises(ValueError, match="the same number of processes"):
        Agent("y", warm=True).resize(Cell(1, 4), unequal)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--nodes", "4"], "--nodes: one size is no resize"),
        (["--slots", "1,x"], "--slots 1,x: write numbers from 1 to 256, as in 1,3"),
        (["--hosts", "n[0-3]"], "--hosts n[0-3]: 4 nodes, and the largest size is 8; name more"),
        (
            ["--mpi", "/etc/passwd"],
            "--mpi /etc/passwd: no MPI library; say all, or a file as in lib/libmpi.so.12",
        ),
        (
            ["--mpi", "all", "--slots", "1,3"],
            "--mpi: its agents are on this machine, and have the same --slots",
        ),
        (["--csv", "/nowhere/rows.csv"], "--csv /nowhere/rows.csv: there is no directory /nowhere"),
    ],
)
def test_what_is_asked_for_wrongly_is_refused_before_anything_runs(words: list[str], said: str) -> None:
    with pytest.raises(PliantError, match=re.escape(said)):
        command("bench", "resize", *words)
