"""``pliant plan data``: who sends which rows to whom when an array's ranks become others."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from pliant.cli import plan as p
from pliant.model.errors import PliantError
from pliant.model.limits import DIGITS, MOST_HOSTS, whole
from pliant.model.words import are, count
from pliant.plan.data.layouts import Block, BlockCyclic, Irregular, Layout, Replicated
from pliant.plan.data.traffic import Traffic, lower_bound, traffic
from pliant.plan.places import successors
from pliant.terminal.working import Working

MOST_ROWS = 10**DIGITS - 1
MOST_PAIRS = 1 << 20
WIDEST = 12
"""Ranks to which a table has a column each; of more of them there is a row for each pair that speaks."""
LAYOUTS = "block, cyclic:ROWS, irregular:COUNT+COUNT+... or replicated"


class DataPlanRequest(NamedTuple):
    """What is to be planned. Ranks are counted as before the resize, those that join behind all of them. ``targets``
    are in their new order: who joins takes the place of who leaves, as in a migration of nodes with a rank each."""

    rows: int
    old: str
    new: str
    sources: tuple[int, ...]
    targets: tuple[int, ...]


def data(  # noqa: PLR0913 -- a command has its options as parameters
    *,
    rows: Annotated[str, typer.Option(metavar="N", help="Of the axis that the array is spread along.")],
    sources: Annotated[int, typer.Option(min=1, max=MOST_HOSTS, help="Ranks before.")],
    targets: Annotated[int, typer.Option(min=1, max=MOST_HOSTS, help="Ranks afterwards.")],
    layout: Annotated[
        str, typer.Option(metavar="LAYOUT", help=f"Before and afterwards: {LAYOUTS}.")
    ] = "block",
    old: Annotated[str, typer.Option("--from", metavar="LAYOUT", help="Before, if it is another.")] = "",
    new: Annotated[str, typer.Option("--to", metavar="LAYOUT", help="Afterwards, if it is another.")] = "",
    leave: Annotated[
        str,
        typer.Option(
            metavar="RANKS",
            help="Ranks that leave, as 0,3; default: the last ones, and only as many as have to.",
        ),
    ] = "",
    row_bytes: Annotated[int, typer.Option(min=1, max=1 << 40, help="Of one row.")] = 8,
    as_json: p.AsJson = False,
) -> None:
    """Show what a redistribution moves: the rows that each rank sends to each other one. Their bytes stand beside
    the fewest that any way could do with, where each rank keeps the rows that it has and needs."""
    ask = DataPlanRequest(_rows(rows), old or layout, new or layout, *_ranks(sources, targets, leave))
    layouts = (
        _layout("--from" if old else "--layout", ask.old),
        _layout("--to" if new else "--layout", ask.new),
    )
    if sources * targets > MOST_PAIRS and any(isinstance(each, BlockCyclic | Replicated) for each in layouts):
        raise PliantError(
            f"--sources {sources} --targets {targets}: of cyclic or replicated rows each pair may have to speak, and "
            f"{MOST_PAIRS:,} pairs are the most"
        )
    try:
        for each in layouts:
            each.check(ask.rows)
    except ValueError as error:
        raise PliantError(f"--rows {ask.rows}: {error}") from None
    with Working("planning"):
        splits = layouts[0].split(ask.rows, sources), layouts[1].split(ask.rows, targets)
        plan = traffic(*splits, ask.sources, ask.targets)
        bound = lower_bound(*splits, ask.sources, ask.targets)
    if as_json:
        typer.echo(json.dumps(_told(ask, plan, bound, row_bytes)))
        return
    console = Console()
    console.print(table(ask, plan))
    for line in _lines(ask, plan, bound, row_bytes):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


# ---- what is asked --------------------------------------------------------------------------------------


def _rows(text: str) -> int:
    found = whole(text)
    if found is None:
        raise PliantError(f"--rows: {text[:40]!r} is no number of rows, which are 0 to {MOST_ROWS:,}")
    return found


def _layout(option: str, text: str) -> Layout:
    name, _, value = text.partition(":")
    numbers = [whole(each) for each in value.split("+")]
    known = [number for number in numbers if number is not None]
    try:
        match name:
            case "block" if not value:
                return Block()
            case "replicated" if not value:
                return Replicated()
            case "cyclic" if len(numbers) == len(known) == 1:
                return BlockCyclic(known[0])
            case "irregular" if len(numbers) == len(known):
                return Irregular(known)
            case _:
                raise PliantError(f"{option}: {text[:80]!r} is no layout; there are {LAYOUTS}")
    except ValueError as error:
        raise PliantError(f"{option} {text[:80]}: {error}") from None


def _ranks(sources: int, targets: int, leave: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    gone = [p.number("--leave", each, "ranks") for each in leave.split(",") if leave]
    before = [*range(sources)]
    if len(set(gone)) < len(gone) or any(rank not in before for rank in gone):
        raise PliantError(f"--leave {leave}: name ranks of 0 to {sources - 1}, each once")
    if gone and sources - len(gone) > targets:
        raise PliantError(
            f"--leave {leave}: {count(sources - len(gone), 'rank stays', 'ranks stay')}, and "
            f"{are(targets)} there afterwards: name all that leave"
        )
    # Where none is named the last ones leave, and none joins.
    stays = [rank not in gone and (bool(gone) or rank < targets) for rank in before]
    return tuple(before), successors(stays, targets - sum(stays))


# ---- what is told ---------------------------------------------------------------------------------------


def table(ask: DataPlanRequest, plan: Traffic) -> Table:
    """The rows that go from each rank (downwards) to each other (across); what stays is on its rank's own place."""
    every = [*plan.moves, *plan.kept]
    shown = Table(title=f"{ask.old} to {ask.new}: rows from each rank to each", title_justify="left")
    if len(ask.targets) > WIDEST:
        for heading in ("from", "to", "rows", "ranges"):
            shown.add_column(heading, justify="right")
        for move in sorted(every):
            ranges = sum(stripe.times for stripe in move.stripes)
            shown.add_row(str(move.source), str(move.target), f"{move.rows:,}", f"{ranges:,}")
        return shown
    shown.add_column("from", justify="right")
    for rank in ask.targets:
        shown.add_column(f"to {rank}", justify="right")
    rows = {(move.source, move.target): f"{move.rows:,}" for move in every}
    for source in ask.sources:
        shown.add_row(str(source), *(rows.get((source, target), "-") for target in ask.targets))
    return shown


