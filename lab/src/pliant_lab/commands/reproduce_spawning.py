"""``pliant reproduce spawning``: Martín-Álvarez et al.'s resizes of MPI jobs, measured here."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import typer

from pliant.model.errors import PliantError
from pliant.terminal.working import Working
from pliant_lab.commands.bench_resize import (
    LIMIT_S,
    QUICK_LIMIT_S,
    QUICK_REPETITIONS,
    REPETITIONS,
    SIZES,
    Netmod,
)
from pliant_lab.measure import resizing
from pliant_lab.measure.programs import Figures, surroundings
from pliant_lab.measure.trials import Surface
from pliant_lab.measure.ways import WAYS
from pliant_lab.reproduce.folder import Folder
from pliant_lab.reproduce.spawning import written as reproduced
from pliant_lab.reproduce.spawning.rows import (
    AGENT,
    BASELINE,
    MERGE,
    MERGE_PARALLEL,
    RESPAWN,
    Measured,
    Row,
    Table,
    load,
)

EQUAL, DIFFERENT = (1,), (1, 3)
QUICK_SIZES = (1, 4)
QUICK_WAYS = (MERGE, *MERGE_PARALLEL, BASELINE[-1], AGENT, "TS", RESPAWN[-1])
"""What the claims need: of Baseline and respawn the strategy that all nodes can do."""
QUICK_BUDGET_S = 120.0
"""Shared by the tables of a quick run: under three minutes with the figures."""


class Kind(NamedTuple):
    """Of table."""

    netmod: Netmod
    slots: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.netmod}, {' and '.join(map(str, self.slots))} a node"


KINDS = [Kind(netmod, slots) for netmod in Netmod for slots in (EQUAL, DIFFERENT)]


def _word(kind: Kind) -> str:
    return f"{kind.netmod.value}:{','.join(map(str, kind.slots))}"


def spawning(  # noqa: PLR0913 - the options of a command
    *,
    out: Annotated[
        Path, typer.Option(help="The folder to write; one that this command wrote before is replaced.")
    ] = Path("reproduced-spawning"),
    quick: Annotated[
        bool, typer.Option("--quick", help="From 1 node to 4 and back, as often as goes in under 3 minutes.")
    ] = False,
    repetitions: Annotated[
        int | None,
        typer.Option(
            min=1, help=f"Runs of each; default: {REPETITIONS}, with --quick as many as the time allows."
        ),
    ] = None,
    from_folder: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="FOLDER", help="Measure nothing: take what an earlier run left there."
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TABLE",
            help="Measure one of the four tables, by its network module and the processes of its nodes: "
            f"{', '.join(_word(kind) for kind in KINDS)}; repeat it. The others are taken from --from.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Run the resizes of Martín-Álvarez et al. 2025 on 1 to 8 virtual nodes. Nodes are equal and different ones,
    over two network modules. It writes their claims with the measurements beside them, figures like theirs,
    what the plans predict, tables, and a README.md (an hour; --only and --from do it in parts)."""
    if from_folder is not None and (quick or (repetitions and not only)):
        raise PliantError("--from measures nothing without --only: leave out --quick and --repetitions")
    kinds = KINDS if not only else [_kind(word) for word in dict.fromkeys(only)]
    if find_spec("matplotlib") is None:
        raise PliantError("reproduce spawning needs matplotlib: pip install 'pliant[report]'")
    began = time.monotonic()
    with Folder(out) as folder, Working("measuring") as progress:
        measured = load(from_folder) if from_folder is not None else None
        if measured is None or only:
            measured = together(measured, _measure(kinds, repetitions, progress, quick=quick))
        progress.begin("modelling and drawing")
        reproduced.write(folder, measured)
    took = time.monotonic() - began
    if as_json:
        facts = {"folder": str(out), "seconds": round(took, 1), "files": ["README.md", *folder.files]}
        typer.echo(json.dumps(facts))
    else:
        typer.echo(
            f"{out / 'README.md'}: the claims, and what was measured; {len(folder.files)} files, {took:.0f} s"
        )


def _kind(word: str) -> Kind:
    for kind in KINDS:
        if word == _word(kind):
            return kind
    known = ", ".join(_word(kind) for kind in KINDS)
    raise PliantError(f"--only {word}: there is no such table; there are {known}")


def together(before: Measured | None, now: Measured) -> Measured:
    """What was measured ``before``, and ``now``, which counts where both have a table; of the load the higher."""
    tables = {(each.netmod, each.equal): each for each in (*(before.tables if before else ()), *now.tables)}
    kinds = [kind for kind in KINDS if (kind.netmod.value, kind.slots == EQUAL) in tables]
    return msgspec.structs.replace(
        now,
        tables=[tables[kind.netmod.value, kind.slots == EQUAL] for kind in kinds],
        left_out=[str(kind) for kind in KINDS if kind not in kinds],
        seconds=now.seconds + (before.seconds if before else 0),
        load_average=max(now.load_average, before.load_average if before else 0),
        quick=now.quick or (before.quick if before else False),
    )


def _measure(kinds: Sequence[Kind], repetitions: int | None, progress: Working, *, quick: bool) -> Measured:
    """Table by table; in a quick run each gets its share of what is left, and none is begun when nothing is."""
    around, began = surroundings(), time.monotonic()
    tables: list[Table] = []
    for number, kind in enumerate(kinds):
        left_s = QUICK_BUDGET_S - (time.monotonic() - began)
        if quick and tables and left_s <= 0:
            break
        progress.begin(f"measuring {kind}", unit="resizes")
        share_s = left_s / (len(kinds) - number) if quick else None
        series = resizing.measure(
            _effort(repetitions, share_s),
            resizing.Setting(
                tuple(f"n{node}" for node in range(SIZES[-1])), kind.slots, Surface(kind.netmod.value),
                QUICK_LIMIT_S if quick else LIMIT_S,
            ),
            progress.reach,
        )  # fmt: skip
        tables.append(_table(kind, resizing.rows_of(series)))
    return Measured(**around, quick=quick, seconds=round(time.monotonic() - began, 1), tables=tables)


def _effort(repetitions: int | None, share_s: float | None) -> resizing.Effort:
    if share_s is None:
        return resizing.Effort(SIZES, WAYS, repetitions or REPETITIONS)
    ways = tuple(way for way in WAYS if way.name in QUICK_WAYS)
    return resizing.Effort(QUICK_SIZES, ways, repetitions or QUICK_REPETITIONS, budget_s=share_s, least=1)


def _table(kind: Kind, rows: list[Figures]) -> Table:
    return Table(kind.netmod.value, kind.slots, msgspec.convert(rows, list[Row]))
