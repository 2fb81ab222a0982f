"""The page's tables. All text that comes from outside goes through ``esc``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from pliant.charts.palette import Fill
from pliant.history.metrics import JobOutcome, ResizeOutcome
from pliant.model.jobs import ENDED, JobState
from pliant.model.kinds import JobKind
from pliant.report.compare import Cell, Row, change_text, compare
from pliant.report.outcomes import RESULT_WIDTH, SIGNS, sizes_text, state_text
from pliant.report.runs import Run, alike_in_nodes
from pliant.report.words import awake, cause, percent, plain, seconds, shorten

MOST_ROWS = 400
"""A page with more rows than this is no longer read; report.json has them all."""


def esc(text: str) -> str:
    """Text from outside, made harmless."""
    return escape(plain(text), quote=True)


def compare_rows(runs: Sequence[Run]) -> str:
    """The comparison as a table, with a bar a value; values of one row share a scale."""
    head = "".join(
        f'<th scope="col">{esc(run.name)}</th>' + ('<th scope="col">change</th>' if i else "")
        for i, run in enumerate(runs)
    )
    body = "\n".join(_compare_row(row) for row in compare(runs))
    body = _nodes_row(runs) + body + _policy_row(runs) + _pace_row(runs)
    return (
        '<div class="scroll"><table class="compare"><thead><tr><th scope="col">metric</th>'
        f"{head}</tr></thead><tbody>\n{body}</tbody></table></div>"
    )


def _compare_row(row: Row) -> str:
    most = 1.0 if row.metric.share else max([cell.value or 0.0 for cell in row.cells] + [0.0])
    cells: list[str] = []
    for i, cell in enumerate(row.cells):
        width = 100 * (cell.value or 0.0) / most if most > 0 else 0.0
        bar = (
            f'<span class="bar" style="width:{width:.1f}%;background:var(--run{i % 4})"></span>'
            if width
            else ""
        )
        track = f'<span class="track" aria-hidden="true">{bar}</span>'
        cells.append(f'<td class="value">{esc(cell.text)}{track}</td>')
        if i:
            cells.append(_verdict(cell))
    note = f"<small>{esc(row.metric.note)}</small>"
    return f'<tr><th scope="row">{esc(row.metric.label)}{note}</th>{"".join(cells)}</tr>'


def _verdict(cell: Cell) -> str:
    text = change_text(cell)
    if not text:
        return f'<td class="verdict {cell.verdict}">{cell.verdict}</td>'
    if cell.verdict == "same":
        return '<td class="verdict">= same</td>'
    arrow = "↑" if (cell.change or 0.0) > 0 else "↓"
    said = f", {cell.verdict}" if cell.verdict else ""
    return f'<td class="verdict {cell.verdict}">{arrow} {esc(text)}{said}</td>'


def _nodes_row(runs: Sequence[Run]) -> str:
    unlike = "" if alike_in_nodes(runs) else "not the same"
    cells = "".join(
        f"<td>{run.nodes_text}</td>" + (f'<td class="verdict worse">{unlike}</td>' if i else "")
        for i, run in enumerate(runs)
    )
    note = "<small>fewest and most, where that changed</small>"
    return f'<tr><th scope="row">nodes{note}</th>{cells}</tr>\n'


def _policy_row(runs: Sequence[Run]) -> str:
    cells = "".join(f"<td>{esc(run.policy)}</td>" + ("<td></td>" if i else "") for i, run in enumerate(runs))
    return f'<tr><th scope="row">policy</th>{cells}</tr>\n'


def _pace_row(runs: Sequence[Run]) -> str:
    if all(run.metrics.pace_overrun is None for run in runs):
        return ""
    cells: list[str] = []
    for i, run in enumerate(runs):
        overrun = run.metrics.pace_overrun
        text = "-" if overrun is None else percent(max(0.0, overrun))
        if not run.pace_valid:
            text = f'<span class="wrong">✗ {text}: not valid</span>'
        cells.append(f"<td>{text}</td>" + ("<td></td>" if i else ""))
    note = "<small>how much longer paced steps took than their model says</small>"
    return f'<tr><th scope="row">pace overrun{note}</th>{"".join(cells)}</tr>\n'


def job_rows(runs: Sequence[Run], looks: dict[str, Fill]) -> str:
    """All jobs, a row each, the runs side by side."""
    by_name = [{job.name: number for number, job in run.jobs.items()} for run in runs]
    names = list(dict.fromkeys(name for each in by_name for name in each))
    titles = ("waited", "ran", "ended at", "nodes", "state")
    first = '<th scope="col" rowspan="2">job</th><th scope="col" rowspan="2">submitted at</th>'
    groups = "".join(f'<th scope="colgroup" colspan="{len(titles)}">{esc(run.name)}</th>' for run in runs)
    second = "".join(_head(title) for _ in runs for title in titles)
    rows = [_job_row(name, runs, by_name, looks) for name in names[:MOST_ROWS]]
    return (
        f'<div class="scroll"><table><thead><tr>{first}{groups}</tr><tr>{second}</tr></thead><tbody>\n'
        + "\n".join(rows)
        + "</tbody></table></div>"
        + _rest(len(names))
    )


def _head(title: str) -> str:
    number = "" if title in ("nodes", "state") else ' class="number"'
    return f'<th scope="col"{number}>{title}</th>'


def _job_row(name: str, runs: Sequence[Run], by_name: list[dict[str, int]], looks: dict[str, Fill]) -> str:
    cells: list[str] = []
    submitted, kind, wrong = "", "", False
    for run, numbers in zip(runs, by_name, strict=True):
        number = numbers.get(name)
        if number is None:
            cells.append("<td></td>" * 5)
            continue
        job = run.jobs[number]
        submitted = submitted or seconds(job.submit_s - run.origin_s)
        kind = "" if run.kinds[number] is JobKind.MPI else f"<small>{run.kinds[number]}</small>"
        wrong = wrong or job.verified is False
        cells.append(_job_cells(run, number, job))
    row = ' class="wrong-row"' if wrong else ""
    return (
        f'<tr data-job="{esc(name)}"{row}><th scope="row">{_swatch(looks[name])}{esc(name)}{kind}</th>'
        f'<td class="number">{submitted}</td>{"".join(cells)}</tr>'
    )


# matplotlib's hatches, for CSS: the slopes of lines, and the radii in pixels of rings and stars.
SLOPES = {"-": ("180deg",), "|": ("90deg",), "+": ("180deg", "90deg")}
ROUND = {"o": (1.2, 2.0), "*": (0.0, 1.2)}


def _swatch(look: Fill) -> str:
    """A small sample of how the job looks in the chart."""
    stripes = "".join(
        f"repeating-linear-gradient({slope},{look.ink}99 0 1px,transparent 1px 3.5px),"
        for slope in SLOPES.get(look.hatch[:1], ())
    )
    if look.hatch[:1] in ROUND:
        inner, outer = ROUND[look.hatch[:1]]
        ring = f"transparent {inner}px,{look.ink}99 {inner}px {outer}px,transparent {outer}px"
        stripes = f"radial-gradient(circle,{ring}) 0 0/5px 5px,"
    return f'<span class="swatch" style="background:{stripes}{look.colour}" aria-hidden="true"></span>'


def _job_cells(run: Run, number: int, job: JobOutcome) -> str:
    start, end = job.start_s, job.end_s
    times = (
        seconds(start - job.submit_s) if start is not None else "-",
        seconds(end - start) if start is not None and end is not None else "-",
        seconds(end - run.origin_s) if end is not None else "-",
    )
    numbers = "".join(f'<td class="number">{time}</td>' for time in times)
    steps = re.sub(rf"([{''.join(SIGNS.values())}]) ", "\\1\N{NO-BREAK SPACE}", esc(sizes_text(run, number)))
    return f'{numbers}<td class="history">{steps}</td><td>{_state(job)}</td>'


def _state(job: JobOutcome) -> str:
    text = esc(state_text(job))
    if job.state in ENDED and job.state is not JobState.COMPLETED:
        text = f'<span class="wrong">✗ {text}</span>'
    if job.error:
        text += f"<br><small>{esc(cause(job.error, job.exit_code))}</small>"
    if job.verified is False:
        text += '<br><span class="wrong">✗ result is WRONG</span>'
        text += f"<br><small>{_result(job.result)}, expected {_result(job.expected)}</small>"
    elif job.unchecked:
        text += f'<br><span class="wrong">result not checked</span><br><small>{esc(job.unchecked)}</small>'
    elif job.verified:
        text += "<br><small>✓ result as expected</small>"
    elif job.result is not None:
        text += f"<br><small>{_result(job.result)}</small>"
    return text


def _result(text: str | None) -> str:
    return "nothing" if text is None else esc(shorten(text, RESULT_WIDTH))


def resize_rows(run: Run) -> str:
    """A run's resizes in order of their offers, with the reason for each."""
    entries = sorted(
        ((job.name, resize) for job in run.jobs.values() for resize in job.resizes),
        key=lambda entry: (entry[1].offered_s, entry[1].id),
    )
    if not entries:
        return f"<p>{esc(run.name)}: no job was asked to change size.</p>"
    titles = ("offered at", "job", "change", "nodes", "why", "outcome", "took", "blocked")
    numbers = ("offered at", "took", "blocked")
    head = "".join(
        f'<th scope="col"{" class=number" if title in numbers else ""}>{title}</th>' for title in titles
    )
    rows = "\n".join(_resize_row(run, name, resize) for name, resize in entries[:MOST_ROWS])
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>\n{rows}</tbody></table></div>'
        + _rest(len(entries))
    )


