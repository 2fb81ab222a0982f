"""Martín-Álvarez et al.'s resizes, measured here: its claims with ours beside them, figures like their Figures 4 to 6,
and what the plans expect."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from pliant.model.words import count
from pliant_lab.measure.alike import LEVEL, runs_needed
from pliant_lab.measure.resizing import Cell
from pliant_lab.reproduce import charts
from pliant_lab.reproduce.folder import Folder
from pliant_lab.reproduce.spawning.claims import verdicts
from pliant_lab.reproduce.spawning.model import GROWS, SHRINKS, Fit, fitted, predicted
from pliant_lab.reproduce.spawning.rows import EXPANSIONS, FILE, Measured, Table
from pliant_lab.reproduce.spawning.rows import SHRINKS as SHRINKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LOOKS = {
    "merge": 0, "merge + hypercube": 1, "merge + diffusive": 2, "baseline + hypercube": 3, "baseline + diffusive": 4,
    "agent, cold": 5, "agent, warm": 6, "TS": 0, "ZS": 7, "SS + hypercube": 3, "SS + diffusive": 4, "TS by agent": 6,
}  # fmt: skip
"""Baseline and respawn are the same thing in both directions, and look it."""
SHORT = {
    "merge": "M", "merge + hypercube": "M+H", "merge + diffusive": "M+D", "baseline + hypercube": "B+H",
    "baseline + diffusive": "B+D", "TS": "TS", "SS + hypercube": "SS+H", "SS + diffusive": "SS+D",
}  # fmt: skip
"""As in the paper's Figure 5."""
CLOSE = 2.0
"""A plan that comes as near as this is taken for a good one."""
COLUMNS = (
    "netmod", "slots", "before", "after", "way", "total_s", "blocked_s", "freed_s", "predicted_s", "fitted",
    "repetitions", "hangs", "equal_to_best", "runs_s",
)  # fmt: skip

Predictions = Mapping[tuple[Cell, str], float]


class Told(NamedTuple):
    """A table with what the plans expect of it, by what was fitted to a part of it."""

    table: Table
    fit: Fit
    expected: Predictions


def write(folder: Folder, measured: Measured) -> None:
    """Figures, tables and README.md of what was measured, and that itself."""
    told = [_told(table, measured.processors) for table in measured.tables]
    folder.text(FILE, msgspec.json.format(msgspec.json.encode(measured)).decode() + "\n")
    for each in told:
        folder.table(f"spawning-{each.table.name}", COLUMNS, _lines(each))
        _bars(folder, each)
    for netmod in measured.netmods:
        _groups(folder, [each.table for each in told if each.table.netmod == netmod])
        folder.table(
            f"claims-{netmod}", ("claim", "paper", "ours", "verdict", "why"),
            [(v.claim, v.paper, v.ours, v.word.replace("**", ""), v.why) for v in verdicts(measured, netmod)],
        )  # fmt: skip
    parts = [_heading(measured)]
    for netmod in measured.netmods:
        parts.append(_claims(measured, netmod))
        parts += [_table(each) for each in told if each.table.netmod == netmod]
    parts.append(_files(folder))
    folder.readme("\n".join(parts))


def _kind(table: Table) -> str:
    """Of its nodes."""
    if table.equal:
        return f"{count(table.slots[0], 'process', 'processes')} a node"
    return f"{' and '.join(map(str, table.slots))} processes a node, in turns"


def _told(table: Table, processors: int) -> Told:
    fit = fitted(table, processors)
    expected = {
        (row.cell, row.way): seconds
        for row in table.rows
        if not row.cannot
        and (seconds := predicted(row.way, row.cell, table.slots, fit.costs, processors)) is not None
    }
    return Told(table, fit, expected)


