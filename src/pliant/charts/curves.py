"""Charts of a long run: nodes in use and queue over time, and distributions over jobs. matplotlib is imported
when the first is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pliant.charts.dense import Bin, Dense, FigureSample
from pliant.charts.figures import FAINT, FONT, GRID, INK, RUN_LINES, WIDTH, margins, time_axis

LEFT, RIGHT = 0.62, 0.12
HEIGHT = 1.9
"""Inches: of a chart over time."""
FLOOR_S = 1.0
"""On a logarithmic axis, shorter times are drawn here."""
MANY = 100.0
"""Values that lie further apart than this get a logarithmic axis."""
LINES = ("-", (0, (5, 2)), (0, (1, 1.2)))
"""All jobs, malleable ones, the others: told apart by more than colour."""


def over_time(dense: Dense, nodes: int, *, below: bool = False) -> Any:
    """Nodes in use of ``nodes``, above the number of waiting jobs, on one time axis; if it stands ``below`` a chart
    of every job, which has the nodes in use, the waiting jobs only, on that chart's axis."""
    from matplotlib.figure import Figure

    total = HEIGHT + 0.7 if below else 2 * HEIGHT + 1.15
    figure = Figure(figsize=(WIDTH, total), facecolor="none")
    left, wide = margins(len(f"n{nodes - 1}")) if below else (LEFT / WIDTH, (WIDTH - LEFT - RIGHT) / WIDTH)
    span = max(1e-3, dense.end - dense.origin) * 1.012
    if not below:
        upper = figure.add_axes((left, (HEIGHT + 0.85) / total, wide, HEIGHT / total))
        _band(upper, dense.nodes(), RUN_LINES[1][0])
        upper.axhline(nodes, color=FAINT, linewidth=0.8, linestyle=(0, (1, 2)), zorder=1)
        upper.set_ylim(0, nodes * 1.06)
        _frame(upper, span, "nodes in use")
        time_axis(upper, span)
        upper.set_xlabel("")
        upper.tick_params(labelbottom=False)
        upper.annotate(
            f"dotted: all {nodes:,} nodes", (1, 1), xycoords="axes fraction", fontsize=FONT, color=FAINT,
            xytext=(0, 4), textcoords="offset points", ha="right", va="bottom",
        )  # fmt: skip
    lower = figure.add_axes((left, 0.5 / total, wide, HEIGHT / total))
    waiting = dense.queue()
    _band(lower, waiting, RUN_LINES[0][0])
    lower.set_ylim(0, max([each.high for each in waiting] + [1]) * 1.06)
    _frame(lower, span, "jobs waiting")
    time_axis(lower, span)
    return figure


def _band(axes: Any, bins: Sequence[Bin], colour: str) -> None:
    """Between the least and the greatest value of each bin, shaded; the mean as a line."""
    times = [time for each in bins for time in (each.from_s, each.to_s)]
    low = [value for each in bins for value in (each.low, each.low)]
    high = [value for each in bins for value in (each.high, each.high)]
    mean = [value for each in bins for value in (each.mean, each.mean)]
    axes.fill_between(times, low, high, color=colour, alpha=0.28, linewidth=0, zorder=2)
    axes.plot(times, mean, color=colour, linewidth=1.1, zorder=3)


def _frame(axes: Any, span: float, title: str) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.set_xlim(0, span)
    axes.set_ylabel(title, fontsize=FONT, color=FAINT)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    _plain_axes(axes)


