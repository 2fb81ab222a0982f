"""What the core decides of jobs that move: by order, and off nodes that are asked back."""

from __future__ import annotations

import job_says
import pytest
from audits import audit
from driving import Driven

from pliant.core import commands as c
from pliant.core import events as e
from pliant.core import moving
from pliant.core import records as r
from pliant.core.core import SchedulerCore, replay
from pliant.core.settings import Settings
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.model.kinds import JobKind
from pliant.model.nodes import NodeSet
from pliant.policy.fcfs import Fcfs
from pliant.policy.view import Reason

SETTINGS = Settings(cooldown_s=0.0, decline_backoff_s=5.0)
MALLEABLE = JobClass.MALLEABLE
NO_OTHER = "none is free that it could move to"


def running(
    nodes: int = 4,
    bounds: Bounds = Bounds(1, 4, 1, 2),  # noqa: B008 - immutable
    job_class: JobClass = MALLEABLE,
    kind: JobKind = JobKind.MPI,
) -> tuple[Driven, list[r.Record]]:
    """A core with job 1 on its preferred number of ``nodes``, in its loop."""
    records: list[r.Record] = []
    core = Driven(Fcfs(), SETTINGS, records.append)
    spec = JobSpec(name="a", nodes=bounds, job_class=job_class, kind=kind)
    core.tell([e.Granted(NodeSet.first(nodes), tuple(f"n{i}" for i in range(nodes)))], 0.0)
    core.tell([e.Submitted(1, spec)], 0.0)
    core.tell([e.Hello(1), job_says.malleable(1, on=True)], 0.0)
    return core, records


def offers(commands: list[c.Command]) -> list[tuple[str, int, NodeSet, NodeSet]]:
    return [(each.kind, each.size, each.nodes, each.leave) for each in commands if isinstance(each, c.Offer)]


def finish_resize(core: Driven, at: float, released: tuple[int, ...], root: int) -> list[c.Command]:
    resize = core.state.last_resize
    core.tell([job_says.accepted(1, resize)], at)
    return core.tell([job_says.resized(1, resize, released, root=root)], at)


def replayed(core: SchedulerCore, records: list[r.Record]) -> None:
    """The journal's lines give the same state."""
    audit(records)
    lines = [r.from_line(r.to_line(record)) for record in records]
    assert replay(lines, SETTINGS).snapshot() == core.state.snapshot()


def test_an_ordered_job_moves_and_its_size_is_still_the_policys() -> None:
    core, records = running()
    moves = offers(core.tell([e.ResizeOrdered(1, 0, NodeSet.of([0, 1]))], 1.0))
    assert moves == [("migrate", 2, NodeSet.of([2, 3]), NodeSet.of([0, 1]))]
    finish_resize(core, 2.0, (0, 1), 2)
    job = core.state.jobs[1]
    assert (job.nodes, job.size, job.root, job.epoch, job.pinned) == (0b1100, 2, 2, 1, False)
    assert core.state.nodes.dirty == {1: 0b0011}
    replayed(core, records)


@pytest.mark.parametrize(
    ("job_class", "kind", "on", "leave", "why"),
    [
        (JobClass.RIGID, JobKind.MPI, True, [0], "is rigid and keeps its nodes"),
        (JobClass.MOLDABLE, JobKind.MPI, True, [0], "is moldable and keeps its nodes"),
        (MALLEABLE, JobKind.PLACES, True, [0], "is of kind places, which cannot move"),
        (MALLEABLE, JobKind.MPI, False, [0], "is not inside its loop"),
        (MALLEABLE, JobKind.MPI, True, [0, 3], "n3 is none of the nodes of job 1, which holds n[0-1]"),
        (MALLEABLE, JobKind.MPI, True, [0, 1], "move to 2 other nodes, and 1 is free: 1 missing"),
    ],
)
def test_an_order_to_move_that_cannot_be_followed_says_why(
    job_class: JobClass, kind: JobKind, *, on: bool, leave: list[int], why: str
) -> None:
    bounds = Bounds.exactly(2) if job_class is JobClass.RIGID else Bounds(1, 4, 1, 2)
    core, _ = running(4 if 3 in leave else 3, bounds, job_class, kind)
    if not on:
        core.tell([job_says.malleable(1, on=False)], 0.5)
    assert why in str(core.resizes.refusal(1, 0, NodeSet.of(leave)))
    assert offers(core.tell([e.ResizeOrdered(1, 0, NodeSet.of(leave))], 1.0)) == []


def test_a_job_moves_off_a_node_that_is_asked_back_before_others_get_what_is_free() -> None:
    core, records = running(3)
    core.tell([e.Submitted(2, JobSpec(name="b", nodes=Bounds.exactly(2)))], 0.5)
    assert offers(core.tell([e.Reclaim(NodeSet.of([0]))], 1.0)) == [
        ("migrate", 2, NodeSet.of([2]), NodeSet.of([0]))
    ]
    offered = next(each for each in records if isinstance(each, r.ResizeOffered))
    assert offered.reason == Reason(moving.ASKED_BACK, figures={"nodes": 1})
    finish_resize(core, 2.0, (0,), 1)
    assert c.GiveBack(NodeSet.of([0])) in core.tell([e.Clean(1, NodeSet.of([0]))], 3.0)
    replayed(core, records)


