"""``pliant bench``: measurements anyone can repeat; each verb prints figures, or JSON with ``--json``."""

from __future__ import annotations

import json
import os
import statistics
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from pliant.core import records as r
from pliant.core.state import Settings
from pliant.model.errors import TraceError
from pliant.policy.easy import Easy
from pliant.sim.simulator import INSTANT, SimJob, simulate
from pliant.sim.swf import read_swf, rigid_jobs

bench_app = typer.Typer(no_args_is_help=True, help="Measure Pliant on this machine.")

TRACE = "KTH-SP2.filtered.swf.gz"
PROCESSORS = 100
QUICK_JOBS = 5000


def register(app: typer.Typer) -> None:
    """Add ``bench`` and its verbs to the command."""
    app.add_typer(bench_app, name="bench")


class Counting:
    """A sink that only counts: what records and placement cost is measured, not what others do with them."""

    def __init__(self) -> None:
        self.records = 0
        self.placed = 0

    def __call__(self, record: r.Record) -> None:
        self.records += 1
        if type(record) is r.JobStarted:
            self.placed += len(record.nodes)


@bench_app.command()
def simulator(
    *,
    traces: Annotated[
        Path | None, typer.Option(help="Where the traces are; else $PLIANT_TRACES, or ../shared/traces.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help=f"Only the first {QUICK_JOBS:,} jobs, and once.")
    ] = False,
    repeat: Annotated[int, typer.Option(min=1, help="Runs; the median counts.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Jobs per CPU second of EASY on the KTH-SP2 trace, 100 processors, with records and placement."""
    path = find_trace(TRACE, traces)
    jobs = rigid_jobs(read_swf(path), PROCESSORS)
    if quick:
        jobs, repeat = jobs[:QUICK_JOBS], 1
    figures = measure_simulator(jobs, repeat)
    if as_json:
        typer.echo(json.dumps(figures))
        return
    table = Table(title=f"EASY on {path.name}, {PROCESSORS} processors", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_row("jobs", f"{figures['jobs']:,}")
    table.add_row("jobs per CPU second (median)", f"{figures['jobs_per_cpu_s']:,.0f}")
    table.add_row("of runs", ", ".join(f"{jobs / 1000:,.1f}k" for jobs in figures["runs"]))
    table.add_row("records", f"{figures['records']:,}")
    table.add_row("nodes placed", f"{figures['nodes_placed']:,}")
    Console().print(table)


def measure_simulator(jobs: list[SimJob], repeat: int) -> dict[str, Any]:
    """Simulate ``jobs`` ``repeat`` times under EASY; CPU seconds are this process' own, without reading."""
    speeds: list[float] = []
    sink = Counting()
    for _ in range(repeat):
        sink = Counting()
        began = time.process_time()
        simulate(jobs, PROCESSORS, Easy(), Settings(cost=INSTANT), sink)
        speeds.append(len(jobs) / (time.process_time() - began))
    return {
        "jobs": len(jobs),
        "jobs_per_cpu_s": statistics.median(speeds),
        "runs": speeds,
        "records": sink.records,
        "nodes_placed": sink.placed,
    }


def find_trace(name: str, folder: Path | None = None) -> Path:
    """The trace ``name`` in ``folder``, $PLIANT_TRACES or ../shared/traces; TraceError says where it is not."""
    named = os.environ.get("PLIANT_TRACES")
    folders = [folder] if folder else [Path(named)] if named else [Path("../shared/traces")]
    for place in folders:
        if (place / name).is_file():
            return place / name
    raise TraceError(
        f"the trace {name} is not in {', '.join(map(str, folders))}; name its folder by --traces or in PLIANT_TRACES"
    )
