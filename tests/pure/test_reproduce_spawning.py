"""``pliant reproduce spawning``: what it says of resizes whose times are given."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from commands import command

from pliant.model.errors import PliantError
from pliant.plan.spawn import Method, Strategy, spawn_plan
from pliant.plan.spawn_cost import SpawnCosts, predict_spawn
from pliant_lab.commands.reproduce_spawning import together
from pliant_lab.measure.resizing import Cell, Effort, Hung, Setting, Timing, measure, rows_of
from pliant_lab.measure.trials import Surface
from pliant_lab.measure.ways import WAYS
from pliant_lab.reproduce.spawning.claims import Verdict, verdicts
from pliant_lab.reproduce.spawning.model import GROWS, SHRINKS, fitted, predicted
from pliant_lab.reproduce.spawning.rows import FILE, Measured, Row, Table, load
from pliant_lab.reproduce.spawning.written import _of_the_plan, _told

SIZES = (1, 2, 4, 8)
FACTORS = {
    "merge": 1.0, "merge + hypercube": 1.05, "merge + diffusive": 1.1, "baseline + hypercube": 1.5,
    "baseline + diffusive": 1.6, "agent, cold": 0.9, "agent, warm": 0.4, "TS": 0.0005, "ZS": 0.0004,
    "SS + hypercube": 0.8, "SS + diffusive": 0.9, "TS by agent": 0.01,
}  # fmt: skip
"""Of what plain Merge takes; as the paper has it, or better."""

Factor = Callable[[str, Cell], float]


def as_published(way: str, cell: Cell) -> float:
    """Parallel Merge costs a little more with more groups."""
    return FACTORS[way] + (abs(cell.after - cell.before) * 0.002 if way.startswith("merge +") else 0.0)


def row(way: str, cell: Cell, seconds: float | None, runs: int, cannot: str = "") -> Row:
    times = [] if seconds is None else [seconds * (1 + 0.001 * run) for run in range(runs)]
    median = None if seconds is None else sorted(times)[runs // 2]
    return Row(*cell, way, median, median, None, {}, times, times, len(times), 0, "", cannot, None)


def table(netmod: str, slots: tuple[int, ...], factor: Factor = as_published, runs: int = 5) -> Table:
    setting = Setting((), slots, Surface(), 60.0)
    rows = []
    for way in WAYS:
        for cell in [Cell(a, b) for a in SIZES for b in SIZES if a != b]:
            if way.grows is (cell.after > cell.before):
                left_out = len(slots) > 1 and ("hypercube" in way.name or "agent" in way.name)
                seconds = sum(setting.fill(max(cell), max(cell))) * 0.1 * factor(way.name, cell)
                rows.append(
                    row(
                        way.name,
                        cell,
                        None if left_out else seconds,
                        runs,
                        "nodes differ" if left_out else "",
                    )
                )
    return Table(netmod, slots, rows)


def measured(*tables: Table, processors: int = 2) -> Measured:
    return Measured(processors, 0.5, "3.11.7", "x86_64", quick=False, seconds=9.0, tables=list(tables))


def judged(equal: Table, different: Table | None = None, processors: int = 2) -> dict[str, Verdict]:
    tables = [equal] if different is None else [equal, different]
    return {each.claim: each for each in verdicts(measured(*tables, processors=processors), "ofi")}


PARALLEL = "Parallel Merge over plain Merge, total, at most (equal nodes)"
RESPAWN = "Respawn (SS) over termination (TS), at least (equal nodes)"
RESPAWN_DIFFERENT = "Respawn (SS) over termination (TS), at least (different nodes)"


def test_the_paper_s_own_times_agree_with_the_paper() -> None:
    found = judged(table("ofi", (1,)), table("ofi", (1, 3)))
    assert {each.word for each in found.values()} == {"agrees"}
    assert not [each for each in found.values() if each.why]
    assert found[PARALLEL].ours == "1.11 (merge + diffusive, 1 to 8); the median is 1.08"
    assert found[RESPAWN].ours.startswith("1,600 (SS + hypercube, ")
    assert found[RESPAWN_DIFFERENT].ours.startswith("1,800 (SS + diffusive, ")
    assert found["Plain Merge is the quickest expansion (equal nodes)"].ours == (
        "in 6 of 6; among those that cannot be told apart in 6"
    )
    assert found["To outperform plain Merge (equal nodes)"].ours.startswith("agent, warm: 0.40 at most (")


def test_what_does_not_agree_is_said_with_its_cell_and_a_reason() -> None:
    def slow(way: str, cell: Cell) -> float:
        worse = {
            "merge + hypercube": 1.4 if cell == (2, 8) else 1.0,
            "SS + diffusive": 0.25,
            "agent, warm": 1.2,
        }
        return worse.get(way, 0.9 if way.startswith("baseline") else FACTORS[way])

    found = judged(table("ofi", (1,), slow), processors=2)
    assert (found[PARALLEL].word, found[PARALLEL].ours) == (
        "**does not agree**",
        "1.40 (merge + hypercube, 2 to 8); the median is 1.10",
    )
    assert "8 virtual nodes share 2 processors" in found[PARALLEL].why
    assert found[RESPAWN].ours.startswith("500 (SS + diffusive, ")
    assert "not 112 a node" in found[RESPAWN].why
    quickest = found["Plain Merge is the quickest expansion (equal nodes)"]
    assert quickest.ours == "in 0 of 6; among those that cannot be told apart in 0"
    assert quickest.why == "A rank test tells others from it; no reason is known."
    slower = found["Parallel Baseline is slower than plain Merge (equal nodes)"]
    assert (slower.ours, slower.agrees) == ("0.90 of plain Merge; quicker in 6 of 6 cells", False)
    assert not found["To outperform plain Merge (equal nodes)"].agrees
    assert found[RESPAWN_DIFFERENT].word == "not measured"
    own = judged(table("ofi", (1,), slow), processors=8)
    assert own[PARALLEL].why == "No reason is known; the phases of each resize are in the JSON."


def test_what_a_rank_test_cannot_tell_is_neither_agreed_nor_denied() -> None:
    """Another's median is a little less, and the runs overlap; the ratio is the same with few groups and many."""
    near = judged(table("ofi", (1,), lambda way, _: 0.9995 if way == "merge + diffusive" else 1.0))
    first = near["Plain Merge is the quickest expansion (equal nodes)"]
    assert (first.word, first.why) == ("cannot be told", "")
    assert first.ours == "in 0 of 6; among those that cannot be told apart in 6"
    assert (
        near["What parallel Merge costs over plain Merge grows with the groups (equal nodes)"].word
        == "cannot be told"
    )


