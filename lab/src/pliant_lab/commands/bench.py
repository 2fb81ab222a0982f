"""``pliant bench``: measurements anyone can repeat; each verb prints figures, or JSON with ``--json``."""

from __future__ import annotations

import json
import resource
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.table import Table

from pliant.core import core
from pliant.core import records as r
from pliant.core.settings import Settings
from pliant.plan.cost import INSTANT
from pliant.policy.easy import Easy
from pliant.policy.registry import POLICIES
from pliant.policy.view import Policy
from pliant.sim.simulator import Conditions, simulate
from pliant.study.workers import Workers
from pliant.terminal.working import Working
from pliant.workloads.formats.swf import read_swf, rigid_jobs
from pliant.workloads.generators.lublin import lublin_jobs
from pliant.workloads.job import SimJob
from pliant_lab.commands import bench_bursts, bench_machines
from pliant_lab.commands.bench_bursts import BRIEF
from pliant_lab.measure.generated import GeneratedLoad, malleable_batch
from pliant_lab.measure.traces import TRACES, find_trace

T = TypeVar("T")

TRACE = "KTH-SP2.filtered.swf.gz"
PROCESSORS = 100
LUBLIN_NODES = 1152
LUBLIN_LOAD = 0.8
SEED = 42
MALLEABLE_NODES = 32
MALLEABLE_GAP_S = 8.0
"""Mean time between two arrivals: keeps about nine tenths of the 32 nodes busy."""
QUICK_JOBS = 5000
COMPILED = not core.__file__.endswith(".py")
"""Whether this is the optional build, in which the pure modules are compiled."""


def over_seeds(
    seeds: range, work: Callable[[list[int]], list[T]], chunk: int, workers: int, what: str
) -> Iterator[list[T]]:
    """``work`` done for all seeds, ``chunk`` at a time, in so many processes; the results of each chunk, in order. How
    far it has come is shown, counted in ``what``."""
    chunks = [list(seeds[i : i + chunk]) for i in range(0, len(seeds), chunk)]
    with Working("trying", len(seeds), what) as progress, Workers(workers) as several:
        for some in several.each([(work, (each,)) for each in chunks]):
            progress.advance(len(some))
            yield some


class Counting:
    """A sink that only counts: what records and placement cost is measured, not what others do with them."""

    def __init__(self) -> None:
        self.records = 0
        self.placed = 0

    def __call__(self, record: r.Record) -> None:
        self.records += 1
        if type(record) is r.JobStarted:
            self.placed += len(record.nodes)


def tell_seeds(
    figures: Mapping[str, object], broken: Sequence[str], beside: Mapping[str, object], *, as_json: bool
) -> None:
    """Print what came of all seeds, and of the ``broken`` ones a line each, or as JSON what is ``beside`` it. If there
    is one, that is the end, with exit code 1."""
    if as_json:
        typer.echo(json.dumps({**figures, **beside}))
    else:
        for name, value in figures.items():
            typer.echo(f"{name:20} {value}")
        for line in broken[:20]:
            typer.echo(line)
    if broken:
        raise typer.Exit(1)