def _lines(told: Told) -> Iterator[Sequence[object]]:
    slots = " ".join(map(str, told.table.slots))
    for row in told.table.rows:
        if not row.cannot:
            yield (
                told.table.netmod, slots, row.before, row.after, row.way, row.total_s, row.blocked_s, row.freed_s,
                told.expected.get((row.cell, row.way)), (row.cell, row.way) in told.fit.points,
                row.repetitions, row.hangs, row.equal_to_best,
                " ".join(f"{each:g}" for each in row.runs_s),
            )  # fmt: skip


# ---- figures -------------------------------------------------------------------------------------------------


def _number(table: Table) -> int:
    """Of the paper's figure that shows these times."""
    return 4 if table.equal else 6


def _bars_name(table: Table) -> str:
    return f"figure-{_number(table)}-{table.netmod}"


def _groups_name(netmod: str) -> str:
    return f"figure-5-{netmod}"


def _bars(folder: Folder, told: Told) -> None:
    """Like Figures 4 and 6: expansions above, shrinks below."""
    table = told.table
    made, axes = charts.figure(2, high=3.8)
    for place, grows in zip(axes, (True, False), strict=True):
        ways, cells = table.ways(grows=grows), table.cells(grows=grows)
        place.set_ylabel("milliseconds until the job goes on")
        if not ways:
            place.set_title("no expansion was measured" if grows else "no shrink was measured")
            continue
        series = [
            charts.Series(
                way, range(len(cells)), [1000 * (table.total(cell, way) or math.nan) for cell in cells],
                look=LOOKS[way],
            )
            for way in ways
        ]  # fmt: skip
        charts.bars(place, [f"{cell.before} to {cell.after}" for cell in cells], series)
        expected = _marks(place, cells, ways, told.expected)
        _logarithmic(place, [*(y for each in series for y in each.y), *expected])
        place.set_xlabel("nodes")
        place.set_title("expansions" if grows else "shrinks")
        charts.legend(made, place, within=True)
    charts.title(made, f"{table.netmod}, {_kind(table)}: medians")
    folder.figure(_bars_name(table), made)


def _logarithmic(place: Axes, values: Iterable[float]) -> None:
    """From a power of ten to another, so that two at least are numbers at the axis."""
    place.set_yscale("log")
    found = [each for each in values if each > 0] or [1.0]
    place.set_ylim(
        10 ** math.floor(math.log10(min(found) * 0.9)), 10 ** math.ceil(math.log10(max(found) * 1.1))
    )
    place.yaxis.set_major_formatter("{x:g}")
    place.yaxis.set_minor_formatter("")


def _marks(place: Axes, cells: Sequence[Cell], ways: Sequence[str], expected: Predictions) -> Sequence[float]:
    """What the plan expects of a bar, as a dash upon it; in milliseconds."""
    width = 0.8 / len(ways)
    points = [
        (group + (bar - (len(ways) - 1) / 2) * width, 1000 * expected[cell, way])
        for group, cell in enumerate(cells)
        for bar, way in enumerate(ways)
        if (cell, way) in expected
    ]
    x, y = [at for at, _ in points], [value for _, value in points]
    if points:
        place.plot(
            x, y, marker="_", markersize=9, markeredgewidth=1.8, color="black", linestyle="none", label="by the plan"
        )  # fmt: skip
    return y


def _groups(folder: Folder, tables: Sequence[Table]) -> None:
    """Like Figure 5: the quickest ways of each pair of sizes."""
    made, axes = charts.figure(len(tables), high=4.2)
    for place, table in zip(axes, tables, strict=True):
        sizes = sorted({size for row in table.rows for size in row.cell})
        for y, before in enumerate(sizes):
            for x, after in enumerate(sizes):
                names = [] if before == after else _group(table, Cell(before, after))
                shade = "#dddddd" if before == after else "#e7eff7" if after > before else "#f7efe4"
                place.fill([x, x + 1, x + 1, x], [y, y, y + 1, y + 1], color=shade, edgecolor="white")
                place.text(
                    x + 0.5, y + 0.5, "\n".join(names), ha="center", va="center", fontsize=8, color="black"
                )
        ticks = [at + 0.5 for at in range(len(sizes))]
        place.set_xticks(ticks, [str(size) for size in sizes])
        place.set_yticks(ticks, [str(size) for size in sizes])
        place.set_xlim(0, len(sizes))
        place.set_ylim(len(sizes), 0)
        place.tick_params(length=0)
        place.spines[:].set_visible(False)
        place.set_xlabel("resulting nodes")
        place.set_ylabel("initial nodes")
        place.set_title(_kind(table))
    charts.title(made, f"{tables[0].netmod}: the quickest, which a rank test cannot tell apart")
    folder.figure(_groups_name(tables[0].netmod), made)


