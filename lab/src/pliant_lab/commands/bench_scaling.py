"""``pliant bench scaling``: task programs over places and workers, their start-up, and their resizes."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from pliant.terminal.working import Working
from pliant_lab.measure import scaling as measured
from pliant_lab.measure.programs import Figures
from pliant_lab.reproduce.folder import Folder

TABLES = {"programs": "scaling", "startup": "startup", "resizes": "resizes"}
"""What is measured, and the file that it goes to."""
BATCH = "programs.toml"


def scaling(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Shorter runs, and each once.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            help="A folder for the tables as CSV, and as a batch that the simulator takes; one that "
            "this command wrote before is replaced."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Run each task program over 1 and 2 places and workers, and resize it. It measures the start of places too,
    and the parts of growing and shrinking (10 minutes)."""
    effort = measured.QUICK if quick else measured.FULL
    with (
        nullcontext() if output is None else Folder(output) as folder,
        Working("measuring", measured.steps(effort), "runs") as progress,
        tempfile.TemporaryDirectory() as place,
    ):
        figures = measured.measure(effort, Path(place), progress.advance)
        if folder is not None:
            write(folder, figures)
    if as_json:
        typer.echo(json.dumps(figures))
    else:
        for key in TABLES:
            Console().print(table(figures[key], key))


def write(folder: Folder, figures: Figures) -> None:
    """The tables as files, and a README.md that says what they are."""
    for key, name in TABLES.items():
        rows = figures[key]
        folder.table(name, list(rows[0]), [list(row.values()) for row in rows])
    folder.text(BATCH, measured.batch_text(figures))
    load, sha = figures["load_average"], figures["sha"]
    folder.readme(
        f"# Task programs, measured\n\n{figures['processors']} processors, load {load} at the start, "
        f"SHA-1 {sha}, medians of {figures['rounds']} rounds.\n\n"
        "- scaling.csv: seconds within the main function, and speed-up over the bare kernel\n"
        "- startup.csv: seconds from the order to start a job until it can be resized, by number of places\n"
        "- resizes.csv: growths and shrinks while a tree is searched, and the phases that they consist of\n"
        f"- {BATCH}: the programs as jobs whose models are these times: `pliant simulate {BATCH}`\n"
    )


def table(rows: Sequence[dict[str, Any]], title: str) -> Table:
    shown = Table(title=title)
    for name in rows[0]:
        shown.add_column(name, justify="left" if isinstance(rows[0][name], str) else "right")
    for row in rows:
        shown.add_row(*(f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in row.values()))
    return shown