def _plain_axes(axes: Any) -> None:
    axes.tick_params(which="both", labelsize=FONT, labelcolor=FAINT, color=GRID, length=3)
    axes.tick_params(which="minor", length=0)
    axes.grid(color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_facecolor("none")
    for name, side in axes.spines.items():
        side.set_visible(name == "bottom")
        side.set_color(GRID)


def distributions(dense: Dense) -> Any:
    """The share of jobs that waited, stayed, and were slowed down at most so much; where there are malleable
    jobs and others, for each kind too."""
    from matplotlib.figure import Figure

    total = 3.3
    figure = Figure(figsize=(WIDTH, total), facecolor="none")
    width, gap = 3.2, 0.38
    both = bool(dense.wait(malleable=True).values and dense.wait(malleable=False).values)
    kinds: list[tuple[str, bool | None]] = [("all jobs", None)]
    if both:
        kinds += [("malleable jobs", True), ("other jobs", False)]
    charts = (
        ("wait", dense.wait, FLOOR_S),
        ("turnaround", dense.turnaround, FLOOR_S),
        ("bounded slowdown", dense.slowdown, 1.0),
    )
    axes = None
    for i, (title, spread, floor) in enumerate(charts):
        axes = figure.add_axes(((LEFT + i * (width + gap)) / WIDTH, 0.55 / total, width / WIDTH, 2.3 / total))
        _share_axes(axes, spread(), title, floor)
        for (label, kind), style, (colour, _) in zip(
            kinds, LINES, (RUN_LINES[1], RUN_LINES[0], RUN_LINES[2]), strict=False
        ):
            look = {"label": label, "color": colour, "linestyle": style}
            _distribution(axes, spread(malleable=kind), floor, look)
        if i:
            axes.tick_params(labelleft=False)
    if axes is not None and both:
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="upper left", bbox_to_anchor=(LEFT / WIDTH - 0.005, 1.0), ncols=3, frameon=False,
            fontsize=FONT, labelcolor=INK, handlelength=2.6, borderaxespad=0.1,
        )  # fmt: skip
    return figure


def _distribution(axes: Any, spread: FigureSample, floor: float, look: dict[str, Any]) -> None:
    """The share of jobs with at most a value; to the right of the greatest it is all of them."""
    points = spread.curve()
    if not points:
        return
    right = axes.get_xlim()[1]
    values = (
        [max(value, floor) for value, _ in points] if axes.get_xscale() == "log" else [v for v, _ in points]
    )
    shares = [share for _, share in points]
    axes.plot(
        [values[0], *values, right],
        [0.0, *shares, 1.0],
        drawstyle="steps-post",
        linewidth=1.6,
        zorder=3,
        **look,
    )


def _share_axes(axes: Any, spread: FigureSample, title: str, floor: float) -> None:
    """Axes for ``spread``, logarithmic from ``floor`` on where its values lie far apart; slowdowns are always so drawn:
    twice as slow is as far from 1 as from 2 to 4."""
    axes.set_ylim(0, 1.02)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1.0], ["0 %", "25 %", "50 %", "75 %", "100 %"])
    axes.set_title(title, fontsize=FONT + 1, color=INK, loc="left", fontweight="bold")
    most = spread.values[-1] if spread.values else floor
    times = title != "bounded slowdown"
    if most > MANY * floor or not times:
        axes.set_xscale("log")
        most = max(most, 2.0 * floor)  # if all values are the same, still an axis
        least = spread.values[0] if spread.values else floor
        known = _TIMES if times else _FACTORS if most > MANY else _SMALL_FACTORS
        left = max(tick for tick in known if tick <= max(floor, least))
        axes.set_xlim(left * 0.9, most * 1.15)
        ticks = [tick for tick in known if left <= tick <= most * 1.15]
        names = [_time(tick) if times else f"{tick:,g}" for tick in ticks]
        if least < left:
            names[0] = f"≤ {names[0]}"
    else:
        from matplotlib.ticker import MaxNLocator

        most = 1.05 * most if most > 0 else 1.0  # if all values are the same, still an axis
        axes.set_xlim(-0.01 * most, most)
        ticks = [tick for tick in MaxNLocator(nbins=4).tick_values(0.0, most) if 0 <= tick <= most]
        names = [f"{tick:g} s" if tick else "0" for tick in ticks]
    axes.set_xticks(ticks, names)
    axes.set_xticks([], minor=True)
    _plain_axes(axes)


_TIMES = (1.0, 10.0, 60.0, 600.0, 3600.0, 6 * 3600.0, 86400.0, 7 * 86400.0, 70 * 86400.0, 700 * 86400.0)
_FACTORS = tuple(10.0**k for k in range(9))
_SMALL_FACTORS = (1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0)
"""Where slowdowns lie close together."""


def _time(value: float) -> str:
    """A round time in few letters."""
    for unit, name in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if value >= unit:
            return f"{value / unit:g} {name}"
    return f"{value:g} s"
