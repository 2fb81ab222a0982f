"""Plans of resizes as pictures: the tree of starts over its steps, and what becomes of worlds on each node."""

from __future__ import annotations

import io
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from pliant.charts.figures import CHAR_INCH, FAINT, FONT, GRID, IDLE, INK, PAPER, WIDTH, render_svg
from pliant.charts.palette import COLOURS, ink_on
from pliant.model.errors import PliantError
from pliant.model.words import count
from pliant.plan.shrink import ENDED, ShrinkPlan, SpawnedWorld
from pliant.plan.spawn import SOURCES, SpawnPlan
from pliant.plan.spawn_cost import SpawnTimes

LANE, GAP = 0.21, 0.06
"""Inches: a group's row, and what lies between two nodes."""
ABOVE, BELOW, RIGHT = 0.42, 0.55, 0.14
STEP_INCHES = 0.95
"""What the name of a step takes."""
LABEL_INCHES = 2.15
"""Behind the last step, where each group's label stands."""
MARK_INCHES = 0.55
"""Behind a node's ranks, where it is said that it is free, or held."""
MOST_LANES = 400
"""Of a picture that anybody can read."""


class Lane(NamedTuple):
    """A group, ``SOURCES`` for those that a node has at the start, and where its row begins, in inches."""

    node: int
    group: int
    top: float


def rendered(figure: Any, suffix: str) -> bytes:
    """The bytes of a file that ends in ``suffix``."""
    if suffix == ".svg":
        return render_svg(figure).encode()
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure)
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=130, facecolor="white")
    return out.getvalue()


# ---- starts ---------------------------------------------------------------------------------------------


def spawn_chart(plan: SpawnPlan, times: SpawnTimes | None = None) -> Any:
    """The tree of starts: a row a group, from its step on; a line from who has started it. Steps are as wide as they
    take long if there are ``times``."""
    lanes = _lanes(plan)
    if len(lanes) > MOST_LANES:
        raise PliantError(
            f"--draw: {len(lanes):,} groups are more than a picture can show; {MOST_LANES} is the most"
        )
    figure, axes, inches = _axes(lanes[-1].top + LANE, [f"n{lane.node}" for lane in lanes])
    ends = _step_ends(plan, times, inches - LABEL_INCHES)
    axes.set_xlim(0, inches)
    _lay_rows(axes, lanes, [f"n{lane.node}" for lane in lanes], inches)
    for end in ends:
        axes.axvline(end, color=GRID, linewidth=0.8, zorder=0)
    _draw_groups(axes, plan, lanes, ends, inches)
    _draw_lines(axes, plan, lanes, ends)
    _name_steps(axes, plan, times, ends)
    steps = count(len(plan.steps) - 1, "step")
    axes.set_title(
        f"{plan.method.value}, {plan.strategy.value}: {count(plan.sources, 'process', 'processes')} become "
        f"{plan.targets:,} in {steps}",
        fontsize=FONT + 1.5, color=INK, loc="left", fontweight="bold", pad=8,
    )  # fmt: skip
    return figure


def _lanes(plan: SpawnPlan) -> list[Lane]:
    """By node: what runs there, then what is started there."""
    rows = [(node, SOURCES) for node, have in enumerate(plan.running) if have]
    rows += [(group.node, group.id) for group in plan.groups]
    lanes: list[Lane] = []
    top = 0.0
    for _, here in groupby(sorted(rows), key=lambda row: row[0]):
        for node, group in here:
            lanes.append(Lane(node, group, top))
            top += LANE
        top += GAP
    return lanes


def _step_ends(plan: SpawnPlan, times: SpawnTimes | None, inches: float) -> list[float]:
    """Where each step ends, in inches; step 0 at its start."""
    shares = [float(i > 0) for i in range(len(plan.steps))]
    if times is not None and times.start_s:
        # None so narrow that its lines could not be told apart.
        shares = [max(took / times.start_s, 0.06) if i else 0.0 for i, took in enumerate(times.steps)]
    whole = sum(shares) or 1.0
    start = 0.08 * inches
    return [start + (inches - start) * sum(shares[: i + 1]) / whole for i in range(len(shares))]


