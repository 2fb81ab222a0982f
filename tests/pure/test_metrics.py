"""Metrics and chart of a run that was made by hand, so that every figure can be checked on paper."""

from __future__ import annotations

import json

import msgspec
import pytest
from audits import gantt

from pliant.core import records as r
from pliant.history.gantt import Mark, Segment
from pliant.history.metrics import Metrics, ResizeOutcome, measure
from pliant.model.jobs import Bounds, JobClass, JobSpec, JobState
from pliant.model.nodes import NodeSet
from pliant.policy.view import Reason

WHY = Reason("idle_nodes", figures={"remaining_s": 9.0})
A = JobSpec(name="a", nodes=Bounds(1, 4), job_class=JobClass.MALLEABLE)
B = JobSpec(name="b", nodes=Bounds.exactly(2))


def nodes(text: str) -> NodeSet:
    return NodeSet.parse(text)


RECORDS: list[r.Record] = [
    r.NodesGranted(0.0, nodes("0-3")),
    r.JobSubmitted(10.0, 1, A),
    r.JobStarted(10.0, 1, nodes("0-1"), Reason("fits")),
    r.JobRunning(10.0, 1, bounds=A.nodes),
    r.ResizeOffered(12.0, 1, 1, 2, 4, nodes("2-3"), WHY),
    r.JobProgressed(13.0, 1, 0.1, pace_s=2.0, paced_s=9.0),
    r.ResizeAccepted(13.0, 1, 1),
    r.ResizeDone(14.0, 1, 1, nodes("2-3"), NodeSet(), 0.5, {"join": 0.2}),
    r.JobSubmitted(15.0, 2, B),
    r.ResizeOffered(16.0, 1, 2, 4, 2, NodeSet(), Reason("shrink_for_head", for_job=2)),
    r.ResizeAccepted(16.0, 1, 2),
    r.ResizeDone(17.0, 1, 2, NodeSet(), nodes("1,3"), 0.1, {}),
    r.NodesClean(18.0, 1, nodes("1")),
    r.NodesClean(20.0, 1, nodes("3")),
    r.JobStarted(20.0, 2, nodes("1,3"), Reason("fits")),
    r.ResizeOffered(21.0, 1, 3, 2, 1, NodeSet(), WHY),
    r.ResizeDeclined(22.0, 1, 3, "busy"),
    r.JobProgressed(23.0, 1, 0.9, pace_s=10.0, paced_s=12.0),
    r.JobEnded(24.0, 2, JobState.FAILED, 3, nodes("1,3"), None, "it broke"),
    r.JobEnded(30.0, 1, JobState.COMPLETED, 0, nodes("0,2"), "42"),
    r.NodesClean(31.0, 1, nodes("0,2")),
]


def test_a_requeued_job_that_is_cancelled_holds_nothing() -> None:
    spec = JobSpec(name="a", nodes=Bounds.exactly(4))
    metrics = Metrics()
    for record in (
        r.NodesGranted(0.0, NodeSet.first(4)),
        r.JobSubmitted(0.0, 1, spec),
        r.JobStarted(0.0, 1, NodeSet.first(4), Reason("fits")),
        r.JobEnded(5.0, 1, JobState.NODE_FAIL, 143, NodeSet.first(4), requeued=True),
        r.JobSubmitted(5.0, 2, spec, requeue_of=1),
        r.JobEnded(9.0, 2, JobState.CANCELLED, 0, NodeSet()),
    ):
        metrics.add(record)
    figures = metrics.summary()
    assert (figures.ended, figures.failed, len(figures.jobs)) == (1, 1, 1)
    assert figures.utilisation == pytest.approx(5 / 9)


def test_a_lost_newcomer_is_not_waited_for() -> None:
    """It was lost before the expansion failed: nobody will prove it clean."""
    spec = JobSpec(name="a", nodes=Bounds(1, 2))
    metrics = Metrics()
    one = NodeSet.of([1])
    for record in (
        r.NodesGranted(0.0, NodeSet.first(2)),
        r.JobSubmitted(0.0, 1, spec),
        r.JobStarted(0.0, 1, NodeSet.of([0]), Reason("fits")),
        r.ResizeOffered(1.0, 1, 1, 1, 2, one, Reason("idle_nodes")),
        r.NodesLost(3.0, one),
        r.ResizeFailed(3.0, 1, 1, "a node of the expansion is lost", one),
        r.NodesBack(50.0, one),
        r.NodesLost(90.0, one),
        r.JobEnded(100.0, 1, JobState.COMPLETED, 0, NodeSet.of([0])),
    ):
        metrics.add(record)
    assert metrics.summary().resizing_node_s == 2.0


def test_every_figure() -> None:
    figures = measure(RECORDS)
    held = 2 * 4 + 4 * 3 + 2 * 13 + 2 * 4
    assert figures.makespan_s == 20.0
    assert figures.utilisation == pytest.approx(held / (4 * 20.0))
    assert (figures.wait_mean_s, figures.wait_max_s) == (2.5, 5.0)
    assert figures.turnaround_mean_s == pytest.approx((20.0 + 9.0) / 2)
    assert figures.bounded_slowdown_mean == pytest.approx((1.0 + 1.0) / 2)
    assert (figures.expands, figures.shrinks) == (1, 1)
    assert figures.blocked_mean_s == pytest.approx(0.3)
    assert figures.blocked_max_s == 0.5
    assert figures.resizing_node_s == pytest.approx(2 * 2.0 + 1.0 + 3.0)
    assert figures.pace_overrun == pytest.approx(0.2)
    assert (figures.ended, figures.failed) == (2, 1)


