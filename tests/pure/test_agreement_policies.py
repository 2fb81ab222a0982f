"""The nine policies of sizing and agreement: what they keep for whom, and where they differ."""

from __future__ import annotations

from collections.abc import Iterable

import job_says
import pytest
from drawing import examples
from driving import Driven
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from workloads import NODES, records_of, rigid, starts_of, upper_bound_jobs

from pliant.core import events as e
from pliant.core import records as r
from pliant.core.job import ScheduledJob
from pliant.core.settings import Settings
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.model.nodes import NodeSet
from pliant.model.speedup import Amdahl, Table
from pliant.plan.cost import INSTANT, ResizeCost
from pliant.policy.agreement import AGREEMENT, ANYONE, POOL, STEAL, AgreementLedger, Rule
from pliant.policy.easy import Easy, easy_pass
from pliant.policy.family import PATIENCE_S, Agreeing
from pliant.policy.registry import make
from pliant.policy.sizing import AVERAGE, MIN, PREFERRED, Sizing
from pliant.policy.view import ClusterView, Decision, Reason, Remember, Resize, Start
from pliant.sim.simulator import Conditions, Simulator
from pliant.testing.policies.drawn import NODES as MANY
from pliant.testing.policies.drawn import elastic_jobs, settings_
from pliant.workloads.job import SimJob

EXAMPLES = examples(60)
ROUNDING_S = 1e-6
SIZINGS = [MIN, PREFERRED, AVERAGE]
RULES = [AGREEMENT, STEAL, POOL]
sizings_ = st.sampled_from(SIZINGS)
rules_ = st.sampled_from(RULES)


class Watched:
    """A policy of the family, with every pass checked against what it saw, and what it remembers."""

    name = "watched"

    def __init__(self, sizing: Sizing, rule: Rule) -> None:
        self._rule = rule
        self._policy = Agreeing(sizing, rule)
        self.left = 0

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        before = set(AgreementLedger(self._rule, PATIENCE_S, view.memory).held)
        decisions = self._policy.decide(view)
        memory = next((d.memory for d in decisions if isinstance(d, Remember)), view.memory)
        ledger = AgreementLedger(self._rule, PATIENCE_S, memory)
        self.left = len(ledger.held)
        started = {d.job: d.size for d in decisions if isinstance(d, Start)}
        resizes = [d for d in decisions if isinstance(d, Resize)]
        elastic = {job.id: job for job in view.elastic}
        given_back = {d.job: elastic[d.job].size - d.size for d in resizes if d.size < elastic[d.job].size}
        growth = sum(d.size - elastic[d.job].size for d in resizes if d.job not in given_back)
        assert len({d.job for d in resizes}) == len(resizes)
        assert not (given_back and growth)
        queue = {job.id: job for job in view.queue}
        awaited: dict[int, int] = {}
        for number, agreement in ledger.held.items():
            assert number not in started
            assert queue[number].bounds.allows(agreement.size)
            assert agreement.free >= 0
            assert agreement.free + sum(agreement.awaited.values()) == agreement.size
            assert all(nodes > 0 for nodes in agreement.awaited.values())
            assert agreement.lacking  # else it would have started, or would do so by EASY
            assert view.now - agreement.since <= PATIENCE_S
            for donor, nodes in agreement.awaited.items():
                awaited[donor] = awaited.get(donor, 0) + nodes
        assert ledger.bound + growth + sum(started.values()) <= view.free
        assert sum(awaited.values()) <= view.returning() + sum(given_back.values())
        for donor, nodes in awaited.items():
            if donor != ANYONE:
                assert nodes <= view.returning(donor) + given_back.get(donor, 0)
        new = [ledger.held[number] for number in ledger.held.keys() - before]
        lacking = sum(sum(each.awaited.get(d, 0) for d in given_back) for each in new)
        assert bool(given_back) == bool(new)
        if all(elastic[d].bounds.factor == 1 for d in given_back):
            assert sum(given_back.values()) == lacking
        assert sum(given_back.values()) >= lacking
        if len(new) == 1:  # no donor could keep one size more
            for d in resizes:
                more = elastic[d.job].bounds.above(d.size)
                assert not given_back or sum(given_back.values()) - (more - d.size) < lacking
        return decisions


