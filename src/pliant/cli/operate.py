"""Verbs for a run that goes on in another terminal: ``pliant resize`` and ``pliant queue``."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from pliant.daemon import control
from pliant.model.errors import PliantError
from pliant.model.limits import whole

RUN = Annotated[str, typer.Option("--run", help="Which run, if several go on (pliant queue lists them).")]


def register(app: typer.Typer) -> None:
    """Add ``resize`` and ``queue`` to the command."""
    app.command("resize")(resize)
    app.command("queue")(queue)


def resize(
    job: Annotated[str, typer.Argument(help="Number or name of a running job.")],
    size: Annotated[str, typer.Argument(help="Nodes, or auto to hand the job back to the policy.")],
    *,
    leave: Annotated[str, typer.Option(help="Nodes that must be given back in a shrink, as n[0-1].")] = "",
    run: RUN = "",
) -> None:
    """Order a running job to another size. It keeps that size until it is ordered to another, or to auto."""
    nodes = 0 if size == "auto" else whole(size)
    if nodes is None or (nodes == 0 and size != "auto"):
        raise PliantError(f"{size!r} is no number of nodes; give a whole number of 1 or more, or auto")
    request = control.Request("resize", job, nodes, leave)
    answer = control.ask(_the_run(run), request)
    if answer.error:
        raise PliantError(answer.error)
    Console().print(answer.text, highlight=False, markup=False)


def queue(
    *,
    run: RUN = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Pending and running jobs of the run that goes on."""
    answer = control.ask(_the_run(run), control.Request("queue"))
    if as_json:
        typer.echo(json.dumps(answer.jobs))
        return
    table = Table("JOB", "NAME", "STATE", "NODES", "NODELIST", "SIZES")
    for job in answer.jobs:
        table.add_row(*(str(job[key]) for key in ("job", "name", "state", "nodes", "nodelist", "sizes")))
    Console().print(table)


def _the_run(wanted: str) -> str:
    """The id of the run that is meant. One that does not answer now is a run as well: it may only be busy."""
    found = control.survey()
    runs = [*found.answering, *found.silent]
    shown = [*found.answering, *(f"{run} (no answer: {why})" for run, why in found.silent.items())]
    if wanted and wanted not in runs:
        raise PliantError(f"there is no run {wanted!r}; going on: {', '.join(shown) or 'none'}")
    if not runs:
        raise PliantError("no run goes on; start one with pliant run or pliant demo in another terminal")
    if not wanted and len(runs) > 1:
        raise PliantError(f"several runs go on: {', '.join(shown)}; choose one with --run")
    return wanted or runs[0]