def test_few_runs_claim_nothing() -> None:
    few = judged(table("ofi", (1,), runs=2))
    assert few[PARALLEL].word == "seems to agree: 2 runs of 5"
    assert few["Plain Merge is the quickest expansion (equal nodes)"].ours == "in 6 of 6"
    less = judged(table("ofi", (1,), lambda way, _: 2.0 if way == "merge + diffusive" else 1.0, runs=1))
    assert less[PARALLEL].word == "seems not to agree: 1 run of 5"


def test_a_plan_s_times_are_those_of_its_command_with_coefficients_that_are_fitted() -> None:
    equal, different = table("ofi", (1,)), table("ofi", (1, 3))
    costs, points = fitted(equal, 2)
    assert {cell for cell, _ in points} == {(1, 2), (1, 8), (2, 8), (2, 1), (4, 2), (8, 2)}
    assert {way for _, way in points} == {
        "merge", "merge + hypercube", "merge + diffusive", "baseline + hypercube", "baseline + diffusive", "TS", "ZS",
    }  # fmt: skip
    others = dict.fromkeys((*GROWS, *SHRINKS), 0.0)
    assert msgspec.structs.replace(costs, **others) == msgspec.structs.replace(SpawnCosts(), **others)
    plan = spawn_plan((1, 3, 1, 3), (1, 0, 0, 0), Method.BASELINE, Strategy.DIFFUSIVE)
    assert predicted("baseline + diffusive", Cell(1, 4), (1, 3), costs, 2) == pytest.approx(
        predict_spawn(plan, costs, processors=2).total_s
    )
    shrunk = json.loads(
        command(
            "plan",
            "shrink",
            "--groups",
            "n[0-7]=1",
            "--give-back",
            "n[2-7]",
            "--predict",
            "--processors",
            "2",
            "--json",
        )
    )
    shrinks = predicted("TS", Cell(8, 2), (1,), SpawnCosts(), 2)
    assert shrinks == pytest.approx(shrunk["predicted"]["blocked_s"])
    assert predicted("agent, warm", Cell(1, 8), (1,), costs, 2) is None
    agents = Table("ofi", (1,), [each for each in different.rows if "agent" in each.way])
    assert fitted(agents, 2) == (SpawnCosts(), frozenset())