def test_where_no_node_is_free_it_shrinks_and_where_it_may_not_it_is_waited_for() -> None:
    core, _ = running(2)
    assert offers(core.tell([e.Reclaim(NodeSet.of([1]))], 1.0)) == [("shrink", 1, NodeSet(), NodeSet.of([1]))]
    core, _ = running(2, Bounds(2, 4))
    assert offers(core.tell([e.Reclaim(NodeSet.of([1]))], 1.0)) == []
    assert offers(core.tell([e.Granted(NodeSet.of([2]))], 2.0)) == [
        ("migrate", 2, NodeSet.of([2]), NodeSet.of([1]))
    ]


def test_one_node_is_left_for_a_free_one_and_another_by_a_shrink_in_one_resize() -> None:
    core, records = running(4, Bounds(1, 3, 1, 3))
    assert offers(core.tell([e.Reclaim(NodeSet.of([0, 1]))], 1.0)) == [
        ("shrink", 2, NodeSet.of([3]), NodeSet.of([0, 1]))
    ]
    finish_resize(core, 2.0, (0, 1), 3)
    assert core.state.jobs[1].nodes == 0b1100
    replayed(core, records)


def test_a_size_that_was_ordered_stays() -> None:
    core, _ = running(3)
    core.tell([e.ResizeOrdered(1, 3)], 0.5)
    finish_resize(core, 0.6, (), 0)
    assert offers(core.tell([e.Reclaim(NodeSet.of([1]))], 1.0)) == []


def test_who_declines_to_move_is_asked_to_shrink_when_it_has_rested() -> None:
    core, records = running(3, job_class=JobClass.EVOLVING)
    core.tell([e.Reclaim(NodeSet.of([1]))], 1.0)
    commands = core.tell([job_says.declined(1, 1, "no")], 2.0)
    assert offers(commands) == []
    assert c.WakeAt(7.0) in commands
    # It is not asked to move again: its runtime cannot, or its arrays have no rows for it.
    assert offers(core.tell([e.Tick()], 7.0)) == [("shrink", 1, NodeSet(), NodeSet.of([1]))]
    replayed(core, records)


def test_who_had_no_time_to_move_is_asked_to_again() -> None:
    core, records = running(3)
    core.tell([e.Reclaim(NodeSet.of([1]))], 1.0)
    core.tell([job_says.declined(1, 1, "only 1 step is left", late=True)], 2.0)
    assert [each[0] for each in offers(core.tell([e.Tick()], 7.0))] == ["migrate"]
    replayed(core, records)


def test_places_shrink_off_a_node_but_never_off_that_of_their_root() -> None:
    core, _ = running(4, kind=JobKind.PLACES)
    assert offers(core.tell([e.Reclaim(NodeSet.of([0, 1]))], 1.0)) == [
        ("shrink", 1, NodeSet(), NodeSet.of([1]))
    ]
    assert moving.way_off(core.state, core.state.jobs[1], 0b0001, 2) is None


@pytest.mark.parametrize("job_class", [JobClass.RIGID, JobClass.MOLDABLE])
def test_who_keeps_its_size_is_waited_for(job_class: JobClass) -> None:
    core, _ = running(4, Bounds.exactly(2) if job_class is JobClass.RIGID else Bounds(1, 2, 1, 2), job_class)
    assert offers(core.tell([e.Reclaim(NodeSet.of([0]))], 1.0)) == []
    why = moving.why_stays(core.state, core.state.jobs[1], NodeSet.of([0]), 2)
    assert why == f"is {job_class}"


PLACE_0 = "has place 0 on n0, which runs its program: that one stays until the job ends"


@pytest.mark.parametrize(
    ("kind", "bounds", "events", "nodes", "why"),
    [
        (JobKind.PLACES, Bounds(1, 4, 1, 2), [], [0], PLACE_0),
        (JobKind.PLACES, Bounds(1, 4, 1, 2), [job_says.malleable(1, on=False)], [0], PLACE_0),
        (
            JobKind.PLACES,
            Bounds(2, 4),
            [],
            [0, 1],
            "cannot have fewer nodes, and cannot move, as it is of kind places",
        ),
        (
            JobKind.MPI,
            Bounds(2, 4),
            [],
            [1],
            f"cannot have fewer nodes, and {NO_OTHER}",
        ),
        (
            JobKind.MPI,
            Bounds(1, 4, 1, 2),
            [e.ResizeOrdered(1, 4), job_says.accepted(1, 1), job_says.resized(1, 1)],
            [1],
            f"is pinned to 4 nodes by pliant resize (pliant resize 1 auto undoes that), and {NO_OTHER}",
        ),
        (
            JobKind.MPI,
            Bounds(2, 4),
            [e.ResizeOrdered(1, 0, NodeSet.of([1])), job_says.declined(1, 1, "no")],
            [1],
            "cannot have fewer nodes, and has declined to move",
        ),
        (
            JobKind.MPI,
            Bounds(2, 4),
            [
                e.ResizeOrdered(1, 3),
                job_says.accepted(1, 1),
                job_says.failed(1, 1, "no"),
                e.ResizeOrdered(1, 0),
            ],
            [1],
            "cannot have fewer nodes, and is not moved for 5 s, as its last resize has failed",
        ),
    ],
)
def test_who_cannot_leave_a_node_is_told_with_the_reason(
    kind: JobKind, bounds: Bounds, events: list[e.Event], nodes: list[int], why: str
) -> None:
    core, records = running(4, bounds, kind=kind)
    core.tell(events, 1.0)
    job = core.state.jobs[1]
    assert moving.why_stays(core.state, job, NodeSet.of(nodes), 0) == why
    replayed(core, records)