def _resize_row(run: Run, name: str, resize: ResizeOutcome) -> str:
    sign = SIGNS[resize.kind]
    took = seconds(resize.done_s - resize.offered_s) if resize.done_s is not None else "-"
    done = resize.outcome == "done"
    bad = resize.outcome == "failed" and not resize.late
    said = resize.outcome if resize.phase is None else f"{resize.outcome} in its phase {resize.phase}"
    outcome = f'<span class="worse">✗ {esc(said)}</span>' if bad else esc(said)
    if resize.error:
        outcome += f"<br><small>{esc(resize.error)}</small>"
    if resize.phases:
        phases = ", ".join(f"{plain(phase)} {seconds(value)}" for phase, value in resize.phases.items())
        outcome += f"<br><small>{esc(phases)}</small>"
    what = run.hosts(resize.nodes) or awake(resize.slots)
    if resize.moved_to:
        what += f" → {run.hosts(resize.moved_to)}"
    return (
        f'<tr data-job="{esc(name)}"><td class="number">{seconds(resize.offered_s - run.origin_s)}</td>'
        f'<th scope="row">{esc(name)}</th>'
        f'<td class="sizes">{resize.before} <span class="sign">{sign}</span> {resize.after}</td>'
        f"<td>{esc(what)}</td><td>{esc(run.why(resize.reason))}</td><td>{outcome}</td>"
        f'<td class="number">{took}</td><td class="number">{seconds(resize.blocked_s) if done else "-"}</td></tr>'
    )


