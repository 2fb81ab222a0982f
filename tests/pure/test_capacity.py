"""Shares of the node-time there was: nodes are granted, lost and come back while jobs run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from audits import gantt
from commands import command, simulated
from drawing import examples
from hypothesis import given, settings
from test_node_failures import drawn_
from test_simulation import policies_, run

from pliant.core import ledger
from pliant.core import records as r
from pliant.core.settings import Settings
from pliant.history.metrics import Metrics, measure
from pliant.model.jobs import Bounds, JobClass, JobSpec, JobState
from pliant.model.nodes import NodeSet
from pliant.policy.registry import make
from pliant.policy.view import Reason
from pliant.sim.simulator import Conditions, simulate
from pliant.testing.policies.drawn import NODES, elastic_jobs, settings_
from pliant.workloads.failures import DrawnFailures, Failures
from pliant.workloads.job import SimJob, reference_times
from pliant_lab.measure.generated import GeneratedLoad, malleable_batch

WHY = Reason("fits")
JOB = JobSpec(name="a", nodes=Bounds(1, 4), job_class=JobClass.MALLEABLE)


def nodes(text: str) -> NodeSet:
    return NodeSet.parse(text)


RECORDS: list[r.Record] = [
    r.NodesGranted(0.0, nodes("0-3")),
    r.JobSubmitted(10.0, 1, JOB),
    r.JobStarted(10.0, 1, nodes("0-1"), WHY),
    r.NodesLost(15.0, nodes("3,9")),  # nobody has granted node 9
    r.NodesLost(16.0, nodes("3")),
    r.NodesBack(20.0, nodes("3")),
    r.NodesGranted(25.0, nodes("3-5")),
    r.JobEnded(30.0, 1, JobState.COMPLETED, 0, nodes("0-1")),
]


def test_a_node_counts_from_when_it_is_granted_until_it_is_lost() -> None:
    figures = measure(RECORDS)
    there = 4 * 20 - 1 * 5 + 2 * 5
    assert figures.capacity_node_s == there
    assert figures.utilisation == figures.useful_utilisation == 2 * 20 / there
    assert figures.goodput == 20 * JOB.nodes.preferred / there


def test_what_becomes_of_nodes_after_the_last_end_does_not_count() -> None:
    metrics = Metrics()
    for record in (*RECORDS, r.NodesLost(31.0, nodes("0-4")), r.NodesBack(40.0, nodes("1"))):
        metrics.add(record)
    assert metrics.summary() == measure(RECORDS)
    later = [r.JobSubmitted(50.0, 2, JOB), r.JobEnded(60.0, 2, JobState.CANCELLED, 0, NodeSet())]
    for record in later:  # unless another job ends
        metrics.add(record)
    assert metrics.summary().capacity_node_s == 85.0 + 6 * 1 + 1 * 9 + 2 * 20


def test_a_lost_node_is_no_longer_in_use_though_its_job_ends_later() -> None:
    """Live, it takes a moment until the other nodes' processes have ended."""
    lost = [r.NodesLost(15.0, nodes("0")), r.JobEnded(20.0, 1, JobState.NODE_FAIL, 1, nodes("0-1"))]
    figures = measure([*RECORDS[:3], *lost])
    assert figures.capacity_node_s == 4 * 10 - 5
    assert figures.utilisation == (2 * 5 + 1 * 5) / 35
    back = [lost[0], r.NodesBack(18.0, nodes("0")), lost[1]]
    figures = measure([*RECORDS[:3], *back])
    assert figures.utilisation * figures.capacity_node_s == 2 * 5 + 1 * 3 + 2 * 2


def test_a_reserved_node_that_is_lost_is_waited_for_no_longer() -> None:
    records = [
        *RECORDS[:3],
        r.ResizeOffered(11.0, 1, 1, 2, 4, nodes("2-3"), WHY),
        r.NodesLost(13.0, nodes("3")),
        r.ResizeDeclined(17.0, 1, 1, "a node of the expansion is lost"),
        r.JobEnded(20.0, 1, JobState.COMPLETED, 0, nodes("0-1")),
    ]
    assert measure(records).resizing_node_s == 1 * 2 + 1 * 6
    shown = [(each.kind, str(each.nodes), each.from_s, each.to_s) for each in gantt(records).idle_time()]
    assert shown[:3] == [
        ("reserved", "3", 11.0, 13.0), ("reserved", "2", 11.0, 17.0), ("lost", "3", 13.0, 20.0),
    ]  # fmt: skip


