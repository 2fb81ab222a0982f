"""Groups that are lost to a job, and jobs that go on without them: what the core makes of it."""

from __future__ import annotations

from pathlib import Path

import job_says
import pytest
from audits import audit, gantt
from commands import command
from driving import Driven
from test_job_life import NAMES, Heard, events_of_kind, losses_sent_to, relay

from pliant.core import commands as c
from pliant.core import events as e
from pliant.core import records as r
from pliant.core.core import SchedulerCore, replay
from pliant.core.settings import NEVER, Settings
from pliant.history.metrics import measure
from pliant.live.job import resuming
from pliant.live.job.groups import GroupPlace
from pliant.live.job.life import JobLife
from pliant.model.batch import read_batch
from pliant.model.errors import BatchError
from pliant.model.jobs import Bounds, JobClass, JobSpec, JobState
from pliant.model.kinds import KINDS, JobKind
from pliant.model.nodes import NodeSet
from pliant.policy.registry import POLICIES, make
from pliant.protocol import messages as m
from pliant.protocol import resizing
from pliant.sim.simulator import Conditions, simulate
from pliant.terminal.events import EventTexts
from pliant.workloads.failures import Down, Failures
from pliant.workloads.job import SimJob


class Run:
    """A job of three nodes, of five: it says hello and takes resizes if it is one that may grow."""

    def __init__(self, kind: JobKind, bounds: Bounds | None = None, policy: str = "fcfs") -> None:
        self.records: list[r.Record] = []
        self.core = Driven(make(policy), None, self.records.append)
        spec = JobSpec(name="a", nodes=bounds or Bounds(3, 4), job_class=JobClass.MALLEABLE, kind=kind)
        names = tuple(f"n{i}" for i in range(5))
        self.core.tell([e.Granted(NodeSet.first(5), names, (1,) * 5), e.Submitted(1, spec)], 0.0)
        self.tell(e.Hello(1), job_says.malleable(1, on=True), at=0.0)

    def tell(self, *events: e.Event, at: float) -> list[c.Command]:
        commands = self.core.tell(events, at)
        audit(self.records)
        options = self.core.state.settings
        for count in (len(self.records) - 1, len(self.records)):
            replay(self.records[:count], options)
        assert replay(self.records, options).snapshot() == self.core.state.snapshot()
        again = SchedulerCore.resume(make("fcfs"), options, self.records)
        assert again.state.snapshot() == self.core.state.snapshot()
        return commands

    @property
    def last(self) -> r.Record:
        return self.records[-1]

    def made(self, kind: type[r.Record]) -> list[r.Record]:
        return [record for record in self.records if isinstance(record, kind)]

    def ended(self) -> r.JobEnded:
        [end] = self.made(r.JobEnded)
        assert isinstance(end, r.JobEnded)
        return end


GOES_ON = (JobKind.TASKS, JobKind.PLACES)


@pytest.mark.parametrize("kind", GOES_ON)
def test_a_job_goes_on_without_a_lost_node_and_holds_it_no_more(kind: JobKind) -> None:
    run = Run(kind)
    assert not [
        each for each in run.tell(e.Lost(NodeSet.of([1])), at=1.0) if isinstance(each, c.Kill | c.Release)
    ]
    assert run.last == r.GroupsLost(1.0, 1, (1,), NodeSet.of([1]), 0, "lost node n1", node=True)
    job = run.core.state.jobs[1]
    assert (job.size, job.nodes, job.target) == (2, 0b101, 2)  # below what it allows
    run.tell(e.GroupsLost(1, (1,), "node n1 was lost"), at=1.0)  # what its agents say of it tells nothing new
    assert len(run.made(r.GroupsLost)) == 1
    run.tell(e.Back(NodeSet.of([1])), at=2.0)
    assert run.core.state.nodes.free_mask == 0b11010
    run.tell(e.Ended(1, 0), at=3.0)
    assert run.ended().nodes == NodeSet.of([0, 2])


