"""The audit checks the claim of each kind of record: it takes a true one, and catches those that are false."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import get_args

import pytest
from audits import audit

from pliant.core import records as r
from pliant.history.audit import AuditError
from pliant.model.groups import Group
from pliant.model.jobs import Bounds, JobClass, JobSpec, JobState
from pliant.model.kinds import JobKind
from pliant.model.need import Need
from pliant.model.nodes import NodeSet
from pliant.model.size_request import SizeRequest
from pliant.policy.view import Reason
from pliant.protocol.phases import Phase

Story = Sequence[r.Record]
FITS, ORDERED, IDLE = Reason("fits"), Reason("ordered"), Reason("idle_nodes")


def node_set(*nodes: int) -> NodeSet:
    return NodeSet.of(nodes)


MALLEABLE = JobSpec(name="wide", nodes=Bounds(1, 4, preferred=2), job_class=JobClass.MALLEABLE)
RIGID = JobSpec(name="fixed", nodes=Bounds.exactly(2))
TASKS = JobSpec(name="tasks", nodes=Bounds.exactly(2), kind=JobKind.TASKS)

BEGUN = [
    r.NodesGranted(0.0, NodeSet.first(6), tuple(f"n{i}" for i in range(6)), (2,) * 6),
    r.JobSubmitted(0.0, 1, MALLEABLE),
    r.JobSubmitted(0.0, 2, RIGID),
]
STARTED = [*BEGUN, r.JobStarted(1.0, 1, node_set(0, 1), FITS)]
RUNNING = [*STARTED, r.JobLaunched(1.5, 1), r.JobRunning(2.0, 1, Bounds(1, 4, preferred=2))]
ON = [*RUNNING, r.JobMalleable(3.0, 1, on=True)]
GROWTH = r.ResizeOffered(4.0, 1, 1, 2, 3, node_set(2), IDLE, (Group(2, 2, 2),))
DRAIN = r.ResizeOffered(4.0, 1, 1, 2, 1, NodeSet(), ORDERED, must=True)
GROWING = [*ON, GROWTH]
ACCEPTED = [*GROWING, r.ResizeAccepted(5.0, 1, 1)]
ENDING = [*ON, r.JobEnding(4.0, 1, JobState.TIMEOUT, "walltime is over")]
OVER = [*STARTED, r.JobEnded(4.0, 1, JobState.COMPLETED, 0, node_set(0, 1))]
LOST = [*ON, r.NodesLost(4.0, node_set(5))]
OF_TASKS = [*BEGUN, r.JobSubmitted(0.0, 3, TASKS), r.JobStarted(1.0, 3, node_set(3, 4), FITS)]
HALF_LOST = [*OF_TASKS, r.NodesLost(2.0, node_set(4))]
REQUEUED = [*STARTED, r.NodesLost(2.0, node_set(1)), r.JobEnding(2.0, 1, JobState.NODE_FAIL, "lost node 1"),
            r.JobEnded(2.0, 1, JobState.NODE_FAIL, 143, node_set(0, 1), requeued=True)]  # fmt: skip
started = partial(r.JobStarted, 5.0)
ended = partial(r.JobEnded, 9.0)
offered = partial(r.ResizeOffered, 5.0, 1, 1)
done = partial(r.ResizeDone, 6.0, 1, 1)

GPU = Need(2, ("gpu",))
GPUS = [*BEGUN, r.NodesOrdered(1.0, 2, None, GPU)]

TRUE: list[tuple[Story, r.Record]] = [
    (REQUEUED, r.JobSubmitted(2.0, 3, MALLEABLE, requeue_of=1)),
    (BEGUN, r.JobPromised(1.0, 2, 1.0)),
    (STARTED, started(2, node_set(2, 3), FITS, one_world=True)),
    (STARTED, r.JobLaunched(2.0, 1)),
    (STARTED, r.JobRunning(2.0, 1, Bounds(2, 4))),
    (ON, r.JobMalleable(4.0, 1, on=False)),
    (ON, r.JobPinned(4.0, 1, on=True)),
    (ON, r.JobWishes(4.0, 1, SizeRequest(Bounds(3, 4)))),
    (ON, r.JobProgressed(4.0, 1, 0.5, 1.0, 1.1)),
    (ON, r.JobNoted(4.0, 1, "total is missed")),
    (ON, GROWTH),
    (ON, DRAIN),
    (GROWING, r.ResizeWithdrawn(5.0, 1, 1, "a node is lost", node_set(2))),
    (ACCEPTED, r.ResizeWithdrawn(6.0, 1, 1, "a node is lost")),
    (GROWING, r.ResizeAccepted(5.0, 1, 1)),
    (GROWING, r.ResizeDeclined(5.0, 1, 1, "no")),
    (ACCEPTED, done(node_set(2), NodeSet(), 0.1, {"merge": 0.1})),
    (ACCEPTED, r.ResizeFailed(6.0, 1, 1, "no", node_set(2), phase=Phase.START)),
    (HALF_LOST, r.GroupsLost(2.0, 3, (1,), node_set(4), 0, "lost node 4", node=True)),
    (ON, r.JobEnding(4.0, 1, JobState.CANCELLED, "cancelled by its user")),
    (BEGUN, ended(2, JobState.CANCELLED, 0, NodeSet(), error="cancelled by its user")),
    (ENDING, ended(1, JobState.TIMEOUT, 143, node_set(0, 1))),
    (ACCEPTED, ended(1, JobState.FAILED, 1, node_set(0, 1, 2), phase=Phase.START)),
    (BEGUN, r.ControllerResumed(1.0)),
    (BEGUN, r.PolicyFailed(1.0, "mine", "it raised", "fcfs")),
    (BEGUN, r.PolicyRemembers(1.0, {"since": [1.0, None]}, merge=True)),
    (BEGUN, r.NodesGranted(1.0, node_set(6), ("n6",), (1,))),
    (OVER, r.NodesClean(5.0, 1, node_set(1))),
    (ON, r.NodesLost(4.0, node_set(1, 5))),
    (LOST, r.NodesBack(5.0, node_set(5))),
    (BEGUN, r.NodesOrdered(1.0, 2)),
    ([*BEGUN, r.NodesOrdered(1.0, 2)], r.NodesRefused(2.0, 2, "there are no more")),
    (BEGUN, r.NodesReclaimed(1.0, node_set(5))),
    ([*BEGUN, r.NodesReclaimed(1.0, node_set(5))], r.NodesReturned(2.0, node_set(5))),
    (BEGUN, r.NodesExpire(1.0, node_set(5), 60.0)),
    ([*BEGUN, r.NodesReclaimed(1.0, node_set(5))], r.NodesReclaimed(2.0, node_set(5), by=60.0)),
    ([*BEGUN, r.NodesOrdered(1.0, 2)], r.NodesWithdrawn(2.0, 2)),
    (
        GPUS,
        r.NodesGranted(
            2.0, node_set(6, 7), ("n6", "n7"), (2, 3), None, (("gpu",), ("big", "gpu")), "ssh", GPU
        ),
    ),
    (GPUS, r.NodesRefused(2.0, 2, "there are no more", GPU)),
]

FALSE: dict[str, tuple[Story, r.Record]] = {
    "a number that is another job's": (BEGUN, r.JobSubmitted(1.0, 2, RIGID)),
    "submitted again, and nothing was lost": (OVER, r.JobSubmitted(5.0, 3, MALLEABLE, requeue_of=1)),
    "submitted again twice": (
        [*REQUEUED, r.JobSubmitted(2.0, 3, MALLEABLE, requeue_of=1)],
        r.JobSubmitted(2.0, 4, MALLEABLE, requeue_of=1),
    ),
    "promised to a job that runs": (STARTED, r.JobPromised(2.0, 1, 3.0)),
    "promised for the past": (STARTED, r.JobPromised(2.0, 2, 1.0)),
    "started twice": (STARTED, started(1, node_set(2, 3), FITS)),
    "started where another job is": (STARTED, started(2, node_set(1, 2), FITS, one_world=True)),
    "started on a size that it does not allow": (STARTED, started(2, node_set(2), FITS, one_world=True)),
    "started in a world for each node": (STARTED, started(2, node_set(2, 3), FITS)),
    "started though it was never submitted": (STARTED, started(7, node_set(2), FITS)),
    "launched before it started": (BEGUN, r.JobLaunched(2.0, 1)),
    "launched twice": (RUNNING, r.JobLaunched(3.0, 1)),
    "hello before it started": (BEGUN, r.JobRunning(2.0, 1, Bounds(1, 4))),
    "hello twice": (RUNNING, r.JobRunning(3.0, 1, Bounds(1, 4))),
    "bounds beyond the submission": (STARTED, r.JobRunning(2.0, 1, Bounds(1, 5))),
    "bounds without its size": (STARTED, r.JobRunning(2.0, 1, Bounds(3, 4))),
    "on before it said hello": (STARTED, r.JobMalleable(2.0, 1, on=True)),
    "on twice": (ON, r.JobMalleable(4.0, 1, on=True)),
    "on while it is being ended": (ENDING, r.JobMalleable(4.0, 1, on=False)),
    "pinned while it waits": (BEGUN, r.JobPinned(1.0, 2, on=True)),
    "let go though nobody had pinned it": (ON, r.JobPinned(4.0, 1, on=False)),
    "wishes what it has": (ON, r.JobWishes(4.0, 1, SizeRequest(Bounds(2, 4)))),
    "wishes no more what it never wished": (ON, r.JobWishes(4.0, 1, None)),
    "wishes outside its loop": (RUNNING, r.JobWishes(4.0, 1, SizeRequest(Bounds(3, 4)))),
    "more than all of its work": (ON, r.JobProgressed(4.0, 1, 1.5)),
    "a note of a job that waits": (ON, r.JobNoted(4.0, 2, "total is missed")),
    "progress of a job that waits": (ON, r.JobProgressed(4.0, 2, 0.5)),
    "offered nodes that another job holds": (
        [*ON, started(2, node_set(2, 3), FITS, one_world=True)],
        offered(2, 3, node_set(2), IDLE, (Group(2, 2, 2),)),
    ),
    "offered while another resize is open": (GROWING, r.ResizeOffered(5.0, 1, 2, 2, 1, NodeSet(), IDLE)),
    "offered outside its loop": (RUNNING, offered(2, 1, NodeSet(), IDLE)),
    "offered from a size that it has not": (ON, offered(3, 1, NodeSet(), IDLE)),
    "offered a size that it does not allow": (ON, offered(2, 5, node_set(2, 3, 4), IDLE)),
    "offered a number of groups that it had": (ON, offered(2, 3, node_set(2), IDLE, (Group(1, 2, 2),))),
    "offered more slots than a node has": (ON, offered(2, 3, node_set(2), IDLE, (Group(2, 2, 3),))),
    "offered to leave more than the size allows": (ON, offered(2, 1, NodeSet(), IDLE, (), (0, 1))),
    "offered another size though it is pinned": (
        [*ON, r.JobPinned(4.0, 1, on=True)],
        offered(2, 1, NodeSet(), IDLE),
    ),
    "a drain that nobody ordered": (ON, offered(2, 1, NodeSet(), IDLE, must=True)),
    "a number that another resize had": (
        [*GROWING, r.ResizeDeclined(5.0, 1, 1, "no")],
        offered(2, 1, NodeSet(), IDLE),
    ),
    "taken back, but nothing is open": (ON, r.ResizeWithdrawn(5.0, 1, 1, "late")),
    "taken back, and what was started is free": (ACCEPTED, r.ResizeWithdrawn(6.0, 1, 1, "late", node_set(2))),
    "accepted twice": (ACCEPTED, r.ResizeAccepted(6.0, 1, 1)),
    "accepted twice, after it was taken back": (
        [*GROWING, r.ResizeWithdrawn(5.0, 1, 1, "late", node_set(2)), r.ResizeAccepted(5.0, 1, 1)],
        r.ResizeAccepted(6.0, 1, 1),
    ),
    "another resize is accepted": (GROWING, r.ResizeAccepted(5.0, 1, 2)),
    "declined after it was accepted": (ACCEPTED, r.ResizeDeclined(6.0, 1, 1, "no")),
    "a drain is declined": ([*ON, DRAIN], r.ResizeDeclined(5.0, 1, 1, "no")),
    "done before it was accepted": ([*ON, DRAIN], done(NodeSet(), node_set(1), left=(1,))),
    "done, and gained other nodes": (ACCEPTED, done(node_set(3), NodeSet())),
    "done, and led to another size": (ACCEPTED, done(node_set(2), node_set(1), left=(1,))),
    "done, and a group that is gone speaks": (ACCEPTED, done(node_set(2), NodeSet(), root=7)),
    "done, in less than no time": (ACCEPTED, done(node_set(2), NodeSet(), -1.0)),
    "done, in a phase that there is not": (ACCEPTED, done(node_set(2), NodeSet(), 0.1, {"rest": 0.1})),
    "failed before it was accepted": (GROWING, r.ResizeFailed(5.0, 1, 1, "no", NodeSet())),
    "failed, and what was started is free": (ACCEPTED, r.ResizeFailed(6.0, 1, 1, "no", NodeSet())),
    "lost with a node that is there": (OF_TASKS, r.GroupsLost(2.0, 3, (1,), node_set(4), 0, "", node=True)),
    "lost groups that it has not": (HALF_LOST, r.GroupsLost(2.0, 3, (5,), node_set(4), 0)),
    "lost, and left no node": (HALF_LOST, r.GroupsLost(2.0, 3, (1,), NodeSet(), 0)),
    "lost, and the lost group speaks": (HALF_LOST, r.GroupsLost(2.0, 3, (0,), node_set(3), 0)),
    "ended though it waits": (BEGUN, r.JobEnding(4.0, 2, JobState.CANCELLED, "by its user")),
    "being ended twice": (ENDING, r.JobEnding(4.0, 1, JobState.FAILED, "stuck")),
    "ended for no reason": (ON, r.JobEnding(4.0, 1, JobState.CANCELLED, "")),
    "ended as completed": (ON, r.JobEnding(4.0, 1, JobState.COMPLETED, "it is")),
    "ended for a node that is not lost": (ON, r.JobEnding(4.0, 1, JobState.NODE_FAIL, "lost node 1")),
    "ended twice": (OVER, ended(1, JobState.COMPLETED, 0, node_set(0, 1))),
    "ended on other nodes": (ON, ended(1, JobState.COMPLETED, 0, node_set(0))),
    "ended in another state": (ENDING, ended(1, JobState.COMPLETED, 0, node_set(0, 1))),
    "cancelled by nobody": (ON, ended(1, JobState.CANCELLED, 143, node_set(0, 1), error="cancelled")),
    "completed with an exit code": (ON, ended(1, JobState.COMPLETED, 3, node_set(0, 1))),
    "failed with nothing wrong": (ON, ended(1, JobState.FAILED, 0, node_set(0, 1))),
    "NODE_FAIL on nodes that are all there": (ON, ended(1, JobState.NODE_FAIL, 1, node_set(0, 1))),
    "still running": (ON, ended(1, JobState.RUNNING, 0, node_set(0, 1))),
    "completed before it started": (BEGUN, ended(2, JobState.COMPLETED, 0, NodeSet())),
    "cancelled for no reason": (BEGUN, ended(2, JobState.CANCELLED, 0, NodeSet())),
    "to be submitted again, and completed": (ON, ended(1, JobState.COMPLETED, 0, node_set(0, 1), requeued=True)),
    "places of a job without any": (ON, ended(1, JobState.COMPLETED, 0, node_set(0, 1), places={0: {}})),
    "less than no processor time": (ON, ended(1, JobState.COMPLETED, 0, node_set(0, 1), cpu_s=-1.0)),
    "ended in a phase of no resize": (ON, ended(1, JobState.FAILED, 1, node_set(0, 1), phase=Phase.MERGE)),
    "resumed what nobody had begun": ([], r.ControllerResumed(0.0)),
    "a policy that had failed fails": (
        [*BEGUN, r.PolicyFailed(1.0, "mine", "it raised", "fcfs")],
        r.PolicyFailed(2.0, "mine", "it raised", "fcfs"),
    ),
    "a policy fails for no reason": (BEGUN, r.PolicyFailed(1.0, "mine", "", "fcfs")),
    "remembered what no journal can keep": (BEGUN, r.PolicyRemembers(1.0, {"since": (1.0,)})),
    "remembered a number that JSON has not": (BEGUN, r.PolicyRemembers(1.0, {"since": float("nan")})),
    "granted what is there": (BEGUN, r.NodesGranted(1.0, node_set(5))),
    "granted under another node's name": (BEGUN, r.NodesGranted(1.0, node_set(6), ("n5",), (1,))),
    "granted with names of some": (BEGUN, r.NodesGranted(1.0, node_set(6, 7), ("n6",))),
    "granted without a slot": (BEGUN, r.NodesGranted(1.0, node_set(6), ("n6",), (0,))),
    "clean of a job that holds it": (ON, r.NodesClean(4.0, 1, node_set(1))),
    "clean, and another job's": (
        [*OVER, r.NodesClean(5.0, 1, node_set(0, 1)), started(2, node_set(0, 1), FITS, one_world=True)],
        r.NodesClean(6.0, 1, node_set(1)),
    ),
    "clean, and some are free": (OVER, r.NodesClean(5.0, 1, node_set(1, 2))),
    "clean, but no node": (OVER, r.NodesClean(5.0, 1, NodeSet())),
    "lost twice": (LOST, r.NodesLost(5.0, node_set(4, 5))),
    "lost, and never there": (LOST, r.NodesLost(5.0, node_set(6))),
    "back, and never lost": (LOST, r.NodesBack(5.0, node_set(4, 5))),
    "no more nodes asked for": (BEGUN, r.NodesOrdered(1.0, 0)),
    "more refused than were asked for": (
        [*BEGUN, r.NodesOrdered(1.0, 2)],
        r.NodesRefused(2.0, 3, "there are no more"),
    ),
    "asked back, and never there": (BEGUN, r.NodesReclaimed(1.0, node_set(6))),
    "given back unasked": (BEGUN, r.NodesReturned(1.0, node_set(5))),
    "given back while a job is there": (
        [*ON, r.NodesReclaimed(4.0, node_set(1))],
        r.NodesReturned(5.0, node_set(1)),
    ),
    "an end of nodes that are not there": (BEGUN, r.NodesExpire(1.0, node_set(6), 60.0)),
    "started on a node that has expired": (
        [*STARTED, r.NodesExpire(2.0, node_set(3), 60.0)],
        r.JobStarted(60.0, 2, node_set(2, 3), FITS, one_world=True),
    ),
    "another node than was asked for": (
        GPUS,
        r.NodesGranted(2.0, node_set(6, 7), ("n6", "n7"), (2, 2), None, (("gpu",), ("big",)), "ssh", GPU),
    ),
    "fewer slots than were asked for": (
        GPUS,
        r.NodesGranted(2.0, node_set(6), ("n6",), (1,), None, (("gpu",),), "ssh", GPU),
    ),
    "more refused than were asked for with that": (
        [*GPUS, r.NodesOrdered(1.0, 2)],
        r.NodesRefused(2.0, 3, "there are no more", GPU),
    ),
    "labels of some nodes": (BEGUN, r.NodesGranted(1.0, node_set(6, 7), ("n6", "n7"), (1, 1), None, (("gpu",),))),
    "more withdrawn than are awaited": ([*BEGUN, r.NodesOrdered(1.0, 2)], r.NodesWithdrawn(2.0, 3)),
}  # fmt: skip


def test_each_kind_of_record_has_a_true_one_and_a_false_one() -> None:
    kinds = set(get_args(r.AnyRecord))
    assert {type(record) for _, record in TRUE} == kinds
    assert {type(record) for _, record in FALSE.values()} == kinds


@pytest.mark.parametrize(("story", "record"), TRUE, ids=lambda each: type(each).__name__)
def test_a_true_record_is_taken(story: Story, record: r.Record) -> None:
    audit([*story, record])


@pytest.mark.parametrize("false", FALSE)
def test_a_false_record_is_caught(false: str) -> None:
    story, record = FALSE[false]
    checked = audit(story)
    with pytest.raises(AuditError):
        checked.add(record)


@pytest.mark.parametrize(
    "record", [record for _, record in TRUE if record.at > 0], ids=lambda r: type(r).__name__
)
def test_no_record_is_of_the_past(record: r.Record) -> None:
    checked = audit([*BEGUN, r.NodesOrdered(1e6, 1)])
    with pytest.raises(AuditError, match="time runs backwards"):
        checked.add(record)