def test_a_lost_node_is_not_being_cleaned_when_its_job_ends() -> None:
    records = [
        *RECORDS[:3],
        r.NodesLost(15.0, nodes("0")),
        r.JobEnded(20.0, 1, JobState.NODE_FAIL, 1, nodes("0-1")),
        r.NodesClean(21.0, 1, nodes("1")),
        r.NodesBack(24.0, nodes("0")),
        r.NodesLost(26.0, nodes("0")),
        r.NodesBack(30.0, nodes("0")),
    ]
    shown = [(each.kind, str(each.nodes), each.from_s, each.to_s) for each in gantt(records).idle_time()]
    assert shown == [("cleaning", "1", 20.0, 21.0), ("lost", "0", 15.0, 24.0), ("lost", "0", 26.0, 30.0)]


def test_the_command_divides_by_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "x.swf").write_text("; MaxProcs: 2\n1 0 0 10 2\n")
    (tmp_path / "f.csv").write_text("1,4,6\n")
    figures = simulated(str(tmp_path / "x.swf"), "--failures", str(tmp_path / "f.csv"))
    assert figures["capacity_node_s"] == 2 * 16 - 1 * 2
    assert figures["utilisation"] == (2 * 4 + 2 * 10) / 30
    assert figures["lost_node_s"] == 8.0


@pytest.mark.long
def test_a_requeued_job_is_one_job_of_the_report(tmp_path: Path) -> None:
    (tmp_path / "x.swf").write_text("; MaxProcs: 2\n1 0 0 10 2\n2 0 0 3 1\n")
    (tmp_path / "f.csv").write_text("1,4,6\n")
    page = tmp_path / "r.html"
    command("simulate", str(tmp_path / "x.swf"), "--failures", str(tmp_path / "f.csv"), "--report", str(page))
    [run] = json.loads(page.with_suffix(".json").read_text())["runs"]
    assert [(job["name"], job["start_s"], job["end_s"]) for job in run["jobs"]] == [
        ("1", 7.0, 17.0), ("2", 4.0, 7.0),
    ]  # fmt: skip
    assert page.read_text().count("<tr data-job") == 2


KNOWN = {
    "easy": (786.063193150715, 0.5257875834989223, 0.5257875834989223, 0.0),
    "malleable": (690.6839095890589, 0.6165997335482046, 0.616142306502904, 309.7),
    "marginal": (690.0801595890589, 0.6214964892952943, 0.6211813085195863, 139.76),
    "dmr-wide": (804.958992198001, 0.5597732313066645, 0.5594413044599683, 98.56),
}
"""Makespan, utilisation, useful utilisation and node-seconds in resizes, when they were shares of nodes times
makespan."""


@pytest.mark.parametrize("policy", KNOWN)
def test_where_nothing_is_lost_nothing_changes(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        ledger, "AT_ONCE_S", -1.0
    )  # passes are made amid nodes on their way, as they were then
    jobs = malleable_batch(42, 60, 32, load=GeneratedLoad(8.0))
    metrics = Metrics(reference=reference_times(jobs))
    simulate(jobs, 32, make(policy), Conditions(Settings()), metrics.add)
    it = metrics.summary()
    found = (it.makespan_s, it.utilisation, it.useful_utilisation, it.resizing_node_s)
    assert found == pytest.approx(KNOWN[policy], rel=1e-12)  # logarithms are not the same everywhere


@settings(max_examples=examples(50))
@given(elastic_jobs, policies_, settings_)
def test_without_losses_it_is_nodes_times_makespan_to_the_last_digit(
    jobs: list[SimJob], policy: tuple[str, str | None], options: Settings
) -> None:
    figures = measure(run(jobs, NODES, make(*policy), options))
    assert figures.capacity_node_s == NODES * figures.makespan_s


@settings(max_examples=examples(50), deadline=None)
@given(elastic_jobs, policies_, settings_, drawn_)
def test_with_losses_it_is_the_sum_over_the_nodes(
    jobs: list[SimJob], policy: tuple[str, str | None], options: Settings, drawn: DrawnFailures
) -> None:
    records: list[r.Record] = []
    simulate(jobs, NODES, make(*policy), Conditions(options, failures=Failures(drawn)), records.append)
    first = next(record.at for record in records if isinstance(record, r.JobSubmitted))
    last = max(record.at for record in records if isinstance(record, r.JobEnded))
    there = 0.0
    since: dict[int, float] = {}
    for record in records:
        if isinstance(record, r.NodesGranted | r.NodesBack):
            since |= dict.fromkeys(record.nodes, record.at)
        elif isinstance(record, r.NodesLost):
            for node in record.nodes:
                there += max(0.0, min(last, record.at) - max(first, since.pop(node)))
    there += sum(max(0.0, last - max(first, at)) for at in since.values())
    figures = measure(records)
    assert figures.capacity_node_s == pytest.approx(there, rel=1e-9, abs=1e-6)
    assert figures.useful_utilisation is not None
    assert 0.0 <= figures.useful_utilisation <= figures.utilisation <= 1.0 + 1e-9