@pytest.mark.parametrize("kind", GOES_ON)
def test_the_node_of_ranks_that_failed_is_free_when_it_is_proved_clean(kind: JobKind) -> None:
    run = Run(kind)
    commands = run.tell(e.GroupsLost(1, (2,), "rank 0 exited with 3"), at=1.0)
    assert c.Release(1, NodeSet.of([2])) in commands
    assert run.core.state.nodes.free_mask == 0b11000
    assert run.core.state.returning(1) == 1
    again = SchedulerCore.resume(make("fcfs"), Settings(), run.records)
    assert c.Release(1, NodeSet.of([2])) in again.unanswered()
    run.tell(e.Clean(1, NodeSet.of([2])), at=2.0)
    assert run.core.state.nodes.free_mask == 0b11100


def test_tasks_have_failed_at_their_end_and_it_says_what_was_lost() -> None:
    run = Run(JobKind.TASKS)
    run.tell(e.GroupsLost(1, (2,), "rank 0 exited with 3"), at=1.0)
    run.tell(e.Lost(NodeSet.of([0])), at=2.0)  # the root as well
    assert run.core.state.jobs[1].root == 1
    run.tell(e.Ended(1, 3, error="rank 0 exited with 3\nits output"), at=3.0)
    end = run.ended()
    assert (end.state, end.exit_code) == (JobState.NODE_FAIL, 3)
    assert end.error == "lost groups 0,2 on n[0,2]: rank 0 exited with 3\nits output"
    [job] = measure(run.records).jobs
    assert (job.lost_groups, job.error) == (2, end.error)
    alone = Run(JobKind.TASKS)
    alone.tell(e.GroupsLost(1, (2,), "rank 0 exited with 3"), at=1.0)
    alone.tell(e.Ended(1, 0), at=2.0)  # a controller that has begun anew has not seen it
    assert (alone.ended().state, alone.ended().exit_code) == (JobState.FAILED, 1)
    assert alone.ended().error == "lost group 2 on n2: rank 0 exited with 3"


def test_places_end_as_those_say_that_are_left_and_with_their_root() -> None:
    run = Run(JobKind.PLACES)
    run.tell(e.Lost(NodeSet.of([1])), at=1.0)
    run.tell(e.Ended(1, 0, "42"), at=2.0)
    assert (run.ended().state, run.ended().error) == (JobState.COMPLETED, "")
    without = Run(JobKind.PLACES)
    commands = without.tell(e.Lost(NodeSet.of([0, 1])), at=1.0)
    assert c.Kill(1, 0.0) in commands
    assert without.last == r.JobEnding(1.0, 1, JobState.NODE_FAIL, "lost nodes n[0-1]")


@pytest.mark.parametrize("kind", JobKind)
def test_a_job_without_a_group_ends_whatever_it_is(kind: JobKind) -> None:
    run = Run(kind)
    run.tell(e.Lost(NodeSet.first(3)), at=1.0)
    assert run.last == r.JobEnding(1.0, 1, JobState.NODE_FAIL, "lost nodes n[0-2]")
    run.tell(e.Ended(1, 137), at=2.0)
    assert run.ended().state is JobState.NODE_FAIL


def test_what_had_ended_well_is_not_lost_with_its_node() -> None:
    run = Run(JobKind.TASKS)
    run.tell(e.Lost(NodeSet.of([1]), ((1, 1),)), at=1.0)
    assert not run.made(r.GroupsLost)
    run.tell(e.Ended(1, 0), at=2.0)
    assert run.ended().state is JobState.COMPLETED


# ---- a resize under way ------------------------------------------------------------------------------


def test_an_offer_is_taken_back_when_a_group_is_lost() -> None:
    run = Run(JobKind.PLACES)
    run.tell(e.ResizeOrdered(1, 4), at=1.0)
    commands = run.tell(e.Lost(NodeSet.of([1])), at=2.0)
    assert c.Withdraw(1, 1) in commands
    job = run.core.state.jobs[1]
    assert job.resize is not None
    assert (job.resize.stage, job.size, job.target) == (resizing.WITHDRAWN, 2, 2)
    assert run.core.state.nodes.free_mask == 0b11000
    run.tell(job_says.declined(1, 1, "withdrawn"), at=3.0)
    assert run.core.resizes.refusal(1, 3, NodeSet()) is None


