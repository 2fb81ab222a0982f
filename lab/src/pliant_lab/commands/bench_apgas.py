"""``pliant bench apgas``: places and load balancing, beside bare kernels, over two, and while resized."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from pliant.terminal.working import Working
from pliant_lab.measure import apgas as measured
from pliant_lab.measure.programs import Figures

MEANINGS = {
    "uts_ratio_1": "UTS: work per worker CPU second, of the kernel's",
    "nqueens_ratio_1": "N-Queens: the same",
    "pi_ratio_1": "Pi: the same",
    "uts_scaling_2_workers": "UTS: speed with 2 workers, of that with 1",
    "uts_scaling_2_places": "UTS: speed at 2 places, of that at 1",
    "uts_resilient_ratio": "UTS at 2 places, resilient: work per worker CPU second, of that without",
    "grow_s": "from 1 place to 2: from the offer until post_grow was over, s",
    "shrink_s": "from 2 places to 1: from the offer until the node was proved clean, s",
    "work_during_resize_ratio": "UTS resized all the time: work per worker CPU second, of that without",
    "longest_gap_ms": "place 0: longest time between two calls of process, resized, ms",
    "longest_gap_quiet_ms": "the same without a resize, ms",
}


def apgas(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer and shorter runs: under a minute.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Run task programs beside their bare kernels, over places and workers. It measures what places and load
    balancing cost, what two of them give, and what their resizes take (8 minutes). Without --quick it also
    measures what surviving the death of places costs."""
    effort = measured.QUICK if quick else measured.FULL
    steps = measured.steps(effort)
    with Working("measuring", steps, "runs") as progress, tempfile.TemporaryDirectory() as place:
        figures = measured.measure(effort, Path(place), progress.advance)
    if as_json:
        typer.echo(json.dumps(figures))
    else:
        Console().print(table(figures))


def table(figures: Figures) -> Table:
    times = figures["repetitions"]
    load, sha = figures["load_average"], figures["sha"]
    shown = Table(
        "",
        title=f"places on {figures['processors']} processors, load {load} at the start, SHA-1 {sha}",
        caption=f"medians of {times['ratios']} pairs with the kernel, {times['scaling']} rounds over workers "
        f"and places, {times['grows']} growths and {times['shrinks']} shrinks in {times['resized']} jobs",
    )
    shown.add_column("figure", justify="right")
    for name, meaning in MEANINGS.items():
        if name in figures:
            shown.add_row(meaning, f"{figures[name]:.3f}")
    return shown
