"""``pliant plan data``: who sends which rows or cells to whom when an array's ranks become others."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import prod
from typing import Annotated, Any, NamedTuple

import typer
from rich.table import Table

from pliant.cli import plan as p
from pliant.cli.outputs import AsJson
from pliant.model.errors import PliantError
from pliant.model.limits import DIGITS, MOST_HOSTS, whole
from pliant.model.words import are, count
from pliant.plan.data.grids import BALANCED, SURFACE, Grid
from pliant.plan.data.layouts import Block, BlockCyclic, Irregular, Layout, Replicated, check, spread
from pliant.plan.data.spreads import Spread
from pliant.plan.data.traffic import Traffic, lower_bound, traffic
from pliant.plan.places import successors
from pliant.terminal.working import Working

MOST_ROWS = 10**DIGITS - 1
MOST_PAIRS = 1 << 20
WIDEST = 12
"""Ranks to which a table has a column each; of more of them there is a row for each pair that speaks."""
LAYOUTS = (
    "block, cyclic:ROWS, irregular:COUNT+COUNT+... (each of axis 0, or as block@1 of axis 1), replicated, grid, "
    "grid:surface or grid:2x0 (0: as many as there are)"
)


class DataPlanRequest(NamedTuple):
    """What is to be planned. Ranks are counted as before the resize, those that join behind all of them. ``targets``
    are in their new order: who joins takes the place of who leaves, as in a migration of nodes with a rank each."""

    shape: tuple[int, ...]
    old: str
    new: str
    sources: tuple[int, ...]
    targets: tuple[int, ...]


def data(  # noqa: PLR0913 -- a command has its options as parameters
    *,
    rows: Annotated[
        str, typer.Option(metavar="N[xN...]", help="Of the array, along each axis: 1000000, or 4000x3000.")
    ],
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
    row_bytes: Annotated[
        int, typer.Option(min=1, max=1 << 40, help="Of one row, or of one cell where there are several axes.")
    ] = 8,
    as_json: AsJson = False,
) -> None:
    """Show what a redistribution moves: the rows that each rank sends to each other one. Where the array has several
    axes these are cells. Their bytes stand beside the fewest that any way could do with, where each rank keeps what it
    has and needs."""
    ask = DataPlanRequest(_shape(rows), old or layout, new or layout, *_ranks(sources, targets, leave))
    layouts = (
        _layout("--from" if old else "--layout", ask.old),
        _layout("--to" if new else "--layout", ask.new),
    )
    spreads = (
        _spread(layouts[0], ask.shape, sources, f"--rows {rows}, {ask.old}, --sources {sources}"),
        _spread(layouts[1], ask.shape, targets, f"--rows {rows}, {ask.new}, --targets {targets}"),
    )
    if _pairs(layouts, spreads) > MOST_PAIRS:
        raise PliantError(
            f"--sources {sources} --targets {targets}: each pair of ranks may have to speak, and {MOST_PAIRS:,} pairs "
            "are the most"
        )
    with Working("planning"):
        plan = traffic(*spreads, ask.sources, ask.targets)
        bound = lower_bound(*spreads, ask.sources, ask.targets)
    if as_json:
        typer.echo(json.dumps(_told(ask, plan, bound, row_bytes)))
        return
    p.show(table(ask, plan), _lines(ask, plan, bound, row_bytes))


# ---- what is asked --------------------------------------------------------------------------------------


def _shape(text: str) -> tuple[int, ...]:
    found = [whole(each) for each in text.split("x")]
    lengths = tuple(each for each in found if each is not None)
    if len(lengths) < len(found):
        raise PliantError(f"--rows: {text[:40]!r} is no number of rows, which are 0 to {MOST_ROWS:,}")
    return lengths


def _spread(layout: Layout, shape: tuple[int, ...], ranks: int, asked: str) -> Spread:
    try:
        check(layout, shape)
        return spread(layout, shape, ranks)
    except ValueError as error:
        raise PliantError(f"{asked}: {error}") from None


def _pairs(layouts: Sequence[Layout], spreads: Sequence[Spread]) -> int:
    """How many pairs of parts have something in common, at most about so many."""
    old, new = spreads
    if any(isinstance(each, BlockCyclic | Replicated) for each in layouts):
        return old.parts * new.parts
    return prod(before + after - 1 for before, after in zip(old.dims, new.dims, strict=True))


def _layout(option: str, text: str) -> Layout:
    words, _, axis_text = text.partition("@")
    name, _, value = words.partition(":")
    axis = whole(axis_text or "0")
    numbers = [whole(each) for each in value.split("x" if name == "grid" else "+")]
    known = [number for number in numbers if number is not None]
    try:
        match name:
            case "block" if not value and axis is not None:
                return Block(axis)
            case "replicated" if words == text == name:
                return Replicated()
            case "cyclic" if len(numbers) == len(known) == 1 and axis is not None:
                return BlockCyclic(known[0], axis)
            case "irregular" if len(numbers) == len(known) and axis is not None:
                return Irregular(known, axis)
            case "grid" if words == text and value in {"", BALANCED, SURFACE}:
                return Grid(dims=value or BALANCED)
            case "grid" if words == text and len(numbers) == len(known):
                return Grid(tuple(range(len(known))), dims=known)
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
    """What goes from each rank (downwards) to each other (across); what stays is on its rank's own place."""
    every, unit = [*plan.moves, *plan.kept], _unit(ask)
    shown = Table(title=f"{ask.old} to {ask.new}: {unit} from each rank to each", title_justify="left")
    if len(ask.targets) > WIDEST:
        for heading in ("from", "to", unit, "ranges"):
            shown.add_column(heading, justify="right")
        for move in sorted(every):
            ranges = sum(prod(stripe.times for stripe in patch) for patch in move.patches)
            shown.add_row(str(move.source), str(move.target), f"{move.cells:,}", f"{ranges:,}")
        return shown
    shown.add_column("from", justify="right")
    for rank in ask.targets:
        shown.add_column(f"to {rank}", justify="right")
    cells = {(move.source, move.target): f"{move.cells:,}" for move in every}
    for source in ask.sources:
        shown.add_row(str(source), *(cells.get((source, target), "-") for target in ask.targets))
    return shown


