"""report.html: one file that needs nothing else, and report.json beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import msgspec

from pliant.charts import figures
from pliant.charts.palette import fills
from pliant.files.save import save
from pliant.model.words import count
from pliant.page.hover import hover_data
from pliant.page.tables import compare_rows, esc, job_rows, place_rows, resize_rows
from pliant.report.compare import headline, pacing_note, warnings
from pliant.report.data import report_json
from pliant.report.runs import Run, alike_in_nodes, is_paced

NO_CHART = "The chart needs matplotlib, which is not installed: pip install 'pliant[report]'."
JOBS_HINT = (
    '<p class="hint">Times count from the first submission. In the column of nodes, ▲ stands for an expansion '
    "and ▼ for a shrink.</p>"
)

CHART_DESCRIBED = (
    "A chart of nodes over time, one for each run on the same time axis. Each job is a coloured shape; upward "
    "triangles mark expansions, downward triangles shrinks. Below, curves of the nodes in use. The tables "
    "that follow hold the same facts."
)
NO_HOVER = '{"span":0,"runs":[]}'

# The chart's own colours, by the page's names for them: so that it follows light and dark.
THEME = {
    figures.INK: "ink",
    figures.FAINT: "faint",
    figures.GRID: "grid",
    figures.IDLE: "idle",
    figures.PAPER: "paper",
    figures.SOILED: "soiled",
} | {colour: f"run{i}" for i, (colour, _) in enumerate(figures.RUN_LINES)}


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
    looks = fills(runs)
    note = pacing_note(runs, paced=is_paced(runs) if paced is None else paced)
    chart, hover = chart_of(runs, title)
    body = [
        *(f'<p class="alarm" role="alert">{esc(text)}</p>' for text in warnings(runs)),
        f'<p class="note">{esc(note)}</p>' if note else "",
        _verified(runs),
        "<h2>Who held which nodes</h2>",
        chart,
        reading(runs),
        "<h2>The runs side by side</h2>",
        compare_rows(runs) if runs else "",
        "<h2>Jobs</h2>",
        JOBS_HINT,
        job_rows(runs, looks) if runs else "",
        "<h2>What places have done</h2>" if any(map(place_rows, runs)) else "",
        *map(place_rows, runs),
        "<h2>Resizes</h2>",
        *(resizes(run) for run in runs),
    ]
    return document(title, _about(runs), body, hover)


def document(
    title: str, about: str, body: Sequence[str], hover: str, made: str = "from the records of the runs"
) -> str:
    """A page of ready parts; ``hover`` is the data of its first chart, as ``chart_of`` gives it."""
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>Pliant: {esc(title)}</title>",
        f"<style>{_asset('page.css')}</style></head><body>",
        f'<header><h1>{esc(_sentence(title))}</h1><p class="about">{esc(about)}</p></header>',
        "<main>",
        *body,
        "</main>",
        f"<footer>Made by Pliant {made}. report.json has the same figures for programs.</footer>",
        '<div id="tip" role="tooltip" aria-hidden="true" hidden></div>',
        f'<script type="application/json" id="runs">{hover}</script>',
        f"<script>{_asset('page.js')}</script>",
        "</body></html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def chart_of(runs: Sequence[Run], title: str) -> tuple[str, str]:
    """(the chart, the data it shows on hover)."""
    try:
        chart = figures.build(runs)
        text = figures.render_svg(chart.figure)
    except ModuleNotFoundError as error:
        return f'<p class="note">{no_chart(error)}</p>', NO_HOVER
    drawn = inline(text, title, CHART_DESCRIBED)
    return f'<figure class="scroll">{drawn}</figure>', _script_json(hover_data(runs, chart))


def no_chart(error: ModuleNotFoundError) -> str:
    """What stands where the chart would; raises the error again if it is not about matplotlib."""
    if error.name is None or error.name.partition(".")[0] not in ("matplotlib", "numpy"):
        raise error
    return NO_CHART


def inline(text: str, title: str, described: str, key: str = "chart") -> str:
    """An SVG document as part of a page: no prolog, no namespaces, named for screen readers, themed. ``key``
    tells the charts of a page apart."""
    text = text[text.index("<svg") :]
    text = re.sub(r'\s+xmlns(:\w+)?="[^"]*"', "", text)
    text = text.replace("xlink:href=", "href=").replace('<style type="text/css">*{', "<style>figure svg *{")
    text = re.sub(r'(<svg[^>]*?) width="[^"]*" height="[^"]*"', r"\1", text, count=1)
    for colour, name in THEME.items():
        text = re.sub(f"(fill|stroke): {colour}", rf"\1: var(--{name})", text)
    named = f'<title id="{key}-title">{esc(title)}</title><desc id="{key}-desc">{esc(described)}</desc>'
    text = text.replace(
        "<svg", f'<svg role="img" aria-labelledby="{key}-title" aria-describedby="{key}-desc"', 1
    )
    end = text.index(">") + 1
    return text[:end] + named + text[end:]


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _about(runs: Sequence[Run]) -> str:
    if not runs:
        return ""
    jobs = {len(run.jobs) for run in runs}
    parts = [
        *([count(runs[0].nodes_there[0], "node")] if alike_in_nodes(runs) else []),
        count(jobs.pop(), "job") if len(jobs) == 1 else "different numbers of jobs",
    ]
    unlike = not alike_in_nodes(runs)
    parts += [f"{run.name}: policy {run.policy}" + f", {run.nodes_text} nodes" * unlike for run in runs]
    return " · ".join(parts)


def _verified(runs: Sequence[Run]) -> str:
    """What the checks of results said; wrong ones are among the warnings already."""
    checked = [job for run in runs for job in run.metrics.jobs if job.verified is not None]
    if not checked:
        return ""
    right = sum(job.verified is True for job in checked)
    if right < len(checked):
        bad = len(checked) - right
        return f'<p class="wrong">✗ {bad} of {count(len(checked), "checked result")} differ from what is expected.</p>'
    every = "all" if len(checked) == sum(len(run.jobs) for run in runs) else "those"
    return f"<p>✓ {count(len(checked), 'result')} checked, {every} as expected, resized or not.</p>"


def reading(runs: Sequence[Run]) -> str:
    scale = (
        " All runs share one time scale, and a job has one colour in all of them." if len(runs) > 1 else ""
    )
    return (
        '<p class="hint">How to read it: a row is a node, a coloured shape is a job on the nodes it held. '
        "▲ marks nodes that joined a job, ▼ nodes that left it. Hatched without a fill: reserved for a job that is to "
        "grow and not yet computing; grey: left by a job and not yet proved clean; crossed: lost; dotted: not there, "
        "not yet granted or given back. A pattern over a fill is a colour used again, for another job. Point "
        "at anything to learn more."
        f"{scale}</p>"
    )


def resizes(run: Run) -> str:
    every = (each for job in run.metrics.jobs for each in job.resizes)
    moves = sum(each.kind == "migrate" and each.outcome == "done" for each in every)
    done = run.metrics.expands + run.metrics.shrinks + moves
    summary = f"{esc(run.name)}: {count(done, 'resize')} done"
    return f"<details open><summary>{summary}</summary>{resize_rows(run)}</details>"


def _script_json(data: object) -> str:
    """JSON that cannot end the script element it stands in."""
    text = msgspec.json.encode(data).decode()
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _asset(name: str) -> str:
    return (files("pliant.page") / name).read_text(encoding="utf-8").strip()
