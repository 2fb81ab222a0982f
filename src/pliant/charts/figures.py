"""Charts with matplotlib: who held which nodes when, all runs on one time scale, and how many were in use.

Nothing here touches pyplot or its global state; matplotlib is imported when the first chart is drawn.
"""

from __future__ import annotations

import io
import re
import warnings
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from pliant.charts.palette import Fill, fills
from pliant.charts.shapes import Box, apart, area, label_boxes, outline
from pliant.history.gantt import Segment
from pliant.history.timeline import AWAY, CLEANING, LOST, RESERVED, Stretch
from pliant.report.runs import Run
from pliant.report.words import percent, plain, seconds, shorten

# Colours of everything but jobs; a page may replace them by its own (see ``html``).
INK, FAINT, GRID, IDLE, PAPER, SOILED = "#1d2330", "#5d6675", "#d5dae2", "#eef1f5", "#fefefe", "#b4bcc9"
RUN_LINES = (
    ("#b3541e", (0, (5, 2))),
    ("#1f6fb2", "-"),
    ("#3c8d5a", (0, (1, 1.2))),
    ("#8a4fa0", (0, (7, 2, 1, 2))),
)

WIDTH, RIGHT = 11.0, 0.12
TOP, BOTTOM, GAP, CURVE_HEIGHT = 0.52, 0.52, 0.46, 1.25
"""Inches."""
HELD = "//////"
"""On nodes that are reserved for a job that grows; no job's look is like it."""
NOBODY: dict[str, tuple[str, dict[str, Any]]] = {
    RESERVED: ("reserved for a job that grows", {"facecolor": "none", "edgecolor": FAINT, "hatch": HELD}),
    CLEANING: ("being cleaned", {"facecolor": SOILED, "edgecolor": "none"}),
    LOST: ("lost", {"facecolor": FAINT, "edgecolor": PAPER, "hatch": "xx"}),
    AWAY: ("not there", {"facecolor": "none", "edgecolor": FAINT, "hatch": "...."}),
}
"""Nodes on which nobody computes, though they are not idle: what the legend calls them, and how they look."""
FONT = 8.5
CHAR_INCH = 0.60 * FONT / 72
"""Width of an average letter; an estimate, since the reader's font is not known."""
LABELS = 3
"""At most so many times a job's name is written."""
SOME_BOXES, MANY_BOXES = 400, 2500
"""Beyond SOME a run is drawn without patterns and with thin borders: there are too many jobs to tell apart.
Beyond MANY it is a picture inside the chart: browsers stall on more vectors."""


class ChartPanel(NamedTuple):
    """Where a run's chart lies: fractions of the whole picture, from its upper left corner."""

    left: float
    top: float
    width: float
    height: float


class ChartScale(NamedTuple):
    """Inches a second and a node."""

    per_s: float
    per_node: float


class Chart(NamedTuple):
    """A figure, a panel a run, and the seconds that the shared time axis spans."""

    figure: Any
    panels: list[ChartPanel]
    span_s: float


def build(runs: Sequence[Run]) -> Chart:
    """The chart of all runs, one above the other on one time axis, over their curves of nodes in use."""
    from matplotlib.figure import Figure

    span = max([run.end_s - run.origin_s for run in runs] + [1e-3]) * 1.012
    heights = [_panel_height(len(run.names)) for run in runs]
    total = TOP + sum(heights) + GAP * len(heights) + CURVE_HEIGHT + BOTTOM
    figure = Figure(figsize=(WIDTH, total), facecolor="none")
    looks = fills(runs)
    top, panels = TOP, []
    longest = max((len(name) for run in runs for name in run.names), default=0)
    left, wide = margins(longest)
    for i, (run, height) in enumerate(zip(runs, heights, strict=True)):
        panel = ChartPanel(left, top / total, wide, height / total)
        axes = figure.add_axes((panel.left, 1 - panel.top - panel.height, panel.width, panel.height))
        scale = ChartScale(wide * WIDTH / span, height / max(1, len(run.names)))
        _RunChart(axes, run, i, looks, scale).draw(span)
        panels.append(panel)
        top += height + GAP
    axes = figure.add_axes((left, BOTTOM / total, wide, CURVE_HEIGHT / total))
    _curves(axes, runs, span)
    _legend(figure, total, {stretch.kind for run in runs for stretch in run.idle})
    return Chart(figure, panels, span)


def render_svg(figure: Any) -> str:
    """The SVG of a figure; the same figure gives the same text."""
    from matplotlib import rc_context

    out = io.StringIO()
    settings: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "pliant"}
    with rc_context(settings), _missing_glyphs_ignored():
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    return re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)