def _lines(ask: DataPlanRequest, plan: Traffic, bound: int, row_bytes: int) -> Sequence[str]:
    kept = sum(move.rows for move in plan.kept)
    more = "as few as can be" if plan.moved == bound else f"and {bound * row_bytes:,} would do"
    return (
        f"Sent: {plan.moved:,} rows in {count(len(plan.moves), 'message')}, {plan.moved * row_bytes:,} bytes: {more}.",
        f"Kept where they are: {kept:,} rows, of {ask.rows:,}.",
    )


def _told(ask: DataPlanRequest, plan: Traffic, bound: int, row_bytes: int) -> dict[str, Any]:
    def moves(some: Sequence[Any]) -> list[dict[str, Any]]:
        return [
            {
                "source": move.source,
                "target": move.target,
                "rows": move.rows,
                "bytes": move.rows * row_bytes,
                "stripes": [stripe._asdict() for stripe in move.stripes],
            }
            for move in sorted(some)
        ]

    return {
        "rows": ask.rows,
        "from": ask.old,
        "to": ask.new,
        "sources": ask.sources,
        "targets": ask.targets,
        "moves": moves(plan.moves),
        "kept": moves(plan.kept),
        "moved_bytes": plan.moved * row_bytes,
        "lower_bound_bytes": bound * row_bytes,
    }