TRUE = msgspec.structs.replace(
    SpawnCosts(), process_s=0.2, call_s=0.05, connect_s=0.02, launch_s=0.1, turn_s=0.004, part_each_s=0.001
)


def by_the_plan(costs: SpawnCosts, off: float = 1.0) -> Table:
    """What takes as long as the plans say with these coefficients; every other pair of sizes ``off`` times as long."""
    told = table("ofi", (1,))
    for grows in (True, False):
        odd = set(told.cells(grows=grows)[1::2])
        for at, each in enumerate(told.rows):
            if (each.after > each.before) is grows:
                seconds = predicted(each.way, each.cell, (1,), costs, 2)
                if seconds:
                    total = seconds * (off if each.cell in odd else 1.0)
                    told.rows[at] = msgspec.structs.replace(each, total_s=total)
    return told


def test_fitted_coefficients_tell_what_they_were_not_fitted_to() -> None:
    told = by_the_plan(TRUE)
    costs, points = fitted(told, 2)
    checked = 0
    for grows in (True, False):
        for cell in told.cells(grows=grows):
            for way in told.ways(grows=grows):
                expected, total = predicted(way, cell, (1,), costs, 2), told.total(cell, way)
                if expected and total and (cell, way) not in points:
                    checked += 1
                    assert expected == pytest.approx(total, rel=0.1), (cell, way)
    assert checked > 20


@pytest.mark.long
def test_what_was_not_fitted_to_changes_no_coefficient_and_is_told() -> None:
    costs, points = fitted(by_the_plan(TRUE), 2)
    assert fitted(by_the_plan(TRUE, off=3.0), 2) == (costs, points)
    one = by_the_plan(TRUE)
    one.rows[:] = [each for each in one.rows if each.cell in ((1, 4), (4, 1))]
    assert fitted(one, 2).points == {(Cell(1, 4), "merge"), (Cell(4, 1), "TS")}
    text = _of_the_plan(_told(by_the_plan(TRUE, off=3.0), 2))
    assert "fitted to 21 times of these: `process_s` " in text
    assert re.search(
        r"Of 15 growths that it was not fitted to, 0 came within a factor of 2; the farthest took 3\.?\d* times",
        text,
    )
    assert "shrinks that it was not fitted to" in text


