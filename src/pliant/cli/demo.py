"""``pliant demo``: the bundled batch, rigid and malleable, on this machine."""

from __future__ import annotations

import importlib.util
import sys
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from pliant.cli import execute
from pliant.cli import run_options as o
from pliant.cli.execute import Variant
from pliant.cli.outputs import check_report
from pliant.cli.run import OUTPUT, RunOutputs, finish
from pliant.model.batch import Batch, read_batch
from pliant.model.errors import PliantError
from pliant.model.kinds import JobKind
from pliant.report.runs import Run
from pliant.terminal.console import console as steady_console

NEEDED = {"mpi": ("mpi4py", "numpy"), "apgas": ("cloudpickle", "numba", "zmq")}
"""What its jobs import, by the extra that brings it."""


def demo_batch() -> Batch:
    """The batch that comes with the package."""
    return _bundled("demo.toml")


def places_batch() -> Batch:
    """The one that mixes MPI jobs and task programs."""
    return _bundled("places.toml")


def _bundled(name: str) -> Batch:
    text = files("pliant.cli").joinpath(name).read_text(encoding="utf-8")
    return read_batch(tomllib.loads(text), name)


def demo(
    *,
    places: Annotated[
        bool,
        typer.Option("--places", help="MPI jobs and task programs in one batch instead, malleable only."),
    ] = False,
    report: Annotated[Path, typer.Option(help="The HTML report; JSON goes beside it.")] = Path("report.html"),
    as_json: o.AS_JSON = False,
    output: o.OUTPUT = OUTPUT,
) -> None:
    """Run a batch twice on 8 virtual nodes: every job rigid, then every job malleable."""
    check_report(report)
    _check_there("mpi,apgas" if places else "mpi")
    console = steady_console(stderr=as_json)
    outputs = RunOutputs(report, as_json, output)
    if places:
        _mixed(outputs, console)
        return
    batch = demo_batch()
    console.print(
        f"{len(batch.jobs)} heat solvers on {batch.cluster.nodes} virtual nodes, twice: "
        "rigid under EASY backfilling, then malleable. Two cores cannot show the speed-up of eight nodes, "
        "so each iteration is paced to what the job's speed-up model says. Every result is checked.",
        highlight=False,
    )
    forecasts = {
        fixed: execute.predicted(Variant(batch, "", rigid=fixed)).metrics.makespan_s
        for fixed in (True, False)
    }
    console.print(
        f"Predicted by the simulator: rigid {forecasts[True]:.0f} s, malleable {forecasts[False]:.0f} s.",
        highlight=False,
    )
    runs: list[Run] = []
    for fixed, name in ((True, "rigid"), (False, "malleable")):
        if not runs or runs[-1].stopped is None:
            variant = Variant(batch, name, rigid=fixed)
            place = output / name
            runs.append(execute.live(variant, output=place, console=console, predicted_s=forecasts[fixed]))
    finish(runs, console, outputs)


def _check_there(extras: str) -> None:
    """PliantError if what the jobs need is not installed: else each of them would say so, one after the other."""
    needed = [name for extra in extras.split(",") for name in NEEDED[extra]]
    if missing := [name for name in needed if importlib.util.find_spec(name) is None]:
        raise PliantError(
            f"the demonstration needs {', '.join(missing)}, which this Python ({sys.executable}) does not have: "
            f"pip install 'pliant[{extras}]'"
        )


def _mixed(outputs: RunOutputs, console: Console) -> None:
    batch = places_batch()
    tasks = sum(job.kind is JobKind.PLACES for job in batch.jobs)
    console.print(
        f"{len(batch.jobs) - tasks} heat solvers and {tasks} task programs on {batch.cluster.nodes} virtual "
        "nodes, all malleable, under one controller. The solvers are paced to their models; the "
        "task programs compute as fast as they can. Every result is compared with a serial run.",
        highlight=False,
    )
    variant = Variant(batch, "places", rigid=False)
    finish([execute.live(variant, output=outputs.where or OUTPUT, console=console)], console, outputs)
