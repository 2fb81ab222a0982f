"""The report of a simulated run: the page of a live run and its distributions, or for many jobs a dense one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from pliant.charts import curves
from pliant.charts.dense import Bin, Dense, Sample
from pliant.charts.figures import render_svg
from pliant.charts.palette import fills
from pliant.core import records as r
from pliant.history.metrics import RunMetrics
from pliant.model.jobs import JobSpec
from pliant.model.words import count
from pliant.page.html import JOBS_HINT, NO_HOVER, chart_of, document, inline, no_chart, reading, resizes
from pliant.page.tables import esc, job_rows
from pliant.report.compare import METRICS, warnings
from pliant.report.data import SCHEMA, figures, report_data
from pliant.report.runs import Run
from pliant.report.words import percent, plain, seconds

EVERY_JOB = 300
"""Up to so many jobs the report shows each; beyond, nobody would find one."""
RUN = "simulated"
"""The name of the run, where a live one is called rigid or malleable."""
NO_JOBS = (
    f"<p>With more than {EVERY_JOB} jobs the report shows none by itself. <code>pliant simulate --jobs-csv FILE</code> "
    "writes a table of all of them.</p>"
)
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
    about = " · ".join(
        [
            f"workload {of.workload}",
            f"policy {of.policy}",
            count(of.nodes, "node"),
            count(dense.jobs, "job"),
            *of.facts,
        ]
    )
    note = (
        "These figures are simulated: a model of the jobs ran under a virtual clock, and nothing was started."
    )
    body = [f'<p class="note">{note}</p>']
    if run is not None:
        body += [f'<p class="alarm" role="alert">{esc(text)}</p>' for text in warnings([run])]
    elif metrics.failed:
        body.append(
            f'<p class="alarm" role="alert">{count(metrics.failed, "job")} did not complete: they ran longer '
            "than they may, or failed.</p>"
        )
    hover = NO_HOVER
    if run is not None:
        chart, hover = chart_of([run], title)
        body += ["<h2>Who held which nodes</h2>", chart, reading([run])]
    body += _over_time(dense, of, every_job=run is not None)
    body += _distributions(dense)
    body += ["<h2>The figures</h2>", _metric_rows(metrics, dense)]
    if run is not None:
        body += ["<h2>Jobs</h2>", JOBS_HINT, job_rows([run], fills([run])), "<h2>Resizes</h2>", resizes(run)]
    else:
        body += [
            "<h2>Jobs</h2>",
            NO_JOBS,
        ]
    return document(title, about, body, hover, "from a simulation")


def _over_time(dense: Dense, of: Simulated, *, every_job: bool) -> list[str]:
    title = "Jobs waiting over time" if every_job else "Nodes in use and jobs waiting over time"
    bins = dense.queue()
    width = seconds(bins[0].to_s - bins[0].from_s) if bins else "0 s"
    described = (
        f"Time is cut into {len(bins):,} pieces of {width}. The line is the mean of each piece, the shaded band lies "
        "between the least and the greatest value in it."
    )
    chart = _figure(lambda: curves.over_time(dense, of.nodes, below=every_job), title, described, "over-time")
    return [f"<h2>{title}</h2>", chart, f'<p class="hint">{described}</p>']


def _distributions(dense: Dense) -> list[str]:
    title = "How waits, turnarounds and slowdowns were distributed"
    described = (
        "The curves show the share of jobs (upwards) that had at most a value (to the right). Wait: submission to "
        "start; turnaround: submission to end; bounded slowdown: turnaround over run time, run times under 10 s "
        "taken as 10 s. The axis of slowdowns is logarithmic, and so are the others where values lie far apart; times "
        "under a second are drawn at their left end."
    )
    chart = _figure(lambda: curves.distributions(dense), title, described, "spread")
    return [f"<h2>{title}</h2>", chart, f'<p class="hint">{described}</p>', _quantile_rows(dense)]


def _figure(draw: Callable[[], Any], title: str, described: str, key: str) -> str:
    try:
        text = render_svg(draw())
    except ModuleNotFoundError as error:
        return f'<p class="note">{no_chart(error)}</p>'
    # Groups need no names here, and a page may hold each name once.
    text = re.sub(r'<g id="[^"]*"', "<g", text)
    return f'<figure class="scroll">{inline(text, title, described, key)}</figure>'


def _spreads(dense: Dense) -> dict[str, tuple[Sample, Callable[[float], str]]]:
    return {
        "wait": (dense.wait(), seconds),
        "turnaround": (dense.turnaround(), seconds),
        "bounded slowdown": (dense.slowdown(), "{:,.2f}".format),
    }


def _quantile_rows(dense: Dense) -> str:
    titles = ("mean", *("median" if q == 0.5 else "most" if q == 1.0 else percent(q) for q in QUANTILES))
    head = "".join(f'<th scope="col" class="number">{title}</th>' for title in titles)
    rows: list[str] = []
    for title, (spread, show) in _spreads(dense).items():
        values = [spread.mean, *(spread.quantile(share) for share in QUANTILES)]
        cells = "".join(f'<td class="number">{esc(show(value))}</td>' for value in values)
        rows.append(f'<tr><th scope="row">{title}</th>{cells}</tr>')
    return (
        f'<div class="scroll"><table><thead><tr><th scope="col">of all jobs</th>{head}</tr>'
        f"</thead><tbody>{''.join(rows)}</tbody></table></div>"
        '<p class="hint">A column such as 90 % has the value that 90 % of the jobs did not exceed.</p>'
    )


def _metric_rows(metrics: RunMetrics, dense: Dense) -> str:
    rows = [("jobs that ended", f"{metrics.ended:,}", f"of {dense.jobs:,} submitted")]
    rows += [("of them did not complete", f"{metrics.failed:,}", "failed, timed out, cancelled")]
    rows += [
        (metric.label, metric.show(float(getattr(metrics, metric.key))), metric.note) for metric in METRICS
    ]
    cells = "\n".join(
        f'<tr><th scope="row">{esc(label)}<small>{esc(note)}</small></th><td class="number">{esc(value)}</td></tr>'
        for label, value, note in rows
    )
    return (
        '<div class="scroll"><table class="compare lone"><thead><tr><th scope="col">metric</th><th scope="col" '
        f'class="number">value</th></tr></thead><tbody>\n{cells}</tbody></table></div>'
    )


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