def accepted(size: int, *leave: int) -> Run:
    """A job of three places that has accepted to go to ``size``, and then lost the place on node 1."""
    run = Run(JobKind.PLACES, Bounds(2, 5))
    if run.core.state.jobs[1].size != 3:
        run.tell(e.ResizeOrdered(1, 3, NodeSet()), at=0.1)
        run.tell(job_says.accepted(1, 1), at=0.2)
        run.tell(run.core.resized(1, 1), at=0.3)
    run.tell(e.ResizeOrdered(1, size, NodeSet.of(leave)), at=1.0)
    run.tell(job_says.accepted(1, run.core.state.last_resize), at=1.0)
    run.tell(e.GroupsLost(1, (1,), "failed"), at=2.0)
    job = run.core.state.jobs[1]
    assert job.resize is not None
    assert job.resize.stage == resizing.RECALLED
    return run


@pytest.mark.parametrize(
    ("size", "leave", "released", "after"),
    [
        (5, (), (), 4),  # it had grown before it heard, or grew by what had come
        (2, (), (2,), 1),  # it had left that one before it heard
        (2, (), (), 2),  # it has as many already
        (2, (1,), (1,), 2),  # that was to leave
    ],
)
def test_what_a_job_has_done_is_understood_though_it_has_lost_a_group(
    size: int, leave: tuple[int, ...], released: tuple[int, ...], after: int
) -> None:
    run = accepted(size, *leave)
    run.tell(job_says.resized(1, run.core.state.last_resize, released, root=0), at=3.0)
    assert isinstance(run.last, r.ResizeDone)
    job = run.core.state.jobs[1]
    assert (job.size, job.target, job.resize) == (after, after, None)
    assert set(run.core.state.groups(job).values()) == set(NodeSet(job.nodes))
    run.tell(e.Ended(1, 0), at=4.0)
    assert run.ended().state is JobState.COMPLETED


def test_a_resize_that_failed_for_a_loss_leaves_what_is_left() -> None:
    run = accepted(5)
    run.tell(job_says.failed(1, run.core.state.last_resize, "withdrawn"), at=3.0)
    assert run.core.state.jobs[1].size == run.core.state.jobs[1].target == 2
    assert run.core.state.nodes.dirty == {1: 0b11010}  # the newcomers' nodes, and the one that was lost


def test_a_job_cannot_have_left_more_than_it_lost() -> None:
    run = accepted(5)
    run.tell(job_says.resized(1, run.core.state.last_resize, (2,), root=0), at=3.0)
    assert isinstance(run.last, r.JobEnding)


def test_a_root_that_is_lost_before_it_speaks_ends_its_places() -> None:
    run = Run(JobKind.PLACES, Bounds(2, 3, 1, 3))
    run.tell(e.ResizeOrdered(1, 2, NodeSet.of([0])), at=1.0)
    run.tell(job_says.accepted(1, 1), at=1.0)
    run.tell(e.Lost(NodeSet.of([1])), at=2.0)
    run.tell(job_says.resized(1, 1, (0,), root=1), at=3.0)
    assert isinstance(run.last, r.JobEnding)
    assert run.last.state is JobState.NODE_FAIL


def test_a_newcomer_whose_node_is_lost_when_its_resize_is_done_is_a_loss_like_any_other() -> None:
    run = Run(JobKind.PLACES)
    run.tell(e.ResizeOrdered(1, 4), at=1.0)
    run.tell(job_says.accepted(1, 1), at=1.0)
    run.tell(e.Lost(NodeSet.of([3])), at=2.0)
    run.tell(run.core.resized(1, 1), at=3.0)
    assert run.last == r.GroupsLost(3.0, 1, (3,), NodeSet.of([3]), 0, "lost node n3", node=True)
    assert run.core.state.jobs[1].size == 3