def _unit(ask: DataPlanRequest) -> str:
    return "rows" if len(ask.shape) == 1 else "cells"


def _lines(ask: DataPlanRequest, plan: Traffic, bound: int, row_bytes: int) -> Sequence[str]:
    kept, sent, unit = sum(move.cells for move in plan.kept), plan.moved * row_bytes, _unit(ask)
    more = "as few as can be" if plan.moved == bound else f"and {bound * row_bytes:,} would do"
    return (
        f"Sent: {plan.moved:,} {unit} in {count(len(plan.moves), 'message')}, {sent:,} bytes: {more}.",
        f"Kept where they are: {kept:,} {unit}, of {prod(ask.shape):,}.",
    )


def _told(ask: DataPlanRequest, plan: Traffic, bound: int, row_bytes: int) -> dict[str, Any]:
    def moves(some: Sequence[Any]) -> list[dict[str, Any]]:
        return [
            {
                "source": move.source,
                "target": move.target,
                "cells": move.cells,
                "bytes": move.cells * row_bytes,
                "patches": [[stripe._asdict() for stripe in patch] for patch in move.patches],
            }
            for move in sorted(some)
        ]

    return {
        "shape": ask.shape,
        "from": ask.old,
        "to": ask.new,
        "sources": ask.sources,
        "targets": ask.targets,
        "moves": moves(plan.moves),
        "kept": moves(plan.kept),
        "moved_bytes": plan.moved * row_bytes,
        "lower_bound_bytes": bound * row_bytes,
    }
