"""``pliant simulate``: a trace or a batch under a virtual clock."""

from __future__ import annotations

import json
import math
import resource
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Self

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from pliant.cli import simulated
from pliant.cli.outputs import check_outputs
from pliant.cli.shares import Chosen, percentages, study, table
from pliant.cli.shares import policies as named_policies
from pliant.core.metrics import THRASH_S, Metrics, RunMetrics
from pliant.files.cost import read_cost
from pliant.model.errors import BatchError
from pliant.page.simulated import Picture, Simulated
from pliant.policy import registry
from pliant.policy.order import HALF_LIFE_S, ORDERS
from pliant.report.words import count
from pliant.sim.instant import Instant
from pliant.sim.jobs_csv import JobsCsv
from pliant.sim.references import reference_times
from pliant.sim.simulator import SimEnd, simulate
from pliant.workloads.estimates import REQUESTED
from pliant.workloads.failures import read_failures
from pliant.workloads.sources import FORMS, Overrides, Wish, read_workload

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
            "easy, or with --malleable malleable. Several, as in easy,malleable, are compared."
        ),
    ] = "",
    start: Annotated[
        str, typer.Option(help=f"Start rule of jobs with a choice: {', '.join(registry.START_RULES)}.")
    ] = "",
    rigid: Annotated[bool, typer.Option("--rigid", help="Fix every job at its preferred size.")] = False,
    order: Annotated[str, typer.Option(help=f"Queue order: {', '.join(ORDERS)}.")] = "",
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
    pass_interval: Annotated[
        float | None,
        typer.Option(min=0.0, help="Seconds between scheduling passes; 0: one whenever it may matter."),
    ] = None,
    cost: Annotated[
        str, typer.Option(help="What resizes cost: a file by pliant calibrate --out, none, or default.")
    ] = "",
    failures: Annotated[
        str,
        typer.Option(
            help="Nodes fail and return: mtbf=90d,repair=1h (and seed=N), or a CSV of node, fail_s, return_s."
        ),
    ] = "",
    requeue: Annotated[
        bool, typer.Option(help="Submit jobs that lose a node again; else they end as NODE_FAIL.")
    ] = True,
    jobs_csv: Annotated[
        Path | None, typer.Option(help="Write a line for each job to this file, in order of submission.")
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
    if from_records and Path(from_records).suffix != ".ndjson":
        raise BatchError(f"--from-records {from_records}: a journal is called records.ndjson")
    if weight and order not in ("fairshare", "weight") and (order or not workload.endswith(".toml")):
        raise BatchError("--weight changes nothing without --order fairshare or --order weight")
    workload = workload or from_records
    overrides = Overrides(_finite(pass_interval, "--pass-interval"), read_cost(cost) if cost else None)
    wish = Wish(workload, nodes, seed, rigid, None, compat, estimates, node_flops, overrides=overrides)
    if failures:
        wish = wish._replace(failures=read_failures(failures, requeue=requeue))
    elif not requeue:
        raise BatchError("--no-requeue changes nothing without --failures")
    if compat and not malleable:
        raise BatchError("--compat changes nothing without --malleable")
    several = [
        Chosen(name, start, order, tuple(weight or ()), half_life_s) for name in named_policies(policy)
    ]
    shares = percentages(malleable) if malleable else None
    if jobs_csv is not None and len(shares or (0,)) * seeds * len(several) > 1:
        raise BatchError(
            f"--jobs-csv {jobs_csv}: it has the jobs of one simulation; name one policy, at most one "
            "percentage, and no --seeds"
        )
    simulated.check_one(report, shares or (), seeds, len(several))
    pages = [report, report.with_suffix(".json")] if report is not None else []
    check_outputs(
        [*pages, *([jobs_csv] if jobs_csv is not None else [])],
        [text for text in (workload, cost, failures, *named_policies(policy)) if text],
    )
    if report is not None and shares:
        wish = wish._replace(percent=shares[0])
    elif shares or seeds > 1 or len(several) > 1:
        _study(wish, shares, seeds, several, instant, workers, jobs_csv, as_json=as_json)
        return
    with ExitStack() as stack:
        lines = stack.enter_context(JobsCsv(jobs_csv)) if jobs_csv is not None else None
        figures, title = _single(wish, several[0], instant, lines, report)
    if report is not None:
        Console(stderr=as_json).print(f"report: {report}, data: {report.with_suffix('.json')}", markup=False)
    if as_json:
        typer.echo(json.dumps(figures))
    else:
        Console().print(_table(title, figures))


def _single(
    wish: Wish, which: Chosen, instant: Instant, lines: JobsCsv | None, report: Path | None
) -> tuple[dict[str, Any], str]:
    """One simulation: its figures, and what it was. ``lines`` and ``report`` get its records too."""
    load = read_workload(wish)
    chosen = which.make(load, "easy" if wish.percent is None else "malleable")
    metrics = Metrics(keep_jobs=False, reference=reference_times(load.jobs))
    picture = Picture(len(load.jobs)) if report is not None else None
    sink = metrics.add if picture is None else picture.beside(metrics.add)
    with _Progress(len(load.jobs)) as progress:
        began = time.process_time()
        end = simulate(
            load.jobs,
            load.nodes,
            chosen,
            load.settings,
            lines.beside(sink) if lines is not None else sink,
            starting=load.starting,
            instant=instant,
            progress=progress.show,
            failures=load.failures,
        )
        cpu_s = time.process_time() - began
    name = Path(wish.text).name
    summary = metrics.summary()
    if report is not None and picture is not None:
        facts = simulated.facts(wish, load, which.start, instant, end)
        simulated.write(report, picture, Simulated(name, chosen.name, load.nodes, facts), summary)
    figures = {"left_out": load.left_out, **_figures(summary, end, cpu_s)}
    return figures, f"{name}: {chosen.name} on {count(load.nodes, 'node')}"


def _finite(value: float | None, option: str) -> float | None:
    if value is not None and not math.isfinite(value):
        raise BatchError(f"{option}: {value:g} is no number of seconds")
    return value


def _study(
    wish: Wish,
    shares: list[float] | None,
    seeds: int,
    several: list[Chosen],
    instant: Instant,
    workers: int,
    jobs_csv: Path | None,
    *,
    as_json: bool,
) -> None:
    """Several simulations, and a row for each share of malleable jobs and policy."""
    with _Progress(len(shares or (0,)) * seeds * len(several), "simulations") as progress:
        result = study(
            wish,
            shares,
            seeds,
            several,
            instant=instant,
            workers=workers,
            jobs_csv=jobs_csv,
            progress=progress.show,
        )
    if as_json:
        typer.echo(json.dumps(result))
    else:
        console = Console()
        console.print(table(result, console))


NOT_SHOWN = ("jobs", "ended", "pace_overrun")
"""Metrics of no interest here: jobs are not kept, all of them end, and none is paced."""


def _figures(summary: RunMetrics, end: SimEnd, cpu_s: float) -> dict[str, Any]:
    metrics = msgspec.to_builtins(summary, str_keys=True)
    return {
        "jobs": end.jobs,
        **{key: value for key, value in metrics.items() if key not in NOT_SHOWN},
        "node_failures": end.node_failures,
        "requeued": end.requeued,
        "lost_node_s": end.lost_node_s,
        "cpu_s": cpu_s,
        "jobs_per_cpu_s": end.jobs / cpu_s if cpu_s > 0 else None,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


_SPREAD = ("median", "p95", "p99", "max")
_SECONDS = "{:,.2f} s"
_RESIZES = (
    ("expands", "expansions", "{:,}"),
    ("expands_per_malleable_job", "  per malleable job", "{:,.2f}"),
    ("shrinks", "shrinks", "{:,}"),
    ("shrinks_per_malleable_job", "  per malleable job", "{:,.2f}"),
    ("thrash", f"  undone within {THRASH_S:g} s", "{:,}"),
    ("blocked_mean_s", "blocked by a resize, mean", _SECONDS),
    ("resizing_node_s", "lost to joining and leaving", "{:,.0f} node s"),
    ("paused_node_s", "lost to standing still", "{:,.0f} node s"),
)
_SECTIONS: tuple[tuple[tuple[str, str, str], ...], ...] = (
    (
        ("jobs", "jobs", "{:,}"),
        ("left_out", "in the trace, but did not run", "{:,}"),
        ("failed", "of them failed", "{:,}"),
        ("node_failures", "node failures", "{:,}"),
        ("requeued", "  jobs requeued for them", "{:,}"),
        ("lost_node_s", "  work lost", "{:,.0f} node s"),
        ("makespan_s", "makespan", _SECONDS),
        ("utilisation", "utilisation", "{:.2%}"),
        ("useful_utilisation", "  less what stood still", "{:.2%}"),
        ("goodput", "goodput", "{:.2%}"),
    ),
    (
        ("wait_mean_s", "mean wait", _SECONDS),
        ("wait_spread", "  median, 95 %, 99 %, longest", "{}"),
        ("turnaround_mean_s", "mean turnaround", _SECONDS),
        ("turnaround_spread", "  median, 95 %, 99 %, longest", "{}"),
        ("bounded_slowdown_mean", "mean bounded slowdown", "{:,.4f}"),
        ("bounded_slowdown_preferred_mean", "  by run time at preferred size", "{:,.4f}"),
    ),
    (
        ("class_rigid", "rigid: mean wait, turnaround", "{}"),
        ("class_moldable", "moldable: mean wait, turnaround", "{}"),
        ("class_malleable", "malleable: mean wait, turnaround", "{}"),
        ("class_evolving", "evolving: mean wait, turnaround", "{}"),
        ("malleable_to_rigid_turnaround", "stretch, malleable over rigid", "{:,.4f}"),
        ("users", "users", "{:,}"),
        ("users_jain", "  Jain's index of their stretches", "{:.4f}"),
    ),
    (
        ("promised", "promised a start", "{:,}"),
        ("promises_broken", "  started later than that", "{:,}"),
        ("promise_delay_max_s", "  by at most", _SECONDS),
    ),
    _RESIZES,
    (
        ("cpu_s", "CPU time", "{:.2f} s"),
        ("jobs_per_cpu_s", "jobs per CPU second", "{:,.0f}"),
        ("peak_mb", "peak memory", "{:.0f} MB"),
    ),
)
"""What the table shows: key, label and form, by sections."""


def _table(title: str, figures: dict[str, Any]) -> Table:
    table = Table(title=Text(title, style="table.title"), show_header=False)
    table.add_column()
    table.add_column(justify="right")
    values = _worth_showing(figures)
    for section in _SECTIONS:
        for key, label, form in section:
            if values.get(key) is not None:
                table.add_row(label, form.format(values[key]))
        table.add_section()
    return table


def _worth_showing(figures: dict[str, Any]) -> dict[str, Any]:
    """The figures without those that say nothing here, and several that make one row together."""
    values = dict(figures)
    for what in ("wait", "turnaround"):
        spread = [figures[f"{what}_{each}_s"] for each in _SPREAD]
        digits = 0 if spread[-1] >= 1000 else 2
        values[f"{what}_spread"] = ", ".join(f"{each:,.{digits}f}" for each in spread) + " s"
    if len(figures["classes"]) > 1:
        for name, each in figures["classes"].items():
            values[f"class_{name}"] = f"{each['wait_mean_s']:,.2f}, {each['turnaround_mean_s']:,.2f} s"
    if figures["users"] < 2:
        del values["users"], values["users_jain"]
    if not figures["expands"] + figures["shrinks"]:
        resizing = {key for key, _, _ in _RESIZES} - {"expands", "shrinks"}
        values = {key: value for key, value in values.items() if key not in resizing or figures[key]}
    if not figures["promised"]:
        del values["promised"], values["promises_broken"]
    if not figures["promises_broken"]:
        del values["promise_delay_max_s"]
    if not figures["left_out"]:
        del values["left_out"]
    if not figures["paused_node_s"]:
        del values["useful_utilisation"]
    if not figures["node_failures"]:
        del values["node_failures"], values["requeued"], values["lost_node_s"]
    return values


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
