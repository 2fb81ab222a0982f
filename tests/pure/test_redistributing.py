"""The figures of ``pliant bench redistribute``, of what its program says."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from pliant_lab.commands.bench_redistribute import checks_table, moves_table, resizes_table, write_csv
from pliant_lab.measure import asking
from pliant_lab.measure.redistributing import around, effort, summary, table

AROUND = {"bytes": 2_000_000_000, "processors": 2, "load_average": 0.5}


def row(method: str, seconds: float, extra: float = 0.0, before: int = 2, after: int = 4) -> dict[str, Any]:
    return {
        "before": before,
        "after": after,
        "method": method,
        "seconds": seconds,
        "extra": extra,
        "wrong": 0,
    }


def test_each_method_is_held_against_what_was_moved_by_hand_in_the_same_round() -> None:
    found = [
        row("bare", 1.0), row("p2p", 2.0, 0.05), row("shared", 1.0, 0.01),
        row("bare", 8.0), row("p2p", 4.0, 0.01), row("shared", 8.0, 0.02),
        row("bare", 3.0), row("p2p", 4.0, 0.01), row("shared", 4.0, 0.07),
    ]  # fmt: skip
    rows = table([*found, row("p2p", 1.0, before=4, after=2)], 2_000_000_000)
    assert [each["bandwidth_ratio"] for each in rows] == [1.0, 0.75, 1.0, None]
    assert [each["gb_s"] for each in rows] == [0.667, 0.5, 0.5, 2.0]
    assert summary(rows) == {
        "bandwidth_ratio": 0.75, "peak_extra_ratio": 0.05,
        "medians_s": {"bandwidth_ratio": [4.0, 3.0]}, "repetitions": 3,
    }  # fmt: skip
    assert moves_table(rows, AROUND).row_count == 4


def test_all_resizes_between_neighbours_occur_once_in_a_pass() -> None:
    assert around((1, 2, 4, 8)) == (1, 2, 4, 8, 4, 2)
    assert around((1, 2)) == (1, 2)


def test_the_rows_are_written_as_one_table(tmp_path: Path) -> None:
    resize = {
        "before": 1,
        "after": 2,
        "scheduling_s": 0.5,
        "resize_s": 0.25,
        "blocked_s": 0.125,
        "repetitions": 3,
    }
    write_csv(tmp_path / "out.csv", table([row("bare", 1.0)], 1 << 30), [resize])
    read = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert [(each["kind"], each["seconds"], each["resize_s"]) for each in read] == [
        ("move", "1.0", ""), ("resize", "", "0.25")
    ]  # fmt: skip
    assert resizes_table([resize], 1 << 30).row_count == 1


@pytest.mark.parametrize("quick", [True, False])
def test_what_has_a_bar_is_measured(quick: bool) -> None:  # noqa: FBT001 - a case
    asked = effort(1 << 30, quick=quick)
    assert (2, 4) in asked.cells
    assert asked.methods[:2] == ("bare", "p2p")


def test_what_checks_cost_has_a_row_each() -> None:
    row = {"medians": [0.5, 0.7], "repetitions": 3}
    names = [case.name for case in asking.cases(quick=True)]
    assert names == ["check_no_action_ms", "check_inhibited_us", "steps_share"]
    assert checks_table({"asking": dict.fromkeys(names, row)}).row_count == 3
