"""Nodes that fail and return in a simulation: by hand, and as properties of all policies."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from audits import audit
from commands import command, simulated
from drawing import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from test_simulation import policies_
from workloads import rigid

from pliant.core import records as r
from pliant.core.core import replay
from pliant.core.settings import NEVER, Settings
from pliant.core.state import State
from pliant.history.metrics import measure
from pliant.model.errors import BatchError
from pliant.model.jobs import Bounds, JobClass, JobSpec, JobState
from pliant.model.kinds import JobKind
from pliant.model.limits import REQUEUES
from pliant.model.speedup import Amdahl
from pliant.plan.cost import INSTANT, ResizeCost
from pliant.policy.registry import make
from pliant.sim.instant import Instant
from pliant.sim.simulator import Conditions, SimEnd, Simulator, simulate
from pliant.testing.policies.drawn import NODES, elastic_jobs, settings_
from pliant.workloads.failures import Down, DrawnFailures, Failures, read_failures
from pliant.workloads.job import SimJob


def run(
    jobs: list[SimJob], nodes: int, failures: Failures, policy: str = "easy", cost: ResizeCost = INSTANT
) -> tuple[SimEnd, list[r.Record]]:
    records: list[r.Record] = []
    return simulate(
        jobs, nodes, make(policy), Conditions(Settings(cost=cost), failures=failures), records.append
    ), records


def test_a_job_starts_anew_when_its_node_is_back() -> None:
    end, records = run([rigid("a", 2, 10.0)], 2, Failures(listed=(Down(1, 4.0, 6.0),)))
    assert end[:2] == (16.0, 1)
    assert end[3:6] == (1, 1, 2 * 4.0)
    told = [(record.at, type(record).__name__) for record in records]
    assert told[4:] == [
        (4.0, "NodesLost"), (4.0, "JobEnding"), (4.0, "JobEnded"), (4.0, "NodesClean"), (4.0, "JobSubmitted"),
        (6.0, "NodesBack"), (6.0, "JobStarted"), (6.0, "JobRunning"), (16.0, "JobEnded"), (16.0, "NodesClean"),
    ]  # fmt: skip
    states = [record.state for record in records if isinstance(record, r.JobEnded)]
    assert states == [JobState.NODE_FAIL, JobState.COMPLETED]
    again = [record for record in records if isinstance(record, r.JobSubmitted)]
    assert [(each.job, each.spec.name, each.requeue_of) for each in again] == [(1, "a", 0), (2, "a", 1)]
    figures = measure(records)
    assert (figures.ended, figures.failed, [job.end_s for job in figures.jobs]) == (1, 0, [16.0])
    assert (figures.turnaround_mean_s, figures.wait_mean_s, figures.bounded_slowdown_mean) == (16.0, 6.0, 1.6)


def test_a_job_that_is_not_requeued_has_failed() -> None:
    failures = Failures(listed=(Down(0, 4.0, NEVER),), requeue=False)
    end, records = run([rigid("a", 2, 10.0), rigid("b", 1, 3.0, at=5.0)], 2, failures)
    assert end == SimEnd(8.0, 2, end.calls, 1, 0, 8.0)
    assert [job.state for job in measure(records).jobs] == [JobState.NODE_FAIL, JobState.COMPLETED]


def test_only_nodes_that_a_job_has_left_are_told_clean_of_it() -> None:
    """A growth from one node to three fails with node 2, which is back at 15. Job 2 has it from 16 on, and the job that
    grew leaves its nodes at 14: it is said to be clean of nodes 1 and 2 at 34."""
    grow = JobSpec(name="grow", nodes=Bounds(1, 3), job_class=JobClass.MALLEABLE, model=Amdahl(1000.0))
    pair = JobSpec(name="pair", nodes=Bounds.exactly(2), submit_s=16.0, model=Amdahl(200.0))
    cost = ResizeCost(start_s=10.0, leave_s=20.0)
    failures = Failures(listed=(Down(2, 14.0, 15.0),))
    records: list[r.Record] = []
    conditions = Conditions(Settings(cost=cost), starting=True, failures=failures)
    simulate([SimJob(grow), SimJob(pair)], 4, make("malleable"), conditions, records.append)
    checked = audit(())
    for record in records:
        if isinstance(record, r.NodesClean):
            assert {checked.use[node] for node in record.nodes} == {("dirty", record.job)}
        checked.add(record)


def test_failures_after_the_last_end_do_not_matter() -> None:
    alone, _ = run([rigid("a", 2, 10.0)], 2, Failures())
    failures = Failures(listed=(Down(0, 10.0, 11.0), Down(1, 30.0, 40.0)))
    assert run([rigid("a", 2, 10.0)], 2, failures)[0][:2] == alone[:2] == (10.0, 1)


def test_a_node_that_fails_in_an_expansion_costs_the_expansion_alone() -> None:
    """One node grows to three at 0, done at 2; node 2 fails at 1, and again after the job has got it."""
    spec = JobSpec(name="a", nodes=Bounds(1, 3), job_class=JobClass.MALLEABLE, walltime_s=60.0)
    cost = ResizeCost(start_s=2.0, start_each_s=0.0, blocked_s=0.0, leave_s=0.0, answer_s=0.0)
    end, records = run([SimJob(spec, 60.0)], 3, Failures(listed=(Down(2, 1.0, NEVER),)), "malleable", cost)
    assert end[3:6] == (1, 0, 0.0)
    [failed] = [record for record in records if isinstance(record, r.ResizeFailed)]
    assert failed.at == 1.0
    grown = [record for record in records if isinstance(record, r.ResizeDone)]
    assert [len(record.gained) for record in grown] == [1]
    end, _ = run([SimJob(spec, 60.0)], 3, Failures(listed=(Down(2, 10.0, NEVER),)), "malleable", cost)
    assert end[3:6] == (1, 1, 1 * 2.0 + 3 * 8.0)  # held 1 node for 2 s, then 3


def test_tasks_go_on_without_a_node_that_fails_and_have_failed_at_their_end() -> None:
    jobs = [kind_of("tasks", JobKind.TASKS), kind_of("places", JobKind.PLACES)]
    end, records = run(jobs, 6, Failures(listed=(Down(1, 4.0, 5.0), Down(4, 5.0, NEVER))), "fcfs")
    tasks, places = measure(records).jobs
    assert (tasks.state, tasks.exit_code, tasks.end_s) == (JobState.NODE_FAIL, 1, 10.0)
    assert (tasks.error, tasks.lost_groups) == ("lost group 1 on n1: lost node n1", 1)
    # What was left on the third node others do: half of the work on two thirds of the nodes.
    assert (places.state, places.end_s, places.lost_groups) == (JobState.COMPLETED, 5.0 + 5.0 * 3 / 2, 1)
    assert (end.requeued, measure(records).capacity_node_s) == (0, 6 * 12.5 - 1.0 - 7.5)
    assert measure(records).utilisation * (6 * 12.5 - 8.5) == pytest.approx(2 * 10.0 + 4.0 + 2 * 12.5 + 5.0)


def kind_of(name: str, kind: JobKind) -> SimJob:
    spec = JobSpec(name=name, nodes=Bounds.exactly(3), walltime_s=60.0, kind=kind)
    return SimJob(spec, 10.0)


@pytest.mark.parametrize("kind", [JobKind.TASKS, JobKind.PLACES])
def test_a_job_without_an_estimate_goes_on_without_a_node_too(kind: JobKind) -> None:
    spec = JobSpec(name="a", nodes=Bounds.exactly(4), walltime_s=0.0, kind=kind)
    down = Failures(listed=(Down(2, 3.0, 5.0),))
    records: list[r.Record] = []
    simulate([SimJob(spec, 10.0)], 4, make("easy"), Conditions(failures=down), records.append)
    assert any(isinstance(each, r.GroupsLost) for each in records)
    assert isinstance(records[-1], r.JobEnded | r.NodesClean)


def test_a_job_that_can_never_start_is_named() -> None:
    jobs = [rigid("wide", 3, 5.0, at=2.0), rigid("small", 1, 50.0)]
    with pytest.raises(
        BatchError, match=r"job 'wide' waits for 3 nodes and cannot start at 51.* 2 have failed"
    ):
        run(jobs, 4, Failures(listed=(Down(0, 1.0, NEVER), Down(3, 1.5, NEVER))))
    with pytest.raises(BatchError, match=r"'wide' .* never more than \d are there at once"):
        run(jobs, 4, Failures(drawn=DrawnFailures(10.0, 50_000.0)), "firstfit")


def test_a_job_that_is_never_done_is_given_up() -> None:
    end, records = run([rigid("a", 1, 1e6)], 1, Failures(drawn=DrawnFailures(50.0, 1.0, fixed=True)))
    assert (end.requeued, end.node_failures) == (REQUEUES, REQUEUES + 1)
    assert measure(records).failed == 1


def test_drawn_failures_have_the_means_that_were_asked_for() -> None:
    outages = list(islice(Failures(drawn=DrawnFailures(100.0, 20.0)).outages(10), 20_000))
    assert outages == sorted(outages)
    assert len({outage.at for outage in outages}) == len(outages)
    at: dict[int, float] = {}
    up: list[float] = []
    down: list[float] = []
    for outage in outages:
        (up if outage.fails else down).append(outage.at - at.get(outage.node, 0.0))
        at[outage.node] = outage.at
    assert fmean(up) == pytest.approx(100.0, rel=0.05)  # five standard errors of 10,000 draws
    assert fmean(down) == pytest.approx(20.0, rel=0.05)
    few = [outage for outage in outages if outage.node < 3]
    assert list(islice(Failures(drawn=DrawnFailures(100.0, 20.0)).outages(3), 100)) == few[:100]
    fails, returns = islice(Failures(drawn=DrawnFailures(100.0, 7.0, fixed=True)).outages(1), 2)
    assert (fails.fails, returns.fails) == (True, False)
    assert returns.at == pytest.approx(fails.at + 7.0)


def test_failures_as_users_write_them(tmp_path: Path) -> None:
    assert read_failures("mtbf=1000h,repair=30min") == Failures(DrawnFailures(3.6e6, 1800.0))
    assert read_failures("mtbf=7d, repair=fixed:90s, seed=4") == Failures(
        DrawnFailures(604800.0, 90.0, True, 4)
    )
    path = tmp_path / "f.csv"
    path.write_text("node,fail_s,return_s\n# a comment\n\n3, 10, 20.5\n0,5\n3,30,\n")
    listed = (Down(0, 5.0, NEVER), Down(3, 10.0, 20.5), Down(3, 30.0, NEVER))
    assert read_failures(str(path), requeue=False) == Failures(None, listed, requeue=False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mtbf=5h", "repair is missing; write mtbf=1000h"),
        ("mtbf=5h,repairs=3h", "there is no 'repairs'; did you mean 'repair'"),
        ("mtbf=5,repair=3h", "mtbf: '5' is no time above 0 with a unit"),
        ("mtbf=0h,repair=3h", "mtbf: '0h' is no time above 0"),
        ("mtbf=5h,repair=1w", "repair: '1w' is no time"),
        ("mtbf=5h,repair=1h,seed=x", "seed: 'x' is no whole number"),
        ("none.csv", r"none\.csv: cannot be read: No such file or directory; give mtbf="),
    ],
)
def test_failures_that_are_none(text: str, message: str) -> None:
    with pytest.raises(BatchError, match=f"failures: .*{message}"):
        read_failures(text)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("", "there is no failure in it"),
        ("1", ":1: 1 fields"),
        ("n1,5,6", ":1: node: 'n1' is no number of a node"),
        ("1,x,6", ":1: fail_s: 'x' is no number of seconds"),
        ("1,,6", ":1: fail_s: '' is no number"),
        ("1,-1,6", ":1: fail_s: '-1'"),
        ("1,5,inf", ":1: return_s: 'inf'"),
        ("1,5,nan", ":1: return_s: 'nan'"),
        ("1,5,5", ":1: return_s: the node returns at 5 s, but fails at 5 s"),
        ("1,5,9\n1,2,6", ":1: node 1 fails at 5 s, but it is away from 2 s on, until 6 s"),
    ],
)
def test_lists_of_failures_that_are_none(tmp_path: Path, lines: str, message: str) -> None:
    path = tmp_path / "f.csv"
    path.write_text(lines)
    with pytest.raises(BatchError, match=rf"failures: .*f\.csv{'' if message[0] == ':' else ': '}{message}"):
        read_failures(str(path))


def test_the_command_shows_failures(tmp_path: Path) -> None:
    (tmp_path / "x.swf").write_text("; MaxProcs: 2\n1 0 0 10 2\n")
    (tmp_path / "f.csv").write_text("1,4,6\n")
    trace, listed = str(tmp_path / "x.swf"), str(tmp_path / "f.csv")
    figures = simulated(trace, "--failures", listed)
    names = ("jobs", "failed", "node_failures", "requeued", "lost_node_s", "makespan_s")
    assert [figures[name] for name in names] == [1, 0, 1, 1, 8.0, 16.0]
    figures = simulated(trace, "--failures", listed, "--no-requeue")
    assert [figures[name] for name in names] == [1, 1, 1, 0, 8.0, 4.0]
    assert "node failures" in command("simulate", trace, "--failures", listed)
    assert "node failures" not in command("simulate", trace)
    (tmp_path / "y.swf").write_text("; MaxProcs: 1\n1 0 0 10 1\n")
    with pytest.raises(BatchError, match=r"failures: node 1: there are nodes 0 \.\. 0"):
        command("simulate", str(tmp_path / "y.swf"), "--failures", listed)
    with pytest.raises(BatchError, match="--no-requeue changes nothing without --failures"):
        command("simulate", trace, "--no-requeue")
    drawn = "mtbf=1h,repair=1min"
    runs = ("lublin:30", "--nodes", "8", "--workers", "1", "--json", "--failures", drawn, "--seeds", "2")
    [row] = json.loads(command("simulate", *runs))["rows"]
    assert row["runs"] == 2
    assert row["node_failures"]["half"] > 0
    assert 0 <= row["failed"]["mean"] <= 1  # a long job may be given up


drawn_ = st.builds(
    DrawnFailures,
    mtbf_s=st.sampled_from([3000.0, 30_000.0]),
    repair_s=st.sampled_from([1.0, 100.0]),
    fixed=st.booleans(),
    seed=st.integers(0, 9),
)


@settings(max_examples=examples(80), deadline=None)
@given(
    elastic_jobs,
    policies_,
    settings_,
    drawn_,
    st.booleans(),
    st.booleans(),
    st.sampled_from(Instant),
)
def test_whatever_fails_the_records_hold_together_and_every_job_ends(
    jobs: list[SimJob],
    policy: tuple[str, str | None],
    options: Settings,
    drawn: DrawnFailures,
    requeue: bool,  # noqa: FBT001 - Hypothesis passes it
    starting: bool,  # noqa: FBT001
    instant: Instant,
) -> None:
    records: list[r.Record] = []
    failures = Failures(drawn, requeue=requeue)
    simulator = Simulator(
        jobs,
        NODES,
        make(*policy),
        Conditions(options, starting=starting, instant=instant, failures=failures),
        records.append,
    )
    seen = watch_losses(simulator.core.state)
    end = simulator.run()
    checked = audit(records)
    assert not checked.jobs
    assert len(checked.ended) == len(jobs) + end.requeued
    assert len(checked.nodes("free")) + len(checked.nodes("lost")) == NODES
    ends = [record for record in records if isinstance(record, r.JobEnded)]
    assert sum(record.requeued for record in ends) == end.requeued
    assert requeue or not end.requeued
    specs = {record.job: record.spec for record in records if isinstance(record, r.JobSubmitted)}
    lost = {record.job for record in records if isinstance(record, r.GroupsLost)}
    assert not {number for number in lost if specs[number].kind is JobKind.MPI}
    for record in ends:
        if record.job in lost and specs[record.job].kind is JobKind.TASKS:
            assert record.state in (JobState.NODE_FAIL, JobState.TIMEOUT)
        elif record.state is JobState.NODE_FAIL:
            assert record.requeued or not requeue
    first = min(job.spec.submit_s for job in jobs)  # before that nobody could have been hurt
    losses = [record for record in records if isinstance(record, r.NodesLost) and record.at >= first]
    assert end.node_failures == sum(len(record.nodes) for record in losses)
    assert {record.state for record in ends} <= {JobState.COMPLETED, JobState.TIMEOUT, JobState.NODE_FAIL}
    figures = measure(records)
    assert 0.0 <= figures.utilisation <= 1.0 + 1e-9
    assert 0.0 <= end.lost_node_s <= figures.utilisation * figures.capacity_node_s * (1 + 1e-9)
    assert replay(records, options).snapshot() == simulator.core.state.snapshot()
    for count, snapshot in seen[-20:]:
        assert replay(records[:count], options).snapshot() == snapshot


def watch_losses(state: State) -> list[tuple[int, dict[str, Any]]]:
    """The state after each loss of groups and after the record that follows, each with how many records led to it."""
    seen: list[tuple[int, dict[str, Any]]] = []
    live, counted, again = state.apply, 0, False

    def watched(record: r.Record) -> None:
        nonlocal counted, again
        live(record)
        counted += 1
        is_loss = isinstance(record, r.GroupsLost)
        if is_loss or again:
            seen.append((counted, state.snapshot()))
        again = is_loss

    state.apply = watched  # type: ignore[method-assign]
    return seen