def test_the_jobs_of_the_report() -> None:
    a, b = json.loads(msgspec.json.encode(measure(RECORDS).jobs, enc_hook=str))
    assert {key: a[key] for key in a if key != "resizes"} == {
        "name": "a", "class": "malleable", "state": "COMPLETED", "exit_code": 0, "cpu_s": 0.0, "verified": None,
        "lost_groups": 0, "places": {}, "submit_s": 10.0, "start_s": 10.0, "end_s": 30.0, "result": "42",
        "expected": None, "unchecked": "", "error": "", "notes": [],
    }  # fmt: skip
    assert a["resizes"][0] == {
        "id": 1, "kind": "expand", "from": 2, "to": 4, "nodes": "2-3", "offered_s": 12.0, "done_s": 14.0,
        "blocked_s": 0.5, "phases": {"join": 0.2}, "outcome": "done", "error": "", "phase": None, "late": False,
        "reason": {"code": "idle_nodes", "figures": {"remaining_s": 9.0}}, "slots": {}, "moved_to": "",
    }  # fmt: skip
    assert [(x["outcome"], x["nodes"], x["done_s"]) for x in a["resizes"][1:]] == [
        ("done", "1,3", 17.0),
        ("declined", "", 22.0),
    ]
    assert (b["state"], b["exit_code"], b["error"]) == ("FAILED", 3, "it broke")


def test_a_summary_may_be_asked_at_any_time_and_jobs_need_not_be_kept() -> None:
    metrics = Metrics(keep_jobs=False)
    assert metrics.summary().utilisation == 0.0
    for record in RECORDS:
        metrics.add(record)
        figures = metrics.summary()
        assert 0.0 <= figures.utilisation <= 1.0
        assert figures.jobs == []
    assert figures == msgspec.structs.replace(measure(RECORDS), jobs=[])
    assert measure(RECORDS[:2]).pace_overrun is None


def test_a_resize_that_comes_to_nothing_still_held_its_nodes() -> None:
    ended = r.JobEnded(16.0, 1, JobState.NODE_FAIL, 1, nodes("0-3"))
    figures = measure([*RECORDS[:6], ended])
    assert figures.expands == 0
    assert figures.resizing_node_s == pytest.approx(2 * 4.0)
    [resize] = figures.jobs[0].resizes
    assert (resize.outcome, resize.done_s) == ("ended", 16.0)
    failed = r.ResizeFailed(15.0, 1, 1, "no", nodes("2-3"))
    figures = measure([*RECORDS[:6], failed, r.NodesLost(17.0, nodes("2"))])
    assert figures.resizing_node_s == pytest.approx(2 * 3.0 + 2.0)
    assert isinstance(figures.jobs[0].resizes[0], ResizeOutcome)
    assert figures.jobs[0].resizes[0].outcome == "failed"


def test_resizes_that_come_to_nothing_are_counted_by_why() -> None:
    def counts(*more: r.Record) -> tuple[int, int, int, int]:
        m = measure([*RECORDS[:5], *more])
        return m.expands, m.resizes_withdrawn, m.resizes_declined, m.resizes_failed

    withdrawn = r.ResizeWithdrawn(14.0, 1, 1, "late")
    declined = r.ResizeDeclined(15.0, 1, 1, "late", late=True)
    accepted = RECORDS[6]
    failed = r.ResizeFailed(15.0, 1, 1, "no", nodes("2-3"))
    assert counts() == (0, 0, 0, 0)
    assert counts(r.ResizeDeclined(14.0, 1, 1, "busy")) == (0, 0, 1, 0)
    assert counts(accepted, failed) == (0, 0, 0, 1)
    assert counts(withdrawn, declined) == (0, 1, 0, 0)
    assert counts(accepted, withdrawn, failed) == (0, 1, 0, 0)
    done = r.ResizeDone(16.0, 1, 1, nodes("2-3"), NodeSet(), 0.5, {})
    assert counts(accepted, withdrawn, done) == (1, 0, 0, 0)
    again = r.ResizeOffered(20.0, 1, 2, 2, 4, nodes("2-3"), WHY)
    assert counts(withdrawn, declined, again, r.ResizeDeclined(21.0, 1, 2, "busy")) == (0, 1, 1, 0)


def test_the_chart() -> None:
    chart = gantt(RECORDS)
    assert chart.segments == [
        Segment(1, "a", nodes("0-1"), 10.0, 14.0),
        Segment(1, "a", nodes("0-3"), 14.0, 17.0),
        Segment(2, "b", nodes("1,3"), 20.0, 24.0),
        Segment(1, "a", nodes("0,2"), 17.0, 30.0),
    ]
    assert chart.marks == [Mark(1, 14.0, "expand", nodes("2-3")), Mark(1, 17.0, "shrink", nodes("1,3"))]
    assert chart.curve == [(10.0, 2), (14.0, 4), (17.0, 2), (20.0, 4), (24.0, 2), (30.0, 0)]
    assert chart.running() == []
    assert gantt(RECORDS[:5]).running() == [Segment(1, "a", nodes("0-1"), 10.0, 12.0)]
