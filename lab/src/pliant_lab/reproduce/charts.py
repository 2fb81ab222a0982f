"""Charts of a study, for colour-blind readers and grey printers: lines have a colour, a dash and a marker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pliant.charts.palette import ink_on

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Paul Tol's "bright" and two darker ones: lines need more contrast to white than fills.
COLOURS = ("#4477aa", "#ee6677", "#228833", "#aa3377", "#66aabb", "#997700", "#332288", "#888888")
MARKERS = "osD^vPXh"
DASHES = ("-", "--", "-.", ":")
HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx", "----", "||||", "oooo")
"""Of bars: no two of them differ by their hue alone."""
WIDE = 6.6
"""Inches of every figure: its letters can be read where it is 400 pixels wide."""
FONT = 9


class Series(NamedTuple):
    """A line: ``y`` over ``x``, with half the width of 95 % intervals if there are any, or what they have below and
    above where that is not the same.

    ``look`` numbers colour, dash and marker: the same in every figure of a study.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    half: Sequence[float | tuple[float, float] | None] = ()
    look: int = 0


def figure(panels: int, *, across: int = 1, high: float = 3.4) -> tuple[Figure, list[Axes]]:
    """An empty figure with its axes, row by row: ``across`` beside one another, each ``high`` inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = -(-panels // across)
    made = Figure(figsize=(WIDE, high * rows), layout="constrained")
    FigureCanvasAgg(made)
    axes = made.subplots(rows, across, squeeze=False)
    return made, list(axes.flat)


def lines(
    axes: Axes, series: Sequence[Series], points: Mapping[str, Sequence[tuple[float, float]]] | None = None
) -> None:
    """Lines with bars for their intervals; ``points`` are published values, by label, as hollow stars."""
    have_bars = any(half for each in series for half in each.half)
    reach = max(series[0].x) - min(series[0].x) if have_bars else 0.0
    for i, each in enumerate(series):
        colour = COLOURS[each.look % len(COLOURS)]
        # A little to the side, each, where there are bars: else they hide one another.
        x = [at + reach * 0.008 * (i - (len(series) - 1) / 2) for at in each.x]
        axes.plot(
            x, each.y, label=each.label, color=colour, marker=MARKERS[each.look % len(MARKERS)],
            linestyle=DASHES[each.look % len(DASHES)], markersize=5, linewidth=1.6,
        )  # fmt: skip
        halves = [half if isinstance(half, tuple) else (half or 0.0, half or 0.0) for half in each.half]
        if any(map(any, halves)):
            axes.errorbar(
                x, each.y, yerr=list(zip(*halves, strict=True)), fmt="none", ecolor=colour, alpha=0.55,
                capsize=2.5, elinewidth=0.9,
            )  # fmt: skip
        for at, value in (points or {}).get(each.label, ()):
            axes.plot(
                [at], [value], marker="*", markersize=13, markerfacecolor="white", markeredgecolor=colour,
                markeredgewidth=1.4, linestyle="none", zorder=5,
            )  # fmt: skip
    axes.grid(visible=True, alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def bars(axes: Axes, groups: Sequence[str], series: Sequence[Series], tops: Sequence[Series] = ()) -> None:
    """Bars side by side in ``groups``; ``tops`` are stacked upon them, lighter."""
    width = 0.8 / len(series)
    for i, each in enumerate(series):
        at = [x + (i - (len(series) - 1) / 2) * width for x in range(len(groups))]
        look: dict[str, Any] = {
            "color": COLOURS[each.look % len(COLOURS)],
            "hatch": HATCHES[each.look % len(HATCHES)],
            "edgecolor": "white",
            "linewidth": 0,
        }
        axes.bar(at, each.y, width * 0.92, label=each.label, **look)
        if tops:
            axes.bar(at, tops[i].y, width * 0.92, bottom=list(each.y), alpha=0.45, **look)
    axes.set_xticks(range(len(groups)), groups)
    axes.grid(visible=True, axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def legend(made: Figure, axes: Axes, *, within: bool = False) -> None:
    """What the looks of ``axes`` mean, in as many columns as the figure has room for: below all axes, or, ``within``
    them, below these."""
    handles, labels = axes.get_legend_handles_labels()
    place: dict[str, Any] = {"loc": "outside lower center"}
    if within:
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.22)}
    for rows in range(1, len(labels) + 1):
        shown = (axes if within else made).legend(
            handles, labels, ncols=-(-len(labels) // rows), frameon=False, fontsize=FONT, **place
        )
        if shown.get_window_extent().width <= made.bbox.width:
            return
        shown.remove()


def title(made: Figure, text: str) -> None:
    """What all axes show, in as many lines as it needs."""
    made.suptitle(text, fontsize=FONT + 1.5, wrap=True)


def heat(
    axes: Axes, rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[float]], limit: float
) -> None:
    """Changes in per cent as numbers on a field from purple (less) over white to orange (more)."""
    shown = axes.imshow(values, cmap="PuOr_r", vmin=-limit, vmax=limit, aspect="auto")
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            red, green, blue, _ = shown.cmap((value + limit) / (2 * limit))
            ground = f"#{int(red * 255):02x}{int(green * 255):02x}{int(blue * 255):02x}"
            axes.text(
                j, i, f"{round(value):+d}", ha="center", va="center", fontsize=FONT - 1, color=ink_on(ground)
            )
