"""``pliant bench resize``: MPI jobs that grow and shrink, by every method and strategy."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from pliant.cli.hosts import hosts_named
from pliant.cli.outputs import check_output
from pliant.model.errors import PliantError
from pliant.terminal.working import Working
from pliant_lab.commands.bench_flavours import compare, show
from pliant_lab.measure import resizing
from pliant_lab.measure.alike import runs_needed
from pliant_lab.measure.flavours import Cycles
from pliant_lab.measure.programs import Figures, surroundings
from pliant_lab.measure.trials import Surface
from pliant_lab.measure.ways import BESIDE, RATIOS, WAYS

SIZES = (1, 2, 4, 8)
REPETITIONS = 5
QUICK_REPETITIONS = 9
QUICK_BUDGET_S = 45.0
QUICK_NODES, QUICK_CYCLES = 4, 2
LIMIT_S, QUICK_LIMIT_S = 60.0, 30.0
COLUMNS = (
    "before", "after", "way", "total_s", "blocked_s", "freed_s", "repetitions", "hangs", "equal_to_best",
)  # fmt: skip
MARKS = {True: "*", False: "", None: "?"}
"""Of the quickest ways of a cell, of slower ones, and where the runs are too few to tell."""


class Netmod(StrEnum):
    """What MPICH sends messages by."""

    OFI = "ofi"
    UCX = "ucx"


def resize(  # noqa: PLR0913 -- a command has its options as parameters
    *,
    nodes: Annotated[
        list[int] | None, typer.Option(min=1, help="A size; repeat it; default: 1, 2, 4 and 8.")
    ] = None,
    slots: Annotated[str, typer.Option(help="Processes of each node, over and over: 1, or 1,3.")] = "1",
    hosts: Annotated[
        str | None, typer.Option(help="Nodes, as in n[0-7]; default: virtual ones of this machine.")
    ] = None,
    netmod: Annotated[Netmod, typer.Option(help="What MPICH sends messages by, in all rows.")] = Netmod.OFI,
    mpi: Annotated[
        list[str] | None,
        typer.Option(
            help="Compare MPIs instead: all that pliant doctor finds, or the file of a library; repeat it. A job "
            "grows from the smallest to the largest size and back, by agents."
        ),
    ] = None,
    repetitions: Annotated[
        int | None,
        typer.Option(min=1, help="Runs of each; the medians count; default: 5, with --quick up to 9."),
    ] = None,
    limit: Annotated[
        float | None,
        typer.Option(
            min=1.0,
            help="Seconds after which a run counts as hung and is killed; default: 60, with --quick 30.",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="What the ratios need, as often as goes in under a minute.")
    ] = False,
    to_csv: Annotated[Path | None, typer.Option("--csv", help="Write the rows to this file as well.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Resize MPI jobs, from each size to each other, in each way there is. Under mpiexec: plain Merge, Merge and
    Baseline with both parallel strategies, and Merge while the job computes on (asynchronous); shrinks by
    termination (TS), zombies (ZS) and respawn (SS). By agents: cold, from warm processes, and termination. In the
    table, * marks the quickest of a size: those whose total a rank test cannot tell from the least."""
    if to_csv is not None:
        check_output("--csv", to_csv)
    sizes = tuple(sorted(set(nodes or SIZES)))
    setting = resizing.Setting(
        _hosts(hosts, sizes[-1]), _slots(slots), Surface(netmod.value, virtual=hosts is None),
        limit or (QUICK_LIMIT_S if quick else LIMIT_S),
    )  # fmt: skip
    if len(sizes) < 2:
        raise PliantError("--nodes: one size is no resize; name two at least")
    effort = resizing.Effort(sizes, (*WAYS, BESIDE), repetitions or REPETITIONS)
    if quick:
        ways, many = resizing.needed(WAYS, RATIOS), repetitions or QUICK_REPETITIONS
        effort = resizing.Effort(sizes, ways, many, ends_only=True, budget_s=QUICK_BUDGET_S)
    if mpi:
        _compare(mpi, setting, sizes, repetitions or REPETITIONS, quick=quick, as_json=as_json)
        return
    around = surroundings()
    with Working("measuring", unit="resizes") as progress:
        series = resizing.measure(effort, setting, progress.reach)
    rows = resizing.rows_of(series)
    figures = {
        "netmod": netmod.value, "slots": list(setting.slots), "virtual": hosts is None, "quick": quick,
        **resizing.ratios(series, RATIOS), **around,
    }  # fmt: skip
    if to_csv is not None:
        write_csv(to_csv, rows)
    if as_json:
        typer.echo(json.dumps({**figures, "rows": rows}))
        return
    console = Console()
    console.print(table(rows, figures))
    for line in notes(rows, figures):
        console.print(line, markup=False, highlight=False)


