"""``pliant bench launch``: an empty command and an empty MPI program on many nodes, by our launcher and by others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from pliant.terminal.working import Working
from pliant.testing.cluster import virtual_cluster
from pliant_lab.measure import launching
from pliant_lab.measure.programs import Figures, surroundings
from pliant_lab.measure.quiet import Quiet

QUIET_S = 60.0
"""So long in all it is waited for others to leave the processors alone."""


def launch(  # noqa: PLR0913 -- a command has its options as parameters
    *,
    nodes: Annotated[
        list[int] | None, typer.Option(min=1, help="On so many nodes; repeat it; default: 16.")
    ] = None,
    degree: Annotated[
        list[int] | None, typer.Option(min=1, help="Of our launcher's tree; repeat it; default: 8 and 32.")
    ] = None,
    window: Annotated[int, typer.Option(min=1, help="Starts that a node has under way at a time.")] = 8,
    ssh_delay: Annotated[
        float, typer.Option(min=0.0, max=60.0, help="Seconds that each ssh takes longer.")
    ] = 0.0,
    repetitions: Annotated[int, typer.Option(min=1, help="Runs of each; the medians count.")] = 5,
    mpi: Annotated[
        bool,
        typer.Option(help="An empty MPI program too, by ours and by hydra, on as many nodes as it may be."),
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Launch empty programs on a virtual cluster: pliant, hydra, ssh, pdsh, clush. An empty command and an empty
    MPI program run on all nodes, over ssh, by each launcher that is installed. It needs root, and what virtual
    clusters need."""
    effort = launching.Effort(
        tuple(sorted(set(nodes or [16]))),
        tuple(sorted(set(degree or [8, 32]))),
        window,
        (ssh_delay,),
        repetitions,
    )
    around, quiet = surroundings(), Quiet(QUIET_S)
    with (
        virtual_cluster(max(effort.nodes)) as cluster,
        Working("measuring", unit="launches") as progress,
    ):
        there, left_out = launching.contenders(effort, mpi=mpi)
        progress.reach(0, launching.steps(effort, there))
        rows = launching.measure(cluster, effort, there, quiet, progress.advance)
    figures = {
        "window": window, "ssh_delay_s": ssh_delay, "repetitions": repetitions, "loud": quiet.loud, **around
    }  # fmt: skip
    if as_json:
        typer.echo(json.dumps({**figures, "launches": rows, "left_out": left_out}))
    else:
        console = Console()
        console.print(table(rows, figures))
        for line in notes(rows, left_out):
            console.print(line, markup=False, highlight=False)


def table(rows: Sequence[Figures], figures: Figures) -> Table:
    """``figures``: what was asked for, and where it was measured."""
    shown = Table(
        "nodes",
        title=f"an empty command, or an empty MPI program, on all nodes, {figures['window']} starts at a time, "
        f"each ssh {figures['ssh_delay_s']:g} s longer",
        caption=f"medians of {figures['repetitions']} rounds on {figures['processors']} processors, "
        f"load {figures['load_average']} at the start; {figures['loud']} launches began while others computed",
    )
    shown.add_column("", no_wrap=True)
    for heading in ("seconds", "of the flat loop's", "least", "most"):
        shown.add_column(heading, justify="right")
    for row in rows:
        runs, ratio = row["runs_s"], row["of_flat"]
        times = [row["seconds"], ratio, min(runs, default=None), max(runs, default=None)]
        shown.add_row(
            str(row["nodes"]), row["contender"], *("" if time is None else f"{time:.2f}" for time in times)
        )
    return shown


def notes(rows: Sequence[Figures], left_out: Mapping[str, str]) -> Iterator[str]:
    """What there is to say of contenders beside their times, a line each."""
    for row in rows:
        if said := told(row):
            yield f"{row['contender']}, {row['nodes']} nodes: {said}"
    for name, why in left_out.items():
        yield f"{name}: left out: {why}"


def told(row: Figures) -> str:
    """What there is to say of a contender beside its times."""
    if row["failed"]:
        return f"failed: {row['failed']}"
    if "phases" not in row:
        return ""
    phases = ", ".join(f"{name} {seconds:.2f}" for name, seconds in row["phases"].items())
    return f"depth {row['depth']}, {row['connections_max']} connections at most; {phases}"
