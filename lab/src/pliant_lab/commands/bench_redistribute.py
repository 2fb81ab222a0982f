"""``pliant bench redistribute``: how quickly data follow the ranks, how much memory that takes, what it makes of a
resize, and what it costs to ask for one."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from pliant.cli.outputs import check_output
from pliant.terminal.working import Working
from pliant_lab.measure import asking, redistributing
from pliant_lab.measure.programs import Figures, surroundings

GIB = 1 << 30


def redistribute(
    *,
    size: Annotated[int, typer.Option("--bytes", min=1 << 20, help="Of the array that is moved.")] = GIB,
    quick: Annotated[
        bool, typer.Option(help="Less than a minute: from 2 to 4 ranks, and resizes of 1/8 of that.")
    ] = False,
    constant: Annotated[
        bool, typer.Option(help="The job whose resizes are measured does not change its data.")
    ] = False,
    out: Annotated[Path | None, typer.Option("--csv", help="Write the rows to this file too.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Redistribute an array by each method. Each runs beside Isend and Irecv written by hand, in the same
    processes and in turn, into memory that nobody has touched. It also measures the most memory that takes,
    resizes of a job that holds the array with scheduling and resizing apart (Iserte et al. 2018, Figure 3), a check
    that leads to no action or is inhibited, and steps() in steps of a millisecond."""
    if out is not None:
        check_output("--csv", out)
    asked, around = redistributing.effort(size, quick=quick, constant=constant), surroundings()
    cases = asking.cases(quick=quick)
    total = 1 + asked.passes * len(asked.sizes) + len(asking.RANKS) * len(cases)
    with Working("moves, resizes, then checks", total) as progress:
        rows = redistributing.table(redistributing.moves(asked), asked.bytes)
        progress.advance()
        resizes = redistributing.resized(asked, progress.advance)
        checks = asking.asked(cases, progress.advance)
    figures = {**redistributing.summary(rows), **checks, "bytes": asked.bytes, **around}
    if out is not None:
        write_csv(out, rows, resizes)
    if as_json:
        flexible = {"flexible_bytes": asked.flexible_bytes, "constant": constant, "resizes": resizes}
        typer.echo(json.dumps({**figures, "moves": rows, **flexible}))
        return
    console = Console()
    console.print(moves_table(rows, figures))
    console.print(resizes_table(resizes, asked.flexible_bytes))
    console.print(checks_table(figures))


def moves_table(rows: Sequence[Figures], figures: Figures) -> Table:
    """``figures``: what was moved, and where it was measured."""
    shown = Table(
        title=f"{figures['bytes'] / 1e9:.3g} GB between ranks",
        caption=f"medians on {figures['processors']} processors, load {figures['load_average']} at the start",
    )
    for heading in ("ranks", "method", "seconds", "GB/s", "of by hand", "extra memory"):
        shown.add_column(heading, justify="left" if heading == "method" else "right")
    for row in rows:
        shown.add_row(
            f"{row['before']} to {row['after']}", row["method"], f"{row['seconds']:.3f}", f"{row['gb_s']:.2f}",
            "" if row["bandwidth_ratio"] is None else f"{row['bandwidth_ratio']:.2f}",
            f"{100 * row['peak_extra_ratio']:.1f} %",
        )  # fmt: skip
    return shown


def resizes_table(rows: Sequence[Figures], size: int) -> Table:
    shown = Table(title=f"resizes of a job that holds {size / 1e9:.3g} GB (means)")
    for heading in ("nodes", "scheduling", "resize", "blocked", "repetitions"):
        shown.add_column(heading, justify="right")
    for row in rows:
        shown.add_row(
            f"{row['before']} to {row['after']}", f"{row['scheduling_s']:.3f} s", f"{row['resize_s']:.3f} s",
            f"{row['blocked_s']:.3f} s", str(row["repetitions"]),
        )  # fmt: skip
    return shown


def checks_table(figures: Figures) -> Table:
    shown = Table(title="what a job pays for asking its scheduler (medians)")
    for heading in ("", *(f"{ranks} rank{'s' * (ranks > 1)}" for ranks in asking.RANKS), "repetitions"):
        shown.add_column(heading, justify="right" if heading else "left")
    for name, label in (
        ("check_no_action_ms", "a check without an action, ms"),
        ("check_inhibited_us", "an inhibited check, us"),
        ("steps_share", "steps() in steps of 1 ms, share"),
    ):
        row = figures["asking"][name]
        shown.add_row(label, *(f"{median:.3g}" for median in row["medians"]), str(row["repetitions"]))
    return shown


def write_csv(path: Path, moves: Sequence[Figures], resizes: Sequence[Figures]) -> None:
    """All rows, one below the other; a column that a row has nothing of is empty."""
    rows = [{"kind": kind, **row} for kind, some in (("move", moves), ("resize", resizes)) for row in some]
    names = list(dict.fromkeys(name for row in rows for name in row if name != "runs_s"))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
