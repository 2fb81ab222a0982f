"""What Martín-Álvarez et al. 2025 say of their resizes, and whether those that were measured here agree."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from pliant.model.words import count
from pliant_lab.measure.alike import runs_needed
from pliant_lab.measure.resizing import Cell
from pliant_lab.reproduce.spawning.rows import (
    AGENT,
    BASELINE,
    EXPANSIONS,
    MERGE,
    MERGE_PARALLEL,
    RESPAWN,
    SHRINKS,
    Measured,
    Table,
)

PARALLEL_EQUAL, PARALLEL_DIFFERENT = 1.13, 1.25
"""Parallel Merge over plain Merge, at most."""
TERMINATION_EQUAL, TERMINATION_DIFFERENT = 1387.0, 20.0
"""Respawn over termination, at least."""
PAPER_RANKS = 112
"""Of a node, where nodes were equal."""
ALIKE = 0.01
"""Medians of ratios that are as close as this are not said to grow or to fall."""
ENOUGH = runs_needed(len(EXPANSIONS))
"""Runs of each way: with fewer a rank test tells none of the expansions from the others, and no claim is judged."""


class Verdict(NamedTuple):
    """``agrees``: None if it was not measured, or if what was tells neither. ``few``: how few the runs are, if too few
    to say so for sure. ``why``: why it does not agree."""

    claim: str
    paper: str
    ours: str
    agrees: bool | None
    few: str = ""
    why: str = ""

    @property
    def word(self) -> str:
        if self.agrees is None:
            return "cannot be told" if self.ours else "not measured"
        if self.few:
            return f"seems {'to' if self.agrees else 'not to'} agree: {self.few}"
        return "agrees" if self.agrees else "**does not agree**"


class Found(NamedTuple):
    """Of a claim: what was measured, whether it agrees, and why not, if that is not the claim's own reason."""

    ours: str
    agrees: bool | None
    why: str = ""


class Claim(NamedTuple):
    """``equal``: of nodes with as many processes each, or of different ones. ``judge``: None if its cells are not
    there. ``why``: why it may not hold where nodes share processors."""

    says: str
    paper: str
    equal: bool
    ways: tuple[str, ...]
    judge: Callable[[Table], Found | None]
    why: str


def verdicts(measured: Measured, netmod: str) -> Iterator[Verdict]:
    """Of each claim, by this netmod."""
    for claim in CLAIMS:
        table = measured.table(netmod, equal=claim.equal)
        kind = "equal nodes" if claim.equal else "different nodes"
        says = f"{claim.says} ({kind})"
        found = None if table is None else claim.judge(table)
        if table is None or found is None:
            yield Verdict(says, claim.paper, "", None)
            continue
        why = "" if found.agrees is not False else found.why or _why(claim, table, measured.processors)
        yield Verdict(says, claim.paper, found.ours, found.agrees, _few(claim, table), why)


def _few(claim: Claim, table: Table) -> str:
    """Nothing, if there are ENOUGH runs of all that it is of."""
    rows = [row for row in table.rows if row.way in claim.ways and not row.cannot]
    least = min((row.repetitions for row in rows), default=0)
    return f"{count(least, 'run')} of {ENOUGH}" if least < ENOUGH else ""


def _why(claim: Claim, table: Table, processors: int) -> str:
    nodes = max((max(row.cell) for row in table.rows), default=0)
    if processors >= nodes:
        return "No reason is known; the phases of each resize are in the JSON."
    return f"Likely: {nodes} virtual nodes share {processors} processors, so {claim.why}."


# ---- what each is judged by ----------------------------------------------------------------------------------


class _Ratio(NamedTuple):
    value: float
    cell: Cell
    way: str

    @property
    def where(self) -> str:
        return f"{self.way}, {self.cell.before} to {self.cell.after}"


def _ratios(table: Table, over: Sequence[str], under: str, *, grows: bool) -> list[_Ratio]:
    """Of median totals, in each cell that has both."""
    return [
        _Ratio(total / base, cell, way)
        for cell in table.cells(grows=grows)
        for way, total in table.of(cell, over)
        if (base := table.total(cell, under))
    ]


def _at_most(most: float) -> Callable[[Table], Found | None]:
    def judge(table: Table) -> Found | None:
        found = _ratios(table, MERGE_PARALLEL, MERGE, grows=True)
        if not found:
            return None
        worst = max(found)
        middle = statistics.median(each.value for each in found)
        return Found(f"{worst.value:.2f} ({worst.where}); the median is {middle:.2f}", worst.value <= most)

    return judge


def _at_least(least: float) -> Callable[[Table], Found | None]:
    def judge(table: Table) -> Found | None:
        found = _ratios(table, RESPAWN, "TS", grows=False)
        if not found:
            return None
        worst = min(found)
        return Found(f"{worst.value:,.0f} ({worst.where})", worst.value >= least)

    return judge


def _first(way: str, ways: tuple[str, ...], *, all_cells: bool) -> Callable[[Table], Found | None]:
    """``way`` is the quickest of ``ways``, in most cells or in all."""

    def judge(table: Table) -> Found | None:
        cells = [
            cell
            for cell in table.cells(grows=way in EXPANSIONS)
            if table.total(cell, way) is not None and len([*table.of(cell, ways)]) > 1
        ]
        if not cells:
            return None
        ahead = sum(1 for cell in cells if _leads(table, cell, way, ways))
        told = [table.quickest(cell, ways).get(way) for cell in cells]
        text = f"in {ahead} of {len(cells)}"
        if any(each is not None for each in told):
            text += f"; among those that cannot be told apart in {told.count(True)}"
        # Where another's median is less, and the test cannot tell that from it, this says nothing against it.
        open_ = sum(
            1
            for cell, each in zip(cells, told, strict=True)
            if each is not False and not _leads(table, cell, way, ways)
        )
        most = len(cells) - 1 if all_cells else len(cells) / 2
        agrees = True if ahead > most else None if ahead + open_ > most else False
        return Found(
            text, agrees, "A rank test tells others from it; no reason is known." if agrees is False else ""
        )

    return judge