@settings(max_examples=EXAMPLES * 3)
@given(elastic_jobs, sizings_, rules_, settings_)
@pytest.mark.long
def test_agreements_are_covered_exact_and_end(
    jobs: list[SimJob], sizing: Sizing, rule: Rule, options: Settings
) -> None:
    policy = Watched(sizing, rule)
    records: list[r.Record] = []
    Simulator(jobs, MANY, policy, Conditions(options), records.append).run()
    assert sum(isinstance(record, r.JobEnded) for record in records) == len(jobs)
    assert policy.left == 0


@settings(max_examples=EXAMPLES)
@given(upper_bound_jobs(), sizings_, rules_)
def test_without_malleable_jobs_all_nine_are_easy(jobs: list[SimJob], sizing: Sizing, rule: Rule) -> None:
    assert records_of(jobs, Agreeing(sizing, rule)) == records_of(jobs, StartsBest(sizing.start))
    rigid = [SimJob(job.spec.rigid()) for job in jobs]
    assert records_of(rigid, Agreeing(sizing, rule)) == records_of(rigid, Easy(sizing.start))


class StartsBest(Easy):
    """EASY where jobs that keep their size start at their best one."""

    def decide(self, view: ClusterView) -> list[Decision]:
        return easy_pass(view, self._start, resizes=True)[0]


@pytest.mark.parametrize("job_class", [JobClass.MOLDABLE, JobClass.EVOLVING])
@pytest.mark.parametrize("policy", ["malleable", *(f"{a.name}-{b.name}" for a in SIZINGS for b in RULES)])
def test_jobs_that_keep_their_size_start_at_their_best_one(policy: str, job_class: JobClass) -> None:
    """Speed-up is linear to 8 nodes and poor beyond. a and b find 16 idle nodes, and when b came it would have ended
    later with the 4 that were left than if it waited for the job before it; c ends no later so."""

    def moldable(name: str, at: float) -> SimJob:
        model = Table({1: 800.0, 2: 400.0, 4: 200.0, 8: 100.0, 16: 80.0})
        bounds = Bounds(1, 16, 2, preferred=8)
        spec = JobSpec(
            name=name, nodes=bounds, job_class=job_class, submit_s=at, walltime_s=100.0, model=model
        )
        return SimJob(spec)

    def sizes(*jobs: SimJob) -> list[tuple[float, int]]:
        records = records_of(list(jobs), make(policy), nodes=16)
        return [(record.at, len(record.nodes)) for record in records if isinstance(record, r.JobStarted)]

    quick = [moldable("a", 0.0), rigid("e", 12, 40.0, at=200.0), moldable("b", 201.0)]
    assert sizes(*quick) == [(0.0, 16), (200.0, 12), (240.0, 16)]
    assert sizes(rigid("e", 12, 400.0), moldable("c", 1.0)) == [(0.0, 12), (1.0, 4)]
    assert sizes(moldable("a", 0.0), moldable("b", 0.0)) == [(0.0, 8), (0.0, 8)]


