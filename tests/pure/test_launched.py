"""A job runs once its processes have been started, whether or not it ever says hello."""

from __future__ import annotations

from driving import Driven

from pliant.core import events as e
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
    core.tell([e.Malleable(1, on=True)], 0.2)  # out of turn: it has not said hello
    assert "not inside its loop" in (core.refusal(1, 2, NodeSet()) or "")
    core.tell([e.Ended(1, 0)], 0.3)
    assert not core.state.jobs


def test_a_hello_counts_before_and_after() -> None:
    for events in ([e.Launched(1), e.Hello(1)], [e.Hello(1), e.Launched(1)]):
        core = started()
        core.tell([*events, e.Malleable(1, on=True)], 0.1)
        assert core.state.jobs[1].state is JobState.RUNNING
        assert core.refusal(1, 2, NodeSet()) is None
