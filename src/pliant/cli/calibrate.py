"""``pliant calibrate``: what resizes cost, fitted to those that live runs have recorded."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from pliant.cli.outputs import AsJson
from pliant.core.records import AnyRecord
from pliant.files.journal import read_records
from pliant.model.errors import BatchError
from pliant.sim.calibration import collect, fit, to_json
from pliant.terminal.working import Working

MEANING = {
    "start_s": "start of a group, until it can be joined",
    "start_each_s": "more for each group that starts with it",
    "blocked_s": "the application stands still",
    "leave_s": "a released node is clean again",
    "answer_s": "a job answers an offer",
    "data_s": "more for each megabyte that a node has to hold",
    "end_s": "a job that has done its work ends",
}


def _read(paths: Sequence[Path], progress: Working) -> Iterator[Sequence[AnyRecord]]:
    for path in paths:
        yield read_records(path)[1]
        progress.advance()


def calibrate(
    records: Annotated[list[Path], typer.Argument(help="Journals of live runs (records.ndjson).")],
    *,
    out: Annotated[
        Path | None, typer.Option(help="Write the costs to this file, for simulate --cost and run --cost.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fit the cost of resizes to recorded runs. It prints each coefficient with its standard error."""
    with Working("reading", len(records), "journals") as progress:
        fitted = fit(collect(_read(records, progress)))
    if out is not None:
        try:
            out.write_bytes(to_json(fitted) + b"\n")
        except OSError as error:
            raise BatchError(f"--out {out}: cannot be written: {error.strerror or error}") from None
    if as_json:
        typer.echo(to_json(fitted))
        return
    table = Table("coefficient", "seconds", "standard error", "cases", "what it is")
    for name, each in fitted.items():
        shown = ("-" if math.isnan(value) else f"{value:.4f}" for value in (each.value, each.error))
        table.add_row(name, *shown, str(each.cases), MEANING[name])
    Console().print(table)
