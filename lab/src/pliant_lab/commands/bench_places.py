"""``pliant bench places``: computations over places that come, go and die at random, from seeds."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from pliant_lab.commands.bench import over_seeds, tell_seeds

if TYPE_CHECKING:
    from pliant_lab.injection.balanced import Trial

CHUNK = 5


def places(
    *,
    seeds: Annotated[
        int, typer.Option(min=1, max=10**7, help="How many computations, from --first on.")
    ] = 100,
    first: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    deaths: Annotated[
        int, typer.Option(min=0, help="Places that die in each, at the most; then it is resilient.")
    ] = 0,
    workers: Annotated[int, typer.Option(min=0, help="Processes; 0: one a processor.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")] = False,
) -> None:
    """Balance work over places that come, go and die, by seeds. All places are in one process, in an order that
    each seed draws. The result is compared with what one place alone finds."""
    began = time.monotonic()
    trials: list[Trial] = []
    work = partial(attempts, deaths=deaths)
    for some in over_seeds(range(first, first + seeds), work, CHUNK, workers, "computations"):
        trials += some
    wrong = [trial for trial in trials if not trial.exact]
    figures = {
        "seeds": len(trials),
        "tasks": sum(trial.tasks for trial in trials),
        "grown": sum(trial.grown for trial in trials),
        "shrunk": sum(trial.shrunk for trial in trials),
        "deaths": sum(trial.deaths for trial in trials),
        "wrong": len(wrong),
        "seeds_per_s": round(len(trials) / (time.monotonic() - began), 2),
    }
    lines = [f"seed {trial.seed}: {trial.problem or 'the result is wrong'}" for trial in wrong]
    tell_seeds(figures, lines, {"which": [trial._asdict() for trial in wrong]}, as_json=as_json)


def attempts(seeds: list[int], *, deaths: int) -> list[Trial]:
    """These computations, one after the other."""
    from pliant_lab.injection.balanced import attempt

    return [attempt(seed, deaths=deaths, pause=60 if deaths else 20) for seed in seeds]
