"""``pliant simulate``: a trace or a batch under a virtual clock."""

from __future__ import annotations

import json
import resource
import time
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Self

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from pliant.cli import simulated
from pliant.cli.shares import Chosen, percentages, study, table
from pliant.core.metrics import Metrics, RunMetrics
from pliant.model.errors import BatchError
from pliant.policy import registry
from pliant.policy.order import HALF_LIFE_S, ORDERS
from pliant.report.simulated import Picture, Simulated
from pliant.sim.estimates import REQUESTED
from pliant.sim.instant import Instant
from pliant.sim.simulator import SimEnd, simulate
from pliant.sim.sources import FORMS, Wish, read_workload

QUIET_S = 2.0
"""Work that is over sooner shows no progress."""


def register(app: typer.Typer) -> None:
    """Add ``simulate`` to the command."""
    app.command("simulate")(simulate_file)


def simulate_file(
    workload: Annotated[str, typer.Argument(help=f"One of: {FORMS}.", show_default=False)] = "",
    *,
    from_records: Annotated[
        str, typer.Option(help="What a live run was given (its records.ndjson), under --policy: what if?")
    ] = "",
    nodes: Annotated[int, typer.Option(min=0, help="Nodes of the machine; 0: what the workload says.")] = 0,
    policy: Annotated[
        str,
        typer.Option(
            help=f"One of {', '.join(registry.POLICIES)}, or FILE.py[:CLASS]; else the batch's own, "
            "easy, or with --malleable malleable."
        ),
    ] = "",
    start: Annotated[
        str, typer.Option(help=f"Start rule of jobs with a choice: {', '.join(registry.START_RULES)}.")
    ] = "",
    rigid: Annotated[bool, typer.Option("--rigid", help="Fix every job at its preferred size.")] = False,
    order: Annotated[str, typer.Option(help=f"Queue order: {', '.join(ORDERS)}.")] = "submission",
    weight: Annotated[
        list[str] | None, typer.Option(help="USER=WEIGHT, for the orders fairshare and weight; repeatable.")
    ] = None,
    half_life_s: Annotated[
        float, typer.Option("--half-life", min=1.0, help="Seconds in which fairshare's usage halves.")
    ] = HALF_LIFE_S,
    instant: Annotated[
        Instant, typer.Option(help="Events of one instant: together, or in pyss' order, for its exact waits.")
    ] = Instant.TOGETHER,
    malleable: Annotated[
        str, typer.Option(help="Percentages of rigid jobs to make malleable, as in 0,50,100; a row for each.")
    ] = "",
    compat: Annotated[
        bool, typer.Option("--compat", help="With --malleable: run times in the published, longer form.")
    ] = False,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of generators, of --malleable and --estimates.")
    ] = 42,
    seeds: Annotated[
        int, typer.Option(min=1, help="Repeat with so many seeds, and show means and 95 % intervals.")
    ] = 1,
    workers: Annotated[
        int, typer.Option(min=0, help="Processes for several simulations; 0: one a processor.")
    ] = 0,
    estimates: Annotated[
        str,
        typer.Option(help="Users' estimates: requested, exact, or factor:F (up to F + 1 times too long)."),
    ] = REQUESTED,
    node_flops: Annotated[
        float | None, typer.Option(min=1.0, help="Speed of a node in FLOP/s, for ElastiSim's jobs.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write an HTML report of one simulation here, and JSON beside it.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Simulate a trace, a batch or a generated workload and show waits, utilisation and resizes."""
    if bool(workload) == bool(from_records):
        raise BatchError(
            "name one workload to simulate, or a journal by --from-records (pliant simulate --help)"
        )
    workload = workload or from_records
    wish = Wish(workload, nodes, seed, rigid, None, compat, estimates, node_flops)
    if compat and not malleable:
        raise BatchError("--compat changes nothing without --malleable")
    which = Chosen(policy, start, order, tuple(weight or ()), half_life_s)
    shares = percentages(malleable) if malleable else None
    simulated.check_one(report, workload, shares or (), seeds)
    if report is not None and shares:
        wish = wish._replace(percent=shares[0])
    elif shares or seeds > 1:
        _study(wish, shares, seeds, which, instant, workers, as_json=as_json)
        return
    load = read_workload(wish)
    chosen = which.make(load, "easy" if wish.percent is None else "malleable")
    picture = Picture(len(load.jobs)) if report is not None else None
    metrics = Metrics(keep_jobs=False)
    with _Progress(len(load.jobs)) as progress:
        began = time.process_time()
        end = simulate(
            load.jobs,
            load.nodes,
            chosen,
            load.settings,
            metrics.add if picture is None else picture.beside(metrics.add),
            starting=load.starting,
            instant=instant,
            progress=progress.show,
        )
        cpu_s = time.process_time() - began
    summary = metrics.summary(load.nodes)
    figures = _figures(summary, end, cpu_s)
    if report is not None and picture is not None:
        of = Simulated(
            Path(workload).name, chosen.name, load.nodes, simulated.facts(wish, load, start, instant)
        )
        simulated.write(report, picture, of, summary)
        Console(stderr=as_json).print(f"report: {report}, data: {report.with_suffix('.json')}", markup=False)
    if as_json:
        typer.echo(json.dumps(figures))
    else:
        Console().print(_table(f"{Path(workload).name}: {chosen.name} on {load.nodes} nodes", figures))


def _study(
    wish: Wish,
    shares: list[float] | None,
    seeds: int,
    chosen: Chosen,
    instant: Instant,
    workers: int,
    *,
    as_json: bool,
) -> None:
    """Several simulations, and a row for each share of malleable jobs."""
    with _Progress(len(shares or (0,)) * seeds, "simulations") as progress:
        result = study(wish, shares, seeds, chosen, instant=instant, workers=workers, progress=progress.show)
    if as_json:
        typer.echo(json.dumps(result))
    else:
        Console().print(table(result))


def _figures(summary: RunMetrics, end: SimEnd, cpu_s: float) -> dict[str, Any]:
    return {
        "jobs": end.jobs,
        "wait_mean_s": summary.wait_mean_s,
        "wait_max_s": summary.wait_max_s,
        "bounded_slowdown_mean": summary.bounded_slowdown_mean,
        "makespan_s": summary.makespan_s,
        "utilisation": summary.utilisation,
        "turnaround_mean_s": summary.turnaround_mean_s,
        "expands": summary.expands,
        "shrinks": summary.shrinks,
        "failed": summary.failed,
        "cpu_s": cpu_s,
        "jobs_per_cpu_s": end.jobs / cpu_s if cpu_s > 0 else None,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


_ROWS = {
    "jobs": ("jobs", "{:,}"),
    "failed": ("of them failed", "{:,}"),
    "wait_mean_s": ("mean wait", "{:,.2f} s"),
    "wait_max_s": ("longest wait", "{:,.2f} s"),
    "turnaround_mean_s": ("mean turnaround", "{:,.2f} s"),
    "bounded_slowdown_mean": ("mean bounded slowdown", "{:,.4f}"),
    "makespan_s": ("makespan", "{:,.2f} s"),
    "utilisation": ("utilisation", "{:.2%}"),
    "expands": ("expansions", "{:,}"),
    "shrinks": ("shrinks", "{:,}"),
    "cpu_s": ("CPU time", "{:.2f} s"),
    "jobs_per_cpu_s": ("jobs per CPU second", "{:,.0f}"),
    "peak_mb": ("peak memory", "{:.0f} MB"),
}


def _table(title: str, figures: dict[str, Any]) -> Table:
    table = Table(title=title, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for key, (label, form) in _ROWS.items():
        if figures[key] is not None:
            table.add_row(label, form.format(figures[key]))
    return table


class _Progress:
    """A bar on standard error, if that is a terminal, for work of more than ``QUIET_S`` seconds."""

    def __init__(self, count: int, what: str = "jobs") -> None:
        self._count = count
        self._what = what
        self._console = Console(stderr=True)
        self._began = time.monotonic()
        self._bar: Progress | None = None
        self._task = TaskID(0)

    def __enter__(self) -> Self:
        return self

    def show(self, ended: int) -> None:
        if self._bar is not None:
            self._bar.update(self._task, completed=ended)
        elif self._console.is_terminal and time.monotonic() - self._began > QUIET_S:
            self._bar = Progress(
                TextColumn("simulating"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn(self._what),
                TimeRemainingColumn(),
                console=self._console,
                transient=True,
            )
            self._task = self._bar.add_task("", total=self._count, completed=ended)
            self._bar.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
