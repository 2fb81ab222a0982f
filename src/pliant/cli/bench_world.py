"""``pliant bench world``: the live system in seeded worlds of faults."""

from __future__ import annotations

import time
from collections import Counter
from functools import partial
from typing import Annotated, NamedTuple

import typer

from pliant.cli.bench import bench_app, over_seeds, tell_seeds
from pliant.model.errors import PliantError
from pliant.protocol import resizing
from pliant.testing.audit.impossible import IMPOSSIBLE
from pliant.testing.audit.verdict import Verdict
from pliant.testing.faults import FAULTS
from pliant.testing.world import World

KINDS = ("lost", "run_twice", "leaked", "stuck", "wrong")
CHUNK = 10


def register(app: typer.Typer) -> None:
    """Nothing to add: ``bench`` has been added to the command already."""


class Found(NamedTuple):
    """A seed whose world broke, and how."""

    seed: int
    kind: str
    what: str


@bench_app.command()
def world(  # noqa: PLR0913 -- a command has its options as parameters
    *,
    seeds: Annotated[int, typer.Option(min=1, max=10**7, help="How many worlds, from --first on.")] = 100,
    first: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    seed: Annotated[int | None, typer.Option(min=0, help="This world alone, with its story.")] = None,
    faults: Annotated[
        str, typer.Option(help=f"all, none, or some of {', '.join(FAULTS)}, with commas.")
    ] = "all",
    workers: Annotated[int, typer.Option(min=0, help="Processes; 0: one a processor.")] = 0,
    stop: Annotated[bool, typer.Option("--stop", help="End at the first world that breaks.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Run the controller, the agents and their jobs in worlds of faults, each drawn from a seed, and check
    that no job is lost or run twice, that nothing leaks, and that nothing waits for ever."""
    names = _faults(faults)
    if seed is not None:
        _tell(World(seed, names, telling=True).run())
        return
    began = time.monotonic()
    verdicts: list[Verdict] = []
    work = partial(run_some, names=names, stop=stop)
    for some in over_seeds(range(first, first + seeds), work, CHUNK, workers, "worlds"):
        verdicts += some
        if stop and some[-1].broken:
            break
    figures, found = _sum(verdicts, time.monotonic() - began)
    lines = [f"seed {one.seed}: {one.kind}: {one.what}" for one in found]
    tell_seeds(figures, lines, {"violations": [one._asdict() for one in found]}, as_json=as_json)


def _faults(text: str) -> tuple[str, ...]:
    if text in ("all", "none"):
        return tuple(FAULTS) if text == "all" else ()
    names = tuple(text.split(","))
    if unknown := [name for name in names if name not in FAULTS]:
        raise PliantError(f"--faults: {unknown[0]!r} is no fault; there are {', '.join(FAULTS)}")
    return names


def run_some(seeds: list[int], names: tuple[str, ...], *, stop: bool = False) -> list[Verdict]:
    """These worlds, one after the other; with ``stop``, none after one that breaks."""
    verdicts: list[Verdict] = []
    for seed in seeds:
        verdicts.append(World(seed, names).run())
        if stop and verdicts[-1].broken:
            break
    return verdicts


def _sum(verdicts: list[Verdict], seconds: float) -> tuple[dict[str, object], list[Found]]:
    met: Counter[tuple[str, str]] = Counter()
    cells: Counter[tuple[str, str]] = Counter()
    kinds: Counter[str] = Counter()
    expansions: Counter[str] = Counter()
    found = []
    for verdict in verdicts:
        expansions.update(verdict.expansions)
        met.update(verdict.faults)
        cells.update(verdict.cells)
        if verdict.broken:
            kinds[verdict.broken] += 1
            found.append(Found(verdict.seed, verdict.broken, verdict.what))
    offered = sum(verdict.offered for verdict in verdicts)
    done = sum(verdict.done for verdict in verdicts)
    by_fault: Counter[str] = Counter()
    for (name, _), count in met.items():
        by_fault[name] += count
    return {
        "seeds": len(verdicts),
        "jobs": sum(verdict.jobs for verdict in verdicts),
        "faults": sum(met.values()),
        **{kind: kinds[kind] for kind in KINDS},
        "resizes": offered,
        "resizes_done_share": round(done / max(1, offered), 4),
        "slots_resizes_done": sum(verdict.slots for verdict in verdicts),
        "cells_visited": len(cells),
        "cells": len(resizing.TABLE),
        "cells_not_visited": [" ".join(cell) for cell in resizing.TABLE if cell not in cells],
        "faults_by_phase": {
            name: {stage: met[name, stage] for stage in ("none", *resizing.OUTSTANDING)} for name in FAULTS
        },
        "faults_impossible": {" ".join(where): why for where, why in IMPOSSIBLE.items()},
        "expansions_by_spawning": {how: expansions[how] for how in ("expanded", "stayed", "ended")},
        "seeds_per_s": round(len(verdicts) / seconds, 2),
    }, found


def _tell(verdict: Verdict) -> None:
    for line in verdict.story:
        typer.echo(line)
    typer.echo(
        f"seed {verdict.seed}: {verdict.jobs} jobs on {verdict.nodes} nodes, {dict(verdict.ended)}, "
        f"{verdict.done} of {verdict.offered} resizes done"
    )
    if verdict.broken:
        typer.echo(f"VIOLATION {verdict.what}")
        raise typer.Exit(1)
