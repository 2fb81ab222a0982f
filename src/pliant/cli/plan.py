"""``pliant plan``: what a resize would do, and how long it would take, before anything is done."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

from pliant.cli.outputs import check_output
from pliant.files.partial import save
from pliant.model.errors import PliantError
from pliant.model.limits import DIGITS, MOST_NODES, as_number, whole
from pliant.plan.spawn import SpawnPlan
from pliant.plan.spawn_cost import SpawnCosts, SpawnTimes

PICTURES = (".svg", ".png")

Draw = Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it, as .svg or .png.")]
Predict = Annotated[bool, typer.Option("--predict", help="Say how long each step takes.")]
Costs = Annotated[
    list[str] | None,
    typer.Option(
        "--cost",
        metavar="NAME=SECONDS",
        help="A coefficient measured elsewhere, such as process_s=0.05; repeat it.",
    ),
]
Processors = Annotated[
    int,
    typer.Option(
        min=0, help="To predict nodes that share so many processors, as virtual ones do; 0: none do."
    ),
]


def number(option: str, text: str, what: str) -> int:
    """PliantError if it is none, or one that no machine has."""
    found = whole(text.strip())
    if found is None or found > MOST_NODES:
        raise PliantError(
            f"{option}: {text.strip()[: 2 * DIGITS]!r} is no number of {what}, which are 0 to {MOST_NODES:,}"
        )
    return found


def costs_named(texts: Sequence[str], *, predict: bool) -> SpawnCosts:
    """The default coefficients, but for those of ``--cost``."""
    known = SpawnCosts.__struct_fields__
    costs = SpawnCosts()
    if texts and not predict:
        raise PliantError("--cost changes nothing without --predict")
    for text in texts:
        name, _, value = text.partition("=")
        if name not in known:
            raise PliantError(
                f"--cost {text}: there is no {name!r}; write NAME=SECONDS, of {', '.join(known)}"
            )
        seconds = as_number(value)
        if not 0 <= seconds < math.inf:
            raise PliantError(f"--cost {text}: {value!r} is no number of seconds, 0 or more")
        costs = replace(costs, **{name: seconds})
    return costs


def check_picture(path: Path | None) -> None:
    """PliantError before anything is done, if no picture can be written there."""
    if path is None:
        return
    if path.suffix not in PICTURES:
        raise PliantError(f"--draw {path}: name a file that ends in {' or '.join(PICTURES)}")
    check_output("--draw", path)


def draw(path: Path, figure: Callable[[], Any]) -> None:
    """Make the picture and write it; PliantError where that cannot be."""
    try:
        from pliant.charts.plans import rendered

        save({path: rendered(figure(), path.suffix)})
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("matplotlib", "numpy"):
            raise
        raise PliantError("--draw needs matplotlib: pip install 'pliant[report]'") from None
    except OSError as error:
        raise PliantError(f"--draw {path}: cannot be written: {error.strerror or error}") from None


def show(table: Table, lines: Iterable[str]) -> None:
    """The plan for people."""
    console = Console()
    console.print(table)
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def told_groups(plan: SpawnPlan, names: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Each group as JSON; nodes by name if there are ``names``."""
    groups = [group._asdict() for group in plan.groups]
    return [{**each, "node": names[each["node"]]} for each in groups] if names else groups


def told_times(times: SpawnTimes) -> dict[str, Any]:
    return {
        "total_s": rounded(times.total_s),
        "start_s": rounded(times.start_s),
        "synchronise_s": rounded(times.synchronise_s),
        "connect_s": rounded(sum(times.rounds)),
        "join_s": rounded(times.join_s),
        "reorder_s": rounded(times.reorder_s),
    }


def rounded(seconds: float) -> float:
    return round(seconds, 6)


def duration(seconds: float) -> str:
    """In the unit that people say it in."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"


def times_line(times: SpawnTimes) -> str:
    """The phases of a prediction, one after the other, but for those that take no time."""
    phases = {
        "starts": times.start_s,
        "synchronisation": times.synchronise_s,
        "connections": sum(times.rounds),
        "joining the sources": times.join_s,
        "order of ranks": times.reorder_s,
    }
    parts = ", ".join(f"{name} {duration(seconds)}" for name, seconds in phases.items() if seconds)
    return f"Expected: {duration(times.total_s)}" + (f": {parts}." if parts else ".")
