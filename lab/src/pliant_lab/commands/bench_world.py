"""``pliant bench world``: the live system in seeded worlds of faults."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from pliant.model.errors import PliantError
from pliant_lab.commands.bench import over_seeds, tell_seeds

if TYPE_CHECKING:
    from pliant_lab.injection.audit.verdict import Verdict

CHUNK = 10


def world(  # noqa: PLR0913 -- a command has its options as parameters
    *,
    seeds: Annotated[int, typer.Option(min=1, max=10**7, help="How many worlds, from --first on.")] = 100,
    first: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    seed: Annotated[int | None, typer.Option(min=0, help="This world alone, with its story.")] = None,
    faults: Annotated[
        str,
        typer.Option(help="all, none, or names with commas between; the error of a wrong name lists them."),
    ] = "all",
    workers: Annotated[int, typer.Option(min=0, help="Processes; 0: one a processor.")] = 0,
    stop: Annotated[bool, typer.Option("--stop", help="End at the first world that breaks.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Run controller, agents and jobs under injected faults, by seeds. It checks that no job is lost or run
    twice, that nothing leaks, and that nothing waits for ever."""
    # With all that the worlds are made of, which is slow to load, and of which places are an extra.
    from pliant_lab.injection.run import WorldRun
    from pliant_lab.injection.worlds import run_some, summed

    names = _faults(faults)
    if seed is not None:
        _tell(WorldRun(seed, names, telling=True).run())
        return
    began = time.monotonic()
    verdicts: list[Verdict] = []
    work = partial(run_some, names=names, stop=stop)
    for some in over_seeds(range(first, first + seeds), work, CHUNK, workers, "worlds"):
        verdicts += some
        if stop and some[-1].broken:
            break
    figures, found = summed(verdicts, time.monotonic() - began)
    lines = [f"seed {one.seed}: {one.kind}: {one.what}" for one in found]
    tell_seeds(figures, lines, {"violations": [one._asdict() for one in found]}, as_json=as_json)


def _faults(text: str) -> tuple[str, ...]:
    from pliant_lab.injection.faults import FAULTS

    if text in ("all", "none"):
        return tuple(FAULTS) if text == "all" else ()
    names = tuple(text.split(","))
    if unknown := [name for name in names if name not in FAULTS]:
        raise PliantError(f"--faults: {unknown[0]!r} is no fault; there are {', '.join(FAULTS)}")
    return names


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
