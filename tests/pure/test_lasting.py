"""Every policy on nodes that expire: what it starts and promises is on nodes that will be there."""

from __future__ import annotations

from collections import Counter

import pytest
from audits import audit
from drawing import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from test_marginal import malleable
from test_simulation import policies_, rigid_jobs
from workloads import rigid

from pliant.core import events as e
from pliant.core import records as r
from pliant.core.core import SchedulerCore
from pliant.core.settings import NEVER, Settings
from pliant.core.state import State
from pliant.model.nodes import NodeSet
from pliant.plan.cost import INSTANT
from pliant.policy.conservative import DEPTH
from pliant.policy.ends import ExpiryProfile
from pliant.policy.registry import make
from pliant.policy.view import Policy
from pliant.sim.simulator import Conditions, Simulator
from pliant.testing.policies.drawn import NODES, elastic_jobs
from pliant.workloads.job import SimJob

SETTINGS = Settings(
    cooldown_s=1.0, decline_backoff_s=1.0, offer_deadline_s=2.0, resize_deadline_s=2.0, kill_grace_s=1.0, cost=INSTANT
)  # fmt: skip
ROUNDING_S = 1e-6

ends = st.lists(st.sampled_from([NEVER, 30.0, 45.0, 60.0, 90.0, 200.0]), min_size=4, max_size=4)


def run(jobs: list[SimJob], nodes: int, policy: Policy, until: list[float]) -> list[r.Record]:
    """The records of the jobs on so many nodes, which expire then, in turn."""
    records: list[r.Record] = []
    simulator = Simulator(jobs, nodes, policy, Conditions(SETTINGS), records.append)
    simulator._leased = True
    for node in range(nodes):
        if (at := until[node % len(until)]) != NEVER:
            simulator._events.append(e.Granted(NodeSet.of([node]), until=at))
    simulator.begin()
    while not simulator.over:
        if simulator.next != NEVER:
            simulator.go_on()
            continue
        state = simulator.core.state
        too_wide = [job.id for job in state.queue if job.bounds.min > state.total]
        if not too_wide:
            break  # one that has to start at one size alone may wait for nothing
        simulator._events += [e.Cancelled(number) for number in too_wide]  # as a live cluster does
        simulator._happen()
        simulator._look_ahead()
    return records


def lasting(state: State, at: float) -> int:
    """How many of the nodes that there are last until then."""
    nodes = state.nodes
    return sum(
        nodes.end_on(1 << node) >= at - ROUNDING_S
        for node in NodeSet(nodes.all_mask & ~nodes.lost_mask & ~nodes.reclaimed_mask)
    )


def check(records: list[r.Record]) -> None:
    """No job that cannot leave its nodes and has a known estimate starts where it would outlast them, and none is
    promised a start at which too few nodes are left for it."""
    audit(records)
    state = State(SETTINGS)
    for record in records:
        if isinstance(record, r.JobStarted):
            spec = state.jobs[record.job].spec
            end = min(state.nodes.end_on(1 << node) for node in record.nodes)
            if spec.keeps_size and not spec.may_outlast:
                assert record.at + spec.estimate(len(record.nodes)) <= end + ROUNDING_S, record
        elif isinstance(record, r.JobPromised):
            spec = state.jobs[record.job].spec
            if not spec.may_outlast:
                assert any(
                    lasting(state, record.start_by + spec.estimate(size)) >= size
                    for size in spec.nodes.up_to(64).sizes()
                ), record
        state.apply(record)


@settings(max_examples=examples(100))
@given(rigid_jobs(), policies_, ends)
def test_no_policy_starts_or_promises_a_job_beyond_the_end_of_its_nodes(
    jobs: list[SimJob], policy: tuple[str, str | None], until: list[float]
) -> None:
    records = run(jobs, 8, make(*policy), until)
    check(records)
    assert not [each for each in records if isinstance(each, r.JobEnding)], "all of them end in time"


@settings(max_examples=examples(100))
@given(elastic_jobs, policies_, ends)
def test_nor_one_that_may_change_its_size(
    jobs: list[SimJob], policy: tuple[str, str | None], until: list[float]
) -> None:
    check(run(jobs, NODES, make(*policy), until))


@settings(max_examples=examples(100))
@given(rigid_jobs(), st.sampled_from(["easy", "malleable", "average-pool"]), ends)
def test_promises_are_kept_amid_nodes_that_expire(
    jobs: list[SimJob], policy: str, until: list[float]
) -> None:
    records = run(jobs, 8, make(policy), until)
    promised: dict[int, float] = {}
    for record in records:
        if isinstance(record, r.JobPromised):
            promised.setdefault(record.job, record.start_by)
        elif isinstance(record, r.JobStarted) and record.job in promised:
            assert record.at <= promised.pop(record.job) + ROUNDING_S, record
    assert not promised, "they were promised a start, and never have begun"


def test_marginal_takes_no_node_from_a_grown_job_on_whose_end_a_promise_counts() -> None:
    """Amid nodes that expire the promise counts on the size that the long job has, not on its preferred one."""
    jobs = [
        malleable("long", 1, 4, 32, 6000.0),
        rigid("wide", 32, 500.0, at=10.0),
        *(malleable(f"short {i}", 1, 4, 16, 120.0, at=60.0 + 90 * i) for i in range(10)),
    ]
    records = run(jobs, 32, make("marginal"), [NEVER] * 31 + [1e6])
    first = {each.job: each.start_by for each in reversed(records) if isinstance(each, r.JobPromised)}
    [started] = [each.at for each in records if isinstance(each, r.JobStarted) and each.job == 2]
    assert started <= first[2] + ROUNDING_S


def test_a_pass_of_conservative_amid_nodes_that_expire_costs_no_more_than_its_reservations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked = Counter[int]()
    counts = ExpiryProfile.counts

    def counting(self: ExpiryProfile, entry: int, length: float, *, whole: bool) -> list[int]:
        looked[jobs] += 1
        return counts(self, entry, length, whole=whole)

    monkeypatch.setattr(ExpiryProfile, "counts", counting)
    for jobs in (200, 800):
        core = SchedulerCore(make("conservative"), SETTINGS)
        core.handle([e.Granted(NodeSet.first(64)), e.Granted(NodeSet.first(8), until=1e6)], 0.0)
        specs = [rigid(f"j{i}", 1 + i % 16, 60.0 + i).spec for i in range(jobs)]
        records, _ = core.handle([e.Submitted(i, spec) for i, spec in enumerate(specs, 1)], 1.0)
        assert sum(isinstance(record, r.JobPromised) for record in records) == DEPTH
        core.handle([e.Tick()], 2.0)
    assert looked[800] < 1.5 * looked[200], "four times the jobs, and most have no reservation"