def _leads(table: Table, cell: Cell, way: str, ways: Sequence[str]) -> bool:
    return min(table.of(cell, ways), key=lambda each: each[1])[0] == way


def _slower(but: int) -> Callable[[Table], Found | None]:
    """Baseline takes longer than plain Merge, but for so many cells."""

    def judge(table: Table) -> Found | None:
        found = _ratios(table, BASELINE, MERGE, grows=True)
        if not found:
            return None
        quicker = {each.cell for each in found if each.value <= 1}
        values = [each.value for each in found]
        span = dict.fromkeys(f"{each:.2f}" for each in (min(values), max(values)))
        text = f"{' to '.join(span)} of plain Merge"
        if quicker:
            text += f"; quicker in {len(quicker)} of {len({each.cell for each in found})} cells"
        return Found(text, len(quicker) <= but)

    return judge


def _grows_with_groups(table: Table) -> Found | None:
    found = _ratios(table, MERGE_PARALLEL, MERGE, grows=True)
    groups = sorted({each.cell.after - each.cell.before for each in found})
    if len(groups) < 2:
        return None
    few, many = (
        statistics.median(each.value for each in found if each.cell.after - each.cell.before == count)
        for count in (groups[0], groups[-1])
    )
    agrees = None if abs(many / few - 1) < ALIKE else many > few
    counted = f"{groups[0]} group{'s' if groups[0] > 1 else ''}"
    return Found(f"{few:.2f} with {counted}, {many:.2f} with {groups[-1]}", agrees)


def _outperformed(table: Table) -> Found | None:
    found = _ratios(table, (AGENT,), MERGE, grows=True)
    if not found:
        return None
    worst = max(found)
    blocked = [
        (row.blocked_s or 0.0) / base.blocked_s
        for each in found
        if (row := table.at(each.cell, AGENT)) and (base := table.at(each.cell, MERGE)) and base.blocked_s
    ]
    text = f"{AGENT}: {worst.value:.2f} at most ({worst.cell.before} to {worst.cell.after})"
    if blocked:
        text += f", blocked {max(blocked):.3f}"
    return Found(text, worst.value < 1)


_PARALLEL = (
    "starts side by side wait for one another there and win little, while each group has a call of its own, "
    "ports and connections that plain Merge has not"
)
_NOISE = "what the ways differ by is within what such a machine does from run to run"
_TERMINATION = (
    f"a respawn has at most one process for each slot of these few nodes to start, not {PAPER_RANKS} a node as there, "
    "while ranks that leave take turns on a processor: termination has less to save and takes longer"
)
_GROUPS = "starting the processes outweighs synchronisation and connections, which grow"

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "Parallel Merge over plain Merge, total, at most", f"{PARALLEL_EQUAL}", True, (MERGE, *MERGE_PARALLEL),
        _at_most(PARALLEL_EQUAL), _PARALLEL,
    ),
    Claim(
        "The same by diffusive, at most", f"{PARALLEL_DIFFERENT}", False, (MERGE, *MERGE_PARALLEL),
        _at_most(PARALLEL_DIFFERENT), _PARALLEL,
    ),
    Claim(
        "Respawn (SS) over termination (TS), at least", f"{TERMINATION_EQUAL:,.0f}", True, SHRINKS,
        _at_least(TERMINATION_EQUAL), _TERMINATION,
    ),
    Claim(
        "Respawn (SS) over termination (TS), at least", f"{TERMINATION_DIFFERENT:,.0f}", False, SHRINKS,
        _at_least(TERMINATION_DIFFERENT), _TERMINATION,
    ),
    Claim(
        "Plain Merge is the quickest expansion", "in most cells", True, EXPANSIONS,
        _first(MERGE, EXPANSIONS, all_cells=False), _NOISE,
    ),
    Claim(
        "Plain Merge is the quickest expansion", "in all cells", False, EXPANSIONS,
        _first(MERGE, EXPANSIONS, all_cells=True), _NOISE,
    ),
    Claim(
        "Parallel Baseline is slower than plain Merge", "but for 1 cell", True, (MERGE, *BASELINE),
        _slower(1), _NOISE,
    ),
    Claim(
        "Parallel Baseline is slower than plain Merge", "in all cells", False, (MERGE, *BASELINE),
        _slower(0), _NOISE,
    ),
    Claim(
        "Termination is the quickest shrink", "in all cells", True, SHRINKS,
        _first("TS", SHRINKS, all_cells=True), _NOISE,
    ),
    Claim(
        "Termination is the quickest shrink", "in all cells", False, SHRINKS,
        _first("TS", SHRINKS, all_cells=True), _NOISE,
    ),
    Claim(
        "What parallel Merge costs over plain Merge grows with the groups", "yes", True, (MERGE, *MERGE_PARALLEL),
        _grows_with_groups, _GROUPS,
    ),
    Claim(
        "To outperform plain Merge", "future work", True, (MERGE, AGENT), _outperformed,
        "agents, controller and job take turns on them",
    ),
)  # fmt: skip
