"""Runs side by side: which figures, which way is better, and the sentences that sum them up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pliant.model.words import count
from pliant.report.runs import PACE_LIMIT, Run, alike_in_nodes
from pliant.report.words import alike, percent, plain, seconds

SAME = 0.005
"""Relative differences below this are called the same: repeated runs differ by more."""


class Metric(NamedTuple):
    """A row of the comparison. ``better`` is -1 where less is better, 1 where more is, 0 where neither:
    resizes and what they cost are the price paid, not the aim. Changes of a ``share`` are told in points."""

    key: str
    label: str
    better: int
    show: Callable[[float], str]
    note: str
    share: bool = False


class MetricCell(NamedTuple):
    """A run's value: as text, and as a change against the first run (None where that says nothing):
    relative, or for shares absolute. ``verdict`` is better, worse, same or empty."""

    value: float | None
    text: str
    change: float | None = None
    verdict: str = ""
    points: bool = False


class MetricRow(NamedTuple):
    metric: Metric
    cells: list[MetricCell]


def _number(value: float) -> str:
    return f"{value:,.0f}"


def _node_seconds(value: float) -> str:
    return f"{value:,.0f} node s" if value >= 99.5 or value == 0 else f"{value:.1f} node s"


METRICS = (
    Metric("makespan_s", "makespan", -1, seconds, "first submission to last end"),
    Metric("utilisation", "utilisation", 1, percent, "node-time held by running jobs, of all there was", share=True),
    Metric("wait_mean_s", "wait, mean", -1, seconds, "submission to start"),
    Metric("wait_max_s", "wait, longest", -1, seconds, "submission to start"),
    Metric("turnaround_mean_s", "turnaround, mean", -1, seconds, "submission to end"),
    Metric(
        "bounded_slowdown_mean", "bounded slowdown, mean", -1, "{:.2f}".format,
        "turnaround over run time, run times under 10 s taken as 10 s",
    ),
    Metric("expands", "expansions", 0, _number, "resizes done that added nodes"),
    Metric("shrinks", "shrinks", 0, _number, "resizes done that gave nodes back"),
    Metric("blocked_mean_s", "blocked by a resize, mean", 0, seconds, "how long the application stood still"),
    Metric("blocked_max_s", "blocked by a resize, longest", 0, seconds, "how long the application stood still"),
    Metric(
        "resizing_node_s", "spent in resizing", 0, _node_seconds,
        "node-time reserved and not yet joined, or left and not yet clean",
    ),
)  # fmt: skip


def compare(runs: Sequence[Run]) -> list[MetricRow]:
    """All metrics of all runs; changes are against the first run."""
    rows = [_row(metric, runs) for metric in METRICS]
    if any(run.predicted_makespan_s is not None for run in runs):
        metric = Metric(
            "predicted_makespan_s", "makespan, as simulated", 0, seconds, "forecast by the simulator"
        )
        cells = [
            MetricCell(value, seconds(value)) if value is not None else MetricCell(None, "-")
            for value in (run.predicted_makespan_s for run in runs)
        ]
        rows.insert(1, MetricRow(metric, cells))
    if any(run.failed for run in runs):
        metric = Metric("failed", "jobs that did not complete", -1, _number, "failed, timed out, cancelled")
        rows.append(_row(metric, runs))
    return rows


def _row(metric: Metric, runs: Sequence[Run]) -> MetricRow:
    values = [float(getattr(run.metrics, metric.key)) for run in runs]
    cells = [MetricCell(values[0], metric.show(values[0]))] if values else []
    for value in values[1:]:
        base = values[0]
        change = value - base if metric.share else value / base - 1.0 if base else None
        cells.append(
            MetricCell(value, metric.show(value), change, _verdict(metric, base, value), metric.share)
        )
    return MetricRow(metric, cells)


def _verdict(metric: Metric, base: float, value: float) -> str:
    if not metric.better:
        return ""
    if abs(value - base) <= SAME * max(abs(base), abs(value)):
        return "same"
    return "better" if (value - base) * metric.better > 0 else "worse"


def change_text(cell: MetricCell) -> str:
    """``23 % less``, ``1.4 % more``, ``3.2 times as much``; empty where there is no base to compare with."""
    if cell.change is None or cell.verdict == "same":
        return "same" if cell.verdict == "same" else ""
    if cell.points:
        return f"{abs(cell.change) * 100:.1f} points {'more' if cell.change > 0 else 'less'}"
    if cell.change >= 1.0:
        return f"{cell.change + 1:.1f} times as much"
    return f"{percent(cell.change)} {'more' if cell.change > 0 else 'less'}"


def headline(runs: Sequence[Run]) -> str:
    """One sentence: what came out."""
    if not runs:
        return "There are no runs to report."
    first = runs[0]
    if len(runs) == 1:
        jobs = count(len(first.jobs), "job")
        if first.unfinished:
            left = len(first.unfinished)
            return f"{first.name} was stopped after {_plain(first)} with {left} of {jobs} not finished"
        return f"{first.name} ran {jobs} in {_plain(first)}"
    return "; ".join(_versus(first, run) for run in runs[1:])


def _versus(base: Run, run: Run) -> str:
    """``malleable finished in 62.0 s where rigid took 81.0 s: 23 % sooner``."""
    a, b = base.metrics.makespan_s, run.metrics.makespan_s
    if cut := [each for each in (base, run) if each.unfinished]:
        names = " and ".join(each.name for each in cut)
        return f"{names} did not finish: {run.name} and {base.name} cannot be compared"
    before, after = alike(a, b)
    if a <= 0 or abs(b - a) <= SAME * a:
        unlike = "" if alike_in_nodes((base, run)) else f", on {_nodes(run)} and {_nodes(base)}"
        return f"{run.name} and {base.name} took the same time, {after} and {before}{unlike}"
    change = percent(b / a - 1.0)
    if not alike_in_nodes((base, run)):
        after, before = f"{after} on {_nodes(run)}", f"{before} on {_nodes(base)}"
        change = f"not on the same nodes, {change}"
    if b < a:
        return f"{run.name} finished in {after} where {base.name} took {before}: {change} sooner"
    return f"{run.name} took {after} where {base.name} finished in {before}: {change} later"


def _nodes(run: Run) -> str:
    least, most = run.nodes_there
    return count(most, "node") if least == most else f"{run.nodes_text} nodes"


def _plain(run: Run) -> str:
    return seconds(run.metrics.makespan_s)


def unlike_nodes(runs: Sequence[Run]) -> str:
    """That runs that are compared had different numbers of nodes; empty if they had not."""
    if len(runs) < 2 or alike_in_nodes(runs):
        return ""
    each = ", ".join(f"{plain(run.name)} {run.nodes_text}" for run in runs)
    return f"The runs did not have the same nodes ({each}): the figures do not compare like with like."


def warnings(runs: Sequence[Run]) -> list[str]:
    """What a reader has to know before believing any figure; empty if all is well."""
    found: list[str] = []
    if said := unlike_nodes(runs):
        found.append(said)
    for run in runs:
        overrun = run.metrics.pace_overrun
        if overrun is not None and overrun > PACE_LIMIT:
            found.append(
                f"The figures are not valid: {run.name} overran its pace by {percent(overrun)}, and "
                f"{percent(PACE_LIMIT)} is the limit. The machine was too busy; run again on a quieter one."
            )
        if bad := run.differing:
            found.append(
                f"{run.name}: the result of {names_text([job.name for job in bad])} is not what its verify command "
                "gives: the run computed something wrong."
            )
        if left := run.unchecked:
            found.append(
                f"{run.name}: the result of {names_text([job.name for job in left])} could not be checked: "
                f"{plain(left[0].unchecked)}."
            )
        if bad := run.failed:
            found.append(
                f"{run.name}: {count(len(bad), 'job')} did not complete "
                f"({names_text([f'{job.name} {job.state}' for job in bad])}); "
                "the figures do not compare like with like."
            )
        if left := run.unfinished:
            found.append(f"{run.name}: {count(len(left), 'job')} had not ended when the records end.")
    return found


def pacing_note(runs: Sequence[Run], *, paced: bool) -> str:
    """That runs are paced, and by how much the pace was overrun; empty if they are not."""
    if not paced:
        return ""
    parts = [
        f"{run.name} overran it by {percent(overrun)}" if overrun > 0 else f"{run.name} kept it"
        for run in runs
        if (overrun := run.metrics.pace_overrun) is not None
    ]
    measured = "; ".join(parts) if parts else "no job reported how well it kept that pace"
    return (
        "These runs are paced: each step of an application takes as long as the job's speed-up model says for "
        f"the nodes it holds, so that many nodes fit on one machine. Of that pace, {measured} "
        f"(limit {percent(PACE_LIMIT)}). Starting, connecting, moving data and cleaning up are real."
    )


def names_text(names: Sequence[str], most: int = 6) -> str:
    """``a, b and 3 more``."""
    shown = ", ".join(plain(name) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
