"""``pliant reproduce launch``: Bosilca et al.'s launches, measured here and drawn on by a model."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import typer

from pliant.model.errors import PliantError
from pliant.terminal.working import Working
from pliant.testing.cluster import virtual_cluster
from pliant_lab.measure import launching
from pliant_lab.measure.launch_model import SMALL, contact_cost
from pliant_lab.measure.programs import surroundings
from pliant_lab.measure.quiet import Quiet
from pliant_lab.reproduce import launch as reproduced
from pliant_lab.reproduce.folder import Folder
from pliant_lab.reproduce.launch import Measured, load

DELAYS = (0.0, 0.5)
WINDOW = 8
MPI_DEGREE = 8
QUIET_S = 120.0
"""So long in all it is waited for others to leave the processors alone."""


def launch(
    *,
    out: Annotated[
        Path, typer.Option(help="The folder to write; one that this command wrote before is replaced.")
    ] = Path("reproduced-launch"),
    quick: Annotated[
        bool, typer.Option("--quick", help="At most 32 nodes, one tree, and each once.")
    ] = False,
    from_folder: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="FOLDER", help="Measure nothing: take what an earlier run left there."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Launch an empty program over 1 to 128 nodes of a virtual cluster. A model is fitted to the launches on up
    to 8 nodes, and predicts those on up to 100,000. It writes figures, tables, and a README.md (10 minutes). It
    needs root, and what virtual clusters need."""
    if from_folder is not None and quick:
        raise PliantError("--from measures nothing: leave out --quick")
    began = time.monotonic()
    with Folder(out) as folder, Working("measuring", unit="launches") as progress:
        measured = load(from_folder) if from_folder is not None else _measure(progress, quick=quick)
        progress.begin("modelling and drawing")
        reproduced.write(folder, measured)
    took = time.monotonic() - began
    if as_json:
        facts = {"folder": str(out), "seconds": round(took, 1), "files": ["README.md", *folder.files]}
        typer.echo(json.dumps(facts))
    else:
        typer.echo(f"{out / 'README.md'}: measured and drawn on; {len(folder.files)} files, {took:.0f} s")


def _measure(progress: Working, *, quick: bool) -> Measured:
    sizes = (*SMALL, 16, 32) if quick else (*SMALL, 16, 32, 64, 128)
    degrees, repetitions = ((8,), 1) if quick else ((2, 8, 32), 3)
    effort = launching.Effort(sizes, degrees, WINDOW, DELAYS, repetitions)
    around, quiet = surroundings(), Quiet(QUIET_S)
    there = [launching.ours(degree, WINDOW) for degree in degrees]
    if launching.MPI.exists():
        there += [launching.ours(MPI_DEGREE, WINDOW, mpi=True), launching.hydra(mpi=True)]
    progress.reach(0, launching.steps(effort, there))
    with virtual_cluster(max(sizes)) as cluster:
        rows = launching.measure(cluster, effort, there, quiet, progress.advance)
    return Measured(
        **around, window=WINDOW, repetitions=repetitions, loud=quiet.loud, contact_s=contact_cost(),
        rows=reproduced.rows_of(rows),
    )  # fmt: skip
