"""A long run in little room: bins against a count by hand, distributions, and the page made of them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest
from drawing import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from report_runs import one_resize, realistic
from test_report_page import HOSTILE, loads

from pliant.charts import figures
from pliant.charts.dense import BINS, Bin, Binned, Dense, FigureSample
from pliant.core import records as r
from pliant.history.distribution import percentile
from pliant.history.metrics import Metrics
from pliant.history.timeline import told
from pliant.model.jobs import Bounds, JobClass, JobSpec, JobState
from pliant.model.nodes import NodeSet
from pliant.page.simulated import EVERY_JOB, Picture, Simulated, json_of, page
from pliant.policy.view import Reason

EIGHTHS = st.integers(0, 40_000).map(lambda n: n / 8)


def folded(records: Sequence[r.Record]) -> Dense:
    dense = Dense()
    for record in records:
        dense.add(record)
    return dense


def area(bins: list[Bin]) -> float:
    return sum(each.mean * (each.to_s - each.from_s) for each in bins)


@settings(deadline=None, max_examples=examples(40))
@given(
    st.floats(0, 1e6).map(round),
    st.lists(st.tuples(EIGHTHS, st.integers(0, 50)), min_size=1, max_size=12),
    st.integers(1, 9000),
)
def test_bins_are_what_a_count_by_hand_gives(origin: int, steps: list[tuple[float, int]], more: int) -> None:
    binned = Binned(origin)
    pieces: list[tuple[float, float, int]] = []
    now, value = 0.0, 0
    for at, then in [*sorted(steps, key=lambda step: step[0]), (max(at for at, _ in steps) + more / 8, 0)]:
        if at > now:
            pieces.append((now, at, value))
        binned.set(origin + at, then)
        now, value = at, then
    bins = binned.bins(origin + now)
    assert len(bins) <= BINS
    assert (bins[0].from_s, bins[-1].to_s) == (0.0, now)
    assert [each.to_s for each in bins[:-1]] == [each.from_s for each in bins[1:]]
    for each in bins:
        inside = [
            (min(stop, each.to_s) - max(start, each.from_s), count)
            for start, stop, count in pieces
            if start < each.to_s and stop > each.from_s
        ]
        assert each.low == min(count for _, count in inside)
        assert each.high == max(count for _, count in inside)
        mean = sum(lasted * count for lasted, count in inside) / (each.to_s - each.from_s)
        assert each.mean == pytest.approx(mean)


def test_a_long_span_uses_at_least_half_of_the_bins() -> None:
    binned = Binned(5.0)
    binned.set(6.0, 3)
    binned.set(5.0 + 3e7, 1)
    bins = binned.bins(5.0 + 4e7)
    assert BINS / 2 <= len(bins) <= BINS
    assert (bins[0].low, bins[0].high) == (0, 3)
    assert area(bins) == pytest.approx(3 * (3e7 - 1) + 1e7)


def test_what_lasts_no_time_does_not_count() -> None:
    binned = Binned(0.0)
    for value in (7, 2):
        binned.set(0.0, value)
    binned.set(1.0, 99)
    binned.set(1.0, 2)
    assert {(each.low, each.mean, each.high) for each in binned.bins(2.0)} == {(2, 2.0, 2)}


def test_curves_agree_with_the_metrics() -> None:
    for run in (*realistic(), one_resize()):
        dense, metrics = folded(run.records), run.metrics
        jobs = len(metrics.jobs)
        assert area(dense.nodes()) == pytest.approx(metrics.utilisation * len(run.names) * metrics.makespan_s)
        assert area(dense.queue()) == pytest.approx(metrics.wait_mean_s * jobs)  # Little's law
        assert max(each.high for each in dense.nodes()) == max(used for _, used in run.chart.curve)
        assert dense.wait().mean == pytest.approx(metrics.wait_mean_s)
        assert dense.turnaround().mean == pytest.approx(metrics.turnaround_mean_s)
        assert dense.slowdown().mean == pytest.approx(metrics.bounded_slowdown_mean)
        assert dense.wait().quantile(1.0) == pytest.approx(metrics.wait_max_s)
        kinds = [dense.wait(malleable=kind).values for kind in (True, False)]
        assert sorted([*kinds[0], *kinds[1]]) == dense.wait().values
        assert len(kinds[0]) == sum(job.job_class is JobClass.MALLEABLE for job in metrics.jobs)


def test_a_job_that_never_starts_leaves_the_queue() -> None:
    spec = JobSpec(name="a", nodes=Bounds.exactly(1))
    dense = folded([
        r.JobSubmitted(1.0, 1, spec),
        r.JobEnded(4.0, 1, JobState.CANCELLED, 0, NodeSet()),
    ])  # fmt: skip
    assert area(dense.queue()) == 3.0
    assert dense.wait().values == []


@given(st.lists(st.integers(0, 30), min_size=1, max_size=60), st.integers(1, 20), st.floats(0.01, 1.0))
def test_distributions_are_exact(values: list[int], most: int, share: float) -> None:
    spread = FigureSample(sorted(float(value) for value in values))
    points = spread.curve(most)
    assert len(points) <= most + 1
    assert points[-1][0] == max(values)
    for value, below in points:
        assert below == sum(each <= value for each in values) / len(values)
    assert spread.quantile(share) == percentile(sorted(values), share)


def test_no_jobs_no_distribution() -> None:
    assert (FigureSample([]).quantile(0.5), FigureSample([]).mean, FigureSample([]).curve()) == (0.0, 0.0, [])


def page_and_json(records: Sequence[r.Record], jobs: int, of: Simulated) -> tuple[str, dict[str, Any]]:
    """The page and the JSON of a run said to have ``jobs`` jobs."""
    picture, metrics = Picture(jobs), Metrics(keep_jobs=False)
    told(records, metrics, picture.dense)
    if (keep := picture.keep) is not None:
        for record in records:
            keep(record)
    summary = metrics.summary()
    return page(picture, of, summary), json.loads(json_of(picture, of, summary))


OF = Simulated("batch.toml", "malleable", 8, ["seed 42"])


def test_few_jobs_are_all_shown() -> None:
    run = realistic()[1]
    text, data = page_and_json(run.records, len(run.jobs), OF)
    assert "<h1>Simulated: malleable ran 12 jobs of batch.toml on 8 nodes in " in text
    assert "nothing was started" in text
    assert set(re.findall(r'id="run0-job(\d+)"', text)) == {str(number) for number in run.jobs}
    assert text.count("<tr data-job") == len(run.jobs) + sum(len(job.resizes) for job in run.metrics.jobs)
    assert "Jobs waiting over time" in text
    assert loads(text) == []
    ids = re.findall(r'<(?:g|svg|title|desc|div|script)\b[^>]* id="([^"]*)"', text)
    assert len(ids) == len(set(ids))
    assert "var(--run1)" in text[text.index('aria-labelledby="spread-title"') :]
    assert [job["name"] for job in data["runs"][0]["jobs"]] == [job.name for job in run.metrics.jobs]


def test_many_jobs_make_a_dense_page() -> None:
    run = realistic()[1]
    text, data = page_and_json(run.records, EVERY_JOB + 1, OF)  # as if there were more
    assert "<tr data-job" not in text
    assert 'id="run0-' not in text
    assert "--jobs-csv" in text
    assert "Nodes in use and jobs waiting over time" in text
    assert "malleable jobs" in text  # a curve for each kind
    assert "seed 42" in text
    told = data["runs"][0]
    assert told["jobs"] == []
    assert told["makespan_s"] == pytest.approx(run.metrics.makespan_s)
    assert data["simulated"]["policy"] == "malleable"
    assert len({len(column) for column in data["simulated"]["nodes_in_use"].values()}) == 1
    assert data["simulated"]["quantiles"]["wait"]["1"] == pytest.approx(run.metrics.wait_max_s, abs=1e-6)


@pytest.mark.parametrize("jobs", [1, EVERY_JOB + 1])
def test_hostile_words_are_harmless(jobs: int) -> None:
    spec = JobSpec(name=HOSTILE, nodes=Bounds.exactly(1))
    text, _ = page_and_json(
        [
            r.JobSubmitted(0.0, 1, spec),
            r.JobStarted(0.0, 1, NodeSet.of([0]), Reason("fits")),
            r.JobEnded(5.0, 1, JobState.FAILED, 1, NodeSet.of([0])),
        ],
        jobs,
        Simulated(HOSTILE, "</title><script>", 1, [HOSTILE]),
    )
    assert text.count("<script") == text.count("</script>") == 2
    assert "\x1b" not in text
    assert 'class="alarm"' in text
    assert "did not complete" in text


def test_the_page_needs_no_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")

    monkeypatch.setattr("pliant.charts.curves.over_time", lambda *_, **__: missing())
    monkeypatch.setattr("pliant.charts.curves.distributions", missing)
    monkeypatch.setattr(figures, "build", missing)
    text, _ = page_and_json(one_resize().records, 2, OF)
    assert "pliant[report]" in text
    assert "<svg" not in text
    assert "utilisation" in text
