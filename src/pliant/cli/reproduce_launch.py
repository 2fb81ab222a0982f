"""``pliant reproduce launch``: paper 4's launches, measured here and drawn on by a model."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace
from rich.console import Console
from rich.progress import Progress

from pliant.cli.reproduce import reproduce_app
from pliant.measure import launching
from pliant.measure.launch_model import SMALL, Point, Site, contact_cost, fit, held
from pliant.measure.programs import surroundings
from pliant.reproduce import launch as reproduced
from pliant.reproduce.folder import Folder
from pliant.testing.cluster import virtual_cluster

DELAYS = (0.0, 0.5)
WINDOW = 8


def register(_app: typer.Typer) -> None:
    """Add the verb to ``reproduce``."""
    reproduce_app.command()(launch)


def launch(
    *,
    out: Annotated[
        Path, typer.Option(help="The folder to write; one that this command wrote before is replaced.")
    ] = Path("reproduced-launch"),
    quick: Annotated[
        bool, typer.Option("--quick", help="At most 32 nodes, one tree, and each once.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Launches of an empty command over 1 to 128 nodes of a virtual cluster, a model that is fitted to those of up to
    8, and what it says of up to 100,000: figures, tables, and a README.md. Needs root, and what virtual clusters need
    (10 minutes)."""
    began = time.monotonic()
    sizes = (*SMALL, 16, 32) if quick else (*SMALL, 16, 32, 64, 128)
    degrees, repetitions = ((8,), 1) if quick else ((2, 8, 32), 3)
    efforts = [launching.Effort(sizes, degrees, WINDOW, delay, repetitions) for delay in DELAYS]
    around = {**surroundings(), "window": WINDOW, "repetitions": repetitions}
    there = [launching.flat(WINDOW), *(launching.ours(degree, WINDOW) for degree in degrees)]
    points: list[Point] = []
    with Folder(out) as folder, Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("launches", total=sum(launching.steps(each, there) for each in efforts))
        for effort in efforts:
            with virtual_cluster(max(sizes), ssh_delay_s=effort.ssh_delay_s) as cluster:
                rows = launching.measure(cluster, effort, there, lambda: progress.advance(bar))
            points += [Point(*each) for each in reproduced.points_of(rows, effort.ssh_delay_s)]
        small = [each for each in points if each.nodes in SMALL]
        costs, site = fit(small, Site(WINDOW, around["processors"]))
        costs = replace(costs, contact_s=contact_cost())
        reproduced.write(folder, around, list(held(points, costs, site)), (costs, site))
    took = time.monotonic() - began
    if as_json:
        facts = {"folder": str(out), "seconds": round(took, 1), "files": ["README.md", *folder.files]}
        typer.echo(json.dumps(facts))
    else:
        typer.echo(f"{out / 'README.md'}: measured and drawn on; {len(folder.files)} files, {took:.0f} s")
