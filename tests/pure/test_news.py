"""What a policy learns beside the cluster: that its time has come, what has ended, and how much work was done."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import job_says
import pytest
from audits import audit
from commands import command
from drawing import examples
from driving import Driven
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st
from msgspec import structs
from test_core_fuzz import NODES, Step, World, check, finish, steps_
from test_simulation import policies_
from workloads import in_order, records_of, rigid

from pliant.core import commands as c
from pliant.core import events as e
from pliant.core import records as r
from pliant.core.settings import Settings
from pliant.model.errors import PolicyError
from pliant.model.jobs import Bounds, JobClass, JobSpec, JobState
from pliant.model.nodes import NodeSet
from pliant.model.speedup import Amdahl
from pliant.plan.cost import INSTANT
from pliant.policy import view as p
from pliant.policy.order import ordered
from pliant.policy.registry import POLICIES, make
from pliant.sim.simulator import Conditions, simulate
from pliant.testing.policies.drawn import elastic_jobs, settings_
from pliant.workloads.failures import DrawnFailures, Failures
from pliant.workloads.job import SimJob

WHY = p.Reason("fits")


class Noting:
    """Another policy, with notes of what each pass was told; ``wakes`` are times to ask for in each pass."""

    def __init__(self, policy: p.Policy, *wakes: float) -> None:
        self.name = policy.name
        self.rebalances = p.rebalances(policy)
        self.passes: list[float] = []
        self.told: list[p.End] = []
        self._policy = policy
        self._wakes = wakes

    def decide(self, view: p.ClusterView) -> Iterable[p.Decision]:
        self.passes.append(view.now)
        self.told += view.news
        for job in [*view.queue, *(job for _, _, job in view.running)]:
            assert 0.0 <= job.done(view.now) <= 1.0
            assert job.size or job.done(view.now) == 0.0
        return [*map(p.Wake, self._wakes), *self._policy.decide(view)]


def agree(told: list[p.End], records: list[r.Record]) -> None:
    """Each end was told once, as it was recorded."""
    again = {x.requeue_of: x.job for x in records if isinstance(x, r.JobSubmitted) and x.requeue_of}
    specs = {x.job: x.spec for x in records if isinstance(x, r.JobSubmitted)}
    ends = [x for x in records if isinstance(x, r.JobEnded)]
    started = {x.job for x in records if isinstance(x, r.JobStarted)}
    assert sorted((x.job, x.state, x.requeued) for x in told) == [
        (x.job, x.state, again.get(x.job, 0)) for x in sorted(ends, key=lambda x: x.job)
    ]
    for x in told:
        assert x.spec is specs[x.job]
        assert 0.0 <= x.done <= 1.0
        assert x.state is not JobState.COMPLETED or x.done == 1.0
        assert x.job in started or (x.state, x.done) == (JobState.CANCELLED, 0.0)


@pytest.mark.long
@limits(max_examples=examples(60))
@given(steps_, st.sampled_from(sorted(POLICIES)), st.sampled_from([0.0, 3.0]), st.integers(1, 4))
def test_every_end_is_told_exactly_once(
    steps: list[Step], policy: str, interval_s: float, together: int
) -> None:
    """Ends, cancels, failures and requeues, at random, late and twice."""
    records: list[r.Record] = []
    noting = Noting(make(policy))
    core = Driven(noting, Settings(cooldown_s=0.0, pass_interval_s=interval_s), records.append)
    world, lost = World(core.state), list[int]()
    now = 0.0
    core.tell([e.Granted(NodeSet.first(NODES))], now)
    for i in range(0, len(steps), together):
        now += steps[i][1] % 4 / 2
        events: list[e.Event] = []
        for step in steps[i : i + together]:
            event = world.event(step)
            if (
                isinstance(event, e.Ended)
                and step[2] % 2
                and event.exit_code
                and event.job in core.state.jobs
            ):
                event = structs.replace(event, requeue=True)
            if not isinstance(event, e.Submitted):
                events.append(event)
        if steps[i][0] in ("submit", "ended"):
            requeue_of = lost.pop() if lost and steps[i][2] % 3 else 0
            spec = world.event(("submit", steps[i][1], steps[i][2], 0))
            assert isinstance(spec, e.Submitted)
            events.append(structs.replace(spec, requeue_of=requeue_of))
        told = len(records)
        started = [x.job for x in core.tell(events, now) if isinstance(x, c.Start) and not x.resize]
        core.tell([e.Hello(job) for job in started], now)
        core.tell([job_says.malleable(job, on=True) for job in started], now)
        lost += [x.job for x in records[told:] if isinstance(x, r.JobEnded) and x.requeued]
        check(core.state)
    for before in lost:
        number = core.state.last_job + 1
        core.tell([e.Submitted(number, JobSpec(name="again", nodes=Bounds.exactly(1)), before)], now)
    finish(core, now)
    assert not audit(records).jobs
    agree([*noting.told, *core.state.news], records)


@limits(max_examples=examples(60), deadline=None)
@given(elastic_jobs, policies_, settings_, st.integers(0, 9), st.booleans())
def test_every_end_of_a_simulation_is_told_exactly_once(
    jobs: list[SimJob],
    policy: tuple[str, str | None],
    options: Settings,
    seed: int,
    requeue: bool,  # noqa: FBT001 - Hypothesis passes it
) -> None:
    records: list[r.Record] = []
    noting = Noting(in_order("shortest", *policy))
    failures = Failures(DrawnFailures(1000.0, 1.0, seed=seed), requeue=requeue)
    simulate(jobs, 24, noting, Conditions(options, failures=failures), records.append)
    agree(noting.told, records)  # the last end frees nodes, so that a pass follows it


def malleable(model: Amdahl | None = None) -> JobSpec:
    return JobSpec(
        name="a", nodes=Bounds(1, 4, preferred=2), job_class=JobClass.MALLEABLE, walltime_s=100.0, model=model
    )


def started(spec: JobSpec) -> tuple[Driven, Noting]:
    """A core on which ``spec`` runs on 2 of 3 nodes since 0 s."""
    noting = Noting(make("fcfs", "preferred"))
    core = Driven(noting)
    core.tell([e.Granted(NodeSet.first(3)), e.Submitted(1, spec)], 0.0)
    core.tell([e.Hello(1), job_says.malleable(1, on=True)], 0.0)
    return core, noting


def share_done(core: Driven, now: float) -> float:
    [(_, _, job)] = core.state.running
    return job.done(now)


def test_work_done_is_known_by_progress_else_by_the_model_else_by_the_estimate() -> None:
    core, _ = started(malleable())
    assert share_done(core, 25.0) == 0.25  # of its walltime
    assert share_done(core, 400.0) == 1.0
    core.tell([job_says.progressed(1, 0.4)], 20.0)
    assert share_done(core, 20.0) == 0.4
    assert share_done(core, 30.0) == pytest.approx(0.6)  # as fast as so far
    core, _ = started(malleable(Amdahl(160.0)))
    assert share_done(core, 20.0) == 0.25  # 80 s on two nodes
    core.tell([job_says.progressed(1, 0.5)], 20.0)
    assert share_done(core, 28.0) == pytest.approx(0.6)


def test_work_done_counts_each_size() -> None:
    core, _ = started(malleable())
    core.tell([e.ResizeOrdered(1, 1)], 25.0)
    core.tell([job_says.accepted(1, 1), core.resized(1, 1, 0)], 25.0)
    assert share_done(core, 25.0) == 0.25
    assert share_done(core, 75.0) == 0.5  # 200 s on one node


def test_the_work_done_at_the_end() -> None:
    core, noting = started(malleable())
    core.tell([e.Ended(1, 1), e.Clean(1, NodeSet.first(2))], 25.0)
    [end] = noting.told
    assert (end.job, end.state, end.done, end.requeued) == (1, JobState.FAILED, 0.25, 0)
    core, noting = started(malleable())
    core.tell([e.Ended(1, 0), e.Clean(1, NodeSet.first(2))], 25.0)
    assert [x.done for x in noting.told] == [1.0]
    core, noting = started(malleable())
    core.tell([e.Cancelled(1)], 25.0)
    assert noting.told == []  # it has not ended yet
    core.tell([e.Ended(1, 143), e.Clean(1, NodeSet.first(2))], 50.0)
    assert [(x.state, x.done) for x in noting.told] == [(JobState.CANCELLED, 0.5)]


def test_a_requeue_is_told_when_its_new_number_is_known() -> None:
    core, noting = started(malleable())
    core.tell([e.Lost(NodeSet.of([0]))], 10.0)
    core.tell([e.Ended(1, 1, requeue=True)], 20.0)
    assert noting.told == []
    core.tell([e.Submitted(2, malleable(), 1)], 30.0)
    assert [(x.job, x.state, x.done, x.requeued) for x in noting.told] == [(1, JobState.NODE_FAIL, 0.2, 2)]
    core.tell([e.Tick()], 40.0)
    assert len(noting.told) == 1


def test_a_job_whose_time_is_over_does_not_come_again_because_its_nodes_were_lost_meanwhile() -> None:
    core, noting = started(malleable())
    core.tell([e.Cancelled(1, "its time is over", JobState.TIMEOUT)], 10.0)
    core.tell([e.Ended(1, 1, requeue=True), e.Clean(1, NodeSet.first(2))], 20.0)
    assert [(x.state, x.requeued) for x in noting.told] == [(JobState.TIMEOUT, 0)]


def test_news_waits_for_the_next_pass() -> None:
    """Nothing is free and nobody waits, so no pass is made; and none while the core is held."""
    core, noting = started(malleable())
    core.held = "the journal cannot be written"
    core.tell([e.Submitted(2, malleable()), e.Cancelled(2)], 1.0)
    core.tell([e.Tick()], 2.0)
    assert noting.told == []
    core.held = ""
    core.tell([e.Tick()], 3.0)
    assert [(x.job, x.state, x.done) for x in noting.told] == [(2, JobState.CANCELLED, 0.0)]


# ---- waking ------------------------------------------------------------------------------------------


def test_a_policy_is_woken_though_nothing_happens_and_nothing_is_free() -> None:
    noting = Noting(make("easy"), 7.0, 4.0, 1.0, -3.0, float("nan"), float("inf"))
    records_of([rigid("a", 8, 10.0, at=1.0)], noting)
    # The earliest of each pass, none in the past; the last pass is that of the end.
    assert noting.passes == [0.0, 1.0, 4.0, 7.0, 11.0]


def test_what_was_asked_for_before_counts_too() -> None:
    noting = Noting(make("easy"), 5.0)
    core = Driven(noting)
    spec = JobSpec(name="a", nodes=Bounds.exactly(1))
    commands = core.tell([e.Granted(NodeSet.first(2)), e.Submitted(1, spec)], 0.0)
    assert c.WakeAt(5.0) in commands
    noting._wakes = (9.0,)
    core.tell([e.Ended(1, 0), e.Clean(1, NodeSet.first(1))], 2.0)
    core.tell([e.Tick()], 5.0)
    assert noting.passes == [0.0, 2.0, 5.0]
    assert core.tell([e.Submitted(2, spec)], 6.0)[-1:] == [
        c.Start(2, NodeSet.first(1))
    ]  # 9 is asked for already


def test_nodes_that_do_not_come_back_are_waited_for_a_second() -> None:
    spec = JobSpec(name="a", nodes=Bounds.exactly(1))
    noting = Noting(make("easy"))
    core = Driven(noting)
    core.tell([e.Granted(NodeSet.first(3)), e.Submitted(1, spec), e.Submitted(2, spec)], 0.0)
    assert core.tell([e.Ended(1, 0)], 2.0)[-1] == c.WakeAt(3.0)
    core.tell([e.Submitted(3, spec)], 2.5)
    core.tell([e.Ended(2, 0)], 2.75)  # who leaves meanwhile puts nothing off
    assert noting.passes == [0.0]
    assert c.Start(3, NodeSet.of([2])) in core.tell([e.Tick()], 3.0)
    core.tell([e.Submitted(4, spec)], 3.25)
    assert core.tell([e.Clean(2, NodeSet.of([1]))], 3.5)[0] == c.Start(4, NodeSet.of([1]))
    assert noting.passes == [0.0, 3.0, 3.5]  # job 1 has had its time
    core.tell([e.Ended(3, 0), e.Submitted(5, spec)], 5.0)
    core.tell([e.Lost(NodeSet.of([2]))], 5.25)
    assert noting.passes[3:] == [5.25]  # nor does anybody wait for what is lost


def test_nodes_that_take_longer_are_not_waited_for() -> None:
    noting = Noting(make("easy"))
    core = Driven(noting, Settings(cost=structs.replace(INSTANT, leave_s=1.5)))
    spec = JobSpec(name="a", nodes=Bounds.exactly(1))
    core.tell([e.Granted(NodeSet.first(2)), e.Submitted(1, spec)], 0.0)
    core.tell([e.Ended(1, 0)], 2.0)
    assert noting.passes == [0.0, 2.0]


def test_passes_at_an_interval_wake_at_a_multiple_of_it() -> None:
    noting = Noting(make("easy"), 4.0)
    records_of([rigid("a", 8, 12.0)], noting, settings=Settings(cost=INSTANT, pass_interval_s=5.0))
    assert noting.passes == [0.0, 5.0]


class Always:
    """Asks to be woken in every pass; starts jobs from ``begin`` seconds on."""

    name = "always"

    def __init__(self, begin: float, every: float) -> None:
        self._begin = begin
        self._every = every
        self.passes = 0

    def decide(self, view: p.ClusterView) -> Iterable[p.Decision]:
        self.passes += 1
        yield p.Wake(view.now + self._every)
        if view.now >= self._begin:
            for job in view.queue:
                yield p.Start(job.id, job.bounds.min, WHY)


def test_jobs_may_start_later_and_the_end_ends_the_run() -> None:
    policy = Always(100.0, 30.0)
    records = records_of([rigid("a", 8, 50.0)], policy)
    assert [x.at for x in records if isinstance(x, r.JobStarted)] == [120.0]
    assert records[-1].at == 170.0
    assert policy.passes == 5 + 1 + 1  # 0, 30, 60, 90 and 120 s; 150 s with all nodes in use; the end
    wrapped = ordered(Always(100.0, 30.0), "shortest")
    assert records_of([rigid("a", 8, 50.0)], wrapped) == records


def test_a_policy_that_is_woken_for_ever_and_starts_nothing_is_stuck() -> None:
    with pytest.raises(
        PolicyError, match=r"'always' is stuck .* 1 job waits \(a\), 8 nodes are free, and it asks"
    ):
        records_of([rigid("a", 8, 50.0)], Always(1e12, 60.0))


def test_a_policy_of_ones_own_may_ask_to_be_woken(tmp_path: Path) -> None:
    trace = tmp_path / "x.swf"
    trace.write_text("; MaxProcs: 2\n1 0 0 10 2\n")
    mine = tmp_path / "mine.py"
    text = (
        "from pliant.policy.view import Reason, Start, Wake\n"
        "class Mine:\n"
        "    name = 'mine'\n"
        "    def decide(self, view):\n"
        "        if view.now < 5:\n"
        "            return [Wake(TIME)]\n"
        "        return [Start(job.id, job.bounds.min, Reason('night')) for job in view.queue]\n"
    )
    mine.write_text(text.replace("TIME", "5.0"))
    assert '"makespan_s": 15.0' in command("simulate", str(trace), "--policy", str(mine), "--json")
    mine.write_text(text.replace("TIME", "'5'"))
    with pytest.raises(PolicyError, match=r"decided Wake\(at='5'\), whose fields are not of the types"):
        command("simulate", str(trace), "--policy", str(mine), "--json")


class Remembering:
    """First come, first served, with a count of its passes in what it remembers."""

    name = "remembering"

    def __init__(self, memory: object = None) -> None:
        self._memory = memory

    def decide(self, view: p.ClusterView) -> Iterable[p.Decision]:
        passes = view.memory.get("passes", [0])
        yield p.Remember({"passes": (passes[0] + 1,), 5: None} if self._memory is None else self._memory)  # type: ignore[arg-type, dict-item]
        yield from make("fcfs").decide(view)


def test_what_a_policy_remembers_is_recorded_as_a_journal_has_it() -> None:
    jobs = [rigid("a", 1, 3.0), rigid("b", 1, 3.0, at=1.0)]
    records = records_of(jobs, Remembering())
    memories = [record.memory for record in records if isinstance(record, r.PolicyRemembers)]
    assert memories == [{"passes": [n + 1], "5": None} for n in range(len(memories))]
    assert len(memories) >= 2
    assert [r.from_line(r.to_line(record)) for record in records] == records


@pytest.mark.parametrize(
    "memory",
    [{"a": object()}, [1], {"a": "\ud800"}],
)
def test_what_cannot_be_recorded_cannot_be_remembered(memory: object) -> None:
    with pytest.raises(PolicyError, match="only what JSON has can be remembered"):
        records_of([rigid("a", 1, 3.0)], Remembering(memory))