def _group(table: Table, cell: Cell) -> list[str]:
    """The quickest of the paper's ways, the least median first; of too few runs nothing is said but that."""
    ways = EXPANSIONS if cell.after > cell.before else SHRINKING
    told = table.quickest(cell, ways)
    if not any(told.values()):
        return ["too few", "runs"] if told else ["not", "measured"]
    order = dict(table.of(cell, ways))
    return [SHORT[way] for way in sorted(order, key=lambda way: order[way]) if told.get(way)]


# ---- README.md -----------------------------------------------------------------------------------------------


def _heading(measured: Measured) -> str:
    nodes = max((max(row.cell) for table in measured.tables for row in table.rows), default=0)
    kinds = dict.fromkeys(_kind(table) for table in measured.tables)
    runs = sorted({row.repetitions for table in measured.tables for row in table.rows if row.repetitions})
    many = count(runs[-1], "run") if runs[0] == runs[-1] else f"{runs[0]} to {runs[-1]} runs"
    lines = [
        "# Resizing MPI jobs: Martín-Álvarez et al. 2025, measured here",
        "",
        (
            f"Written by `pliant reproduce spawning{' --quick' if measured.quick else ''}`: resizes between up to "
            f"{nodes} virtual nodes, which share {measured.processors} processors ({measured.architecture}, Python "
            f"{measured.python}, load {measured.load_average:g} at the start), with {' or '.join(kinds)}. "
            f"Medians of {many}. The paper's are of MareNostrum 5 (112 ranks a node) and of a cluster whose nodes have "
            "20 or 32; ratios may "
            "be compared with its own, seconds may not."
        ),
        "",
        (
            "Total is the time until the job goes on at its new size; what a shrink by termination or zombies still "
            "takes until processes have ended is `freed_s` in the tables. All ways take turns, round by round."
        ),
        "",
    ]
    if measured.quick:
        lines += ["This was a quick run: one expansion and its way back, and few runs of each.", ""]
    if measured.left_out:
        lines += [f"Not measured: {'; '.join(measured.left_out)}.", ""]
    return "\n".join(lines)


def _claims(measured: Measured, netmod: str) -> str:
    found = list(verdicts(measured, netmod))
    lines = [
        f"## Netmod {netmod}: what the paper says",
        "",
        "| claim | paper | here | |",
        "|---|---|---|---|",
        *(f"| {each.claim} | {each.paper} | {each.ours} | {each.word} |" for each in found),
        "",
    ]
    reasons: dict[str, list[str]] = {}
    for each in found:
        if each.agrees is False:
            why = "The runs are too few to look for a reason." if each.few else each.why
            reasons.setdefault(why, []).append(each.claim)
    lines += [f"- Not as in the paper: {'; '.join(claims)}. {why}" for why, claims in reasons.items()]
    lines += [
        *([""] if reasons else []),
        (
            "Ratios are of medians. The quickest ways of each pair of sizes, initial nodes downwards, as in Figure 5: "
            "those which a rank test (Mann and Whitney, exact) cannot tell from the least median. The one that is "
            f"truly the quickest is among them with a chance of {1 - LEVEL:.0%}."
        ),
        "",
        f"![]({_groups_name(netmod)}.png)",
        "",
    ]
    return "\n".join(lines)


