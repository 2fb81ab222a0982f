"""A job runs once its processes have been started, whether or not it ever says hello."""

from __future__ import annotations

import job_says
import pytest
from audits import audit
from driving import Driven

from pliant.core import commands as c
from pliant.core import events as e
from pliant.core import records as r
from pliant.core.core import replay
from pliant.model.jobs import Bounds, JobClass, JobSpec, JobState
from pliant.model.nodes import NodeSet
from pliant.policy.registry import make


def started() -> Driven:
    core = Driven(make("easy"))
    spec = JobSpec(name="a", nodes=Bounds(1, 2), job_class=JobClass.MALLEABLE)
    core.tell([e.Granted(NodeSet.first(2)), e.Submitted(1, spec)], 0.0)
    assert core.state.jobs[1].state is JobState.CONFIGURING
    return core


def test_a_job_that_says_nothing_is_running_and_takes_no_resizes() -> None:
    core = started()
    core.tell([e.Launched(1)], 0.1)
    assert core.state.jobs[1].state is JobState.RUNNING
    core.tell([job_says.malleable(1, on=True)], 0.2)  # out of turn: it has not said hello
    assert "not inside its loop" in (core.resizes.refusal(1, 2, NodeSet()) or "")
    core.tell([e.Ended(1, 0)], 0.3)
    assert not core.state.jobs


def test_a_hello_counts_before_and_after() -> None:
    for events in ([e.Launched(1), e.Hello(1)], [e.Hello(1), e.Launched(1)]):
        core = started()
        core.tell([*events, job_says.malleable(1, on=True)], 0.1)
        assert core.state.jobs[1].state is JobState.RUNNING
        assert core.resizes.refusal(1, 2, NodeSet()) is None


@pytest.mark.parametrize(("most", "bounds"), [(3, Bounds(1, 3)), (0, Bounds(1, 8)), (9, Bounds(1, 8))])
def test_a_job_is_not_offered_what_its_program_cannot_grow_to(most: int, bounds: Bounds) -> None:
    records: list[r.Record] = []
    core = Driven(make("malleable"), None, records.append)
    spec = JobSpec(name="a", nodes=Bounds(1, 8), job_class=JobClass.MALLEABLE)
    core.tell([e.Granted(NodeSet.first(2)), e.Submitted(1, spec)], 0.0)
    commands = core.tell(
        [e.Hello(1), e.Granted(NodeSet.parse("2-9")), job_says.malleable(1, on=True, most=most)], 0.1
    )
    assert [each.size for each in commands if isinstance(each, c.Offer)] == [bounds.max]
    assert core.state.jobs[1].bounds == bounds
    assert replay(records).snapshot() == core.state.snapshot()


def test_a_job_that_is_larger_than_its_program_could_grow_to_keeps_its_size_until_it_has_shrunk() -> None:
    records: list[r.Record] = []
    core = Driven(make("keep-preferred"), None, records.append)
    spec = JobSpec(name="a", nodes=Bounds(1, 8, preferred=4), job_class=JobClass.MALLEABLE)
    core.tell([e.Granted(NodeSet.first(8)), e.Submitted(1, spec)], 0.0)
    core.tell([e.Hello(1), job_says.malleable(1, on=True, most=2)], 0.1)
    job = core.state.jobs[1]
    assert (job.size, job.bounds) == (4, Bounds(1, 4, preferred=4))
    core.tell([e.ResizeOrdered(1, 1)], 1.0)
    core.tell([job_says.accepted(1, 1), job_says.resized(1, 1, (1, 2, 3), 0.0), e.ResizeOrdered(1, 0)], 2.0)
    assert (job.size, job.bounds) == (1, Bounds(1, 2, preferred=2))
    assert "its program can grow to 2" in (core.resizes.refusal(1, 3, NodeSet()) or "")
    core.tell([e.Clean(1, NodeSet.parse("1-3"))], 3.0)
    core.tell([e.Tick()], 100.0)
    assert [each.after for each in records if isinstance(each, r.ResizeOffered)] == [1, 2]
    assert replay(records).snapshot() == core.state.snapshot()
    audit(records)
