"""How the figures of ``pliant bench launch`` are shown."""

from __future__ import annotations

from typing import Any

from pliant_lab.commands.bench_launch import notes, table

FIGURES = {"window": 8, "ssh_delay_s": 0.5, "repetitions": 3, "processors": 2, "load_average": 0.1, "loud": 0}


def row(name: str, **more: Any) -> dict[str, Any]:
    return {
        "nodes": 64, "contender": name, "seconds": 2.0, "of_flat": 0.5, "runs_s": [1.0, 2.0, 3.0], "failed": "", **more
    }  # fmt: skip


def test_each_contender_has_a_row_and_a_note_where_there_is_something_to_say() -> None:
    rows = [
        row("flat ssh loop"),
        row("pliant", phases={"start": 0.5, "contacts": 0.25}, connections_max=9, depth=2),
        row("hydra", seconds=None, of_flat=None, runs_s=[], failed="exit code 1: [markup] no"),
    ]
    assert table(rows, FIGURES).row_count == 3
    assert list(notes(rows, {"pdsh": "not installed"})) == [
        "pliant, 64 nodes: depth 2, 9 connections at most; start 0.50, contacts 0.25",
        "hydra, 64 nodes: failed: exit code 1: [markup] no",
        "pdsh: left out: not installed",
    ]
