"""The report of a simulated run: the page of a live run and its distributions, or for many jobs a dense one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from pliant.charts import curves
from pliant.charts.dense import Bin, Dense, FigureSample
from pliant.charts.figures import render_svg
from pliant.charts.palette import fills
from pliant.core import records as r
from pliant.history.metrics import RunMetrics
from pliant.model.jobs import JobSpec
from pliant.model.words import count
from pliant.page import tables
from pliant.page.html import InlineChart, chart_of, inline, not_drawn, render
from pliant.report.compare import METRICS, warnings
from pliant.report.data import SCHEMA, figures, report_data
from pliant.report.runs import Run
from pliant.report.words import percent, plain, seconds

EVERY_JOB = 300
"""Up to so many jobs the report shows each; beyond, nobody would find one."""
RUN = "simulated"
"""The name of the run, where a live one is called rigid or malleable."""
QUANTILES = (0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)


class Simulated(NamedTuple):
    """What a simulation was of, in words for its report: ``facts`` are whatever else the user asked for. So many
    jobs of the workload were ``left_out`` as they did not run, and so many were ``too_wide``."""

    workload: str
    policy: str
    nodes: int
    facts: Sequence[str] = ()
    left_out: int = 0
    too_wide: int = 0


class Picture:
    """What is kept of a simulation of ``jobs`` jobs: ``dense`` listens, and ``keep`` takes the records
    themselves, if every job is to be shown; else it is None. Of a window only the ``counted`` jobs are in the
    distributions."""

    def __init__(self, jobs: int, counted: Iterable[JobSpec] | None = None) -> None:
        self.dense = Dense(counted)
        self.window = counted is not None
        self._records: list[r.Record] | None = [] if jobs <= EVERY_JOB else None
        self.keep = self._records.append if self._records is not None else None

    def run(self, of: Simulated) -> Run | None:
        """The run, if its records were kept."""
        if self._records is None:
            return None
        return Run(RUN, of.policy, [f"n{i}" for i in range(of.nodes)], self._records)


def page(picture: Picture, of: Simulated, metrics: RunMetrics) -> str:
    """The whole page. It loads nothing from anywhere."""
    run, dense = picture.run(of), picture.dense
    title = (
        f"Simulated: {of.policy} ran {count(metrics.ended, 'job')} of {of.workload} on "
        f"{count(of.nodes, 'node')} in {seconds(metrics.makespan_s)}"
    )
    sizes = (count(of.nodes, "node"), count(dense.jobs, "job"))
    alarms = warnings([run]) if run is not None else []
    if run is None and metrics.failed:
        alarms = [
            f"{count(metrics.failed, 'job')} did not complete: they ran longer than they may, or failed."
        ]
    return render(
        "simulated.html.j2",
        title=title,
        about=[f"workload {of.workload}", f"policy {of.policy}", *sizes, *of.facts],
        made="from a simulation",
        alarms=alarms,
        chart=InlineChart() if run is None else chart_of([run], title),
        pictures=[_over_time(dense, of, every_job=run is not None), _distributions(dense)],
        quantiles=_quantiles(dense),
        metrics=_metrics(metrics, dense),
        jobs=None if run is None else tables.jobs([run], fills([run])),
        resizes=None if run is None else tables.resizes(run),
        every_job=EVERY_JOB,
    )


def _over_time(dense: Dense, of: Simulated, *, every_job: bool) -> InlineChart:
    title = "Jobs waiting over time" if every_job else "Nodes in use and jobs waiting over time"
    bins = dense.queue()
    width = seconds(bins[0].to_s - bins[0].from_s) if bins else "0 s"
    described = (
        f"Time is cut into {len(bins):,} pieces of {width}. The line is the mean of each piece, the shaded band lies "
        "between the least and the greatest value in it."
    )
    return _drawn(lambda: curves.over_time(dense, of.nodes, below=every_job), title, described, "over-time")


def _distributions(dense: Dense) -> InlineChart:
    title = "How waits, turnarounds and slowdowns were distributed"
    described = (
        "The curves show the share of jobs (upwards) that had at most a value (to the right). Wait: submission to "
        "start; turnaround: submission to end; bounded slowdown: turnaround over run time, run times under 10 s "
        "taken as 10 s. The axis of slowdowns is logarithmic, and so are the others where values lie far apart; times "
        "under a second are drawn at their left end."
    )
    return _drawn(lambda: curves.distributions(dense), title, described, "spread")


def _drawn(draw: Callable[[], Any], title: str, described: str, key: str) -> InlineChart:
    try:
        text = render_svg(draw())
    except ModuleNotFoundError as error:
        return not_drawn(error)._replace(title=title, described=described)
    # Groups need no names here, and a page may hold each name once.
    text = re.sub(r'<g id="[^"]*"', "<g", text)
    return InlineChart(inline(text, title, described, key), title=title, described=described)


def _spreads(dense: Dense) -> dict[str, tuple[FigureSample, Callable[[float], str]]]:
    return {
        "wait": (dense.wait(), seconds),
        "turnaround": (dense.turnaround(), seconds),
        "bounded slowdown": (dense.slowdown(), "{:,.2f}".format),
    }


def _quantiles(dense: Dense) -> tables.Table:
    titles = ("mean", *("median" if q == 0.5 else "most" if q == 1.0 else percent(q) for q in QUANTILES))
    rows = [
        (title, *map(show, [spread.mean, *(spread.quantile(share) for share in QUANTILES)]))
        for title, (spread, show) in _spreads(dense).items()
    ]
    return tables.table(rows, titles=titles)


def _metrics(metrics: RunMetrics, dense: Dense) -> list[tuple[str, str, str]]:
    return [
        ("jobs that ended", f"{metrics.ended:,}", f"of {dense.jobs:,} submitted"),
        ("of them did not complete", f"{metrics.failed:,}", "failed, timed out, cancelled"),
        *((each.label, each.show(float(getattr(metrics, each.key))), each.note) for each in METRICS),
    ]


def json_of(picture: Picture, of: Simulated, metrics: RunMetrics) -> bytes:
    """report.json: that of a live run, with ``simulated`` beside its runs. Jobs are listed only where the page
    shows them; bins and quantiles always are. Of a window the figures are those of its jobs. Times in seconds."""
    run, dense = picture.run(of), picture.dense
    if run is not None:
        data = report_data([run], paced=False)
        if picture.window:
            data["runs"][0] |= figures(metrics)  # what its records alone tell is of all jobs
    else:
        found = msgspec.to_builtins(metrics, str_keys=True)
        found |= {"name": RUN, "policy": of.policy, "origin_s": dense.origin, "jobs": []}
        data = {"schema": SCHEMA, "paced": False, "valid": True, "runs": [found]}
    data["simulated"] = {
        "workload": plain(of.workload),
        "policy": of.policy,
        "nodes": of.nodes,
        "jobs": dense.jobs,
        "left_out": of.left_out,
        "too_wide": of.too_wide,
        "facts": list(of.facts),
        "nodes_in_use": _bins(dense.nodes()),
        "jobs_waiting": _bins(dense.queue()),
        "quantiles": {
            title.replace(" ", "_"): {f"{share:g}": round(spread.quantile(share), 6) for share in QUANTILES}
            for title, (spread, _) in _spreads(dense).items()
        },
    }
    return msgspec.json.format(msgspec.json.encode(data), indent=2) + b"\n"


def _bins(bins: Sequence[Bin]) -> dict[str, list[float]]:
    """Columns, which take less room than rows."""
    return {
        "from_s": [round(each.from_s, 6) for each in bins],
        "min": [each.low for each in bins],
        "mean": [round(each.mean, 4) for each in bins],
        "max": [each.high for each in bins],
    }
