"""DMR's policies, the start rule max, the checking inhibitor, and the workloads of Iserte et al. 2018."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from statistics import mean

import pytest
from drawing import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from workloads import NODES, malleable, records_of, rigid, starts_of

from pliant.core import records as r
from pliant.core.ledger import AT_ONCE_S
from pliant.core.settings import Settings
from pliant.history.metrics import measure
from pliant.model import table1
from pliant.model.errors import BatchError
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.model.speedup import Amdahl
from pliant.plan.cost import INSTANT, ResizeCost
from pliant.policy.dmr import DmrPreferred, DmrWide
from pliant.policy.fcfs import least_size
from pliant.policy.job_view import JobView
from pliant.policy.registry import START_RULES, make
from pliant.policy.view import ClusterView, Decision, Resize, Start
from pliant.workloads.generators import paper3
from pliant.workloads.generators.paper3 import (
    COUNTS,
    FIXED,
    FLEXIBLE,
    PUBLISHED,
    MeasuredProgram,
    paper3_jobs,
    paper3_settings,
)
from pliant.workloads.job import SimJob
from pliant.workloads.sources import WorkloadRequest, read_workload

EXAMPLES = examples(60)


def flexible(
    name: str,
    bounds: Bounds,
    work_s: float,
    *,
    at: float = 0.0,
    period_s: float = 0.0,
    job_class: JobClass = JobClass.MALLEABLE,
) -> SimJob:
    speed = Amdahl(work_s)
    spec = JobSpec(
        name=name,
        nodes=bounds,
        job_class=job_class,
        submit_s=at,
        walltime_s=speed.time(bounds.preferred),
        model=speed,
    )
    return SimJob(spec, period_s=period_s)


@st.composite
def mixed_jobs(draw: st.DrawFn) -> list[SimJob]:
    """Rigid, moldable and malleable jobs, most with a factor; whole seconds, so that many things coincide."""
    jobs = []
    for number in range(draw(st.integers(1, 12))):
        at, work = float(draw(st.integers(0, 40))), float(draw(st.integers(1, 200)))
        low, factor = draw(st.integers(1, 3)), draw(st.sampled_from([1, 2, 2, 3]))
        sizes = Bounds(low, draw(st.integers(low, NODES)), factor).sizes()
        kind = draw(st.sampled_from([JobClass.MALLEABLE, JobClass.MALLEABLE, JobClass.MOLDABLE]))
        if draw(st.integers(0, 3)):
            bounds = Bounds(low, sizes[-1], factor, draw(st.sampled_from(sizes)))
            jobs.append(flexible(f"j{number}", bounds, work, at=at, job_class=kind))
        else:
            jobs.append(rigid(f"j{number}", draw(st.integers(1, NODES)), work, at=at))
    return jobs


costs = st.sampled_from([INSTANT, ResizeCost(), ResizeCost(start_s=3.0, blocked_s=1.0, leave_s=2.0)])


class Watched:
    """A policy, with ``check`` asked about every pass: the cluster, who still waits, what is free, the resizes."""

    name = "watched"

    def __init__(self, policy: DmrWide | DmrPreferred) -> None:
        self._policy = policy

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        decisions = self._policy.decide(view)
        started = {decision.job: decision.size for decision in decisions if isinstance(decision, Start)}
        waiting = [job for job in view.queue if job.id not in started]
        free = view.free - sum(started.values())
        jobs = {job.id: job for job in view.elastic}
        resizes = {decision.job: decision for decision in decisions if isinstance(decision, Resize)}
        for number, resize in resizes.items():
            assert view.resizable(jobs[number])
            assert jobs[number].bounds.allows(resize.size)
        assert sum(max(0, resize.size - jobs[n].size) for n, resize in resizes.items()) <= free
        self.check(view, waiting, free, resizes)
        return decisions

    def check(
        self, view: ClusterView, waiting: list[JobView], free: int, resizes: dict[int, Resize]
    ) -> None: ...


class WatchedWide(Watched):
    def __init__(self, start: str) -> None:
        super().__init__(DmrWide(start))
        self._start = start

    def check(self, view: ClusterView, waiting: list[JobView], free: int, resizes: dict[int, Resize]) -> None:
        have = free + view.returning()
        asking = {job.id: job for job in view.elastic if view.resizable(job)}
        needs = {job.id: least_size(job, self._start, view.total) for job in waiting}

        def could_start(number: int) -> bool:
            """With what is there, or by one shrink."""
            return any(needs[number] <= have + job.size - job.bounds.min for job in asking.values())

        for number, resize in resizes.items():
            job = asking[number]
            if resize.size > job.size:
                assert not any(could_start(number) for number in needs)
                above = job.bounds.above(resize.size)
                grown = sum(each.size - asking[n].size for n, each in resizes.items())
                assert not above or above - resize.size > free - grown
            else:
                assert len(resizes) == 1
                served = resize.reason.for_job
                assert have < needs[served] <= have + job.size - resize.size
                above = job.bounds.above(resize.size)
                assert above == job.size or needs[served] > have + job.size - above  # no size above suffices
                earlier = [n for n in needs if n < served]  # the queue is in order of submission
                assert not any(needs[n] > have and could_start(n) for n in earlier)


def back_together(records: Iterable[r.Record], at: float, leave_s: float) -> float:
    """When the nodes that were given back at ``at`` are there, with those that are on their way by then: a pass waits
    for them if they are back at once."""
    back = at + leave_s
    for record in records:
        if isinstance(record, r.JobEnded | r.ResizeDone) and at <= record.at <= back and leave_s <= AT_ONCE_S:
            back = record.at + leave_s
    return back + 1e-9


@settings(max_examples=EXAMPLES * 2)
@given(mixed_jobs(), st.sampled_from(START_RULES), costs, st.sampled_from([0.0, 5.0]))
@example(
    [
        malleable("grows", Bounds(1, 2), 11.0, at=2.0),
        malleable("a", Bounds(1, 1), 1.0),
        malleable("b", Bounds(1, 1), 1.0, at=3.0),
        malleable("ends as that one has shrunk", Bounds(3, 3), 23 / 3),
        malleable("waits", Bounds(3, 3), 17 / 3, at=2.0),
    ],
    "min",
    ResizeCost(),
    5.0,
)
def test_wide_shrinks_for_starts_only_and_who_was_shrunk_for_starts(
    jobs: list[SimJob], start: str, cost: ResizeCost, cooldown_s: float
) -> None:
    options = Settings(cost=cost, cooldown_s=cooldown_s)
    records = records_of(jobs, WatchedWide(start), settings=options)
    starts = {record.job: record.at for record in records if isinstance(record, r.JobStarted)}
    assert len(starts) == len(jobs)
    served = {
        record.resize: record.reason.for_job
        for record in records
        if isinstance(record, r.ResizeOffered) and record.kind == "shrink"
    }
    next_to_start = 0
    for record in records:
        if isinstance(record, r.ResizeDone) and record.resize in served:
            assert starts[served[record.resize]] <= back_together(records, record.at, cost.leave_s)
        elif isinstance(record, r.ResizeOffered):
            assert not next_to_start
            next_to_start = served.get(record.resize, 0)
        elif isinstance(record, r.JobStarted):
            assert next_to_start in (0, record.job)
            next_to_start = 0


class WatchedPreferred(Watched):
    def __init__(self, start: str, *, idle_growth: bool) -> None:
        super().__init__(DmrPreferred(start, idle_growth=idle_growth))
        self._idle_growth = idle_growth

    def check(self, view: ClusterView, waiting: list[JobView], free: int, resizes: dict[int, Resize]) -> None:
        for job in sorted(view.elastic, key=lambda job: job.id):
            if not view.resizable(job):
                continue
            preferred = job.bounds.preferred
            if job.size == preferred and (waiting or not self._idle_growth):
                want = job.size
            elif waiting and job.size > preferred:
                want = preferred
            else:
                most = preferred if waiting else job.bounds.max
                want = max(
                    n
                    for n in job.bounds.sizes()
                    if n == job.size or job.size < n <= min(most, job.size + free)
                )
                free -= want - job.size
            assert (resizes[job.id].size if job.id in resizes else job.size) == want


@settings(max_examples=EXAMPLES * 2)
@given(mixed_jobs(), st.sampled_from(START_RULES), costs, st.booleans())
def test_preferred_is_the_articles_rule(
    jobs: list[SimJob],
    start: str,
    cost: ResizeCost,
    idle_growth: bool,  # noqa: FBT001 - Hypothesis passes it
) -> None:
    policy = WatchedPreferred(start, idle_growth=idle_growth)
    records = records_of(jobs, policy, settings=Settings(cost=cost))
    assert len(starts_of(records)) == len(jobs)


def moves(records: list[r.Record]) -> list[tuple[float, int, int, int]]:
    """(time, job, nodes before, nodes after) of what was offered."""
    return [
        (record.at, record.job, record.before, record.after)
        for record in records
        if isinstance(record, r.ResizeOffered)
    ]


def test_wide_by_hand() -> None:
    """Nothing helps b, so c is shrunk for: 4 is the largest size with which a leaves 3 nodes to c, and c goes
    before b. While c holds them nobody can be helped; when it has ended, a takes what is free, and b waits
    until a is over."""
    jobs = [
        flexible("a", Bounds(1, 8, 2), 800.0),
        rigid("b", 8, 10.0, at=5.0),
        rigid("c", 3, 20.0, at=10.0),
    ]
    records = records_of(jobs, DmrWide())
    assert moves(records) == [(10.0, 1, 8, 4), (30.0, 1, 4, 8)]
    # 80 of 800 node-seconds until 10 s, another 80 until 30 s, and the rest on 8 nodes again
    assert starts_of(records) == {"a": 0.0, "b": 110.0, "c": 10.0}


def test_who_was_shrunk_for_goes_first_although_its_nodes_come_late() -> None:
    """c needs the nodes that a leaves as well; d would fit at once, but may not take what c waits for."""
    jobs = [
        flexible("a", Bounds(1, 4, 2), 400.0),
        rigid("b", 2, 12.0),
        rigid("c", 4, 10.0, at=10.0),
        rigid("d", 2, 10.0, at=11.0),
        rigid("e", 1, 10.0, at=11.0),
    ]
    cost = ResizeCost(start_s=0.0, start_each_s=0.0, blocked_s=0.0, leave_s=3.0, answer_s=0.0)
    starts = starts_of(records_of(jobs, DmrWide(), settings=Settings(cost=cost, cooldown_s=1000.0)))
    # 2 nodes are free at 10 s, and a gives 2 that are clean at 13 s; those of b are clean at 15 s.
    assert starts == {"a": 0.0, "b": 0.0, "c": 13.0, "d": 15.0, "e": 23.0 + 3.0}


def test_preferred_by_hand() -> None:
    """a starts at its maximum, and goes to its preferred size as soon as b waits. When nobody does any more,
    it stays there, or, as the figure in the article shows a job do, grows into what is free."""
    jobs = [flexible("a", Bounds(2, 8, 2, preferred=4), 800.0), rigid("b", 4, 20.0, at=10.0)]
    records = records_of(jobs, DmrPreferred())
    assert moves(records) == [(10.0, 1, 8, 4)]
    assert starts_of(records) == {"a": 0.0, "b": 10.0}
    assert moves(records_of(jobs, DmrPreferred(idle_growth=True))) == [(10.0, 1, 8, 4), (30.0, 1, 4, 8)]
    # From below: with b's nodes to its preferred size while c waits, and no further.
    below = [rigid("b", 6, 20.0), flexible("a", Bounds(2, 8, 2, preferred=4), 800.0)]
    records = records_of([*below, rigid("c", 8, 10.0, at=1.0)], DmrPreferred("free"))
    assert moves(records) == [(20.0, 2, 2, 4)]
    assert starts_of(records)["c"] == pytest.approx(20.0 + (800.0 - 20.0 * 2) / 4)
    # Nobody waits when c's nodes come free.
    records = records_of([*below, rigid("c", 6, 10.0, at=1.0)], DmrPreferred("free"))
    assert moves(records) == [(30.0, 2, 2, 8)]


# ---- the start rule ----


@settings(max_examples=EXAMPLES)
@given(
    mixed_jobs(),
    st.sampled_from(["fcfs", "firstfit", "easy", "conservative", "malleable", "keep-preferred", "dmr-wide"]),
    st.integers(3, NODES),
)
def test_jobs_start_at_the_largest_size_that_the_machine_has(
    jobs: list[SimJob], policy: str, nodes: int
) -> None:
    jobs = [job for job in jobs if job.spec.nodes.min <= nodes] or [rigid("one", 1, 1.0)]
    bounds = {job.spec.name: job.spec.nodes for job in jobs}
    names: dict[int, str] = {}
    for record in records_of(jobs, make(policy, "max"), nodes=nodes):
        if isinstance(record, r.JobSubmitted):
            names[record.job] = record.spec.name
        elif isinstance(record, r.JobStarted):
            assert len(record.nodes) == bounds[names[record.job]].floor(nodes)


@pytest.mark.parametrize("policy", ["easy", "conservative"])
def test_the_reservation_is_for_the_maximum(policy: str) -> None:
    """b could have 4 nodes at 10 s, but starts with 8 at 20 s: until then c fits, and d would be in its way."""
    jobs = [
        rigid("a", 4, 10.0),
        rigid("a2", 2, 20.0),
        flexible("b", Bounds(4, 8, 2), 80.0, at=1.0, job_class=JobClass.MOLDABLE),
        rigid("c", 2, 15.0, at=2.0),
        rigid("d", 4, 15.0, at=10.0),
    ]
    starts = starts_of(records_of(jobs, make(policy, "max")))
    assert starts == {"a": 0.0, "a2": 0.0, "b": 20.0, "c": 2.0, "d": 30.0}


# ---- the checking inhibitor ----


@settings(max_examples=EXAMPLES)
@given(
    st.integers(1, 40),
    st.sampled_from([0.5, 3.0, 15.0]),
    st.sampled_from([0.0, 0.25]),
    st.sampled_from([DmrWide, DmrPreferred]),
)
def test_jobs_look_for_offers_at_multiples_of_their_period(
    at: int, period_s: float, answer_s: float, policy: type[DmrWide | DmrPreferred]
) -> None:
    cost = ResizeCost(start_s=0.0, start_each_s=0.0, blocked_s=0.0, leave_s=0.0, answer_s=answer_s)
    jobs = [
        rigid("first", NODES, 0.75),
        flexible("a", Bounds(2, 8, 2, preferred=4), 8000.0, period_s=period_s),
        rigid("b", 3, 20.0, at=float(at)),
    ]
    records = records_of(jobs, policy(), settings=Settings(cost=cost))
    began = starts_of(records)["a"]
    asked = [record.at for record in records if isinstance(record, r.ResizeOffered)]
    answered = [record.at for record in records if isinstance(record, r.ResizeAccepted)]
    assert asked
    assert len(answered) == len(asked)
    for offer, answer in zip(asked, answered, strict=True):
        periods = (answer - answer_s - began) / period_s
        assert periods == pytest.approx(round(periods))
        assert 0 < answer - answer_s - offer <= period_s + 1e-9


# ---- the workloads ----


def test_the_workloads_are_table_1s() -> None:
    jobs = paper3_jobs(400, flexible=True)
    fixed = paper3_jobs(400, flexible=False)
    programs = [job.spec.name.partition("-")[2] for job in jobs]
    assert {program: (row.min, row.max, row.preferred) for program, row in paper3.TABLE1.items()} == {
        "cg": (2, 32, 8), "jacobi": (2, 32, 8), "n-body": (1, 16, 1),
    }  # fmt: skip
    for one, other, program in zip(jobs, fixed, programs, strict=True):
        row = paper3.TABLE1[program]
        assert one.spec.nodes == Bounds(row.min, row.max, 2, row.preferred)
        assert (one.spec.job_class, other.spec.job_class) == (JobClass.MALLEABLE, JobClass.RIGID)
        assert other.spec.nodes == Bounds.exactly(row.max)
        assert one.spec.submit_s == other.spec.submit_s
        assert one.period_s == (15.0 if program != "n-body" else row.period_s)
        assert one.time(row.max) == other.time(row.max) == pytest.approx(table1.TIMES[program].at_max_s)
        assert one.time(row.preferred) == pytest.approx(table1.TIMES[program].at_preferred_s)
        times = [one.time(size) for size in one.spec.nodes.sizes()]
        assert times == sorted(times, reverse=True)
    gaps = [b.spec.submit_s - a.spec.submit_s for a, b in pairwise(jobs)]
    assert abs(mean(gaps) - 10.0) < 3 * 10.0 / math.sqrt(len(gaps))
    assert all(100 < programs.count(program) < 170 for program in paper3.TABLE1)


def test_the_workloads_are_made_by_their_seed() -> None:
    jobs = paper3_jobs(60, 7, flexible=True)
    assert jobs == paper3_jobs(60, 7, flexible=True) == paper3_jobs(80, 7, flexible=True)[:60]
    assert jobs != paper3_jobs(60, 8, flexible=True)
    with pytest.raises(BatchError, match="0 jobs"):
        paper3_jobs(0, flexible=True)


def test_the_workloads_by_name() -> None:
    load = read_workload(WorkloadRequest("paper3:20", percent=100))
    assert (load.jobs, load.nodes) == (paper3_jobs(20, flexible=True), 64)
    assert load.settings == paper3_settings()
    assert read_workload(WorkloadRequest("paper3:20", percent=0)).jobs == paper3_jobs(20, flexible=False)
    assert read_workload(WorkloadRequest("paper3:20,seed=5", run=2)).jobs == paper3_jobs(
        20, 7, flexible=False
    )
    exact = read_workload(WorkloadRequest("paper3:20", percent=100, estimates="exact")).jobs
    assert [job.period_s for job in exact] == [job.period_s for job in load.jobs]
    with pytest.raises(BatchError, match="50 % of malleable jobs; its jobs are all fixed"):
        read_workload(WorkloadRequest("paper3:20", percent=50))


def table4(count: int, version: str, seed: int = paper3.SEED) -> tuple[MeasuredProgram, int, int]:
    """A line of Table 4 as simulated, and the expands and shrinks."""
    jobs = paper3_jobs(count, seed, flexible=version == FLEXIBLE)
    policy = make("dmr-preferred" if version == FLEXIBLE else "easy")
    records = records_of(jobs, policy, nodes=paper3.NODES, settings=paper3_settings())
    m = measure(records)
    row = MeasuredProgram(
        m.utilisation, m.wait_mean_s, m.turnaround_mean_s - m.wait_mean_s, m.turnaround_mean_s
    )
    return row, m.expands, m.shrinks


TOLERANCE = MeasuredProgram(utilisation=0.075, wait_s=0.15, execution_s=0.035, completion_s=0.14)
"""The largest residuals of the calibration are 6.5, 14.4, 2.8 and 13.5 %."""


def test_table_4_with_the_calibrated_run_times() -> None:
    """The run times were calibrated on these figures: this guards the residuals that are stated for them."""
    rows = {}
    for count in COUNTS:
        for version in (FIXED, FLEXIBLE):
            row, expands, shrinks = table4(count, version)
            rows[count, version] = row
            for ours, theirs, most in zip(row, PUBLISHED[count, version], TOLERANCE, strict=True):
                assert ours == pytest.approx(theirs, rel=most)
            # The article shrank 194 jobs of 400 and expanded 50. Here everyone but the last is shrunk.
            assert (expands, shrinks) == (0, count - 1 if version == FLEXIBLE else 0)
    for count in COUNTS:
        ours, theirs = (
            1 - table[count, FLEXIBLE].completion_s / table[count, FIXED].completion_s
            for table in (rows, PUBLISHED)
        )
        assert ours == pytest.approx(theirs, abs=0.06)


@pytest.mark.parametrize("seed", [1, 2])
def test_the_main_ratios_do_not_hang_on_the_seed(seed: int) -> None:
    """Flexible jobs use about 70 % of the nodes and run about 1.6 times as long, and wait less than half."""
    fixed, flexible_ = (table4(200, version, seed)[0] for version in (FIXED, FLEXIBLE))
    assert fixed.utilisation > 0.94
    assert flexible_.utilisation == pytest.approx(0.7354, rel=0.1)
    assert flexible_.execution_s / fixed.execution_s == pytest.approx(825.88 / 520.58, rel=0.1)
    assert flexible_.wait_s / fixed.wait_s == pytest.approx(6856.8 / 17466.2, rel=0.2)
