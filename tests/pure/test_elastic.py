"""Nodes that come by request and go when nobody needs them: by hand, by properties, and beside a fixed machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from audits import audit
from commands import command
from hypothesis import given
from hypothesis import strategies as st
from test_simulation import policies_
from workloads import rigid, starts_of, upper_bound_jobs

import pliant
from pliant.core import records as r
from pliant.core.core import replay
from pliant.core.settings import NEVER, Settings, end_of
from pliant.core.unused import FewestFree
from pliant.history.metrics import measure
from pliant.model.errors import BatchError, PolicyError
from pliant.model.jobs import JobState
from pliant.model.need import Pool
from pliant.model.nodes import NodeSet
from pliant.plan.cost import INSTANT
from pliant.policy.elastic import UNUSED, Elastic
from pliant.policy.registry import make
from pliant.policy.view import (
    Acquire,
    ClusterView,
    Decision,
    Policy,
    Reason,
    Return,
    Start,
    Wake,
    Withdraw,
)
from pliant.sim.simulator import Conditions, simulate
from pliant.testing.policies.drawn import NODES, elastic_jobs, settings_
from pliant.workloads.job import SimJob
from pliant.workloads.machine import read_pool


def run(
    jobs: list[SimJob], pool: Pool, policy: Policy | None = None, settings: Settings | None = None
) -> list[r.Record]:
    """The records of a simulation on this pool."""
    given = Settings(pool=pool, cost=INSTANT) if settings is None else settings
    records: list[r.Record] = []
    simulate(jobs, pool.max, policy or Elastic(make("easy")), Conditions(given), records.append)
    return records


def node_hours(records: list[r.Record]) -> float:
    return measure(records).capacity_node_s / 3600.0


WAITS = ("wait_mean_s", "wait_p99_s", "turnaround_mean_s", "makespan_s")

# ---- by hand ----


def test_nodes_come_for_a_job_and_go_when_it_has_ended() -> None:
    """Job a asks for 2 nodes at 0 s, which come at 10 s, and it ends at 110 s. Nobody needs them for 30 s. Job b asks
    for 3 at 500 s and starts at 510 s."""
    records = run([rigid("a", 2, 100.0), rigid("b", 3, 100.0, at=500.0)], Pool(0, 4, 10.0, 30.0))
    told = [
        (type(each).__name__, each.at)
        for each in records
        if isinstance(each, r.JobStarted | r.NodesOrdered | r.NodesReturned | r.JobEnded)
    ]
    assert told == [
        ("NodesOrdered", 0.0), ("JobStarted", 10.0), ("JobEnded", 110.0), ("NodesReturned", 140.0),
        ("NodesOrdered", 500.0), ("JobStarted", 510.0), ("JobEnded", 610.0),
    ]  # fmt: skip
    assert node_hours(records) == pytest.approx((2 * 130 + 3 * 100) / 3600)
    reasons = [each.reason for each in records if isinstance(each, r.NodesOrdered)]
    assert reasons == [Reason("job_could_start", 1), Reason("job_could_start", 2)]


def test_no_node_is_asked_for_that_no_job_could_start_on() -> None:
    """Job b needs 4 of 4 nodes and a has 2 until 100 s: two more would be idle until then."""
    records = run([rigid("a", 2, 100.0), rigid("b", 4, 50.0, at=20.0)], Pool(0, 4, 10.0, 30.0))
    asked = [(each.at, each.count) for each in records if isinstance(each, r.NodesOrdered)]
    assert asked == [(0.0, 2), (110.0, 2)]
    assert starts_of(records) == {"a": 10.0, "b": 120.0}


def test_the_least_size_stays() -> None:
    records = run([rigid("a", 2, 100.0), rigid("b", 1, 10.0, at=9000.0)], Pool(1, 4, 10.0, 30.0))
    [gone] = [each for each in records if isinstance(each, r.NodesReturned)]
    assert (gone.at, len(gone.nodes)) == (140.0, 1)
    assert starts_of(records)["b"] == 9000.0


def test_a_policy_of_ones_own_may_ask_by_itself() -> None:
    class Own:
        name = "own"
        provisions = True

        def decide(self, view: ClusterView) -> Iterator[Decision]:
            assert view.pool is not None
            for job in view.queue:
                if job.bounds.min <= view.free:
                    yield Start(job.id, job.bounds.min, Reason("fits"))
                    return
                if view.total + view.pool.awaited < view.pool.max:
                    yield Acquire(view.pool.max - view.total - view.pool.awaited, Reason("all"))

    result = pliant.simulate([{"submit_s": 0, "run_s": 60, "nodes": 2}], Own, elastic="max=5,delay=20s")
    assert result.policy == "own"
    assert result.metrics["node_hours"] == pytest.approx(5 * 60 / 3600)


@pytest.mark.parametrize(
    ("decision", "pool", "told"),
    [
        (Acquire(1, Reason("x")), None, "no nodes come and go here"),
        (Return(1, Reason("x")), None, "no nodes come and go here"),
        (Acquire(0, Reason("x")), Pool(0, 4), "the count is 1 or more"),
        (Acquire(5, Reason("x")), Pool(0, 4), "the most is 4"),
        (Return(1, Reason("x")), Pool(2, 4), "the least is 2"),
        (Return(3, Reason("x")), Pool(0, 4), "0 of 0 nodes are free"),
    ],
)
def test_a_policy_that_asks_for_what_cannot_be_is_told_so(
    decision: Decision, pool: Pool | None, told: str
) -> None:
    class Wrong:
        name = "wrong"

        def decide(self, _view: ClusterView) -> list[Decision]:
            return [decision]

    with pytest.raises(PolicyError, match=told):
        simulate([rigid("a", 1, 10.0)], 4, Wrong(), Conditions(Settings(pool=pool, cost=INSTANT)))


def test_a_policy_that_asks_for_no_nodes_is_stuck_and_no_node_has_failed() -> None:
    class Idle:
        name = "idle"

        def decide(self, _view: ClusterView) -> list[Decision]:
            return []

    with pytest.raises(PolicyError, match=r"policy 'idle' is stuck at 0.000 s: 1 job waits"):
        run([rigid("a", 2, 10.0)], Pool(0, 4), Idle())


def test_the_policy_around_others_needs_limits() -> None:
    with pytest.raises(PolicyError, match="say between which limits"):
        simulate([rigid("a", 1, 10.0)], 4, Elastic(make("easy")), Conditions(Settings(cost=INSTANT)))


# ---- what always holds ----


@given(st.data())
def test_limits_are_kept_and_only_unused_nodes_go(data: st.DataObject) -> None:
    """Under any policy, with any costs: every job ends, no fewer nodes than the least and no more than the most are
    there or awaited, what goes was free for so long, node numbers are used again, and the records give the state."""
    jobs = data.draw(elastic_jobs)
    least = data.draw(st.integers(0, 3))
    pool = Pool(
        least,
        NODES,
        data.draw(st.sampled_from([0.001, 7.0, 60.0])),
        data.draw(st.sampled_from([0.0, 5.0, 40.0])),
        lease_s=data.draw(st.sampled_from([float("inf"), 90.0, 400.0, 4000.0])),
    )
    settings = msgspec.structs.replace(data.draw(settings_), pool=pool)
    policy = make(*data.draw(policies_))
    records = run(jobs, pool, Elastic(policy), settings)
    audit(records)
    assert sum(isinstance(each, r.JobEnded) for each in records) == len(jobs)
    until: dict[int, float] = {}
    state = replay([], settings)
    free: list[tuple[float, int]] = []
    for record in records:
        before = state.free
        if isinstance(record, r.NodesReclaimed) and record.reason == UNUSED:
            ends = [at for at, _ in free[1:]] + [record.at + 1.0]
            held = [
                count for (_, count), end in zip(free, ends, strict=True) if end + pool.idle_s > record.at
            ]
            assert len(record.nodes) <= min([before, *held])
        state.apply(record)
        free.append((record.at, state.free))
        if isinstance(record, r.NodesGranted) and record.until is not None:
            until |= dict.fromkeys(record.nodes, record.until)
        elif isinstance(record, r.NodesReturned):
            assert all(record.at <= until.pop(node, record.at) for node in record.nodes)
        elif isinstance(record, r.JobEnding) and record.state is JobState.TIMEOUT:
            nodes = NodeSet(state.jobs[record.job].nodes)
            over = [node for node in nodes if end_of(until.get(node, NEVER), settings) <= record.at]
            assert over or state.jobs[record.job].spec.kill
        if isinstance(record, r.NodesOrdered):
            assert record.reason is not None
            assert record.reason.for_job in state.jobs
        if not isinstance(record, r.NodesGranted) or state.total > 0:
            assert state.total + state.nodes.awaited <= pool.max
            assert state.total >= least
        assert state.nodes.all_mask < 1 << NODES


@given(upper_bound_jobs(moldable=False), st.sampled_from(["fcfs", "firstfit", "easy", "conservative"]))
def test_without_delays_jobs_start_when_they_do_on_a_fixed_machine(jobs: list[SimJob], name: str) -> None:
    fixed: list[r.Record] = []
    simulate(jobs, NODES, make(name), Conditions(Settings(cost=INSTANT)), fixed.append)
    assert starts_of(run(jobs, Pool(0, NODES, 0.0, 0.0), Elastic(make(name)))) == starts_of(fixed)


@given(
    st.lists(st.tuples(st.floats(0, 20), st.integers(0, 6)), min_size=1, max_size=30),
    st.floats(0, 15),
    st.floats(0, 15),
)
def test_the_fewest_free_nodes_are_those_of_every_moment(
    steps: list[tuple[float, int]], span_s: float, later: float
) -> None:
    fewest, now = FewestFree(span_s), 0.0
    changes: list[tuple[float, int]] = []
    for gap, free in steps:
        now += gap
        fewest.note(now, free)
        changes.append((now, free))
    now += later
    held = [
        free
        for i, (_, free) in enumerate(changes)
        if i + 1 == len(changes) or changes[i + 1][0] + span_s > now
    ]
    # Of what held when the span began only the last change counts, and all that came after it.
    expected = min(held) if changes[0][0] + span_s <= now else 0
    assert fewest.of(now) == expected
    if (at := fewest.more_at(now)) < float("inf"):
        assert at > now
        assert fewest.of(at) > expected


# ---- the command ----


def test_the_command_says_node_hours_beside_the_waits() -> None:
    table = command(
        "simulate", "lublin:200", "--elastic", "max=64,min=4,delay=90s,idle=5min", "--policy", "easy"
    )
    assert "easy elastic on 64 nodes" in table
    assert "node-hours held" in table
    options = ("simulate", "lublin:200", "--policy", "easy", "--malleable", "0", "--json")
    [elastic] = json.loads(command(*options, "--elastic", "max=64,delay=90s"))["rows"]
    [fixed] = json.loads(command(*options, "--elastic", "min=64,max=64"))["rows"]
    [plain] = json.loads(command(*options, "--nodes", "64"))["rows"]
    assert plain["node_hours"]["mean"] is None
    assert {key: plain[key] for key in WAITS} == {key: fixed[key] for key in WAITS}
    assert elastic["node_hours"]["mean"] < fixed["node_hours"]["mean"]
    assert elastic["node_hours_price"]["mean"] is None


def test_the_price_of_the_node_hours_is_told_where_one_was_given() -> None:
    options = ("simulate", "lublin:100", "--seeds", "2")
    priced = (*options, "--policy", "easy,fcfs", "--elastic", "max=64,price=0.25")
    for row in json.loads(command(*priced, "--json"))["rows"]:
        assert row["node_hours_price"]["mean"] == pytest.approx(0.25 * row["node_hours"]["mean"])
    assert "price" in command(*priced)
    assert "price" not in command(*options, "--policy", "easy,fcfs", "--elastic", "max=64")
    one = ("simulate", "lublin:100", "--policy", "easy")
    [row] = [
        each for each in command(*one, "--elastic", "max=64,price=0").splitlines() if "their price" in each
    ]
    assert "0.00" in row.split()
    assert "their price" not in command(*one, "--elastic", "max=64")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("min=4", "max is missing"),
        ("max=4,mni=2", "there is no 'mni'"),
        ("max=4,min=5", "min 5 is more than max 4"),
        ("max=0", "max: '0' is no number of nodes"),
        ("max=4,delay=5", "delay: '5' is no time"),
        ("max=4,delay=0s", "delay: '0s' is no time above 0"),
        ("max=4,idle=-1s", "idle: '-1s' is no time"),
        (
            "max=4,delay=90s,lease=2min",
            "lease 2min: nodes last at least 60 s longer than others take to come",
        ),
        ("max=4,price=-1", "price: '-1' is no price of a node-hour"),
    ],
)
def test_limits_that_cannot_be_are_refused(text: str, told: str) -> None:
    with pytest.raises(BatchError, match=told):
        read_pool(text)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"nodes": 9}, "--nodes 9: --elastic says that there are at most 4; leave out --nodes"),
        (
            {"failures": "mtbf=9h,repair=1h"},
            "--elastic and --failures: .* failures are drawn for fixed nodes",
        ),
        ({"energy": "idle=1,busy=2"}, "--elastic and --energy: .* nobody says what a node draws"),
        ({"partitions": "parts.toml"}, "--elastic and --partitions: .* the limits are of one machine"),
        (
            {"partitions": [{"name": "a", "nodes": 2}]},
            "--elastic and --partitions: .*; leave out one of them",
        ),
        ({"reservations": "booked.toml"}, "--elastic and --reservations: .* no policy asks for some to keep"),
    ],
)
def test_options_that_do_not_go_together_are_refused(more: dict[str, Any], told: str) -> None:
    """Before any file is read, in the command and from a program."""
    with pytest.raises(BatchError, match=told):
        pliant.simulate("lublin:20", elastic="max=4", **more)
    words = [f"--{key}={value}" for key, value in more.items()]
    with pytest.raises(BatchError, match=told):
        command("simulate", "lublin:20", "--elastic", "max=4", *words)


@pytest.mark.parametrize(
    "way", [{"instant": "pyss"}, {"window": "60"}, {"checkpoint": "interval=1h,cost=1min"}]
)
def test_other_options_go_together_with_nodes_that_come(way: dict[str, Any]) -> None:
    result = pliant.simulate("lublin:100", "easy", elastic="max=64,delay=30s", **way)
    assert (result.metrics["node_hours"] or 0.0) > 0.0


def test_a_policy_in_a_process_of_its_own_is_refused() -> None:
    told = "--elastic and policy 'exec:cat': .* takes it for done; choose a policy in Python"
    with pytest.raises(BatchError, match=told):
        command("simulate", "lublin:20", "--elastic", "max=4", "--policy", "easy,exec:cat")
    with pytest.raises(BatchError, match=told):
        pliant.simulate("lublin:20", "exec:cat", elastic="max=4")


# ---- nodes that expire ----


def test_a_leased_node_is_given_back_before_its_end_and_another_comes_for_who_waits() -> None:
    pool = Pool(0, 2, 10.0, 300.0, lease_s=1000.0)
    jobs = [rigid("a", 1, 600.0), rigid("b", 1, 600.0, at=50.0), rigid("c", 2, 900.0, at=100.0)]
    records = run(jobs, pool)
    assert starts_of(records) == {"a": 10.0, "b": 60.0, "c": 670.0}
    ends = [(each.at, each.until) for each in records if isinstance(each, r.NodesGranted) and each.nodes]
    assert ends == [(10.0, 1010.0), (60.0, 1060.0), (670.0, 1670.0)]


def test_a_job_that_no_lease_is_long_enough_for_is_cancelled_at_once_and_runs_on_nodes_that_stay() -> None:
    jobs = [rigid("a", 2, 5000.0), rigid("b", 1, 5000.0)]
    records = run(jobs, Pool(1, 4, 10.0, 300.0, lease_s=1000.0))
    [vain] = [each for each in records if isinstance(each, r.JobEnded) and each.state is JobState.CANCELLED]
    assert (vain.job, vain.at) == (1, 0.0)
    assert "it needs 5000 s by its estimate, and jobs can run on these nodes for 974 s" in vain.error
    assert starts_of(records) == {"b": 0.0}


def test_what_nobody_waits_for_any_more_does_not_come() -> None:
    class Cancelling:
        """Asks for nodes, and withdraws half of them when it is asked again."""

        name = "cancelling"
        provisions = True

        def decide(self, view: ClusterView) -> Iterator[Decision]:
            assert view.pool is not None
            if view.now < 20.0 and not view.pool.awaited and not view.total:
                yield Acquire(4, Reason("all"))
                yield Wake(20.0)
            elif view.now == 20.0 and view.pool.awaited == 4:
                yield Withdraw(2, Reason("too_many"))
            for job in view.queue:
                if job.bounds.min <= view.free:
                    yield Start(job.id, job.bounds.min, Reason("fits"))

    records = run([rigid("a", 2, 10.0)], Pool(0, 4, 60.0), Cancelling())
    told = [
        (type(each).__name__, each.at, len(each.nodes) if isinstance(each, r.NodesGranted) else each.count)
        for each in records
        if isinstance(each, r.NodesOrdered | r.NodesWithdrawn | r.NodesRefused)
        or (isinstance(each, r.NodesGranted) and each.nodes)
    ]
    assert told == [
        ("NodesOrdered", 0.0, 4), ("NodesWithdrawn", 20.0, 2), ("NodesRefused", 20.0, 2), ("NodesGranted", 60.0, 2)
    ]  # fmt: skip
    audit(records)