def place_rows(run: Run) -> str:
    """What the places of each job that tells it have done, a table a job; nothing where no job does."""
    return "".join(_places(run, job) for job in run.jobs.values() if job.places)


def _places(run: Run, job: JobOutcome) -> str:
    there = sorted(job.places.items())
    names = list(dict.fromkeys(name for _, figures in there for name in figures))
    head = "".join(f'<th scope="col" class="number">{esc(_said(name))}</th>' for name in names)
    rows = "\n".join(
        f'<tr><th scope="row">{place}</th>'
        + "".join(f'<td class="number">{_figure(name, figures.get(name))}</td>' for name in names)
        + "</tr>"
        for place, figures in there[:MOST_ROWS]
    )
    return (
        f'<div class="scroll"><table data-job="{esc(job.name)}">'
        f"<caption>{esc(run.name)}: {esc(job.name)}</caption><thead><tr>"
        f'<th scope="col">place</th>{head}</tr></thead><tbody>\n{rows}</tbody></table></div>'
        + _rest(len(there))
    )


def _said(name: str) -> str:
    """A figure's name for people: the unit goes with the value."""
    return name.removesuffix("_s").replace("_", " ")


def _figure(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    return seconds(value) if name.endswith("_s") else f"{value:,.0f}"


def _rest(rows: int) -> str:
    if rows <= MOST_ROWS:
        return ""
    return f'<p class="hint">The first {MOST_ROWS} of {rows:,} are shown; report.json has them all.</p>'
