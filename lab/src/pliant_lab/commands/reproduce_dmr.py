"""``pliant reproduce dmr``: Iserte et al.'s resizes, batches and tables, with real processes where they had them."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from pliant.cli import execute
from pliant.cli.execute import Variant
from pliant.model.batch import Batch
from pliant.model.errors import PliantError
from pliant.report.runs import Run
from pliant.study.workers import run_all
from pliant.terminal.working import Working
from pliant_lab.measure import dmr as measured
from pliant_lab.measure import redistributing
from pliant_lab.measure.dmr import WAYS, Scale, WayRun
from pliant_lab.measure.programs import Figures, surroundings
from pliant_lab.measure.redistributing import Effort, around
from pliant_lab.reproduce import dmr as reproduced
from pliant_lab.reproduce import paper3
from pliant_lab.reproduce.dmr import Measured
from pliant_lab.reproduce.folder import Folder

GIB = 1 << 30
POLICIES = ("dmr-wide", "dmr-preferred")
SEED = 3


def dmr(  # noqa: PLR0913 - a command has its options as parameters
    *,
    out: Annotated[
        Path, typer.Option(help="The folder to write; one that this command wrote before is replaced.")
    ] = Path("reproduced-dmr"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Up to 4 nodes, an eighth of the bytes, and a short batch, once.")
    ] = False,
    size: Annotated[
        int | None, typer.Option("--bytes", min=1 << 20, help="Of the array that Flexible Sleep holds.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=2, max=400, help="Of a batch.")] = None,
    repetitions: Annotated[int | None, typer.Option(min=1, help="Batches, each of other jobs.")] = None,
    policy: Annotated[
        str, typer.Option(help="Of flexible jobs: mode 3, or mode 2 of Iserte et al. 2018.")
    ] = POLICIES[0],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Run the experiments of Iserte et al. 2018 with real processes, and simulate their throughput. Flexible Sleep is
    resized between powers of two nodes (Figure 3). Batches of CG, Jacobi and N-body run fixed, flexible, and flexible
    without waiting for the scheduler's answers (Tables 2 and 3). The throughput evaluation is simulated (Table 4,
    Figures 4 to 8). It writes figures, tables, and a README.md (13 minutes; --quick: under three)."""
    if policy not in POLICIES:
        raise PliantError(f"--policy {policy}: there are {' and '.join(POLICIES)}")
    began, there = time.monotonic(), surroundings()
    size = size or (GIB // 8 if quick else GIB)
    count, batches = jobs or (12 if quick else 30), repetitions or (1 if quick else 2)
    scale, sleep = Scale(0.008 if quick else 0.02), _sleep(size, quick=quick)
    tasks = paper3.tasks()
    steps = sleep.passes * len(sleep.sizes) + batches * len(WAYS) + len(tasks)
    with Folder(out) as folder, Working("measuring", steps, "runs") as progress:
        rows, why = _resizes(sleep, progress.advance)
        runs = [
            _run(
                measured.batch(count, SEED + number, scale, way, policy), way, SEED + number, progress.advance
            )
            for number in range(batches)
            for way in WAYS
        ]
        simulated = paper3.collect(run_all(tasks, 0, lambda _done: progress.advance()))
        found = Measured(
            **there,
            quick=quick,
            bytes=size,
            policy=policy,
            times=scale.times,
            resizes=rows,
            why=why,
            runs=runs,
        )
        reproduced.write(folder, found, simulated)
    facts = {"seconds": round(time.monotonic() - began, 1), "problems": reproduced.problems(found)}
    if as_json:
        typer.echo(json.dumps({"folder": str(out), **facts, "files": ["README.md", *folder.files]}))
    else:
        typer.echo(
            f"{out / 'README.md'}: beside the article's; {len(folder.files)} files, {facts['seconds']:.0f} s"
        )
    if facts["problems"]:
        if not as_json:
            typer.echo("\n".join(reproduced.problems(found)), err=True)
        raise typer.Exit(1)


def _sleep(size: int, *, quick: bool) -> Effort:
    """What Flexible Sleep goes through: no moves beside its resizes."""
    sizes, passes = ((1, 2, 4), 2) if quick else ((1, 2, 4, 8), 10)
    return Effort(size, (), (), 0, 600.0, size, around(sizes), passes)


def _resizes(asked: Effort, advance: Callable[[], object]) -> tuple[list[Figures], str]:
    """The rows of Figure 3, or why there are none: the rest can be had without."""
    try:
        return redistributing.resized(asked, advance), ""
    except (PliantError, TimeoutError) as error:
        return [], str(error) or "it has not ended in time"


def _run(batch: Batch, way: str, seed: int, advance: Callable[[], object]) -> WayRun:
    with tempfile.TemporaryDirectory() as place:
        output = Path(place) / "run"
        run = execute.whole(Variant(batch, way, rigid=False), output=output)
        found = _found(run, batch, way, seed, output)
    advance()
    return found


def _found(run: Run, batch: Batch, way: str, seed: int, output: Path) -> WayRun:
    """What there is to tell of a batch, also where not all of its jobs have come to a good end."""
    bad = {job.name: job for job in (*run.failed, *run.unfinished, *run.differing, *run.unchecked)}
    problems = [
        f"{way}, seed {seed}: {name}: {job.error or job.unchecked or f'{job.state}, its result differs'}"
        for name, job in bad.items()
    ]
    told = [spec for spec in batch.jobs if spec.name not in bad] if way != measured.FIXED else []
    metrics = run.metrics
    return WayRun(
        way, seed, metrics.utilisation, metrics.makespan_s, metrics.pace_overrun, measured.times_of(metrics),
        measured.spent_in(output, told), measured.came_of(metrics.jobs), problems,
    )  # fmt: skip
