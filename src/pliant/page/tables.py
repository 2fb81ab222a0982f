"""What the page's tables say, as data for its templates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pliant.charts.palette import Fill
from pliant.history.metrics import JobOutcome, ResizeOutcome
from pliant.model.jobs import ENDED, JobState
from pliant.model.kinds import JobKind
from pliant.model.words import count
from pliant.report.compare import MetricCell, MetricRow, change_text, compare
from pliant.report.runs import RESULT_WIDTH, SIGNS, Run, alike_in_nodes, sizes_text, state_text
from pliant.report.words import CAUSE_CHARACTERS, awake, cause, percent, plain, seconds, shorten

MOST_ROWS = 400
"""A page with more rows than this is no longer read; report.json has them all."""


Table = dict[str, Any]
"""The first ``rows`` of ``total``, and what else its template needs."""


def table(rows: Sequence[Any], total: int | None = None, **told: Any) -> Table:
    return {"rows": rows[:MOST_ROWS], "total": len(rows) if total is None else total, **told}


class Compared(NamedTuple):
    """A value of one run. ``width`` is that of its bar in percent, None where there is no bar; ``change`` and
    ``verdict`` compare it with the first run's."""

    text: str
    width: str | None = None
    change: str = ""
    verdict: str = ""
    is_wrong: bool = False


