"""``pliant reproduce apgas``: task programs that grow and shrink, beside MPI jobs, measured here."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from pliant.cli import execute
from pliant.cli.demo import places_batch
from pliant.cli.execute import Variant
from pliant.terminal.working import Working
from pliant_lab.measure import scaling
from pliant_lab.reproduce import apgas as reproduced
from pliant_lab.reproduce.folder import Folder


def apgas(
    *,
    out: Annotated[
        Path, typer.Option(help="The folder to write; one that this command wrote before is replaced.")
    ] = Path("reproduced-apgas"),
    quick: Annotated[bool, typer.Option("--quick", help="Shorter runs, and each once.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Run the task programs of Finnerty et al. 2024 with real processes. It measures scaling, resizes by their parts,
    and a batch of MPI jobs and task programs with its offers. It writes figures, tables, and a README.md (12
    minutes)."""
    began = time.monotonic()
    effort = scaling.QUICK if quick else scaling.FULL
    with (
        Folder(out) as folder,
        Working("measuring", scaling.steps(effort) + 1, "runs") as progress,
        tempfile.TemporaryDirectory() as place,
    ):
        run = execute.whole(Variant(places_batch(), "mixed", rigid=False), output=Path(place) / "mixed")
        progress.advance()
        figures = scaling.measure(effort, Path(place), progress.advance)
        reproduced.write(folder, figures, run, quick=quick)
    took = time.monotonic() - began
    if as_json:
        facts = {"folder": str(out), "seconds": round(took, 1), "files": ["README.md", *folder.files]}
        typer.echo(json.dumps(facts))
    else:
        typer.echo(
            f"{out / 'README.md'}: figures beside the article's; {len(folder.files)} files, {took:.0f} s"
        )
    if code := execute.exit_code([run]):
        raise typer.Exit(code)