def simulator(
    *,
    traces: Annotated[Path | None, typer.Option(help=f"Where the traces are; default: ${TRACES}.")] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help=f"At most {QUICK_JOBS:,} jobs of each workload, once, or {BRIEF} times if brief."
        ),
    ] = False,
    repeat: Annotated[int, typer.Option(min=1, help="Runs; the median counts.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Simulate: jobs per CPU second, with records and every check of the core. EASY runs on the KTH-SP2 trace with 100
    processors, and on 100,000 jobs of the Lublin model on 1,152 nodes. Minimum agreement, malleable and marginal run on
    10,000 generated malleable jobs on 32 nodes, with the default costs of resizes. Marginal runs on 10,000 jobs of the
    Lublin model, all malleable, on 128 nodes. Then each policy gets bursts of 1,000 and 4,000 jobs that arrive at once,
    and 100,000 nodes."""
    path = find_trace(TRACE, traces)
    instant = Settings(cost=INSTANT)
    most = QUICK_JOBS if quick else 10**9
    if quick:
        repeat = 1
    steps = 6 + len(bench_bursts.POLICIES) + len(POLICIES)
    with Working("measuring", steps, "workloads") as progress:

        def measured(
            jobs: list[SimJob], nodes: int, policy: Callable[[], Policy], settings: Settings
        ) -> dict[str, Any]:
            found = measure_simulator(jobs, nodes, policy, settings, repeat)
            progress.advance()
            return found

        kth = measured(rigid_jobs(read_swf(path), PROCESSORS)[:most], PROCESSORS, Easy, instant)
        workload = lublin_jobs(min(100_000, most), LUBLIN_NODES, SEED, load=LUBLIN_LOAD)
        lublin = measured(workload, LUBLIN_NODES, Easy, instant)
        batch = malleable_batch(SEED, min(10_000, most), MALLEABLE_NODES, load=GeneratedLoad(MALLEABLE_GAP_S))
        malleable = {
            name: measured(batch, MALLEABLE_NODES, POLICIES[name], Settings())
            for name in ("min-agreement", "malleable", "marginal")
        }
        workload = bench_machines.lublin(min(10_000, most), malleable=True)
        marginal = measured(workload, bench_machines.SMALL, POLICIES["marginal"], instant)
        at_once = bench_bursts.bursts(repeat, progress.advance)
        large = bench_machines.machines(repeat, progress.advance)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if as_json:
        figures = {
            **kth,
            "easy_kth_jobs_per_cpu_s": kth["jobs_per_cpu_s"],
            "lublin_jobs_per_cpu_s": lublin["jobs_per_cpu_s"],
            "malleable_jobs_per_cpu_s": malleable["min-agreement"]["jobs_per_cpu_s"],
            "malleable": malleable,
            "marginal_jobs_per_cpu_s": marginal["jobs_per_cpu_s"],
            **bench_bursts.figures(at_once),
            **bench_machines.figures(large),
            "peak_mb": peak_mb,
            "compiled": COMPILED,
        }
        typer.echo(json.dumps(figures))
        return
    table = Table(
        title=f"The simulator{', compiled' if COMPILED else ''}, jobs per CPU second; peak memory {peak_mb:.0f} MB"
    )
    for heading in ("workload", "jobs", "records", "nodes placed", "jobs per CPU second (median)", "of runs"):
        table.add_column(heading, justify="left" if heading == "workload" else "right")
    for name, figures in (
        (f"EASY, {path.name}, {PROCESSORS} processors", kth),
        (f"EASY, Lublin's model, {LUBLIN_NODES:,} nodes", lublin),
        *((f"{name}, generated, {MALLEABLE_NODES} nodes", figures) for name, figures in malleable.items()),
        (f"marginal, Lublin's model, {bench_machines.SMALL} nodes", marginal),
    ):
        runs = ", ".join(f"{speed / 1000:,.1f}k" for speed in figures["runs"])
        counts = (f"{figures[key]:,}" for key in ("jobs", "records", "nodes_placed"))
        table.add_row(name, *counts, f"{figures['jobs_per_cpu_s']:,.0f}", runs)
    Console().print(table)
    Console().print(bench_bursts.table(at_once))
    Console().print(bench_machines.table(large))


def measure_simulator(
    jobs: list[SimJob], nodes: int, policy: Callable[[], Policy], settings: Settings, repeat: int
) -> dict[str, Any]:
    """Simulate ``jobs`` ``repeat`` times, more often if that is brief; CPU seconds are this process' own, without
    reading or drawing."""
    speeds: list[float] = []
    sink = Counting()
    while len(speeds) < repeat:
        sink = Counting()
        began = time.process_time()
        simulate(jobs, nodes, policy(), Conditions(settings), sink)
        took = time.process_time() - began
        repeat = bench_bursts.runs(repeat, took)
        speeds.append(len(jobs) / took)
    return {
        "jobs": len(jobs),
        "jobs_per_cpu_s": statistics.median(speeds),
        "runs": speeds,
        "records": sink.records,
        "nodes_placed": sink.placed,
    }