@pytest.mark.long
@settings(max_examples=EXAMPLES * 3)
@given(upper_bound_jobs(), st.lists(st.booleans(), min_size=20, max_size=20), sizings_, rules_)
def test_a_head_starts_as_first_promised(
    jobs: list[SimJob], malleable: list[bool], sizing: Sizing, rule: Rule
) -> None:
    """Estimates are upper bounds and nothing but the work takes time; then neither growth nor shrinks for
    jobs behind it delay a head."""
    mixed = [
        SimJob(structs.replace(job.spec, job_class=JobClass.MALLEABLE)) if yes else job
        for job, yes in zip(jobs, malleable, strict=False)
    ]
    promised: dict[int, float] = {}
    options = Settings(cost=INSTANT, cooldown_s=0.0)
    for record in records_of(mixed, Agreeing(sizing, rule), settings=options):
        if isinstance(record, r.JobPromised):
            promised.setdefault(record.job, record.start_by)
        elif isinstance(record, r.JobStarted):
            assert record.at <= promised.get(record.job, record.at) + ROUNDING_S


def elastic(name: str, low: int, high: int) -> SimJob:
    model = Amdahl(1e5)
    spec = JobSpec(
        name=name,
        nodes=Bounds(low, high),
        job_class=JobClass.MALLEABLE,
        walltime_s=model.time(low),
        model=model,
    )
    return SimJob(spec)


@pytest.mark.parametrize("sizing", ["min", "preferred", "average"])
def test_agreement_and_steal_by_hand(sizing: str) -> None:
    """8 nodes, of which a has 4, b 2; what they give is clean 10 s later.

    At 20 s "wide" lacks two nodes, and a gives them; at 21 s "thin" lacks two, and a and b give one each.
    Each with its own: they start at 30 s and 31 s. With exchange, thin takes at once the two free nodes that
    were kept for wide, which then waits for the last of its nodes until 31 s.
    """
    jobs = [
        elastic("a", 1, 4),
        elastic("b", 1, 2),
        rigid("wide", 4, 50.0, at=20.0),
        rigid("thin", 2, 50.0, at=21.0),
    ]
    cost = ResizeCost(start_s=0.0, start_each_s=0.0, blocked_s=0.0, leave_s=10.0, answer_s=0.0)
    for rule, wide, thin in (("agreement", 30.0, 31.0), ("steal", 31.0, 21.0), ("pool", 31.0, 21.0)):
        records = records_of(jobs, make(f"{sizing}-{rule}"), settings=Settings(cooldown_s=0.0, cost=cost))
        starts = starts_of(records)
        assert (starts["wide"], starts["thin"]) == (wide, thin), rule


@pytest.mark.parametrize(("rule", "start_s"), [("agreement", 30.0), ("steal", 30.0), ("pool", 25.0)])
def test_steal_and_pool_by_hand(rule: str, start_s: float) -> None:
    """A job waits for three nodes that take 10 s; after 5 s, four that nobody had counted upon are free."""
    early = rigid("early", 4, 1000.0)
    jobs = [elastic("a", 1, 4), SimJob(early.spec, 25.0), rigid("waits", 3, 50.0, at=20.0)]
    cost = ResizeCost(start_s=0.0, start_each_s=0.0, blocked_s=0.0, leave_s=0.0, answer_s=10.0)
    records = records_of(jobs, make(f"min-{rule}"), settings=Settings(cooldown_s=0.0, cost=cost))
    assert starts_of(records)["waits"] == start_s


def running_job(number: int, size: int, bounds: Bounds) -> ScheduledJob:
    job = ScheduledJob(number, JobSpec(name=f"j{number}", nodes=bounds, job_class=JobClass.MALLEABLE))
    job.size = job.target = size
    return job


@pytest.mark.parametrize(
    ("sizing", "given_back"), [(MIN, {2: 5}), (PREFERRED, {1: 4, 2: 1}), (AVERAGE, {1: 4, 2: 1})]
)
def test_who_gives_by_hand(sizing: Sizing, given_back: dict[int, int]) -> None:
    """j1 has 8 of 2 to 8 nodes, j2 10 of 2 to 18. j2 has more above its min, j1 more above its preferred size
    and, down to 5 nodes, a larger share of its range; from there on they take turns."""
    jobs = [running_job(1, 8, Bounds(2, 8, preferred=4)), running_job(2, 10, Bounds(2, 18, preferred=9))]
    _, floor = sizing.attempts[0]
    able = sizing.by.able(jobs, floor)
    assert sizing.by.take(able, 5, floor) == given_back
    assert sizing.by.just_enough(able, 15, floor, Reason("too many")) == []