def _compare(  # noqa: PLR0913 - of the command's
    mpi: Sequence[str],
    setting: resizing.Setting,
    sizes: Sequence[int],
    cycles: int,
    *,
    quick: bool,
    as_json: bool,
) -> None:
    if len(set(setting.slots)) > 1 or not setting.surface.virtual:
        raise PliantError("--mpi: its agents are on this machine, and have the same --slots each")
    last = min(sizes[-1], QUICK_NODES) if quick else sizes[-1]
    asked = Cycles((sizes[0], last), setting.slots[0], QUICK_CYCLES if quick else cycles, 2)
    figures = compare(mpi, asked)
    if as_json:
        typer.echo(json.dumps(figures))
    else:
        show(figures, Console())


def _hosts(text: str | None, most: int) -> tuple[str, ...]:
    names = tuple(f"n{number}" for number in range(most)) if text is None else hosts_named(text)
    if len(names) < most:
        raise PliantError(f"--hosts {text}: {len(names)} nodes, and the largest size is {most}; name more")
    return names


def _slots(text: str) -> tuple[int, ...]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() and 0 < int(word) <= 256 for word in words):
        raise PliantError(f"--slots {text}: write numbers from 1 to 256, as in 1,3")
    return tuple(int(word) for word in words)


def write_csv(path: Path, rows: Sequence[Figures]) -> None:
    """The columns of the table, and the seconds of each run."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*COLUMNS, "runs_s"])
        for row in rows:
            writer.writerow([*(row[column] for column in COLUMNS), " ".join(map(str, row["runs_s"]))])


def table(rows: Sequence[Figures], figures: Figures) -> Table:
    """``figures``: what was asked for, and where it was measured."""
    shown = Table(
        title=f"resizes, netmod {figures['netmod']}, {', '.join(map(str, figures['slots']))} processes a node",
        caption=f"milliseconds, medians; {figures['processors']} processors, "
        f"load {figures['load_average']} at the start; * the quickest, which a rank test cannot tell apart",
    )
    for heading in ("nodes", "way"):
        shown.add_column(heading, no_wrap=True)
    for heading in ("total", "", "blocked", "processes ended", "runs", "hung"):
        shown.add_column(heading, justify="right")
    for row in rows:
        if row["cannot"]:
            continue
        total, *others = (_milliseconds(row[field]) for field in ("total_s", "blocked_s", "freed_s"))
        shown.add_row(
            f"{row['before']} to {row['after']}",
            row["way"],
            total,
            MARKS[row["equal_to_best"]] if row["repetitions"] else "",
            *others,
            str(row["repetitions"]),
            str(row["hangs"] or ""),
        )
    return shown


def _milliseconds(time: float | None) -> str:
    return "" if time is None else f"{time * 1000:.1f}"


def notes(rows: Sequence[Figures], figures: Figures) -> Iterator[str]:
    """What there is to say beside the times, a line each."""
    for name, ratio in figures["ratios"].items():
        over, under = figures["medians_s"][name]
        yield (
            f"{name.replace('_', ' ')}: {ratio:g} ({over * 1000:.1f} and {under * 1000:.1f} ms, "
            f"{figures['repetitions'][name]} rounds)"
        )
    for row in rows:
        where = f"{row['way']}, {row['before']} to {row['after']} nodes"
        if row["failed"]:
            yield f"{where}: failed: {row['failed']}"
    if any(row["equal_to_best"] is None and row["repetitions"] for row in rows):
        cells = Counter((row["before"], row["after"]) for row in rows if row["repetitions"])
        yield (
            f"?: too few runs to tell which are the quickest; {max(cells.values())} ways take "
            f"{runs_needed(max(cells.values()))} runs each"
        )
    left_out: dict[str, str] = {}
    for row in rows:
        if row["cannot"]:
            left_out.setdefault(row["way"], row["cannot"])
    for way, why in left_out.items():
        yield f"{way}: left out: {why}"