def _table(told: Told) -> str:
    table = told.table
    lines = [
        f"### {table.netmod}, {_kind(table)}",
        "",
        (
            "Milliseconds; in brackets how many times what the plan says, in italics where it was fitted to that; "
            "* one of the quickest of all ways."
        ),
        "",
    ]
    for grows in (True, False):
        ways = table.ways(grows=grows)
        if not ways:
            continue
        lines += [f"| nodes | {' | '.join(ways)} |", "|---|" + "---:|" * len(ways)]
        for cell in table.cells(grows=grows):
            cells = [_entry(told, cell, way) for way in ways]
            lines.append(f"| {cell.before} to {cell.after} | {' | '.join(cells)} |")
        lines.append("")
    lines += [f"- {each}" for each in _remarks(told)]
    lines += ["", f"![]({_bars_name(table)}.png)", ""]
    return "\n".join(lines)


def _entry(told: Told, cell: Cell, way: str) -> str:
    row = told.table.at(cell, way)
    if row is None or row.total_s is None:
        return "hung" if row is not None and row.hangs else ""
    expected = told.expected.get((cell, way))
    text = _milliseconds(row.total_s) + ("*" if row.equal_to_best else "")
    if not expected:
        return text
    ratio = f"{row.total_s / expected:.2g}"
    return f"{text} ({f'*{ratio}*' if (cell, way) in told.fit.points else ratio})"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:,.0f}" if seconds >= 0.01 else f"{seconds * 1000:.2g}"


def _remarks(told: Told) -> Iterator[str]:
    table = told.table
    yield _of_the_plan(told)
    counted = Counter((row.before, row.after) for row in table.rows if row.repetitions)
    if any(row.equal_to_best is None for row in table.rows if row.repetitions):
        most = max(counted.values())
        yield f"Too few runs to say everywhere which ways are the quickest: {most} ways take {runs_needed(most)} each."
    if hangs := sum(row.hangs for row in table.rows):
        where = [f"{row.way}, {row.before} to {row.after}: {row.hangs}" for row in table.rows if row.hangs]
        yield f"**{count(hangs, 'run')} hung** and were ended: {'; '.join(where)}."
    for row in table.rows:
        if row.failed:
            yield f"Failed: {row.way}, {row.before} to {row.after}: {row.failed}"
    left_out = {row.way: row.cannot for row in table.rows if row.cannot}
    for way, why in left_out.items():
        yield f"Left out: {way}: {why}"


def _of_the_plan(told: Told) -> str:
    """How close it comes, where it was not fitted: growths and shrinks apart."""
    fit = told.fit
    if not fit.points:
        return "The plan's times are by its default coefficients: nothing was measured that they could be fitted to."
    values = ", ".join(f"`{name}` {getattr(fit.costs, name):.3g} s" for name in (*GROWS, *SHRINKS))
    text = (
        "The plan's times: `pliant plan spawn --predict` and `pliant plan shrink --predict` with coefficients that are "
        f"fitted to {count(len(fit.points), 'time')} of these: {values}."
    )
    for what, grows in (("growths", True), ("shrinks", False)):
        offs = [
            total / expected
            for (cell, way), expected in told.expected.items()
            if (cell.after > cell.before) is grows
            and (total := told.table.total(cell, way))
            and expected
            and (cell, way) not in fit.points
        ]
        if offs:
            near = sum(1 for each in offs if 1 / CLOSE <= each <= CLOSE)
            farthest = max(offs, key=lambda each: abs(math.log(each)))
            text += (
                f" Of {count(len(offs), what[:-1])} that it was not fitted to, {near} came within a factor of "
                f"{CLOSE:g}; the farthest took {farthest:.2g} times what it says."
            )
    return text


def _files(folder: Folder) -> str:
    return "## Files\n\n" + "\n".join(f"- [{name}]({name})" for name in folder.files) + "\n"