@pytest.mark.long
def test_a_folder_tells_all_and_is_made_anew_from_what_it_keeps(tmp_path: Path) -> None:
    different = table("ofi", (1, 3))
    at = next(at for at, each in enumerate(different.rows) if each.way == "ZS")
    lost = msgspec.structs.replace(different.rows[at], total_s=None, runs_s=[], repetitions=0, hangs=5)
    different.rows[at] = lost
    told = measured(different, table("ucx", (1,), runs=2))
    told.left_out.append("ucx, 1 and 3 a node")
    (tmp_path / FILE).write_bytes(msgspec.json.encode(told))
    out = tmp_path / "out"
    facts = json.loads(command("reproduce", "spawning", "--from", str(tmp_path), "--out", str(out), "--json"))
    assert {path.name for path in out.iterdir()} == set(facts["files"])
    assert load(out) == told
    text = (out / "README.md").read_text()
    assert [*re.findall(r"!\[\]\((.*)\)", text)] == [
        "figure-5-ofi.png", "figure-6-ofi.png", "figure-5-ucx.png", "figure-4-ucx.png",
    ]  # fmt: skip
    assert all((out / name).read_bytes().startswith(b"\x89PNG") for name in re.findall(r"\((.*png)\)", text))
    assert "Medians of 2 to 5 runs." in text
    assert "Not measured: ucx, 1 and 3 a node." in text
    assert f"**5 runs hung** and were ended: ZS, {lost.before} to {lost.after}: 5." in text
    assert "Left out: merge + hypercube: nodes differ" in text
    assert f"| {RESPAWN_DIFFERENT} | 20 | 1,800 (SS + diffusive, " in text
    assert "Too few runs to say everywhere which ways are the quickest: 7 ways take 5 each." in text
    assert ">TS<" in (out / "figure-5-ofi.svg").read_text()
    assert "too few" in (out / "figure-5-ucx.svg").read_text()
    with (out / "spawning-ofi-different.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {each["slots"] for each in rows} == {"1 3"}
    assert all(each["predicted_s"] for each in rows)


def test_what_is_measured_in_parts_is_put_together() -> None:
    first, second = table("ofi", (1,)), table("ucx", (1, 3))
    again = table("ofi", (1,), runs=2)
    whole = together(together(None, measured(first, second)), measured(again))
    assert whole.tables == [again, second]
    assert whole.left_out == ["ofi, 1 and 3 a node", "ucx, 1 a node"]
    assert whole.seconds == 2 * measured(first).seconds


class Timed(NamedTuple):
    """A way whose resizes take a second."""

    name: str
    grows: bool = True

    def resize(self, cell: Cell, setting: Setting) -> Timing:
        if self.name == "hypercube":
            raise ValueError(f"nodes differ: {cell}, {setting}")
        if self.name == "hangs":
            raise Hung("not ended")
        return Timing(1.0, 0.5, None, {"start": 0.5})


def test_what_the_bench_tells_is_what_is_kept() -> None:
    ways = tuple(map(Timed, ("merge", "hypercube", "hangs")))
    series = measure(Effort((1, 2), ways, 3), Setting((), (1,), Surface(), 1.0), lambda *_: None)
    kept = Table("ofi", (1,), msgspec.convert(rows_of(series), list[Row]))
    assert kept.total(Cell(1, 2), "merge") == 1.0
    assert kept.at(Cell(1, 2), "hypercube") is None
    hung = kept.at(Cell(1, 2), "hangs")
    assert hung is not None
    assert (hung.hangs, hung.total_s, kept.ways(grows=True)) == (3, None, ["merge"])


def test_what_cannot_be_taken_from_a_folder_is_refused(tmp_path: Path) -> None:
    def said(*words: str) -> str:
        with pytest.raises(PliantError) as caught:
            command("reproduce", "spawning", "--from", str(tmp_path), "--out", str(tmp_path / "out"), *words)
        return str(caught.value)

    assert "spawning.json cannot be read: No such file" in said()
    (tmp_path / FILE).write_text('{"processors": "two"}')
    assert "spawning.json is not as it was written" in said()
    (tmp_path / FILE).write_bytes(msgspec.json.encode(measured()))
    assert "has no resize in it" in said()
    assert said("--quick") == "--from measures nothing without --only: leave out --quick and --repetitions"
    assert said("--only", "ofi:7") == (
        "--only ofi:7: there is no such table; there are ofi:1, ofi:1,3, ucx:1, ucx:1,3"
    )
    assert not (tmp_path / "out").exists()