def test_average_gives_one_node_at_a_time_also_to_jobs_of_one_size() -> None:
    jobs = [running_job(1, 4, Bounds(4, 4)), running_job(2, 8, Bounds(1, 8, 2))]
    _, floor = AVERAGE.attempts[0]
    assert AVERAGE.by.take(AVERAGE.by.able(jobs, floor), 1, floor) == {2: 4}


@pytest.mark.parametrize("rule", ["agreement", "steal", "pool"])
def test_what_becomes_of_an_agreement(rule: str) -> None:
    """The donor declines: asked again later. The waiting job is cancelled: what was freed for it goes back."""
    records: list[r.Record] = []
    core = Driven(make(f"min-{rule}"), Settings(decline_backoff_s=5.0, cooldown_s=0.0), records.append)
    donor = JobSpec(name="a", nodes=Bounds(1, 4), job_class=JobClass.MALLEABLE, model=Amdahl(1e5))
    core.tell([e.Granted(NodeSet.first(4)), e.Submitted(1, donor)], 0.0)
    core.tell([e.Hello(1), job_says.malleable(1, on=True)], 0.0)
    core.tell([job_says.accepted(1, 1)], 1.0)
    core.tell([job_says.resized(1, 1)], 1.0)
    core.tell([e.Submitted(2, JobSpec(name="b", nodes=Bounds.exactly(2)))], 2.0)
    assert core.state.jobs[1].target == 2
    core.tell([job_says.declined(1, 2, "busy")], 3.0)
    assert (core.state.jobs[1].target, core.state.free, core.state.waiting) == (4, 0, 1)
    core.tell([e.Tick()], 8.0)
    assert core.state.jobs[1].target == 2
    core.tell([job_says.accepted(1, 3)], 9.0)
    core.tell([core.resized(1, 3, 2, 3)], 9.0)
    core.tell([e.Cancelled(2)], 9.5)
    core.tell([e.Clean(1, NodeSet.of([2, 3]))], 10.0)
    assert core.state.jobs[1].target == 4
    offers = [record.after for record in records if isinstance(record, r.ResizeOffered)]
    assert offers == [4, 2, 2, 4]


@pytest.mark.parametrize("lost", [[0], [2, 3]])
def test_lost_nodes_end_no_agreement_in_a_deadlock(lost: list[int]) -> None:
    """Free nodes that were kept, or those on their way, are lost: the job starts when there are enough."""
    core = Driven(make("min-agreement"), Settings(cooldown_s=0.0))
    donor = JobSpec(name="a", nodes=Bounds(1, 3), job_class=JobClass.MALLEABLE, model=Amdahl(1e5))
    core.tell([e.Granted(NodeSet.of([1, 2, 3])), e.Submitted(1, donor)], 0.0)
    core.tell([e.Hello(1), job_says.malleable(1, on=True)], 0.0)
    core.tell([job_says.accepted(1, 1)], 1.0)
    core.tell([job_says.resized(1, 1)], 1.0)
    core.tell([e.Granted(NodeSet.of([0])), e.Submitted(2, JobSpec(name="b", nodes=Bounds.exactly(3)))], 2.0)
    core.tell([job_says.accepted(1, 2)], 3.0)
    core.tell([core.resized(1, 2, 2, 3)], 3.0)
    core.tell([e.Lost(NodeSet.of(lost))], 4.0)
    core.tell([e.Clean(1, NodeSet.of([2, 3]))], 5.0)
    assert core.state.waiting == 1
    core.tell([e.Back(NodeSet.of(lost))], 6.0)
    assert core.state.waiting == 0
    assert NODES > core.state.total - core.state.free == 4
