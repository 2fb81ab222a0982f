"""``pliant bench batches``, ``leaks`` and ``cycles``: real runs, repeated, and what they lose."""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from pliant.cli import execute
from pliant.cli.execute import Variant
from pliant.daemon import control
from pliant.launch import processes, shm
from pliant.model.batch import Batch, ClusterSpec
from pliant.policy import registry
from pliant.report.runs import Run
from pliant.terminal.working import Working
from pliant_lab.measure import cycles as measured
from pliant_lab.measure.generated import GeneratedLoad, malleable_batch

NODES = 8
WORK_S = (5.0, 60.0)
HEAT = ("python", "-m", "pliant.apps.heat", "--rows", "128", "--cols", "128", "--steps", "200")


def heat_batch(seed: int, jobs: int, gap_s: float = 2.0, start: str | None = None) -> Batch:
    """``jobs`` malleable heat solvers for 8 nodes; the same seed gives the same batch."""
    drawn = malleable_batch(seed, jobs, NODES, malleable=1.0, load=GeneratedLoad(gap_s, WORK_S))
    specs = tuple(
        msgspec.structs.replace(job.spec, command=(*HEAT, "--pace"), verify=(*HEAT, "--serial"))
        for job in drawn
    )
    return Batch(ClusterSpec(NODES, start=start), specs, f"seed {seed}")


def batches(
    *,
    seeds: Annotated[int, typer.Option(min=1, help="Batches, with seeds 1, 2, ...")] = 10,
    jobs: Annotated[int, typer.Option(min=1, help="Jobs a batch.")] = 10,
    start: Annotated[str, typer.Option(help=f"Start rule: {', '.join(registry.START_RULES)}.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Run batches of real MPI jobs, malleable and under rigid EASY. Each batch is drawn from a seed, and takes
    about 90 s."""
    rows: list[dict[str, Any]] = []
    with Working("running", 2 * seeds, "batches") as progress, tempfile.TemporaryDirectory() as place:
        for seed in range(1, seeds + 1):
            batch = heat_batch(seed, jobs, start=start or None)
            runs = []
            for rigid in (True, False):
                runs.append(execute.whole(Variant(batch, f"seed {seed}", rigid), output=Path(place)))
                progress.advance()
            rows.append(_row(seed, *runs))
    figures = {"seeds": rows, **_summary(rows)}
    if as_json:
        typer.echo(json.dumps(figures))
    else:
        Console().print(_table(rows))
        Console().print(
            "; ".join(f"{key.replace('_', ' ')}: {value}" for key, value in _summary(rows).items())
        )
    if figures["not_verified"]:
        raise typer.Exit(1)


def _row(seed: int, rigid: Run, malleable: Run) -> dict[str, Any]:
    outcomes = [*rigid.metrics.jobs, *malleable.metrics.jobs]
    row: dict[str, Any] = {"seed": seed}
    for key in ("makespan_s", "turnaround_mean_s", "wait_mean_s", "utilisation"):
        row[f"rigid_{key}"] = round(getattr(rigid.metrics, key), 3)
        row[f"malleable_{key}"] = round(getattr(malleable.metrics, key), 3)
    for key in ("makespan_s", "turnaround_mean_s"):
        row[f"{key.removesuffix('_s')}_ratio"] = round(row[f"malleable_{key}"] / row[f"rigid_{key}"], 4)
    row["resizes"] = malleable.metrics.expands + malleable.metrics.shrinks
    row["blocked_max_s"] = round(malleable.metrics.blocked_max_s, 4)
    row["pace_overrun"] = round(max(each.metrics.pace_overrun or 0.0 for each in (rigid, malleable)), 5)
    row["not_verified"] = sum(1 for job in outcomes if job.verified is not True)
    return row


def _summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "makespan_won": sum(row["makespan_ratio"] < 1 for row in rows),
        "makespan_lost": sum(row["makespan_ratio"] > 1 for row in rows),
        "makespan_ratio_median": round(statistics.median(row["makespan_ratio"] for row in rows), 4),
        "turnaround_won": sum(row["turnaround_mean_ratio"] < 1 for row in rows),
        "turnaround_lost": sum(row["turnaround_mean_ratio"] > 1 for row in rows),
        "turnaround_ratio_median": round(statistics.median(row["turnaround_mean_ratio"] for row in rows), 4),
        "not_verified": sum(row["not_verified"] for row in rows),
    }


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table("seed", title="malleable against rigid EASY; ratios below 1 are in favour of malleable")
    columns = {
        "rigid s": "rigid_makespan_s", "malleable s": "malleable_makespan_s",
        "makespan ratio": "makespan_ratio",
        "turnaround ratio": "turnaround_mean_ratio", "resizes": "resizes", "longest block s": "blocked_max_s",
        "pace overrun": "pace_overrun", "not verified": "not_verified",
    }  # fmt: skip
    for title in columns:
        table.add_column(title, justify="right")
    for row in rows:
        table.add_row(str(row["seed"]), *(f"{row[key]}" for key in columns.values()))
    return table


def leaks(
    *,
    runs: Annotated[int, typer.Option(min=1, help="How many runs of a batch of about 15 seconds.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Count what many runs leave: processes, directories, shared memory."""
    segments = {path.name for path in shm.SHM.iterdir()}
    places = {path.name for path in control.base().iterdir()}
    seconds = []
    failed = 0
    with Working("running", runs, "batches") as progress, tempfile.TemporaryDirectory() as place:
        for seed in range(1, runs + 1):
            batch = heat_batch(seed, 4, gap_s=1.0)
            run = execute.whole(Variant(batch, f"run {seed}", rigid=False), output=Path(place))
            seconds.append(run.metrics.makespan_s)
            failed += execute.exit_code([run])
            progress.advance()
    figures = {
        "runs": runs,
        "makespan_median_s": round(statistics.median(seconds), 2),
        "failed_runs": failed,
        "processes_left": len(processes.find_any()),
        "directories_left": len({path.name for path in control.base().iterdir()} - places),
        "shm_files_left": len({path.name for path in shm.SHM.iterdir()} - segments),
    }
    _print(figures, as_json=as_json)
    if failed or any(figures[key] for key in ("processes_left", "directories_left", "shm_files_left")):
        raise typer.Exit(1)


def resize_cycles(
    *,
    cycles: Annotated[int, typer.Option(min=1, help="How often the job grows and shrinks.")] = 100,
    nodes: Annotated[
        int, typer.Option("--nodes", "-N", min=2, help="How many nodes it grows to, from one.")
    ] = 2,
    slots: Annotated[int, typer.Option(min=1, help="Ranks a node.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Grow and shrink one MPI job, and count what its processes keep. Its agents and its controller are counted
    too; a cycle takes half a second. It exits with 1 where descriptors, processes or files in /dev/shm become
    more."""
    steps = measured.SETTLE + cycles
    with Working("resizing", steps, "cycles") as progress, tempfile.TemporaryDirectory() as place:
        figures = asyncio.run(measured.measure(cycles, nodes, slots, Path(place), progress.advance))
    _print(figures, as_json=as_json)
    if any(figures[key] > 0 for key in ("processes_more", "descriptors_more", "shm_files_more")):
        raise typer.Exit(1)


def _print(figures: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(figures))
        return
    table = Table(show_header=False)
    for key, value in figures.items():
        table.add_row(key.replace("_", " "), str(value))
    Console().print(table)
