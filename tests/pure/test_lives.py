"""The one fold of jobs' lives: what its listeners are told, alone and together."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import pytest
from audits import gantt
from drawing import examples
from hypothesis import given, settings
from test_metrics import RECORDS
from test_node_failures import drawn_
from test_simulation import policies_

from pliant.charts.dense import Dense
from pliant.core import records as r
from pliant.core.settings import Settings
from pliant.history.gantt import Gantt
from pliant.history.metrics import Metrics, measure
from pliant.history.timeline import LOST, ROWS, Life, Listener, Timeline, told
from pliant.policy.registry import make
from pliant.sim.simulator import Conditions, simulate
from pliant.testing.policies.drawn import NODES, elastic_jobs, settings_
from pliant.workloads.failures import DrawnFailures, Failures
from pliant.workloads.job import SimJob


class Noted(Listener):
    """Notes a few rows, and leaves the others aside."""

    IGNORES = frozenset(ROWS) - {"submitted", "started", "resized", "ended", "wasted", "used"}

    def __init__(self) -> None:
        self.rows: list[tuple[object, ...]] = []

    def submitted(self, life: Life) -> None:
        self.rows.append(("submitted", life.job, life.submit))

    def started(self, life: Life) -> None:
        self.rows.append(("started", life.job, life.start, life.size))

    def resized(self, life: Life, done: r.ResizeDone, kind: str, before: int) -> None:
        self.rows.append((kind, life.job, done.at, before, life.size, life.resized))

    def ended(self, life: Life, end: r.JobEnded, size: int) -> None:
        self.rows.append(("ended", life.job, end.at, size))

    def wasted(self, job: int, kind: str, mask: int, since: float) -> None:
        self.rows.append((kind, job, mask, since, self.lives.now))

    def used(self, held: int, in_use: int, from_s: float, to_s: float) -> None:
        self.rows.append(("used", held, in_use, from_s, to_s))


def test_the_rows_of_a_run() -> None:
    noted = Noted()
    told(RECORDS, noted)
    assert noted.rows == [
        ("submitted", 1, 10.0),
        ("used", 0, 0, 0.0, 10.0),
        ("started", 1, 10.0, 2),
        ("used", 2, 2, 10.0, 14.0),
        ("reserved", 1, 0b1100, 12.0, 14.0),
        ("expand", 1, 14.0, 2, 4, None),
        ("submitted", 2, 15.0),
        ("used", 4, 4, 14.0, 17.0),
        ("shrink", 1, 17.0, 4, 2, ("expand", 14.0)),
        ("cleaning", 1, 0b10, 17.0, 18.0),
        ("cleaning", 1, 0b1000, 17.0, 20.0),
        ("used", 2, 2, 17.0, 20.0),
        ("started", 2, 20.0, 2),
        ("used", 4, 4, 20.0, 24.0),
        ("ended", 2, 24.0, 2),
        ("used", 2, 2, 24.0, 30.0),
        ("ended", 1, 30.0, 2),
    ]


def simulated(
    jobs: list[SimJob], policy: tuple[str, str | None], options: Settings, drawn: DrawnFailures
) -> list[r.Record]:
    records: list[r.Record] = []
    simulate(jobs, NODES, make(*policy), Conditions(options, failures=Failures(drawn)), records.append)
    return records


@settings(max_examples=examples(30), deadline=None)
@given(elastic_jobs, policies_, settings_, drawn_)
def test_no_node_is_at_two_places(
    jobs: list[SimJob], policy: tuple[str, str | None], options: Settings, drawn: DrawnFailures
) -> None:
    chart = gantt(simulated(jobs, policy, options, drawn))
    assert chart.running() == []
    stays: dict[int, list[tuple[float, float, str]]] = defaultdict(list)
    for segment in chart.segments:
        for node in segment.nodes:
            stays[node].append((segment.from_s, segment.to_s, "held"))
    for stretch in chart.idle_time():
        for node in stretch.nodes:
            stays[node].append((stretch.from_s, stretch.to_s, stretch.kind))
    for each in stays.values():
        each.sort()
        for (_, until, what), (after, _, then) in pairwise(each):
            assert until <= after or (what, then) == ("held", LOST)  # its job has yet to notice


@pytest.mark.long
@settings(max_examples=examples(30), deadline=None)
@given(elastic_jobs, policies_, settings_, drawn_)
def test_listeners_are_told_the_same_alone_and_together(
    jobs: list[SimJob], policy: tuple[str, str | None], options: Settings, drawn: DrawnFailures
) -> None:
    records = simulated(jobs, policy, options, drawn)
    metrics, chart, dense, alone = Metrics(), Gantt(), Dense(), Dense()
    lives = Timeline(metrics, chart, dense)
    for i, record in enumerate(records):
        lives.add(record)
        alone.add(record)
        if i == len(records) // 2:
            assert metrics.summary() == measure(records[: i + 1])
            assert chart.running() == gantt(records[: i + 1]).running()
            assert chart.idle_time() == gantt(records[: i + 1]).idle_time()
    assert metrics.summary() == measure(records)
    assert chart.segments == gantt(records).segments
    assert (dense.nodes(), dense.queue()) == (alone.nodes(), alone.queue())
    assert (lives.jobs, lives.waiting, lives.held, lives.in_use) == ({}, 0, 0, 0)