@pytest.mark.parametrize("policy", POLICIES)
def test_a_policy_stands_a_size_that_the_job_does_not_allow(policy: str) -> None:
    """Jobs on sizes below their least, and between two of a row; free nodes, a queue, and all that follows."""
    for bounds in (Bounds(3, 12), Bounds(4, 16, 2), Bounds(3, 3), Bounds(2, 16, 2, 8)):
        records: list[r.Record] = []
        core = Driven(make(policy), Settings(cooldown_s=0.0), records.append)
        spec = JobSpec(name="a", nodes=bounds, job_class=JobClass.MALLEABLE, kind=JobKind.PLACES)
        core.tell([e.Granted(NodeSet.first(16)), e.Submitted(1, spec)], 0.0)
        core.tell([e.Hello(1), job_says.malleable(1, on=True)], 0.0)
        core.tell(
            [e.Submitted(2, JobSpec(name="b", nodes=Bounds(10, 14), job_class=JobClass.MALLEABLE))], 0.0
        )
        for now in range(1, 40):
            for job in list(core.state.jobs.values()):
                if job.resize is not None and job.resize.stage == resizing.OFFERED:
                    core.tell([job_says.accepted(job.id, job.resize.id)], now)
                    nodes = NodeSet(job.nodes)
                    gone = list(nodes)[job.resize.after :] if job.resize.after < job.size else []
                    core.tell([core.resized(job.id, job.resize.id, *gone)], now)
            for number, mask in list(core.state.nodes.dirty.items()):
                core.tell([e.Clean(number, NodeSet(mask))], now)
            if now % 3 == 0 and 1 in core.state.jobs and core.state.jobs[1].size > 1:
                groups = list(core.state.groups(core.state.jobs[1]))
                core.tell([e.GroupsLost(1, (groups[-1],), "failed")], now)
            core.tell([e.Submitted(now + 2, JobSpec(name=f"c{now}", nodes=Bounds(1, 2)))], now)
            core.tell([e.Tick()], now + 0.5)
        audit(records)
        assert replay(records, core.state.settings).snapshot() == core.state.snapshot()


# ---- what is told of it ------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_policy_stands_a_job_below_its_least_size_for_which_growth_does_not_pay(policy: str) -> None:
    """Almost done, it has lost a node of those that it needs at least."""
    bounds = Bounds(6, 8)
    spec = JobSpec(name="t", nodes=bounds, job_class=JobClass.MALLEABLE, kind=JobKind.TASKS, walltime_s=10.0)
    later = JobSpec(name="u", nodes=Bounds(1, 1), submit_s=9.6, walltime_s=1.0)
    records: list[r.Record] = []
    failures = Failures(listed=(Down(5, 9.0, NEVER),))
    simulate([SimJob(spec), SimJob(later)], 6, make(policy), Conditions(failures=failures), records.append)
    assert len([record for record in records if isinstance(record, r.JobEnded)]) >= 2


def test_metrics_chart_and_words_know_a_loss() -> None:
    run = Run(JobKind.PLACES)
    run.tell(e.GroupsLost(1, (2,), "rank 0 exited with 3"), at=2.0)
    run.tell(e.Clean(1, NodeSet.of([2])), at=3.0)
    run.tell(e.Lost(NodeSet.of([1])), at=4.0)
    run.tell(e.Ended(1, 0), at=5.0)
    run.tell(e.Clean(1, NodeSet.of([0])), at=5.0)
    figures = measure(run.records)
    assert figures.utilisation * figures.capacity_node_s == pytest.approx(3 * 2.0 + 2 * 2.0 + 1.0)
    assert figures.resizing_node_s == 1.0
    assert [(str(s.nodes), s.to_s) for s in gantt(run.records).segments] == [
        ("0-2", 2.0),
        ("0-1", 4.0),
        ("0", 5.0),
    ]
    assert [(x.kind, str(x.nodes), x.to_s) for x in gantt(run.records).idle_time()] == [
        ("cleaning", "2", 3.0),
        ("lost", "1", 5.0),
    ]
    teller = EventTexts([f"n{i}" for i in range(5)])
    told = [said.text for record in run.records if (said := teller.tell(record)) is not None]
    assert "a goes on without group 2 on n2: rank 0 exited with 3" in told
    assert "a goes on without group 1, lost with n1" in told