def comparison(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """The runs side by side, a row a metric; values of one row share a scale."""
    rows = [_nodes(runs), *(_compared(row) for row in compare(runs))]
    rows.append({"label": "policy", "note": "", "cells": [Compared(run.policy) for run in runs]})
    if any(run.metrics.pace_overrun is not None for run in runs):
        note = "how much longer paced steps took than their model says"
        rows.append({"label": "pace overrun", "note": note, "cells": [_pace(run) for run in runs]})
    return rows


def _compared(row: MetricRow) -> dict[str, Any]:
    most = 1.0 if row.metric.share else max([cell.value or 0.0 for cell in row.cells] + [0.0])
    cells: list[Compared] = []
    for cell in row.cells:
        width = 100 * (cell.value or 0.0) / most if most > 0 else 0.0
        cells.append(Compared(cell.text, f"{width:.1f}" if width else "", _change(cell), cell.verdict))
    return {"label": row.metric.label, "note": row.metric.note, "cells": cells}


def _change(cell: MetricCell) -> str:
    text = change_text(cell)
    if not text:
        return cell.verdict
    if cell.verdict == "same":
        return "= same"
    arrow = "↑" if (cell.change or 0.0) > 0 else "↓"
    return f"{arrow} {text}" + (f", {cell.verdict}" if cell.verdict else "")


def _nodes(runs: Sequence[Run]) -> dict[str, Any]:
    unlike = ("", "") if alike_in_nodes(runs) else ("not the same", "worse")
    cells = [Compared(run.nodes_text, None, *unlike) for run in runs]
    return {"label": "nodes", "note": "fewest and most, where that changed", "cells": cells}


def _pace(run: Run) -> Compared:
    overrun = run.metrics.pace_overrun
    text = "-" if overrun is None else percent(max(0.0, overrun))
    return Compared(text if run.pace_valid else f"{text}: not valid", is_wrong=not run.pace_valid)


def jobs(runs: Sequence[Run], looks: dict[str, Fill]) -> Table:
    """All jobs, a row each, the runs side by side."""
    by_name = [{job.name: number for number, job in run.jobs.items()} for run in runs]
    names = list(dict.fromkeys(name for each in by_name for name in each))
    rows = [_job(name, runs, by_name, looks[name]) for name in names[:MOST_ROWS]]
    return table(rows, len(names), runs=[run.name for run in runs])


def _job(name: str, runs: Sequence[Run], by_name: list[dict[str, int]], look: Fill) -> dict[str, Any]:
    found = [(run, each.get(name)) for run, each in zip(runs, by_name, strict=True)]
    there = [(run, number, run.jobs[number]) for run, number in found if number is not None]
    first, _, job = there[0]
    kinds = [run.kinds[number] for run, number, _ in there]
    return {
        "name": name,
        "is_wrong": any(job.verified is False for *_, job in there),
        "swatch": _swatch(look),
        "kind": "" if kinds[-1] is JobKind.MPI else str(kinds[-1]),
        "submitted": seconds(job.submit_s - first.origin_s),
        "cells": [
            None if number is None else _outcome(run, number, run.jobs[number]) for run, number in found
        ],
    }


# matplotlib's hatches, for CSS: the slopes of lines, and the radii in pixels of rings and stars.
SLOPES = {"-": ("180deg",), "|": ("90deg",), "+": ("180deg", "90deg")}
ROUND = {"o": (1.2, 2.0), "*": (0.0, 1.2)}


def _swatch(look: Fill) -> str:
    """The CSS of a small sample of how the job looks in the chart."""
    stripes = "".join(
        f"repeating-linear-gradient({slope},{look.ink}99 0 1px,transparent 1px 3.5px),"
        for slope in SLOPES.get(look.hatch[:1], ())
    )
    if look.hatch[:1] in ROUND:
        inner, outer = ROUND[look.hatch[:1]]
        ring = f"transparent {inner}px,{look.ink}99 {inner}px {outer}px,transparent {outer}px"
        stripes = f"radial-gradient(circle,{ring}) 0 0/5px 5px,"
    return stripes + look.colour


def _outcome(run: Run, number: int, job: JobOutcome) -> dict[str, Any]:
    start, end = job.start_s, job.end_s
    return {
        "times": (
            seconds(start - job.submit_s) if start is not None else "-",
            seconds(end - start) if start is not None and end is not None else "-",
            seconds(end - run.origin_s) if end is not None else "-",
        ),
        "sizes": sizes_text(run, number),
        "state": state_text(job),
        "is_bad": job.state in ENDED and job.state is not JobState.COMPLETED,
        "cause": cause(job.error, job.exit_code) if job.error else "",
        "notes": [shorten(each, CAUSE_CHARACTERS) for each in job.notes],
        "is_wrong": job.verified is False,
        "is_right": bool(job.verified),
        "unchecked": job.unchecked,
        "result": _result(job.result) if job.result is not None or job.verified is False else "",
        "expected": _result(job.expected),
    }


def _result(text: str | None) -> str:
    return "nothing" if text is None else shorten(text, RESULT_WIDTH)


def resizes(run: Run) -> Table:
    """A run's resizes in order of their offers, with the reason for each."""
    every = [(job.name, resize) for job in run.jobs.values() for resize in job.resizes]
    every.sort(key=lambda entry: (entry[1].offered_s, entry[1].id))
    moves = sum(each.kind == "migrate" and each.outcome == "done" for _, each in every)
    done = run.metrics.expands + run.metrics.shrinks + moves
    rows = [_resize(run, name, resize) for name, resize in every[:MOST_ROWS]]
    return table(rows, len(every), run=run.name, done=count(done, "resize"))


def _resize(run: Run, name: str, resize: ResizeOutcome) -> dict[str, Any]:
    done = resize.outcome == "done"
    phases = ", ".join(f"{plain(phase)} {seconds(value)}" for phase, value in (resize.phases or {}).items())
    what = run.hosts(resize.nodes) or awake(resize.slots)
    return {
        "offered": seconds(resize.offered_s - run.origin_s),
        "job": name,
        "before": resize.before,
        "sign": SIGNS[resize.kind],
        "after": resize.after,
        "what": what + (f" → {run.hosts(resize.moved_to)}" if resize.moved_to else ""),
        "why": run.why(resize.reason),
        "is_bad": resize.outcome == "failed" and not resize.late,
        "outcome": resize.outcome
        if resize.phase is None
        else f"{resize.outcome} in its phase {resize.phase}",
        "notes": [each for each in (resize.error, phases) if each],
        "took": seconds(resize.done_s - resize.offered_s) if resize.done_s is not None else "-",
        "blocked": seconds(resize.blocked_s) if done else "-",
    }


def places(run: Run) -> list[Table]:
    """What the places of each job that tells it have done, a table a job."""
    return [_places(run, job) for job in run.jobs.values() if job.places]


def _places(run: Run, job: JobOutcome) -> Table:
    there = sorted(job.places.items())
    names = list(dict.fromkeys(name for _, figures in there for name in figures))
    rows = [
        (place, *(_figure(name, figures.get(name)) for name in names)) for place, figures in there[:MOST_ROWS]
    ]
    titles = [name.removesuffix("_s").replace("_", " ") for name in names]  # the unit goes with the value
    return table(rows, len(there), run=run.name, job=job.name, titles=titles)


def _figure(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    return seconds(value) if name.endswith("_s") else f"{value:,.0f}"
