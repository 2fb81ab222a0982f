"""``pliant resize``, ``migrate``, ``nodes`` and ``queue``, for a run that goes on in another terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pliant.daemon import control
from pliant.model.errors import PliantError
from pliant.model.kinds import JobKind
from pliant.model.limits import MOST_NODES, whole
from pliant.model.need import Need, checked_label
from pliant.model.words import count
from pliant.report.words import plain

NO_RUN = "no run goes on; start one with pliant run or pliant demo in another terminal"
COLUMNS = (
    "job", "name", "kind", "state", "nodes", "nodelist", "labels", "source", "awake", "sizes", "wish", "expires"
)  # fmt: skip
NODE_COLUMNS = ("node", "slots", "labels", "source", "use", "expires")
VIRTUAL = "virtual"
"""Where most nodes come from: that is not said where all do."""
RUN = Annotated[str, typer.Option("--run", help="Which run, if several go on (pliant queue lists them).")]
JSON = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def resize(  # noqa: PLR0913 -- a command has its options as parameters
    job: Annotated[str, typer.Argument(metavar="JOB", help="Number or name of a running job.")],
    size: Annotated[
        str, typer.Argument(metavar="SIZE", help="Nodes, or auto to hand the job back to the policy.")
    ] = "",
    *,
    leave: Annotated[str, typer.Option(help="Nodes that must be given back in a shrink, as n[0-1].")] = "",
    slots: Annotated[
        str,
        typer.Option(help="In place of SIZE: ranks that stay awake on nodes, as n3=1 or n1=2,n[2-3]=1."),
    ] = "",
    run: RUN = "",
    as_json: JSON = False,
) -> None:
    """Order a running job to another size. It keeps that size until it is ordered to another, or to auto. With --slots
    it keeps its nodes, and its last ranks there sleep, or wake up again."""
    if slots:
        if size or leave:
            raise PliantError(
                "--slots leaves the job on its nodes: order it alone, and SIZE or --leave before or after it"
            )
        _order(run, control.ControlRequest("resize", job, slots=slots), as_json)
        return
    if not size:
        raise PliantError("say what the job is to have: a number of nodes, auto, or --slots n3=1")
    nodes = 0 if size == "auto" else whole(size)
    if nodes is None or (nodes == 0 and size != "auto"):
        raise PliantError(f"{size!r} is no number of nodes; give a whole number of 1 or more, or auto")
    _order(run, control.ControlRequest("resize", job, nodes, leave), as_json)


def migrate(
    job: Annotated[str, typer.Argument(metavar="JOB", help="Number or name of a running job.")],
    *,
    leave: Annotated[str, typer.Option(help="Nodes that it leaves, as n[0-1]; default: all.")] = "",
    run: RUN = "",
    as_json: JSON = False,
) -> None:
    """Order a running job to other nodes. It takes its data along and keeps its size."""
    _order(run, control.ControlRequest("migrate", job, leave=leave), as_json)


def add(
    nodes: Annotated[str, typer.Argument(metavar="COUNT", help="How many more.")],
    *,
    slots: Annotated[int, typer.Option(min=0, help="The least slots of each.")] = 0,
    label: Annotated[
        list[str] | None, typer.Option(help="What each is labelled (pliant run --label); may be repeated.")
    ] = None,
    run: RUN = "",
    as_json: JSON = False,
) -> None:
    """Ask for more nodes. Jobs that wait start on them when they are there. A request that no node can fulfil is
    refused at once, and one for nodes that are leaving waits for them."""
    number = whole(nodes)
    if not number:
        raise PliantError(f"{nodes!r} is no number of nodes; give a whole number of 1 or more")
    try:
        need = Need(slots, tuple(sorted({checked_label(each) for each in label or ()})))
    except ValueError as error:
        raise PliantError(f"--label: {error}") from None
    _order(run, control.ControlRequest("nodes", size=number, need=need if need != Need() else None), as_json)


def listed(*, run: RUN = "", as_json: JSON = False) -> None:
    """List the nodes of a run, and those that were asked for and have not come."""
    run = _the_run(run)
    answer = control.ask(run, control.ControlRequest("list"))
    if answer.error:
        raise PliantError(f"run {run}: {answer.error}")
    if as_json:
        typer.echo(json.dumps({"run": run, "nodes": answer.there, "awaited": answer.awaited}))
        return
    rows = [{**each, "labels": ",".join(each["labels"])} for each in answer.there]  # type: ignore[arg-type]
    columns = [key for key in NODE_COLUMNS if key in ("node", "use") or _says(rows, key)]
    table = Table(*(key.upper() for key in columns))
    for row in rows:
        going = ", asked back" if row.get("asked_back") and row["use"] != "leaving" else ""
        cells = row | {"use": f"{row['use']}{going}"}
        table.add_row(*(Text(plain(_cell(cells.get(key, "")))) for key in columns))
    console = Console()
    console.print(table)
    for each in answer.awaited:
        need = msgspec.convert({key: value for key, value in each.items() if key != "count"}, Need)
        text = (
            f"{count(int(str(each['count'])), 'more node')} asked for{f', {need}' if need != Need() else ''}"
        )
        console.print(text, highlight=False, markup=False)


def remove(
    nodes: Annotated[str, typer.Argument(metavar="NODES", help="Which ones, as n3 or n[3-4].")],
    *,
    within: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="At the latest then: what is still there is ended in time, as TIMEOUT."
        ),
    ] = "",
    run: RUN = "",
    as_json: JSON = False,
) -> None:
    """Give nodes back. Nothing new starts on them; a job that is there and can change moves to free nodes or goes on
    with fewer, and others are waited for."""
    from pliant.model.durations import duration  # seldom needed

    within_s = duration(within, "--within", plain=True) if within else 0.0
    _order(run, control.ControlRequest("nodes", leave=nodes, within_s=within_s), as_json)


def withdraw(
    nodes: Annotated[str, typer.Argument(metavar="[COUNT]", help="How many; default: all.")] = "",
    *,
    run: RUN = "",
    as_json: JSON = False,
) -> None:
    """Do without nodes that were asked for and have not come. Some may come all the same."""
    count = whole(nodes) if nodes else MOST_NODES
    if not count:
        raise PliantError(f"{nodes!r} is no number of nodes; give a whole number of 1 or more")
    _order(run, control.ControlRequest("nodes", size=-count), as_json)


def _order(run: str, request: control.ControlRequest, as_json: bool) -> None:  # noqa: FBT001 - a private helper
    """Send the request to the run, and print its answer, with the run and the job or the nodes."""
    run = _the_run(run)
    answer = control.ask(run, request)
    if answer.error:
        raise PliantError(f"run {run}: {answer.error}")
    if not as_json:
        Console().print(f"run {run}: {answer.text}", highlight=False, markup=False, soft_wrap=True)
        return
    about = {"job": answer.job, "name": answer.name, "nodes": answer.nodes, "count": answer.count}
    typer.echo(
        json.dumps({"run": run, **{key: value for key, value in about.items() if value}, "text": answer.text})
    )


def queue(
    *,
    run: RUN = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List the pending and running jobs of all runs that go on, or of one."""
    found = _queues([_the_run(run)] if run else list(_runs()))
    errors = [str(answer) for answer in found.values() if isinstance(answer, PliantError)]
    if errors and len(errors) == len(found):
        raise PliantError("; ".join(errors))
    if as_json:
        typer.echo(json.dumps([_plain(name, answer) for name, answer in found.items()]))
    elif found:
        Console().print(_table(found))
    else:
        typer.echo(f"No jobs: {NO_RUN}")