def _draw_groups(
    axes: Any, plan: SpawnPlan, lanes: Sequence[Lane], ends: Sequence[float], right: float
) -> None:
    for lane in lanes:
        if lane.group == SOURCES:
            begin, colour, size = 0.0, INK, plan.running[lane.node]
            text = f"sources: {count(size, 'process', 'processes')}"
        else:
            group = plan.groups[lane.group]
            begin, colour = ends[group.step], COLOURS[(group.step - 1) % len(COLOURS)]
            parent = "source" if group.parent_group == SOURCES else f"group {group.parent_group} rank"
            text = f"group {group.id}: {group.size}, by {parent} {group.parent_rank}"
        axes.broken_barh(
            [(begin, right - begin)], (lane.top + 0.015, LANE - 0.03), facecolor=colour, linewidth=0, zorder=2
        )
        axes.text(
            right - LABEL_INCHES + 0.07, lane.top + LANE / 2, text, fontsize=FONT - 0.5, color=ink_on(colour),
            va="center_baseline", ha="left", zorder=5, parse_math=False,
        )  # fmt: skip


def _draw_lines(axes: Any, plan: SpawnPlan, lanes: Sequence[Lane], ends: Sequence[float]) -> None:
    """From the parent's row down or up to the child's; parents side by side, so that their lines do not meet."""
    middles = {(lane.group, lane.node): lane.top + LANE / 2 for lane in lanes}
    for step, born in groupby(plan.groups, key=lambda group: group.step):
        children: dict[float, list[float]] = defaultdict(list)
        for group in born:
            parent = (group.parent_group, plan.node_of(group.parent_group, group.parent_rank))
            children[middles[parent]].append(middles[group.id, group.node])
        left, end = ends[step - 1], ends[step]
        for i, (at, rows) in enumerate(children.items()):
            x = left + (end - left) * (i + 1) / (len(children) + 1)
            low, high = min(at, *rows), max(at, *rows)
            for colour, width, order in ((PAPER, 2.2, 3), (FAINT, 0.9, 4)):
                axes.plot([x, x], [low, high], color=colour, linewidth=width, zorder=order)
                axes.hlines(rows, x, end, color=colour, linewidth=width, zorder=order)
            axes.plot(
                [x], [at], marker="o", markersize=4, markerfacecolor=PAPER, markeredgecolor=FAINT, zorder=6
            )


def _name_steps(axes: Any, plan: SpawnPlan, times: SpawnTimes | None, ends: Sequence[float]) -> None:
    """Below: each step, and how many processes there are then; where they are narrow, some of them."""
    chosen = [0]
    for i, end in enumerate(ends):
        if end - ends[chosen[-1]] > STEP_INCHES:
            chosen.append(i)
    if chosen[-1] < len(ends) - 1:  # The last one in any case.
        chosen[max(1, len(chosen) - 1) :] = [len(ends) - 1]
    passed = [sum(times.steps[: i + 1]) for i in range(len(ends))] if times is not None else []
    names = []
    for i in chosen:
        when = f", {passed[i] * 1000:,.0f} ms" if passed and i else ""
        name = f"step {i}" if i else "start"
        names.append(f"{name}{when}\n{count(plan.steps[i].processes, 'process', 'processes')}")
    axes.set_xticks([ends[i] for i in chosen], names, fontsize=FONT - 0.5, color=FAINT)


# ---- shrinks --------------------------------------------------------------------------------------------


def shrink_chart(worlds: Sequence[SpawnedWorld], plan: ShrinkPlan, names: Sequence[str]) -> Any:
    """A row a node, before and after: as many ranks of each world as it is wide there; who sleeps is hatched."""
    nodes = sorted({node for world in worlds for node in world.nodes})
    if len(nodes) > MOST_LANES:
        raise PliantError(
            f"--draw: {len(nodes):,} nodes are more than a picture can show; {MOST_LANES} is the most"
        )
    lanes = [Lane(node, SOURCES, i * (LANE + GAP)) for i, node in enumerate(nodes)]
    labels = [names[lane.node] for lane in lanes]
    figure, axes, inches = _axes(lanes[-1].top + LANE, labels)
    axes.set_xlim(0, inches)
    _lay_rows(axes, lanes, labels, inches)
    half = inches / 2
    most = max(
        Counter(node for world in shown for node in world.nodes).most_common(1)[0][1]
        for shown in (worlds, plan.after)
    )
    tops = {lane.node: lane.top for lane in lanes}
    looks = {world.id: COLOURS[i % len(COLOURS)] for i, world in enumerate([*worlds, *_added(worlds, plan)])}
    ending = {fate.world for fate in plan.fates if fate.case in ENDED}
    for left, shown in ((0.0, worlds), (half + 0.05, plan.after)):
        _draw_worlds(axes, shown, tops, looks, (left, (half - MARK_INCHES) / most))
    for kind, listed in (("free", plan.free), ("held", plan.held)):
        for node in listed:
            axes.text(
                inches - 0.05, tops[node] + LANE / 2, kind, fontsize=FONT, color=INK, ha="right",
                va="center_baseline", fontweight="bold", zorder=6,
            )  # fmt: skip
    axes.axvline(half, color=FAINT, linewidth=1.0, zorder=1)
    for x, text in ((0.0, "before"), (half + 0.05, f"after: {plan.method.value}")):
        axes.text(x, -0.12, text, fontsize=FONT + 1, color=INK, fontweight="bold", ha="left", va="bottom")
    axes.set_xticks([])
    gone = ", ".join(str(number) for number in sorted(ending)) or "none"
    axes.set_xlabel(f"hatched: asleep. worlds that end: {gone}", fontsize=FONT, color=FAINT, loc="left")
    return figure