def test_a_batch_says_of_which_kind_a_job_is() -> None:
    jobs = [{"name": kind.value, "command": "x", "kind": kind.value, "nodes": 2} for kind in JobKind]
    batch = read_batch({"jobs": [*jobs, {"command": "x"}]}, "b.toml")
    assert [job.kind for job in batch.jobs] == [*JobKind, JobKind.MPI]
    assert [job.one_world for job in batch.jobs] == [True, False, False, True]
    assert set(KINDS) == set(JobKind)
    with pytest.raises(BatchError, match=r"b\.toml: job 'a': kind: 'task' is none of mpi, tasks, places"):
        read_batch({"jobs": [{"name": "a", "command": "x", "kind": "task"}]}, "b.toml")


def test_a_batch_says_itself_of_which_kind_its_jobs_are(tmp_path: Path) -> None:
    (tmp_path / "b.toml").write_text('[[jobs]]\ncommand = "true"\n')
    with pytest.raises(BatchError, match=r"--kind is for a command; in .*, give each job its kind"):
        command("run", "--kind", "tasks", "--dry-run", str(tmp_path / "b.toml"))


def test_a_life_that_is_made_anew_knows_what_was_lost_and_tells_the_root_again() -> None:
    run = Run(JobKind.PLACES, Bounds(2, 3, 1, 3))
    run.tell(e.ResizeOrdered(1, 2, NodeSet.of([1])), at=1.0)
    run.tell(job_says.accepted(1, 1), at=1.0)
    run.tell(e.GroupsLost(1, (1,), "rank 0 exited with 3"), at=2.0)
    core = SchedulerCore.resume(make("fcfs"), run.core.state.settings, run.records)
    job, heard = core.state.jobs[1], Heard()
    life = JobLife(1, job.spec, GroupPlace(NAMES, "a.log", "/", {}, b"s"), heard, one_world=job.one_world)
    resuming.take_up(life, job, core.state)
    assert sorted(life.groups) == [0, 2]
    assert not resuming.roll_back(core, life, job)  # it had been taken back
    assert [(each.group, each.why) for each in losses_sent_to(heard, 0)] == [(1, "rank 0 exited with 3")]
    relay(life, 0, m.Done(0, 1, 0, (1,)))
    [done] = heard.of_root(m.Done)
    core.handle([e.RootSaid(1, done)], 3.0)
    assert core.state.jobs[1].resize is None
    assert core.state.jobs[1].size == 2


def test_a_place_that_has_said_bye_to_the_controller_before_ends_well() -> None:
    run = Run(JobKind.PLACES, Bounds(2, 3, 1, 3))
    core = SchedulerCore.resume(make("fcfs"), run.core.state.settings, run.records)
    job, heard = core.state.jobs[1], Heard()
    life = JobLife(1, job.spec, GroupPlace(NAMES, "a.log", "/", {}, b"s"), heard, one_world=job.one_world)
    resuming.take_up(life, job, core.state)
    life.heard(1, m.Exited(1, 1, 0, 0))
    assert not events_of_kind(heard, e.GroupsLost)


def test_a_drain_that_is_said_again_names_no_group_that_was_lost() -> None:
    """A controller that begins again says it again, though it was taken back for the loss."""
    run = Run(JobKind.PLACES, Bounds(1, 3, 1, 3))
    run.tell(e.ResizeOrdered(1, 1, NodeSet.of([1, 2])), at=1.0)
    run.tell(e.Lost(NodeSet.of([1])), at=2.0)
    core = SchedulerCore.resume(make("fcfs"), run.core.state.settings, run.records)
    job = core.state.jobs[1]
    life = JobLife(
        1, job.spec, GroupPlace(NAMES, "a.log", "/", {}, b"s"), heard := Heard(), one_world=job.one_world
    )
    resuming.take_up(life, job, core.state)
    assert not resuming.roll_back(core, life, job)
    assert job.resize is not None
    offer = core.resizes.offer_of(job, job.resize)
    assert (offer.leaving, offer.leave) == ((2,), NodeSet.of([2]))
    assert losses_sent_to(heard, 0)
