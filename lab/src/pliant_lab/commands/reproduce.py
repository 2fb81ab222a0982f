"""``pliant reproduce``: the papers' experiments, run again."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from pliant.model.errors import TraceError
from pliant.terminal.working import Working
from pliant_lab.measure.traces import TRACES, find_trace
from pliant_lab.reproduce.scheduling import STUDIES, reproduce
from pliant_lab.reproduce.traces import FULL


def scheduling(  # noqa: PLR0913 -- a command has its options as parameters
    *,
    out: Annotated[
        Path, typer.Option(help="The folder to write; one that this command wrote before is replaced.")
    ] = Path("reproduced-scheduling"),
    only: Annotated[
        list[str] | None, typer.Option(help=f"One of the studies: {', '.join(STUDIES)}; repeatable.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer and shorter workloads.")] = False,
    traces: Annotated[Path | None, typer.Option(help=f"Where the traces are; default: ${TRACES}.")] = None,
    workers: Annotated[int, typer.Option(min=0, help="Processes; 0: one a processor.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Simulate Finnerty et al. 2024, Iserte et al. 2018, and all policies on real traces. It writes
    figures, tables, and a README.md."""
    try:
        found = find_trace(FULL[0].file, traces).parent
    except TraceError:
        if traces is not None:
            raise
        found = None
        sys.stderr.write("pliant: no traces found: the study of traces takes Lublin's model only\n")
    began = time.monotonic()
    with Working("simulating", unit="simulations") as progress:
        files = reproduce(
            out,
            studies=tuple(only) if only else STUDIES,
            trace_folder=found,
            quick=quick,
            workers=workers,
            progress=progress.reach,
        )
    took = time.monotonic() - began
    if as_json:
        typer.echo(
            json.dumps({"folder": str(out), "seconds": round(took, 1), "files": ["README.md", *files]})
        )
    else:
        typer.echo(f"{out / 'README.md'}: what agrees and what differs; {len(files)} files, {took:.0f} s")
