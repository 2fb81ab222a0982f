"""``pliant simulate``: a trace or a batch under a virtual clock."""

from __future__ import annotations

import json
import resource
import time
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, NamedTuple, Self

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from pliant.core.metrics import Metrics, RunMetrics
from pliant.core.state import Settings
from pliant.model.errors import BatchError, TraceError
from pliant.policy import registry
from pliant.sim.batches import batch_jobs, batch_settings, read_batch_file
from pliant.sim.simulator import INSTANT, SimEnd, SimJob, simulate
from pliant.sim.swf import read_swf, rigid_jobs

QUIET_S = 2.0
"""Work that is over sooner shows no progress."""


class Workload(NamedTuple):
    """What a file says, completed by the command line; ``starting`` as for the simulator."""

    jobs: list[SimJob]
    nodes: int
    policy: str
    start: str | None
    settings: Settings
    starting: bool


def register(app: typer.Typer) -> None:
    """Add ``simulate`` to the command."""
    app.command("simulate")(simulate_file)


def simulate_file(
    file: Annotated[Path, typer.Argument(help="A trace in SWF (.swf, .swf.gz), or a batch (.toml).")],
    *,
    nodes: Annotated[int, typer.Option(min=0, help="Nodes of the machine; 0: what the file says.")] = 0,
    policy: Annotated[
        str, typer.Option(help=f"One of {', '.join(registry.POLICIES)}; else the batch's own, or easy.")
    ] = "",
    start: Annotated[
        str, typer.Option(help=f"Start rule of jobs with a choice: {', '.join(registry.START_RULES)}.")
    ] = "",
    rigid: Annotated[bool, typer.Option("--rigid", help="Fix every job at its preferred size.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Simulate a trace or a batch and show waits, utilisation and resizes."""
    load = _workload(file, nodes, policy, start, rigid=rigid)
    chosen = registry.make(load.policy, load.start)
    metrics = Metrics(keep_jobs=False)
    with _Progress(len(load.jobs)) as progress:
        began = time.process_time()
        end = simulate(
            load.jobs,
            load.nodes,
            chosen,
            load.settings,
            metrics.add,
            starting=load.starting,
            progress=progress.show,
        )
        cpu_s = time.process_time() - began
    figures = _figures(metrics.summary(load.nodes), end, cpu_s)
    if as_json:
        typer.echo(json.dumps(figures))
    else:
        Console().print(_table(f"{file.name}: {load.policy} on {load.nodes} nodes", figures))


def _workload(file: Path, nodes: int, policy: str, start: str, *, rigid: bool) -> Workload:
    if file.suffix == ".toml":
        batch = read_batch_file(file)
        cluster = batch.cluster
        return Workload(
            batch_jobs(batch, rigid=rigid),
            nodes or cluster.nodes,
            policy or cluster.policy,
            start or cluster.start,
            batch_settings(cluster),
            starting=True,
        )
    if not {".swf", ".txt"} & set(file.suffixes):
        raise TraceError(f"{file}: neither a trace (.swf, .swf.gz) nor a batch (.toml)")
    trace = read_swf(file)
    nodes = nodes or trace.processors or 0
    if not nodes:
        raise BatchError(f"{file}: its header does not say how large the machine is; give --nodes")
    return Workload(
        rigid_jobs(trace, nodes),
        nodes,
        policy or "easy",
        start or None,
        Settings(cost=INSTANT),
        starting=False,
    )


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

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
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
                TextColumn("jobs"),
                TimeRemainingColumn(),
                console=self._console,
                transient=True,
            )
            self._task = self._bar.add_task("", total=self._jobs, completed=ended)
            self._bar.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