def _added(worlds: Sequence[SpawnedWorld], plan: ShrinkPlan) -> list[SpawnedWorld]:
    known = {world.id for world in worlds}
    return [world for world in plan.after if world.id not in known]


def _draw_worlds(
    axes: Any,
    worlds: Sequence[SpawnedWorld],
    tops: Mapping[int, float],
    looks: Mapping[int, str],
    place: tuple[float, float],
) -> None:
    """From ``place``: where their rows begin, and the inches of a rank."""
    left, each = place
    used: dict[int, int] = defaultdict(int)
    for world in worlds:
        colour = looks[world.id]
        for node in dict.fromkeys(world.nodes):
            here = [rank for rank, at in enumerate(world.nodes) if at == node]
            asleep = sum(1 for rank in here if rank in world.asleep)
            for ranks, sleeps in ((len(here) - asleep, False), (asleep, True)):
                if not ranks:
                    continue
                x, wide = left + used[node] * each, ranks * each
                axes.broken_barh(
                    [(x + 0.01, wide - 0.02)], (tops[node] + 0.015, LANE - 0.03), zorder=2,
                    facecolor=IDLE if sleeps else colour, edgecolor=colour if sleeps else "none",
                    hatch="/////" if sleeps else None, linewidth=0.8 if sleeps else 0,
                )  # fmt: skip
                text = f"world {world.id}: {ranks}"
                text = text if wide > CHAR_INCH * len(text) else f"{world.id}: {ranks}"
                if wide > CHAR_INCH * len(text) + 0.02:
                    label = axes.text(
                        x + wide / 2, tops[node] + LANE / 2, text, fontsize=FONT - 0.5, zorder=5, ha="center",
                        color=INK if sleeps else ink_on(colour), va="center_baseline",
                    )  # fmt: skip
                    if sleeps:
                        label.set_bbox({"facecolor": IDLE, "edgecolor": "none", "pad": 0.8})
                used[node] += ranks


# ---- both -----------------------------------------------------------------------------------------------


def _axes(rows: float, names: Sequence[str]) -> tuple[Any, Any, float]:
    """Figure, axes for ``rows`` inches of rows from above, and how many inches they are wide."""
    from matplotlib.figure import Figure

    left = 0.25 + CHAR_INCH * min(24, max(map(len, names)))
    inches = WIDTH - left - RIGHT
    total = ABOVE + rows + BELOW
    figure = Figure(figsize=(WIDTH, total), facecolor=PAPER)
    axes = figure.add_axes((left / WIDTH, BELOW / total, inches / WIDTH, rows / total))
    axes.set_ylim(rows, 0)
    axes.set_facecolor("none")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, labelcolor=FAINT)
    return figure, axes, inches


def _lay_rows(axes: Any, lanes: Sequence[Lane], names: Sequence[str], inches: float) -> None:
    """A name at each row, and a ground that shows which rows are of one node."""
    for _, here in groupby(lanes, key=lambda lane: lane.node):
        tops = [lane.top for lane in here]
        axes.broken_barh(
            [(0, inches)], (tops[0], tops[-1] + LANE - tops[0]), facecolor=IDLE, linewidth=0, zorder=-1
        )
    axes.set_yticks([lane.top + LANE / 2 for lane in lanes], names, fontsize=FONT, color=INK)
    for label in axes.get_yticklabels():
        label.set_parse_math(False)
