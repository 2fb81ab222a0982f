"""Conservative backfilling follows its reservations from pass to pass: as if it had made all of them anew."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from drawing import examples
from driving import Driven
from hypothesis import given, settings
from hypothesis import strategies as st
from test_simulation import rigid_jobs, run

from pliant.core import events as e
from pliant.core import records as r
from pliant.core import state as core_state
from pliant.core.settings import Settings
from pliant.model.jobs import Bounds, JobSpec
from pliant.model.nodes import NodeSet
from pliant.plan.cost import INSTANT
from pliant.policy.conservative import Conservative
from pliant.policy.easy import BACKFILLED
from pliant.policy.fcfs import FITS
from pliant.policy.order import ORDERS, ordered
from pliant.policy.registry import START_RULES
from pliant.policy.view import ClusterView, Decision, Start
from pliant.testing.policies.drawn import NODES, elastic_jobs, settings_
from pliant.workloads.job import SimJob


class Anew:
    """Follows nothing: once a job has ended or a place has come it is a policy that knows promises alone."""

    name = "conservative"

    def __init__(self, start: str) -> None:
        self._start = start
        self._policy = Conservative(start)
        self._running: list[tuple[float, int]] = []

    def decide(self, view: ClusterView) -> Sequence[Decision]:
        running = [(end, number) for end, number, _ in view.running]
        due = any(job.promised is not None and job.promised <= view.now for job in view.queue)
        if due or running != self._running:
            self._policy = Conservative(self._start)
        decisions = self._policy.decide(view)
        queue = {job.id: job for job in view.queue}
        started = [
            (view.now + queue[each.job].spec.estimate(each.size), each.job)
            for each in decisions
            if isinstance(each, Start)
        ]
        self._running = sorted(running + started)
        return decisions


def crowd(seed: int) -> list[SimJob]:
    """Many at once, most of which end before their time, some after it."""
    draw = random.Random(seed)
    jobs = []
    for number in range(draw.randint(40, 150)):
        runtime = float(draw.choice([1, 2, 3, 5, 8, 30, 100, 400]))
        spec = JobSpec(
            name=f"j{number}",
            nodes=Bounds.exactly(draw.choice([1, 1, 2, 3, 5, 8, 16, NODES])),
            submit_s=float(draw.choice([0, 0, 0, draw.randint(0, 900)])),
            walltime_s=runtime * draw.choice([0.9, 1.0, 1.0, 1.5, 3.0, 10.0])
            if seed % 3
            else runtime + draw.randint(0, 50),
            kill=draw.random() < 0.3,
        )
        jobs.append(SimJob(spec, runtime))
    return jobs


@settings(max_examples=examples(60))
@given(
    st.one_of(elastic_jobs, rigid_jobs(), st.builds(crowd, st.integers(0, 10**6))),
    st.sampled_from(START_RULES),
    st.sampled_from(sorted(ORDERS)),
    st.one_of(st.just(Settings(cost=INSTANT)), settings_),
    st.sampled_from([1, 64]),
)
def test_what_is_kept_changes_nothing(
    jobs: list[SimJob], start: str, order: str, options: Settings, index: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(core_state, "LONG", index)
        kept = run(jobs, NODES, ordered(Conservative(start), order), options)
        assert run(jobs, NODES, ordered(Anew(start), order), options) == kept


@pytest.mark.long
@pytest.mark.parametrize("seed", range(300))
def test_nor_in_crowds(seed: int) -> None:
    jobs = crowd(seed)
    for options in (Settings(cost=INSTANT), Settings()):
        kept = run(jobs, NODES, Conservative(), options)
        assert run(jobs, NODES, Anew("preferred"), options) == kept


def test_one_that_passes_others_is_told_so() -> None:
    """Also where it comes while nothing ends."""
    shapes = [("a", 2, 10.0, 0.0), ("wide", 3, 10.0, 1.0), ("small", 1, 5.0, 2.0)]
    jobs = [
        SimJob(JobSpec(name=name, nodes=Bounds.exactly(nodes), walltime_s=run_s, submit_s=at), run_s)
        for name, nodes, run_s, at in shapes
    ]
    records = run(jobs, 3, Conservative(), Settings(cost=INSTANT))
    reasons = {record.job: record.reason for record in records if isinstance(record, r.JobStarted)}
    assert reasons[3] == BACKFILLED


def test_those_that_come_together_and_fit_pass_nobody() -> None:
    """With an index of the queue and without."""
    jobs = [
        SimJob(JobSpec(name=str(at), nodes=Bounds.exactly(1), walltime_s=9.0, submit_s=at), 9.0)
        for at in (0.0, 1.0, 1.0)
    ]
    for index in (1, 64):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(core_state, "LONG", index)
            records = run(jobs, 3, Conservative(), Settings(cost=INSTANT))
            assert [each.reason for each in records if isinstance(each, r.JobStarted)] == [FITS] * 3


def test_one_that_is_cancelled_as_its_place_comes() -> None:
    """The others start without it, with an index of the queue and without."""
    for index in (1, 64):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(core_state, "LONG", index)
            core = Driven(Conservative())
            wide, one = (JobSpec(name="a", nodes=Bounds.exactly(n), walltime_s=9.0) for n in (2, 1))
            core.tell([e.Granted(NodeSet.first(2)), e.Submitted(1, wide)], 0.0)
            core.tell([e.Submitted(2, wide)], 1.0)
            core.tell([e.Submitted(3, one)], 2.0)
            assert [core.state.jobs[number].promised for number in (2, 3)] == [9.0, 18.0]
            core.tell([e.Ended(1, 0), e.Clean(1, NodeSet.first(2)), e.Cancelled(2)], 9.0)
            assert core.state.jobs[3].size == 1