def _queues(runs: list[str]) -> dict[str, control.ControlAnswer | PliantError]:
    """What each run says is in its queue, asked all at once: one that hangs does not hold up the others."""

    def ask(run: str) -> control.ControlAnswer | PliantError:
        try:
            return control.ask(run, control.ControlRequest("queue"))
        except PliantError as error:
            return error

    with ThreadPoolExecutor(max(1, len(runs))) as pool:
        return dict(zip(runs, pool.map(ask, runs), strict=True))


def _plain(run: str, answer: control.ControlAnswer | PliantError) -> dict[str, object]:
    if isinstance(answer, PliantError):
        return {"run": run, "jobs": [], "error": str(answer)}
    return {"run": run, "jobs": answer.jobs}


def _table(found: dict[str, control.ControlAnswer | PliantError]) -> Table:
    """All jobs, a row each. Where all are of kind mpi, that is not said, nor where no rank sleeps or no
    job has asked for a size that it has not got."""
    jobs = [
        job for answer in found.values() if isinstance(answer, control.ControlAnswer) for job in answer.jobs
    ]
    kinds = any(job.get("kind", JobKind.MPI) != JobKind.MPI for job in jobs)
    shown = {"kind": kinds, "awake": any(job.get("awake") for job in jobs)}
    shown |= {key: _says(jobs, key) for key in ("wish", "expires", "labels", "source")}
    columns = [key for key in COLUMNS if shown.get(key, True)]
    table = Table("RUN", *(key.upper() for key in columns))
    for run, answer in found.items():
        if isinstance(answer, PliantError):
            table.add_row(run, "", Text("does not answer", style="bold yellow"))
        elif not answer.jobs:
            table.add_row(run, "", Text("no jobs", style="dim"))
        else:
            for job in answer.jobs:
                table.add_row(run, *(Text(plain(_cell(job.get(key, "")))) for key in columns))
    return table


def _says(rows: Sequence[Mapping[str, object]], key: str) -> bool:
    """Whether a column says anything."""
    usual = {"slots": 1, "source": VIRTUAL}
    return any(row.get(key) not in (None, "", usual.get(key)) for row in rows)


def _cell(value: object) -> str:
    """A value in a table; ``n3=1`` for what is said by node."""
    if isinstance(value, dict):
        return ",".join(f"{name}={count}" for name, count in value.items())
    return str(value)


def _runs() -> dict[str, str]:
    """The ids of the runs that go on, each as it is shown. One that does not answer now may only be busy."""
    found = control.survey()
    runs = {run: run for run in found.answering}
    runs |= {run: f"{run} (no answer: {why})" for run, why in found.silent.items()}
    return runs


def _the_run(wanted: str) -> str:
    """The id of the run that is meant."""
    runs = _runs()
    if not runs:
        raise PliantError(NO_RUN)
    shown = ", ".join(runs.values())
    if wanted and wanted not in runs:
        raise PliantError(f"there is no run {wanted!r}; going on: {shown}")
    if not wanted and len(runs) > 1:
        raise PliantError(f"several runs go on: {shown}; choose one with --run")
    return wanted or next(iter(runs))
