"""Charts of a study, for colour-blind readers and grey printers: lines have a colour, a dash and a marker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pliant.charts.palette import ink_on

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Paul Tol's "bright" and two darker ones: lines need more contrast to white than fills.
COLOURS = ("#4477aa", "#ee6677", "#228833", "#aa3377", "#66aabb", "#997700", "#332288", "#888888")
MARKERS = "osD^vPXh"
DASHES = ("-", "--", "-.", ":")


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


def figure(columns: int, rows: int = 1, *, wide: float = 5.2, high: float = 3.9) -> tuple[Figure, list[Axes]]:
    """An empty figure with its axes, row by row."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    made = Figure(figsize=(wide * columns, high * rows), layout="constrained")
    FigureCanvasAgg(made)
    axes = made.subplots(rows, columns, squeeze=False)
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
    """Bars side by side in ``groups``; ``tops`` are stacked upon them, lighter and hatched."""
    width = 0.8 / len(series)
    for i, each in enumerate(series):
        at = [x + (i - (len(series) - 1) / 2) * width for x in range(len(groups))]
        colour = COLOURS[each.look % len(COLOURS)]
        axes.bar(at, each.y, width * 0.92, color=colour, label=each.label)
        if tops:
            axes.bar(
                at, tops[i].y, width * 0.92, bottom=list(each.y), color=colour, alpha=0.45, hatch="////",
                edgecolor="white", linewidth=0,
            )  # fmt: skip
    axes.set_xticks(range(len(groups)), groups)
    axes.grid(visible=True, axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def legend(made: Figure, axes: Axes, columns: int = 4) -> None:
    """One legend for all axes, below them."""
    handles, labels = axes.get_legend_handles_labels()
    made.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=8.5)


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
            axes.text(j, i, f"{value:+.0f}", ha="center", va="center", fontsize=7.5, color=ink_on(ground))
