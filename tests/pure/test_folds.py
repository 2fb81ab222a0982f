"""Every fold over records handles a record or says that it leaves it aside: a new one is forgotten by none. So does
every listener to ``Timeline`` with a row."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest

import pliant
from pliant.charts.dense import Dense
from pliant.core import records as r
from pliant.history.energy import Energy
from pliant.history.gantt import Gantt
from pliant.history.metrics import Metrics
from pliant.history.outcomes import Outcomes
from pliant.history.timeline import ROWS, Listener
from pliant.history.turnarounds import Turnarounds
from pliant.sim.evalys_csv import EvalysCsv
from pliant.sim.job_rows import JobRows
from pliant.sim.swf_schedule import SwfSchedule

SOURCE = Path(pliant.__file__).parent
RECORDS = frozenset(get_args(r.AnyRecord))
FOLDS = [
    ("core.state", "State"),
    ("core.usage", "Usage"),
    ("history.audit", "Audit"),
    ("history.timeline", "Timeline"),
    ("terminal.events", "EventTexts"),
    ("workloads.formats.journals", "_follow"),
    ("sim.calibration", "_collect"),
    ("sim.calibration", "_Work"),
]
"""(module, part); a function's IGNORES are its module's, a class's are its own."""
LISTENERS: list[type[Listener]] = [
    Metrics, Outcomes, Energy, Gantt, Dense, JobRows, EvalysCsv, SwfSchedule, Turnarounds,
]  # fmt: skip
NO_FOLDS = {("terminal.progress", "LiveView")}
"""It counts what has ended, and draws the state."""
ROOMS = ("testing", "reproduce", "measure")
"""Checks look at what they are about; a published experiment draws what its own runs consist of; a measurement waits
for what it has ordered."""
FEW = 3
"""Who looks for fewer kinds of records picks some and folds none."""


def _handled(node: ast.AST) -> frozenset[type[r.Record]]:
    """The records that are keys of a table, cases of a match or asked for by isinstance."""
    found: set[str] = set()
    for each in ast.walk(node):
        match each:
            case ast.MatchClass():
                named: list[ast.expr | None] = [each.cls]
            case ast.Dict():
                named = each.keys
            case ast.Call(func=ast.Name("isinstance"), args=[_, kinds]):
                named = [kinds]
            case _:
                continue
        found |= {n.attr for n in named if isinstance(n, ast.Attribute) and ast.unparse(n.value) == "r"}
    return frozenset(kind for kind in RECORDS if kind.__name__ in found)


def _parts(module: str) -> dict[str, ast.AST]:
    """The functions and classes of a module."""
    path = SOURCE.joinpath(*module.split(".")).with_suffix(".py")
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return {node.name: node for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def _modules() -> list[str]:
    return [
        ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        for path in SOURCE.rglob("*.py")
        if path.name != "__init__.py" and path.relative_to(SOURCE).parts[0] not in ROOMS
    ]


def _names(kinds: frozenset[type[r.Record]]) -> list[str]:
    return sorted(kind.__name__ for kind in kinds)


@pytest.mark.parametrize(("module", "part"), FOLDS)
def test_a_fold_handles_a_record_or_says_that_it_does_not(module: str, part: str) -> None:
    handled = _handled(_parts(module)[part])
    loaded = import_module(f"pliant.{module}")
    fold = getattr(loaded, part)
    ignored: r.Ignores = getattr(fold if isinstance(fold, type) else loaded, "IGNORES", frozenset())
    assert _names(handled & ignored) == [], "both handled and ignored"
    assert _names(RECORDS - handled - ignored) == [], f"neither in {module}.{part} nor in its IGNORES"


def test_no_fold_is_left_out() -> None:
    found = {
        (module, name)
        for module in _modules()
        for name, node in _parts(module).items()
        if len(_handled(node)) >= FEW
    }
    assert sorted(found - NO_FOLDS) == sorted(FOLDS)


@pytest.mark.parametrize("listener", LISTENERS)
def test_a_listener_has_a_row_or_says_that_it_has_not(listener: type[Listener]) -> None:
    has = {row for row in ROWS if row in vars(listener)}
    assert sorted(has & listener.IGNORES) == [], "both handled and ignored"
    assert sorted(set(ROWS) - has - listener.IGNORES) == [], f"neither in {listener} nor in its IGNORES"
    assert sorted(listener.IGNORES - set(ROWS)) == [], "no such row"


def test_no_row_and_no_listener_is_left_out() -> None:
    own = {"lives", "add", "parts"}
    assert sorted(set(ROWS)) == sorted(
        name for name in vars(Listener) if name.islower() and name[0] != "_" and name not in own
    )
    found = {
        (module, name)
        for module in _modules()
        for name, node in _parts(module).items()
        if isinstance(node, ast.ClassDef) and "Listener" in map(ast.unparse, node.bases)
    }
    assert sorted(found) == sorted(
        (each.__module__.removeprefix("pliant."), each.__name__) for each in LISTENERS
    )