def _missing_glyphs_ignored() -> warnings.catch_warnings[None]:
    """Job names may be in any script; the reader's font shows what matplotlib's cannot measure."""
    return warnings.catch_warnings(action="ignore", category=UserWarning)


def margins(longest: int) -> tuple[float, float]:
    """Left border and width of the panels, as fractions, with room for node names of ``longest`` letters."""
    left = max(0.52, 0.16 + CHAR_INCH * min(longest, 24))
    return left / WIDTH, (WIDTH - left - RIGHT) / WIDTH


def _panel_height(nodes: int) -> float:
    """Inches: 0.27 a node where there are few; the rows get thin where there are many."""
    return min(3.6, max(0.9, 0.27 * nodes))


def boxes(run: Run) -> int:
    """How many rectangles a run's chart consists of."""
    return sum(len(segment.nodes.ranges()) for segment in run.chart.segments)


class _RunChart:
    """Draws one run on ``axes``."""

    def __init__(self, axes: Any, run: Run, index: int, looks: dict[str, Fill], scale: ChartScale) -> None:
        self.axes = axes
        self.run = run
        self.index = index
        self.looks = looks
        self.scale = scale
        segments = run.chart.segments + run.chart.running()
        self.by_job: dict[int, list[Segment]] = defaultdict(list)
        for segment in segments:
            self.by_job[segment.job].append(
                segment._replace(from_s=segment.from_s - run.origin_s, to_s=segment.to_s - run.origin_s)
            )
        many = boxes(run)
        self.crowded = many > SOME_BOXES
        self.raster = many > MANY_BOXES

    def draw(self, span: float) -> None:
        self._frame(span)
        for stretch in self.run.idle:
            self._idle(stretch)
        for number, segments in self.by_job.items():
            self._job(number, segments)
        for number, segments in self.by_job.items():
            self._name(number, segments)
        self._marks()
        self._end(span)

    def _frame(self, span: float) -> None:
        axes, nodes = self.axes, len(self.run.names)
        axes.set_xlim(0, span)
        axes.set_ylim(nodes, 0)
        axes.set_facecolor(IDLE)
        for side in axes.spines.values():
            side.set_visible(False)
        every = max(1, -(-nodes // 16))
        rows = range(0, nodes, every)
        axes.set_yticks([row + 0.5 for row in rows], [plain(self.run.names[row]) for row in rows])
        axes.tick_params(axis="y", length=0, labelsize=FONT, labelcolor=FAINT)
        axes.tick_params(axis="x", length=3, color=GRID, labelbottom=False)
        axes.grid(axis="x", color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
        for row in range(1, nodes if nodes <= 32 else 0):
            axes.axhline(row, color=PAPER, linewidth=0.6, zorder=1)
        axes.text(
            0, 1.0, plain(self.run.name), transform=_above(axes), fontsize=11, fontweight="bold",
            color=INK, va="bottom", parse_math=False,
        )  # fmt: skip
        axes.annotate(
            f"policy {plain(self.run.policy)}", (0, 1), xycoords=_above(axes), fontsize=FONT, color=FAINT,
            xytext=(8 + 7.4 * len(self.run.name), 0.6), textcoords="offset points", va="bottom", parse_math=False,
        )  # fmt: skip

    def _job(self, number: int, segments: list[Segment]) -> None:
        from matplotlib.patches import PathPatch
        from matplotlib.path import Path as Shape

        look = self.looks[segments[0].name]
        patch = PathPatch(
            _filled(area(segments)), facecolor=look.colour, edgecolor=_faded(look), linewidth=0, zorder=3,
            hatch=None if self.crowded else look.hatch or None, rasterized=self.raster,
        )  # fmt: skip
        patch.set_gid(f"run{self.index}-job{number}")
        self.axes.add_artist(patch)
        lines = outline(segments)
        points = [point for line in lines for point in ((line.x0, line.y0), (line.x1, line.y1))]
        width = 0.35 if self.crowded else 1.3 if self.scale.per_node > 0.05 else 0.6
        border = PathPatch(
            Shape(points, [Shape.MOVETO, Shape.LINETO] * len(lines)), facecolor="none", edgecolor=PAPER,
            linewidth=width, zorder=4, capstyle="projecting", rasterized=self.raster,
        )  # fmt: skip
        self.axes.add_artist(border)

    def _idle(self, stretch: Stretch) -> None:
        from matplotlib.patches import PathPatch

        origin = self.run.origin_s
        look = self.looks.get(self.run.job_name(stretch.job))
        style = NOBODY[stretch.kind][1]
        if look and stretch.kind == RESERVED:
            style = style | {"edgecolor": look.colour}
        boxes = [
            Box(stretch.from_s - origin, stretch.to_s - origin, low, high)
            for low, high in stretch.nodes.ranges()
        ]
        self.axes.add_artist(
            PathPatch(_filled(boxes), linewidth=0, zorder=2, rasterized=self.raster, **style)
        )

    def _name(self, number: int, segments: list[Segment]) -> None:
        """The job's name where there is most room for it, cut short if need be, else nowhere. A job on
        scattered nodes is named on each part of them."""
        name = plain(segments[0].name)
        ranked: list[tuple[int, float, Box, str]] = []
        for box in label_boxes(segments):
            width, height = (
                (box.to_s - box.from_s) * self.scale.per_s,
                (box.high + 1 - box.low) * self.scale.per_node,
            )
            letters = int((width - 0.08) / CHAR_INCH)
            if height >= FONT / 72 * 1.05 and letters >= min(8, len(name)):
                text = shorten(name, letters)
                ranked.append((len(text), min(width, 3 * CHAR_INCH * len(name)) * height, box, text))
        ranked.sort(key=lambda entry: entry[:2], reverse=True)
        named: list[Box] = []
        for _, _, box, text in ranked:
            # Further parts are named only where that leaves room for the mark of an expansion.
            wide = text == name and (box.to_s - box.from_s) * self.scale.per_s > CHAR_INCH * len(name) + 0.35
            if not named or (wide and len(named) < LABELS and all(apart(box, other) for other in named)):
                named.append(box)
                self._label(number, box, text, self.looks[segments[0].name])

    def _label(self, number: int, box: Box, text: str, look: Fill) -> None:
        label = self.axes.text(
            (box.from_s + box.to_s) / 2, (box.low + box.high + 1) / 2, text, fontsize=FONT, color=look.ink,
            ha="center", va="center_baseline", zorder=6, parse_math=False, clip_on=True,
        )  # fmt: skip
        label.set_gid(f"run{self.index}-name{number}-{box.low}")
        if look.hatch:
            label.set_bbox({"facecolor": look.colour, "edgecolor": "none", "pad": 1.2})

    def _marks(self) -> None:
        """A triangle where nodes joined (point up) or left (point down), within the job's shape."""
        marks = self.run.chart.marks
        size = 7.0 if len(marks) < 60 else 4.5 if len(marks) < 200 else 3.0
        origin, inset = self.run.origin_s, size / 72 * 0.62 / self.scale.per_s
        for mark in marks:
            low, high = max(mark.nodes.ranges(), key=lambda pair: pair[1] - pair[0])
            grew = mark.kind == "expand"
            (line,) = self.axes.plot(
                [mark.at - origin + (inset if grew else -inset)], [(low + high + 1) / 2],
                marker="^" if grew else "v", markersize=size, markerfacecolor="#ffffff",
                markeredgecolor="#10131a", markeredgewidth=0.13 * size, linestyle="none", zorder=7, clip_on=False,
            )  # fmt: skip
            line.set_gid(f"run{self.index}-mark{mark.job}-{round((mark.at - origin) * 1000)}")

    def _end(self, span: float) -> None:
        """A line where the run ended, and when."""
        end = self.run.end_s - self.run.origin_s
        self.axes.axvline(end, color=INK, linewidth=1.1, zorder=5, clip_on=False)
        state = "stopped at" if self.run.unfinished else "finished after"
        late = end > 0.4 * span
        self.axes.annotate(
            f"{state} {seconds(end)}", (end, 1), xycoords=("data", "axes fraction"), fontsize=FONT + 0.5,
            color=INK, fontweight="bold", xytext=(2 if late else -2, 4), textcoords="offset points",
            ha="right" if late else "left", va="bottom",
        )  # fmt: skip


def _curves(axes: Any, runs: Sequence[Run], span: float) -> None:
    """Nodes in use over time, a step curve a run, told apart by line style too."""
    most = max((len(run.names) for run in runs), default=1)
    for i, run in enumerate(runs):
        colour, style = RUN_LINES[i % len(RUN_LINES)] if len(runs) > 1 else RUN_LINES[1]
        times = [0.0] + [at - run.origin_s for at, _ in run.chart.curve]
        used = [0] + [nodes for _, nodes in run.chart.curve]
        if run.unfinished:
            times, used = [*times, run.end_s - run.origin_s], [*used, used[-1]]
        label = f"{plain(run.name)}: {percent(run.metrics.utilisation)} of its node-time in use"
        axes.plot(
            times,
            used,
            drawstyle="steps-post",
            color=colour,
            linestyle=style,
            linewidth=1.7,
            label=label,
            zorder=3,
        )
        axes.fill_between(times, used, step="post", color=colour, alpha=0.07, linewidth=0, zorder=2)
    axes.set_xlim(0, span)
    axes.set_ylim(0, most * 1.06)
    axes.axhline(most, color=FAINT, linewidth=0.8, linestyle=(0, (1, 2)), zorder=1)
    time_axis(axes, span)
    axes.set_yticks([0, most // 2, most] if most > 1 else [0, most])
    axes.set_ylabel("nodes in use", fontsize=FONT, color=FAINT)
    axes.tick_params(labelsize=FONT, labelcolor=FAINT, color=GRID, length=3)
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    axes.set_facecolor("none")
    for name, side in axes.spines.items():
        side.set_visible(name == "bottom")
        side.set_color(GRID)
    if not runs:
        return
    legend = axes.legend(
        loc="lower left", bbox_to_anchor=(-0.004, 0.99), ncols=max(1, len(runs)), frameon=False, fontsize=FONT,
        labelcolor=INK, handlelength=2.6, borderaxespad=0.1,
    )  # fmt: skip
    for text in legend.get_texts():
        text.set_parse_math(False)


def time_axis(axes: Any, span: float) -> None:
    """Ticks in the unit that keeps them short."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    unit, name = next((unit, name) for limit, unit, name in _TIME_UNITS if span <= limit)
    locator = MaxNLocator(nbins=12, steps=[1, 2, 2.5, 5, 10] if unit == 1.0 else [1, 2, 5, 10])
    axes.set_xticks([tick * unit for tick in locator.tick_values(0, span / unit) if tick * unit <= span])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: f"{at / unit:g}"))
    axes.set_xlabel(f"{name} since the first submission", fontsize=FONT, color=FAINT)


_TIME_UNITS = (
    (900.0, 1.0, "seconds"), (3 * 3600.0, 60.0, "minutes"), (4 * 86400.0, 3600.0, "hours"),
    (float("inf"), 86400.0, "days"),
)  # fmt: skip


def _legend(figure: Any, total: float, there: Collection[str]) -> None:
    """What the signs mean, above everything; of nodes that are lost or not there only where some are."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    mark: dict[str, Any] = {
        "linestyle": "none",
        "markersize": 7,
        "markerfacecolor": "#ffffff",
        "markeredgecolor": "#10131a",
    }
    handles = [
        Line2D([], [], marker="^", label="nodes joined a job", **mark),
        Line2D([], [], marker="v", label="nodes left a job", **mark),
        *(
            Patch(linewidth=0, label=label, **style)
            for kind, (label, style) in NOBODY.items()
            if kind in {RESERVED, CLEANING, *there}
        ),
        Patch(facecolor=IDLE, linewidth=0, label="idle"),
    ]
    figure.legend(
        handles=handles, loc="upper right", bbox_to_anchor=(1 - RIGHT / WIDTH, 1 - 0.01 / total), ncols=len(handles),
        frameon=False, fontsize=FONT - 0.5, labelcolor=FAINT, handlelength=1.6, columnspacing=1.6, borderaxespad=0,
    )  # fmt: skip


def _above(axes: Any) -> Any:
    """Axes' coordinates, a little above them."""
    from matplotlib.transforms import ScaledTranslation

    return axes.transAxes + ScaledTranslation(0, 4 / 72, axes.figure.dpi_scale_trans)


def _filled(boxes: Sequence[Box]) -> Any:
    """One path with many closed pieces: pieces that touch leave no hairline between them."""
    from matplotlib.path import Path as Shape

    codes: list[Any] = [Shape.MOVETO, Shape.LINETO, Shape.LINETO, Shape.LINETO, Shape.CLOSEPOLY]
    return Shape([corner for box in boxes for corner in _corners(box)], codes * len(boxes))


def _corners(box: Box) -> list[tuple[float, float]]:
    a, b, low, high = box.from_s, box.to_s, box.low, box.high + 1
    return [(a, low), (b, low), (b, high), (a, high), (a, low)]


def _faded(look: Fill) -> tuple[str, float]:
    """The colour of a hatch: its job's ink, faint enough that the name stays readable."""
    return (look.ink, 0.55)
