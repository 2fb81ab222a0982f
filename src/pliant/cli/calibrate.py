"""``pliant calibrate``: what resizes cost, fitted to those that live runs have recorded."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from pliant.sim.calibration import collect, cost, fit
from pliant.sim.shadow import read_records

MEANING = {
    "start_s": "start of a group, until it can be joined",
    "start_each_s": "more for each group that starts with it",
    "blocked_s": "the application stands still",
    "leave_s": "a released node is clean again",
    "answer_s": "a job answers an offer",
}


def register(app: typer.Typer) -> None:
    """Add ``calibrate`` to the command."""
    app.command("calibrate")(calibrate)


def calibrate(
    records: Annotated[list[Path], typer.Argument(help="Journals of live runs (records.ndjson).")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Fit the cost of resizes to recorded runs, and print each coefficient with its standard error."""
    fitted = fit(collect(read_records(path)[1] for path in records))
    if as_json:
        rows = {name: each._asdict() for name, each in fitted.items()}
        clean = {
            name: {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in row.items()}
            for name, row in rows.items()
        }
        typer.echo(json.dumps({"coefficients": clean, "cost": msgspec.to_builtins(cost(fitted))}))
        return
    table = Table("coefficient", "seconds", "standard error", "cases", "what it is")
    for name, each in fitted.items():
        shown = ("-" if math.isnan(value) else f"{value:.4f}" for value in (each.value, each.error))
        table.add_row(name, *shown, str(each.cases), MEANING[name])
    Console().print(table)
