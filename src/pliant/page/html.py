"""report.html: one file that needs nothing else, and report.json beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from markupsafe import Markup, escape

from pliant.charts import figures
from pliant.charts.palette import fills
from pliant.files.partial import save
from pliant.model.words import count
from pliant.page import tables
from pliant.page.hover import hover_data
from pliant.report.compare import headline, pacing_note, warnings
from pliant.report.data import report_json
from pliant.report.runs import SIGNS, Run, alike_in_nodes, is_paced
from pliant.report.words import plain

if TYPE_CHECKING:
    import jinja2

CHART_DESCRIBED = (
    "A chart of nodes over time, one for each run on the same time axis. Each job is a coloured shape; upward "
    "triangles mark expansions, downward triangles shrinks. Below, curves of the nodes in use. The tables "
    "that follow hold the same facts."
)
NO_HOVER = Markup('{"span":0,"runs":[]}')

# The chart's own colours, by the page's names for them: so that it follows light and dark.
THEME = {
    figures.INK: "ink",
    figures.FAINT: "faint",
    figures.GRID: "grid",
    figures.IDLE: "idle",
    figures.PAPER: "paper",
    figures.SOILED: "soiled",
} | {colour: f"run{i}" for i, (colour, _) in enumerate(figures.RUN_LINES)}


class InlineChart(NamedTuple):
    """A chart as part of a page, None without matplotlib, and what it tells on hover, as JSON."""

    svg: Markup | None = None
    hover: Markup = NO_HOVER
    title: str = ""
    described: str = ""


def write_report(
    runs: Sequence[Run], path_html: Path | None, path_json: Path | None, *, paced: bool | None = None
) -> None:
    """Write report.html and report.json, or one of them. ``paced`` None: as the records tell. Raises OSError, and
    leaves what was there before."""
    if path_json is not None:
        save({path_json: report_json(runs, paced=paced)})
    if path_html is not None:
        save({path_html: page(runs, paced=paced).encode()})


def page(runs: Sequence[Run], *, paced: bool | None = None) -> str:
    """The whole page. It loads nothing from anywhere."""
    title = headline(runs)
    return render(
        "runs.html.j2",
        title=title,
        about=_about(runs),
        made="from the records of the runs",
        alarms=warnings(runs),
        note=pacing_note(runs, paced=is_paced(runs) if paced is None else paced),
        checked=_checked(runs),
        chart=chart_of(runs, title),
        names=[run.name for run in runs],
        comparison=tables.comparison(runs),
        jobs=tables.jobs(runs, fills(runs)),
        places=[table for run in runs for table in tables.places(run)],
        resizes=[tables.resizes(run) for run in runs],
    )


def render(template: str, **told: Any) -> str:
    """The template with what it is told. Every text is escaped, unless it is ``Markup``."""
    return _environment().get_template(template).render(told)


@cache
def _environment() -> jinja2.Environment:
    import jinja2  # `pliant run` draws no page before its end

    made = jinja2.Environment(
        loader=jinja2.PackageLoader("pliant.page"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=lambda value: plain(value) if type(value) is str else value,
    )
    made.globals |= {name: Markup(_asset(f"page.{name}")) for name in ("css", "js")}  # noqa: S704 - our own files
    made.filters |= {"count": count, "steps": _steps}
    return made


def _steps(sizes: str) -> Markup:
    """No line is broken between a sign and the size behind it. ``plain`` comes first: it leaves no such space."""
    text = str(escape(plain(sizes)))
    return Markup(re.sub(rf"([{''.join(SIGNS.values())}]) ", "\\1&nbsp;", text))  # noqa: S704 - it is escaped


def chart_of(runs: Sequence[Run], title: str) -> InlineChart:
    """The chart of who held which nodes."""
    try:
        chart = figures.build(runs)
        text = figures.render_svg(chart.figure)
    except ModuleNotFoundError as error:
        return not_drawn(error)
    return InlineChart(inline(text, title, CHART_DESCRIBED), _script_json(hover_data(runs, chart)))


def not_drawn(error: ModuleNotFoundError) -> InlineChart:
    """What stands for a chart without matplotlib; raises the error again if it is not about that."""
    if error.name is None or error.name.partition(".")[0] not in ("matplotlib", "numpy"):
        raise error
    return InlineChart()


def inline(text: str, title: str, described: str, key: str = "chart") -> Markup:
    """An SVG document as part of a page: no prolog, no namespaces, named for screen readers, themed. ``key``
    tells the charts of a page apart."""
    text = text[text.index("<svg") :]
    text = re.sub(r'\s+xmlns(:\w+)?="[^"]*"', "", text)
    text = text.replace("xlink:href=", "href=").replace('<style type="text/css">*{', "<style>figure svg *{")
    text = re.sub(r'(<svg[^>]*?) width="[^"]*" height="[^"]*"', r"\1", text, count=1)
    for colour, name in THEME.items():
        text = re.sub(f"(fill|stroke): {colour}", rf"\1: var(--{name})", text)
    named = Markup('<title id="{}-title">{}</title><desc id="{}-desc">{}</desc>').format(
        key, plain(title), key, plain(described)
    )
    text = text.replace(
        "<svg", f'<svg role="img" aria-labelledby="{key}-title" aria-describedby="{key}-desc"', 1
    )
    end = text.index(">") + 1
    return Markup(text[:end]) + named + Markup(text[end:])  # noqa: S704 - drawn by matplotlib, which escapes


def _about(runs: Sequence[Run]) -> list[str]:
    if not runs:
        return []
    jobs = {len(run.jobs) for run in runs}
    parts = [
        *([count(runs[0].nodes_there[0], "node")] if alike_in_nodes(runs) else []),
        count(jobs.pop(), "job") if len(jobs) == 1 else "different numbers of jobs",
    ]
    unlike = not alike_in_nodes(runs)
    parts += [f"{run.name}: policy {run.policy}" + f", {run.nodes_text} nodes" * unlike for run in runs]
    return parts


def _checked(runs: Sequence[Run]) -> dict[str, Any]:
    """How many results were checked and are bad; wrong ones are among the warnings already."""
    checked = [job.verified for run in runs for job in run.metrics.jobs if job.verified is not None]
    return {
        "number": len(checked),
        "bad": sum(right is not True for right in checked),
        "every": "all" if len(checked) == sum(len(run.jobs) for run in runs) else "those",
    }


def _script_json(data: object) -> Markup:
    """JSON that cannot end the script element it stands in."""
    text = msgspec.json.encode(data).decode()
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))  # noqa: S704


def _asset(name: str) -> str:
    return (files("pliant.page") / name).read_text(encoding="utf-8").strip()
