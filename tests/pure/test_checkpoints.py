"""Jobs of a simulation that write checkpoints and go on from them: by hand, and against a walk from one to the next."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import pytest
from audits import audit
from commands import command, run_of
from drawing import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from test_evolving import evolving_jobs
from test_simulation import policies_
from workloads import rigid

from pliant.core import records as r
from pliant.core.core import replay
from pliant.core.settings import NEVER, Settings
from pliant.history.metrics import measure
from pliant.model.errors import BatchError
from pliant.model.jobs import Bounds, JobClass, JobSpec, JobState
from pliant.model.kinds import JobKind
from pliant.model.limits import REQUEUES
from pliant.model.nodes import NodeSet
from pliant.model.speedup import Amdahl, Phase, Phases
from pliant.plan.cost import INSTANT, ResizeCost
from pliant.policy.registry import make
from pliant.sim.instant import Instant
from pliant.sim.simulator import Conditions, SimEnd, Simulator, simulate
from pliant.testing.policies.drawn import NODES, elastic_jobs, settings_
from pliant.workloads.failures import Down, DrawnFailures, Failures
from pliant.workloads.job import SimJob
from pliant.workloads.machine import Checkpoints, read_checkpoints

PLAN = Checkpoints(10.0, 1.0)
"""So a checkpoint is complete every 11 s."""


def run(
    jobs: list[SimJob],
    *down: Down,
    nodes: int = 4,
    plan: Checkpoints | None = PLAN,
    policy: str = "fcfs",
    cost: ResizeCost = INSTANT,
    starting: bool = False,
    requeue: bool = True,
) -> tuple[SimEnd, list[r.Record]]:
    records: list[r.Record] = []
    failures = Failures(listed=down, requeue=requeue) if down else None
    conditions = Conditions(Settings(cost=cost), starting=starting, failures=failures, checkpoints=plan)
    return simulate(jobs, nodes, make(policy), conditions, records.append), records


def malleable(least: int = 1, factor: int = 1, kind: JobKind = JobKind.MPI) -> SimJob:
    """100 s on 4 nodes, 400 s on one."""
    bounds = Bounds(least, 4, factor, preferred=4)
    spec = JobSpec(name="m", nodes=bounds, job_class=JobClass.MALLEABLE, walltime_s=500.0, kind=kind)
    return SimJob(spec, 100.0)


T = TypeVar("T", bound=r.Record)


def records_of_kind(records: list[r.Record], kind: type[T]) -> list[T]:
    return [record for record in records if isinstance(record, kind)]


def test_checkpoints_take_time_and_none_is_written_at_the_very_end() -> None:
    assert run([rigid("a", 2, 100.0)])[0].at == 109.0
    assert run([rigid("a", 2, 10.0)])[0].at == 10.0
    assert run([rigid("a", 2, 10.5)])[0].at == 11.5
    assert run([rigid("a", 2, 0.0)])[0].at == 0.0
    assert run([malleable(kind=JobKind.TASKS)])[0].at == 100.0  # a loss is not its end: it writes none


@pytest.mark.parametrize(
    ("at", "saved"),
    [(5.0, 0.0), (10.5, 0.0), (11.0, 10.0), (27.0, 20.0), (32.5, 20.0), (33.0, 30.0), (108.5, 90.0)],
)
def test_a_malleable_job_that_loses_a_node_goes_on_without_it_from_its_last_checkpoint(
    at: float, saved: float
) -> None:
    end, records = run([malleable()], Down(3, at, NEVER))
    left = (100.0 - saved) * 4 / 3
    writes = -(-left // 10.0) - 1
    assert end.at == pytest.approx(at + left + writes)
    complete = saved + saved / 10.0
    assert end[3:5] == (1, 0)
    assert end.lost_node_s == pytest.approx(4 * (at - complete))
    [lost] = records_of_kind(records, r.GroupsLost)
    assert (lost.groups, lost.nodes, lost.root, lost.node) == ((3,), NodeSet.of([3]), 0, True)
    [job] = measure(records).jobs
    assert (job.state, job.lost_groups) == (JobState.COMPLETED, 1)


def test_where_its_root_is_lost_another_speaks_for_it() -> None:
    end, records = run([malleable()], Down(0, 27.0, NEVER), Down(2, 40.0, NEVER))
    assert [lost.root for lost in records_of_kind(records, r.GroupsLost)] == [1, 1]
    # Of the 80 s left on 4 nodes 7.5 s are saved at 38, after 10 s on 3; the others take 145 s on 2, and 14 writes.
    assert end.at == pytest.approx(40.0 + 145.0 + 14.0)
    assert end.lost_node_s == pytest.approx(4 * 5.0 + 3 * 2.0)


def test_it_grows_again_when_the_node_is_back() -> None:
    end, records = run([malleable()], Down(3, 27.0, 38.0), policy="malleable")
    assert [len(done.gained) for done in records_of_kind(records, r.ResizeDone)] == [3, 1]
    # 7.5 s of the work were done on 3 nodes, up to the checkpoint at 38.
    assert end.at == pytest.approx(38.0 + 72.5 + 7.0)


def test_a_job_that_has_not_its_minimum_left_is_requeued_and_goes_on_from_its_checkpoint() -> None:
    for job in (malleable(4), rigid("a", 4, 100.0)):
        for restart_s in (0.0, 5.0):
            end, records = run([job], Down(1, 27.0, 40.0), plan=PLAN._replace(restart_s=restart_s))
            assert end.at == 40.0 + restart_s + 80.0 + 7.0
            assert end[3:6] == (1, 1, 4 * 5.0)
            assert [ended.requeued for ended in records_of_kind(records, r.JobEnded)] == [True, False]
    end, records = run([rigid("a", 4, 100.0)], Down(1, 27.0, NEVER), requeue=False)
    assert (end.at, end.requeued, measure(records).failed) == (27.0, 0, 1)


def test_what_was_saved_before_a_requeue_is_not_lost_by_the_next() -> None:
    down = (Down(1, 27.0, 40.0), Down(2, 45.0, 50.0))
    end, _ = run([rigid("a", 4, 100.0)], *down, plan=PLAN._replace(restart_s=2.0))
    assert end.at == 50.0 + 2.0 + 80.0 + 7.0
    assert end.lost_node_s == 4 * 5.0 + 4 * 5.0
    end, _ = run([rigid("a", 4, 100.0)], Down(1, 5.0, 6.0), plan=PLAN._replace(restart_s=2.0))
    assert end.at == 6.0 + 109.0  # nothing was saved, so nothing is read


def test_reading_a_checkpoint_is_no_computing() -> None:
    end, _ = run([malleable()], Down(3, 27.0, NEVER), plan=PLAN._replace(restart_s=5.0))
    assert end.at == pytest.approx(27.0 + 5.0 + 80.0 * 4 / 3 + 10.0)


def test_a_job_goes_on_at_a_size_that_it_allows_and_gives_up_the_other_nodes() -> None:
    jobs = [malleable(factor=2), rigid("b", 1, 5.0, at=1.0)]
    for cost, start in ((INSTANT, 27.0), (ResizeCost(leave_s=3.0), 30.0)):
        end, records = run(jobs, Down(0, 27.0, NEVER), cost=cost)
        [lost] = records_of_kind(records, r.GroupsLost)
        assert (lost.groups, lost.nodes, lost.root) == ((0, 3), NodeSet.of([0, 3]), 1)
        assert [record.at for record in records_of_kind(records, r.JobStarted)] == [0.0, start]
        assert end.at == 27.0 + 160.0 + 15.0 + cost.leave_s


def test_a_job_that_is_being_started_has_no_checkpoint() -> None:
    cost = ResizeCost(start_s=30.0, start_each_s=0.0, leave_s=0.0, end_s=0.0)
    end, records = run([malleable()], Down(3, 27.0, 28.0), cost=cost, starting=True)
    assert not records_of_kind(records, r.GroupsLost)
    assert (end.requeued, end.lost_node_s) == (1, 4 * 27.0)
    assert end.at == pytest.approx(27.0 + 30.0 + 400.0 / 3 + 13.0)  # anew, on the three that are left


def test_an_evolving_job_goes_back_to_the_phase_of_its_checkpoint() -> None:
    """15 s on 2 nodes, then 30 s of work that wants 1 node; it is 4 s into that when it loses one."""
    phases = Phases((Phase(Amdahl(30.0), 1.0, 2, 2), Phase(Amdahl(30.0), 1.0, 1, 1)))
    bounds = Bounds(1, 2, preferred=2)
    spec = JobSpec(
        name="e", nodes=bounds, job_class=JobClass.EVOLVING, walltime_s=99.0, model=phases, priority=0
    )
    end, records = run([SimJob(spec)], Down(0, 20.0, NEVER), nodes=2)
    # Saved at 11: 10 s of the 15 were done. It has shrunk at 16, to node 0, so it begins again on node 1.
    assert [(done.at, done.released) for done in records_of_kind(records, r.ResizeDone)] == [
        (16.0, NodeSet.of([1]))
    ]
    assert end.requeued == 1
    assert end.at == pytest.approx(20.0 + 10.0 + 30.0 + 3.0)
    assert end.lost_node_s == pytest.approx(2 * 5.0 + 4.0)


def test_a_job_that_never_gets_to_a_checkpoint_is_given_up_and_one_that_does_is_not() -> None:
    failing = Failures(DrawnFailures(50.0, 1.0, fixed=True))
    for job in (malleable(), rigid("a", 1, 1e5)):
        long = structs.replace(job, runtime_s=1e5)
        records: list[r.Record] = []
        never = Conditions(Settings(cost=INSTANT), failures=failing, checkpoints=Checkpoints(1e4, 1.0))
        simulate([long], 4, make("malleable"), never, records.append)
        assert measure(records).failed == 1
        assert (
            len(records_of_kind(records, r.GroupsLost)) + len(records_of_kind(records, r.JobEnded))
            == REQUEUES + 1
        )
    records = []
    often = never._replace(checkpoints=Checkpoints(5.0, 0.0))
    end = simulate([rigid("a", 1, 1e5)], 1, make("fcfs"), often, records.append)
    assert (end.requeued > REQUEUES, measure(records).failed) == (True, 0)


def test_checkpoints_as_users_write_them() -> None:
    assert read_checkpoints("interval=30min,cost=20s") == Checkpoints(1800.0, 20.0)
    assert read_checkpoints("restart=1.5min, cost=0s,interval=1h") == Checkpoints(3600.0, 0.0, 90.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("30min", "there is no '30min' [(]known: interval, cost, restart[)]; write interval=30min,cost=20s"),
        ("interval=30min", "cost is missing; write interval="),
        ("cost=3s", "interval is missing"),
        ("interval=30,cost=3s", "interval: '30' is no time above 0 with a unit"),
        ("interval=0s,cost=3s", "interval: '0s' is no time above 0"),
        ("interval=1h,cost=-3s", "cost: '-3s' is no time of 0 or more with a unit"),
        ("interval=1h,cost=3s,restart=x", "restart: 'x' is no time of 0 or more"),
        ("interval=1h,cost=3s,cost=4s", "cost is there twice"),
    ],
)
def test_checkpoints_that_are_none(text: str, message: str) -> None:
    with pytest.raises(BatchError, match=f"checkpoint: {text}: {message}"):
        read_checkpoints(text)


def test_the_command_takes_checkpoints_and_its_report_says_so(tmp_path: Path) -> None:
    (tmp_path / "x.swf").write_text("; MaxProcs: 2\n1 0 0 100 2\n")
    (tmp_path / "f.csv").write_text("1,27,40\n")
    report = tmp_path / "r.html"
    words = ("simulate", str(tmp_path / "x.swf"), "--checkpoint", "interval=10s,cost=1s")
    assert run_of(command(*words, "--json"))["makespan_s"] == 109.0
    lost = ("--failures", str(tmp_path / "f.csv"), "--report", str(report), "--json")
    figures = run_of(command(*words, *lost))
    assert [figures[name] for name in ("makespan_s", "requeued", "lost_node_s")] == [127.0, 1, 10.0]
    assert "a checkpoint after each 10.0 s of computing, written in 1.00 s" in report.read_text()
    with pytest.raises(BatchError, match="cost is missing"):
        command(*words[:3], "interval=10s")


plans_ = st.builds(
    Checkpoints,
    interval_s=st.sampled_from([0.7, 11.3, 200.0]),
    cost_s=st.sampled_from([0.0, 1.7, 30.0]),
    restart_s=st.sampled_from([0.0, 2.9]),
)
drawn_ = st.builds(
    DrawnFailures,
    mtbf_s=st.sampled_from([600.0, 3000.0, 30_000.0]),
    repair_s=st.sampled_from([1.0, 100.0]),
    seed=st.integers(0, 9),
)


@settings(max_examples=examples(80), deadline=None)
@given(
    st.one_of(elastic_jobs, evolving_jobs()),
    policies_,
    settings_,
    drawn_,
    plans_,
    st.booleans(),
    st.sampled_from(Instant),
)
def test_whatever_fails_the_records_hold_together_and_every_job_ends(
    jobs: list[SimJob],
    policy: tuple[str, str | None],
    options: Settings,
    drawn: DrawnFailures,
    plan: Checkpoints,
    starting: bool,  # noqa: FBT001 - Hypothesis passes it
    instant: Instant,
) -> None:
    records: list[r.Record] = []
    conditions = Conditions(
        options, starting=starting, instant=instant, failures=Failures(drawn), checkpoints=plan
    )
    simulator = Simulator(jobs, NODES, make(*policy), conditions, records.append)
    end = simulator.run()
    checked = audit(records)
    assert not checked.jobs
    assert len(checked.ended) == len(jobs) + end.requeued
    assert len(checked.nodes("free")) + len(checked.nodes("lost")) == NODES
    specs = {record.job: record.spec for record in records_of_kind(records, r.JobSubmitted)}
    sizes = {record.job: len(record.nodes) for record in records_of_kind(records, r.JobStarted)}
    for record in records:
        if isinstance(record, r.ResizeDone):
            sizes[record.job] += len(record.gained) - len(record.released)
        elif isinstance(record, r.GroupsLost):
            sizes[record.job] -= len(record.nodes)
            spec = specs[record.job]
            if spec.kind is JobKind.MPI:
                assert not spec.keeps_size
                assert spec.nodes.allows(sizes[record.job])
    figures = measure(records)
    assert 0.0 <= end.lost_node_s <= figures.utilisation * figures.capacity_node_s * (1 + 1e-9)
    assert replay(records, options).snapshot() == simulator.core.state.snapshot()


class Walk:
    """A job, walked from one checkpoint to the next."""

    def __init__(self, job: SimJob, plan: Checkpoints) -> None:
        self.job, self.plan = job, plan
        self.size, self.now = 0, 0.0
        self.left = self.saved = 1.0
        self.vain = 0.0
        """Node-seconds since the last checkpoint."""
        self.steps: list[tuple[str, float]] = []

    def begin(self, now: float, size: int) -> None:
        """From what was saved, and so after a loss."""
        self.now, self.size, self.left, self.vain = now, size, self.saved, 0.0
        self.steps = [("read", self.plan.restart_s)] if self.saved < 1.0 else []

    def go(self, to: float) -> None:
        while to - self.now > 1e-9:
            if not self.steps:
                self.steps = [("compute", self.plan.interval_s), ("write", self.plan.cost_s)]
            what, lasts = self.steps.pop(0)
            passed = min(lasts, to - self.now)
            self.now += passed
            self.vain += self.size * passed
            if what == "compute":
                self.left -= passed / self.job.time(self.size)
            if lasts - passed > 1e-9:
                self.steps.insert(0, (what, lasts - passed))
            elif what == "write":
                self.saved, self.vain = self.left, 0.0
        self.now = to


@settings(max_examples=examples(120), deadline=None)
@given(
    elastic_jobs,
    policies_,
    st.sampled_from([INSTANT, ResizeCost(start_s=3.0, start_each_s=0.0, blocked_s=0.0, leave_s=0.0)]),
    st.one_of(st.none(), drawn_),
    plans_,
)
def test_no_work_is_lost_but_what_was_not_saved_and_none_is_done_twice(
    jobs: list[SimJob],
    policy: tuple[str, str | None],
    cost: ResizeCost,
    drawn: DrawnFailures | None,
    plan: Checkpoints,
) -> None:
    jobs = [structs.replace(job, spec=structs.replace(job.spec, kind=JobKind.MPI)) for job in jobs]
    of_name = {job.spec.name: job for job in jobs}
    records: list[r.Record] = []
    failures = Failures(drawn) if drawn is not None else None
    conditions = Conditions(Settings(cost=cost, cooldown_s=0.0), failures=failures, checkpoints=plan)
    end = simulate(jobs, NODES, make(*policy), conditions, records.append)
    walks: dict[int, Walk] = {}
    lost_node_s, done = 0.0, 0
    for record in records:
        match record:
            case r.JobSubmitted():
                again = walks.get(record.requeue_of)
                walks[record.job] = again or Walk(of_name[record.spec.name], plan)
            case r.JobStarted():
                walks[record.job].begin(record.at, len(record.nodes))
            case r.ResizeDone():
                walk = walks[record.job]
                walk.go(record.at)
                walk.size += len(record.gained) - len(record.released)
            case r.GroupsLost():
                walk = walks[record.job]
                walk.go(record.at)
                lost_node_s += walk.vain
                walk.begin(record.at, walk.size - len(record.nodes))
            case r.JobEnded():
                walk = walks[record.job]
                walk.go(record.at)
                if record.state is JobState.COMPLETED:
                    assert walk.left == pytest.approx(0.0, abs=1e-6)
                    done += 1
                elif record.state is JobState.NODE_FAIL:
                    lost_node_s += walk.vain
            case _:
                pass
    assert end.lost_node_s == pytest.approx(lost_node_s, abs=1e-3)
    assert done <= len(jobs)


def test_a_job_that_ends_as_its_node_fails_has_ended() -> None:
    """In pyss' order the node is lost first, and the end of one that is over early is told after that: at 109 s here,
    with nine checkpoints."""
    failures = Failures(listed=(Down(0, 109.0, 120.0),))
    conditions = Conditions(Settings(cost=INSTANT), instant=Instant.PYSS, failures=failures, checkpoints=PLAN)
    records: list[r.Record] = []
    end = simulate([malleable()], 4, make("fcfs"), conditions, records.append)
    assert (end.at, end.node_failures) == (109.0, 1)
    assert [record.state for record in records_of_kind(records, r.JobEnded)] == [JobState.COMPLETED]
