"""What the page's chart tells on hover, as data; times in seconds since the first submission."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pliant.charts.figures import MANY_BOXES, Chart, boxes
from pliant.history.gantt import Mark
from pliant.history.metrics import JobOutcome, ResizeOutcome
from pliant.history.timeline import AWAY, CLEANING, LOST, RESERVED, Stretch
from pliant.model.words import count
from pliant.report.runs import SIGNS, Run, state_text
from pliant.report.words import cause, plain, seconds


def hover_data(runs: Sequence[Run], chart: Chart) -> dict[str, Any]:
    """One entry a run; none where a run was too long to be drawn as shapes, as nobody could point at them."""
    drawn = all(boxes(run) <= MANY_BOXES for run in runs)
    return {
        "span": chart.span_s,
        "runs": [_run(run, panel) for run, panel in zip(runs, chart.panels, strict=True)] if drawn else [],
    }


def _run(run: Run, panel: Sequence[float]) -> dict[str, Any]:
    origin = run.origin_s
    jobs: dict[int, dict[str, Any]] = {
        number: {"name": plain(job.name), "text": job_text(run, number, job), "pieces": []}
        for number, job in run.jobs.items()
    }
    for segment in run.chart.segments + run.chart.running():
        jobs[run.last_number(segment.job)]["pieces"].append(
            {
                "from": _ms(segment.from_s - origin),
                "to": _ms(segment.to_s - origin),
                "size": len(segment.nodes),
                "hosts": run.hosts(segment.nodes),
                "ranges": segment.nodes.ranges(),
            }
        )
    return {
        "name": plain(run.name),
        "names": [plain(name) for name in run.names],
        "panel": [round(value, 6) for value in panel],
        "jobs": jobs,
        "marks": [_mark(run, mark) for mark in run.chart.marks],
        "held": [_idle(run, stretch) for stretch in run.idle],
    }


def job_text(run: Run, number: int, job: JobOutcome) -> str:
    """What happened to a job, a line a fact."""
    lines = [f"{job.job_class}, {state_text(job)}"]
    reason = run.start_reasons.get(number)
    if job.start_s is not None and reason is not None:
        waited = seconds(job.start_s - job.submit_s)
        lines.append(f"waited {waited}, then started: {run.why(reason)}")
    if job.verified is False:
        lines.append("✗ its result is WRONG")
    elif job.unchecked:
        lines.append("its result was not checked")
    elif job.verified:
        lines.append("✓ its result is as expected")
    if job.lost_groups:
        lines.append(f"went on without {count(job.lost_groups, 'lost group')}")
    if job.error:
        lines.append(cause(job.error, job.exit_code))
    return "\n".join(lines)


def resize_of(run: Run, mark: Mark) -> ResizeOutcome | None:
    """The resize that a mark on the chart stands for."""
    job = run.jobs.get(run.last_number(mark.job))
    done = [each for each in job.resizes if each.done_s == mark.at and each.outcome == "done"] if job else []
    return done[0] if done else None


def _mark(run: Run, mark: Mark) -> dict[str, Any]:
    low, high = max(mark.nodes.ranges(), key=lambda pair: pair[1] - pair[0])
    name = plain(run.job_name(mark.job))
    resize = resize_of(run, mark)
    sign, verb = ("▲", "grew") if mark.kind == "expand" else ("▼", "shrank")
    lines: list[str] = []
    title = f"{sign} {name} {verb}"
    if resize is not None:
        title += f" from {resize.before} to {count(resize.after, 'node')}"
        if resize.kind == "migrate":
            title = f"{SIGNS['migrate']} {name} moved from {run.hosts(resize.nodes)} to {run.hosts(resize.moved_to)}"
        lines.append(f"why: {run.why(resize.reason)}")
        lines.append(
            f"stood still for {seconds(resize.blocked_s)}; {seconds(mark.at - resize.offered_s)} after the offer"
        )
        lines += [f"{plain(phase)}: {seconds(value)}" for phase, value in resize.phases.items()]
    lines.append(f"{'gained' if mark.kind == 'expand' else 'gave back'} {run.hosts(mark.nodes)}")
    return {
        "at": _ms(mark.at - run.origin_s),
        "row": (low + high + 1) / 2,
        "job": name,
        "title": title,
        "text": "\n".join(lines),
    }


def _idle(run: Run, stretch: Stretch) -> dict[str, Any]:
    hosts, name = run.hosts(stretch.nodes), plain(run.job_name(stretch.job))
    title = {
        RESERVED: f"{hosts} reserved for {name}, which is to grow",
        CLEANING: f"{hosts} being cleaned of {name}",
        LOST: f"{hosts} lost",
        AWAY: f"{hosts} not there: not yet granted, or given back",
    }[stretch.kind]
    return {
        "from": _ms(stretch.from_s - run.origin_s),
        "to": _ms(stretch.to_s - run.origin_s),
        "ranges": stretch.nodes.ranges(),
        "title": title,
        "job": name if stretch.job else "",
    }


def _ms(value: float) -> float:
    return round(value, 3)
