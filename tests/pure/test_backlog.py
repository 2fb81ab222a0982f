"""The index of the waiting jobs: it finds whom a look at all of them finds, and policies decide the same with it."""

from __future__ import annotations

import pytest
from driving import Driven
from hypothesis import given, settings
from hypothesis import strategies as st
from test_simulation import run

from pliant.core import beside
from pliant.core import events as e
from pliant.core.job import Job
from pliant.core.settings import Settings
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.model.nodes import NodeSet
from pliant.policy.backlog import BLOCK, Backlog
from pliant.policy.registry import POLICIES, START_RULES, has_start_rule, make
from pliant.testing.policies.drawn import NODES, elastic_jobs, settings_
from pliant.workloads.job import SimJob

NEVER = float("inf")


@st.composite
def waiting_(draw: st.DrawFn) -> list[Job]:
    jobs = []
    for number in range(1, draw(st.integers(0, 4 * BLOCK)) + 1):
        low = draw(st.integers(1, 5))
        bounds = Bounds(low, draw(st.sampled_from([low, 8])))
        job_class = draw(st.sampled_from(JobClass))
        walltime_s = draw(st.sampled_from([1.0, 5.0, 60.0, 1e9]))
        jobs.append(Job(number, JobSpec(name="a", nodes=bounds, job_class=job_class, walltime_s=walltime_s)))
    return jobs


@settings(max_examples=200)
@given(waiting_(), st.data())
def test_it_finds_the_next_that_a_look_at_all_finds(jobs: list[Job], data: st.DataObject) -> None:
    backlog = Backlog(jobs)
    gone = data.draw(st.sets(st.sampled_from([job.id for job in jobs]))) if jobs else set()
    for number in gone:
        backlog.discard(jobs[number - 1])
    limits_ = st.sampled_from([0.0, 1.0, 30.0, 1e9, NEVER])
    for _ in range(10):
        after, free = data.draw(st.integers(0, len(jobs) + 1)), data.draw(st.integers(0, 6))
        spare = data.draw(st.sampled_from([0, 2, 4, NEVER]))
        limits = data.draw(st.tuples(limits_, limits_, limits_))
        expected = next((job for job in jobs if _may(job, gone, after, free, spare, limits)), None)
        assert backlog.behind(after, free, spare, limits) is expected


def _may(
    job: Job, gone: set[int], after: int, free: int, spare: float, limits: tuple[float, float, float]
) -> bool:
    bounds = job.bounds
    kind = 0 if bounds.min == bounds.max else 1 if job.spec.job_class is JobClass.MALLEABLE else 2
    short = job.spec.estimate(bounds.min) <= limits[kind]
    return job.id > after and job.id not in gone and bounds.min <= free and (bounds.min <= spare or short)


INDEXED = [
    (name, rule)
    for name in ("easy", "malleable", "min-agreement", "preferred-steal", "average-pool")
    for rule in (START_RULES if has_start_rule(POLICIES[name]) else [None])
]


@settings(max_examples=100)
@given(elastic_jobs, st.sampled_from(INDEXED), settings_)
def test_with_an_index_all_is_as_without(
    jobs: list[SimJob], policy: tuple[str, str | None], options: Settings
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(beside, "LONG", 1)
        indexed = run(jobs, NODES, make(*policy), options)
        patch.setattr(beside, "LONG", 10**9)
        assert run(jobs, NODES, make(*policy), options) == indexed


def index(core: Driven) -> Backlog | None:
    return core.state.backlog


def test_it_follows_cancels_and_is_gone_when_few_wait() -> None:
    core = Driven(make("easy"))
    wide, one = (JobSpec(name="a", nodes=Bounds.exactly(n), walltime_s=9.0) for n in (2, 1))
    many = range(3, beside.LONG + 4)
    core.tell([e.Granted(NodeSet.first(3)), e.Submitted(1, wide), e.Submitted(2, wide)], 0.0)
    assert index(core) is None
    core.tell([e.Submitted(number, wide) for number in many], 0.0)
    core.tell([e.Cancelled(number) for number in many[10:20]], 1.0)
    assert (backlog := index(core)) is not None
    assert (found := backlog.behind(many[9], 3, 0, (9.0, 0.0, 0.0))) is not None
    assert found.id == many[20]
    core.tell([e.Submitted(many[-1] + 1, one)], 2.0)
    assert core.state.jobs[many[-1] + 1].size == 1  # it ends no later than the head can start
    core.tell([e.Cancelled(number) for number in many[20:60]], 3.0)
    assert index(core) is None
    core.tell([e.Ended(1, 0)], 4.0)
    core.tell([e.Clean(1, NodeSet.first(2))], 4.0)
    assert core.state.jobs[2].size == 2
