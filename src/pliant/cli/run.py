"""``pliant run``: a user's own batch, or one command, on virtual nodes of this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

from pliant.cli import execute
from pliant.cli.outputs import check_report
from pliant.daemon.verify import unusable
from pliant.files.batch import read_batch_file
from pliant.files.cost import read_cost
from pliant.model.batch import Batch, read_batch
from pliant.model.errors import BatchError, PliantError
from pliant.model.kinds import JobKind
from pliant.model.limits import MOST_NODES, as_name
from pliant.model.speedup import Phases
from pliant.page.html import write_report
from pliant.policy import registry
from pliant.policy.order import ORDERS
from pliant.report.runs import Run, report_json
from pliant.terminal.console import console as steady_console
from pliant.terminal.console import write_out
from pliant.terminal.failures import told
from pliant.terminal.tables import compare_table, job_table

OUTPUT = Path("pliant-runs")
WALLTIME_S = 3600.0
"""What a command is taken to need if nobody says."""
NOT_WRITTEN = 2
"""The exit code if all went well but the report."""


def register(app: typer.Typer) -> None:
    """Add ``run`` to the command."""
    app.command("run")(run)


def run(
    batch_or_command: Annotated[
        list[str] | None, typer.Argument(metavar="BATCH.toml | -- COMMAND...", show_default=False)
    ] = None,
    *,
    size: Annotated[
        str, typer.Option("-N", help="Without a batch: nodes of the job, as 4 or 1:8 (min:max); else 1.")
    ] = "",
    walltime: Annotated[
        float | None,
        typer.Option(
            "-t",
            "--walltime",
            help="Without a batch: estimate in seconds, else 3600. The queue is planned by it; a job that takes "
            "longer goes on.",
        ),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Without a batch: end the job after so long; its estimate, too. In a batch each job says so: "
            "walltime = SECONDS and kill = true.",
        ),
    ] = None,
    kind: Annotated[
        JobKind | None,
        typer.Option(help="Without a batch: what the job's nodes are to each other; else mpi."),
    ] = None,
    nodes: Annotated[
        int, typer.Option(min=0, max=MOST_NODES, help="Virtual nodes; 0: what the batch says, or 8.")
    ] = 0,
    policy: Annotated[
        str, typer.Option(help=f"One of {', '.join(registry.POLICIES)}, or FILE.py[:CLASS].")
    ] = "",
    start: Annotated[str, typer.Option(help=f"Start rule: {', '.join(registry.START_RULES)}.")] = "",
    order: Annotated[str, typer.Option(help=f"Queue order: {', '.join(ORDERS)}.")] = "",
    rigid: Annotated[
        bool, typer.Option("--rigid", help="Every job at its preferred size, under EASY.")
    ] = False,
    compare: Annotated[bool, typer.Option("--compare", help="Run twice: rigid, then malleable.")] = False,
    cost: Annotated[
        str, typer.Option(help="What resizes cost: a file by pliant calibrate --out, none, or default.")
    ] = "default",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the batch and predict it; start nothing.")
    ] = False,
    report: Annotated[
        Path | None, typer.Option(help="Write an HTML report here, and JSON beside it.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print report.json instead of tables.")] = False,
    output: Annotated[Path, typer.Option(help="Directory for the jobs' output and the records.")] = OUTPUT,
) -> None:
    """Run a batch of jobs, or one command, and show what became of it."""
    check_report(report, [text for text in (*(batch_or_command or [])[:1], cost, policy) if text])
    costs = read_cost(cost)
    batch = _batch(batch_or_command or [], size, walltime, nodes, policy, start, order, time_limit, kind)
    if not dry_run:
        _check_live(batch, rigid=rigid and not compare)
    chosen = execute.policy_of(batch.cluster, rigid=False)
    console = steady_console(stderr=as_json)
    kinds = [True, False] if compare else [rigid]
    runs: list[Run] = []
    for fixed in kinds:
        name = "rigid" if fixed else chosen.name
        if dry_run:
            runs.append(execute.predicted(batch, name, rigid=fixed, cost=costs))
        elif not runs or runs[-1].stopped is None:
            place = output / name if compare else output
            runs.append(execute.live(batch, name, rigid=fixed, output=place, console=console, cost=costs))
    if dry_run:
        console.print("Predicted by the simulator; nothing was started.")
    finish(runs, console, report=report, as_json=as_json, where=output if not dry_run else None)


def _check_live(batch: Batch, *, rigid: bool) -> None:
    """BatchError for jobs that only the simulator can run as they are described, and for results that cannot
    be checked."""
    for job in batch.jobs:
        if problem := unusable(job):
            raise BatchError(f"{batch.source}: job {job.name!r}: verify: {problem}")
        if isinstance(job.model, Phases) and not rigid:
            raise BatchError(
                f"{batch.source}: job {job.name!r}: phases: evolving jobs by phases can only be simulated: use "
                "pliant simulate or --dry-run, or --rigid to run each at its preferred size"
            )


def finish(
    runs: list[Run], console: Console, *, report: Path | None, as_json: bool, where: Path | None
) -> None:
    """Tables or JSON, what went wrong, the report, and the exit code; raises what has stopped a run early."""
    unwritten = None
    if as_json:
        unwritten = write_out(report_json(runs))
    else:
        if len(runs) == 1 or any(run.failed or run.differing or run.unchecked for run in runs):
            for each in runs:
                console.print("", job_table(each, console.width))
        console.print("")
        if len(runs) > 1 or len(runs[0].jobs) > 1:  # of a lone job the means say nothing more
            console.print(compare_table(runs), "")
    if lines := list(told(runs)):
        for line in lines:
            console.print(line, soft_wrap=bool(line.no_wrap) or not console.is_terminal)
        console.print("")
    written = report is None or _write(runs, report, console)
    if where is not None:
        said = f"output of the jobs and records: {where}"
        console.print(said, markup=False, highlight=False, soft_wrap=True)
    for each in runs:
        if each.stopped is not None:
            raise each.stopped
    if unwritten is not None:
        raise PliantError(f"standard output: the results could not be written: {unwritten.strerror}")
    if code := execute.exit_code(runs) or (0 if written else NOT_WRITTEN):
        raise typer.Exit(code)


def _write(runs: list[Run], report: Path, console: Console) -> bool:
    """Write the report and its data, each even if the other cannot be; whether both are there."""
    data = report.with_suffix(".json")
    there: list[str] = []
    for what, path, page, numbers in (("data", data, None, data), ("report", report, report, None)):
        try:
            write_report(runs, page, numbers)
            there.append(f"{what}: {path}")
        except OSError as error:
            sys.stderr.write(
                f"pliant: --report {report}: {path} was not written: {error.strerror or error}\n"
            )
    if there:
        console.print(", ".join(reversed(there)), markup=False, highlight=False, soft_wrap=True)
    return len(there) == 2


def _batch(
    words: list[str],
    size: str,
    walltime: float | None,
    nodes: int,
    policy: str,
    start: str,
    order: str,
    time_limit: float | None = None,
    kind: JobKind | None = None,
) -> Batch:
    """The batch that the command line means, completed by its options; BatchError."""
    if not words:
        raise BatchError("nothing to run: name a BATCH.toml, or give a command after --")
    if len(words) == 1 and words[0].endswith(".toml"):
        _check_for_command(words[0], size, walltime, time_limit, kind)
        batch = read_batch_file(Path(words[0]))
    else:
        job: dict[str, Any] = {
            "name": as_name(_name(words)),
            "command": words,
            "nodes": size or "1",
            "kind": kind or JobKind.MPI,
            **_walltime(walltime, time_limit),
        }
        batch = read_batch({"cluster": {"nodes": nodes or 8}, "jobs": [job]}, "the command line")
    cluster = msgspec.structs.replace(
        batch.cluster,
        nodes=nodes or batch.cluster.nodes,
        policy=policy or batch.cluster.policy,
        start=start or (None if policy else batch.cluster.start),  # the batch's own goes with its policy
        order=order or batch.cluster.order,
    )
    for each in batch.jobs:
        if each.nodes.min > cluster.nodes:
            raise BatchError(
                f"{batch.source}: job {each.name!r}: nodes: it needs {each.nodes.min} nodes "
                f"and the cluster has {cluster.nodes}; it could never start"
            )
    return msgspec.structs.replace(batch, cluster=cluster)


def _check_for_command(
    batch: str, size: str, walltime: float | None, time_limit: float | None, kind: JobKind | None
) -> None:
    """BatchError for options that only a command takes: in a batch each job says so itself."""
    if time_limit is not None:
        raise BatchError(
            f"--time-limit is for a command; in {batch}, give each job that shall be ended "
            f"walltime = {time_limit:g} and kill = true"
        )
    for option, key, value in (("-N", "nodes", size), ("-t", "walltime", walltime), ("--kind", "kind", kind)):
        if value not in ("", None):
            raise BatchError(f"{option} is for a command; in {batch}, give each job its {key}")


def _walltime(walltime: float | None, time_limit: float | None) -> dict[str, Any]:
    """What ``-t`` or ``--time-limit`` says, as keys of a job; BatchError."""
    if time_limit is None:
        return {"walltime": WALLTIME_S if walltime is None else walltime}
    if walltime is not None:
        raise BatchError("-t and --time-limit: give one of them; a limit is an estimate as well")
    if not time_limit > 0:
        raise BatchError(f"--time-limit {time_limit:g}: it must be above 0 seconds")
    return {"walltime": time_limit, "kill": True}


def _name(command: list[str]) -> str:
    """What a person would call this command: the script or module that Python runs, else the program."""
    words = [word for word in command[1:] if not word.startswith("-")]
    if words[0:1] == ["mpi4py"] and len(words) > 1:
        del words[0]  # python -m mpi4py program.py
    if Path(command[0]).name.startswith("python") and words:
        return Path(words[0]).stem if words[0].endswith(".py") else words[0].rpartition(".")[2]
    return Path(command[0]).name
