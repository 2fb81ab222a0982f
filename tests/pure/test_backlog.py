"""The index of the waiting jobs: it finds whom a look at all of them finds, and policies decide the same with it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from drawing import examples
from driving import Driven
from hypothesis import given, settings
from hypothesis import strategies as st
from test_simulation import run

from pliant.core import events as e
from pliant.core import state as core_state
from pliant.core.job import ScheduledJob
from pliant.core.settings import Settings
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.model.nodes import NodeSet
from pliant.model.speedup import Amdahl, Downey, Model, Table, falls
from pliant.policy.backlog import BLOCK, LONG_S, Backlog, EstimateRange, Like, Measure
from pliant.policy.easy import at_least, at_one_size, at_preferred
from pliant.policy.pass_budget import quickest
from pliant.policy.registry import POLICIES, START_RULES, has_start_rule, make
from pliant.testing.policies.drawn import NODES, elastic_jobs, settings_
from pliant.workloads.job import SimJob

NEVER = float("inf")
MODELS: list[Model | None] = [
    None,
    Amdahl(100.0, 0.1),
    Amdahl(7.0, 0.1),
    Amdahl(100.0, 0.2, 5.0),
    Downey(50.0, 4.0, 0.5),
    Table({1: 9.0, 4: 3.0, 8: 5.0}),
]


@st.composite
def specs_(draw: st.DrawFn) -> JobSpec:
    low = draw(st.integers(1, 5))
    return JobSpec(
        name="a",
        nodes=Bounds(low, draw(st.sampled_from([low, 8])), preferred=draw(st.sampled_from([0, low]))),
        job_class=draw(st.sampled_from(JobClass)),
        walltime_s=draw(st.sampled_from([0.0, 1.0, 5.0, 60.0, 1e9, NEVER])),
        model=draw(st.sampled_from(MODELS)),
    )


@st.composite
def waiting_(draw: st.DrawFn) -> list[ScheduledJob]:
    """As many as fill some blocks, of a few kinds."""
    specs = draw(st.lists(specs_(), min_size=1, max_size=8))
    kinds = draw(st.lists(st.integers(0, len(specs) - 1), max_size=4 * BLOCK))
    return [ScheduledJob(number, specs[kind]) for number, kind in enumerate(kinds, 1)]


EDGES = [-1.0, 0.0, 1.0, 5.0, 30.0, 1e9, LONG_S]
spans_ = st.lists(st.sampled_from(EDGES), min_size=2, max_size=4, unique=True).flatmap(
    lambda edges: st.tuples(
        *(
            st.builds(EstimateRange, st.just(over), st.just(most), st.booleans())
            for over, most in pairwise(sorted(edges))
        )
    )
)
Asked = tuple[Backlog, list[ScheduledJob]]
"""An index, and who is in it."""


@st.composite
def indexes_(draw: st.DrawFn) -> Asked:
    """Made before some have gone, and asked without some."""
    jobs = draw(waiting_())
    numbers_ = st.sets(st.sampled_from([job.id for job in jobs])) if jobs else st.just(set[int]())
    gone, left_out = draw(numbers_), draw(numbers_)
    backlog, later = Backlog(jobs[: len(jobs) // 2]), jobs[len(jobs) // 2 :]
    list(backlog.behind(0, unlimited, at_least, lambda _: LONG_S))
    list(backlog.like(0, unlimited, lambda _: ()))
    for job in later:
        backlog.add(job)
    for number in gone:
        backlog.discard(jobs[number - 1])
    return backlog.without(left_out), [job for job in jobs if job.id not in gone | left_out]


def unlimited() -> float:
    return NEVER


@settings(max_examples=examples(200))
@given(
    indexes_(),
    st.integers(0, 130),
    st.integers(0, 9),
    st.sampled_from([at_least, at_preferred, quickest, at_one_size("max", 7), at_one_size("exact", 7)]),
    st.data(),
)
def test_it_finds_whom_a_look_at_all_finds(
    asked: Asked, after: int, nodes: int, measure: Measure, data: st.DataObject
) -> None:
    backlog, there = asked
    most = data.draw(st.lists(st.sampled_from(EDGES), min_size=9, max_size=9))
    fewer, once = data.draw(st.integers(0, nodes)), data.draw(st.integers(0, 5))
    free = [nodes]
    found, expected = backlog.behind(after, lambda: free[0], measure, most.__getitem__), []
    for job in there:
        need, estimate_s = measure(job)
        if job.id > after and need <= free[0] and min(estimate_s, LONG_S) <= most[need]:
            expected.append(job)
            assert next(found) is job
            if len(expected) == once:
                free[0] = fewer
    assert next(found, None) is None
    assert backlog.after(after) == [job for job in there if job.id > after]
    assert len(backlog) == len(there)
    for number in range(130):
        assert backlog.get(number) is next((job for job in there if job.id == number), None)


@given(indexes_(), st.integers(0, 130), st.integers(0, 6), st.lists(spans_, min_size=6, max_size=6))
def test_of_those_who_are_alike_it_tells_the_first(
    asked: Asked, after: int, nodes: int, spans: list[tuple[EstimateRange, ...]]
) -> None:
    backlog, there = asked
    seen: set[tuple[object, EstimateRange]] = set()
    expected = [
        job
        for job in there
        if job.id > after and job.bounds.min <= nodes and falls_in_a_span(job, spans[job.bounds.min], seen)
    ]
    assert list(backlog.like(after, lambda: nodes, lambda row: spans[row.need])) == expected


def falls_in_a_span(
    job: ScheduledJob, spans: tuple[EstimateRange, ...], seen: set[tuple[object, EstimateRange]]
) -> bool:
    """Whether it is in a span, and the first of its row there if all are alike."""
    bounds, spec = job.bounds, job.spec
    opaque = bounds.min < bounds.max and not falls(spec.model)
    estimate_s = min(LONG_S, spec.estimate(bounds.min) if opaque else spec.walltime_s)
    for span in spans:
        if span.over < estimate_s <= span.most:
            of = (bounds, spec.job_class, opaque), span
            first = of not in seen
            seen.add(of)
            return first or not span.alike
    return False


@given(waiting_())
def test_a_row_knows_between_what_ratios_the_times_of_its_jobs_are(waiting: list[ScheduledJob]) -> None:
    rows: dict[object, tuple[Like, list[ScheduledJob]]] = {}
    for job in waiting:
        bounds, spec = job.bounds, job.spec
        if bounds.min == bounds.max or falls(spec.model):
            row, jobs = rows.setdefault((bounds, spec.job_class), (Like(job, opaque=False), []))
            row.add(job, spec.walltime_s)
            jobs.append(job)
            row.ratios(bounds.min)  # it is kept up to date
    for row, jobs in rows.values():
        for size in row.one.bounds.sizes():
            least, most = row.ratios(size)
            for job in jobs:
                if 0.0 < job.spec.walltime_s < NEVER:
                    ratio = job.spec.estimate(size) / job.spec.walltime_s
                    assert least * (1 - 1e-12) <= ratio <= most * (1 + 1e-12)


@given(waiting_(), st.sampled_from(EDGES), st.sampled_from(EDGES))
def test_estimates_one_by_one_are_alike_where_models_are(
    waiting: list[ScheduledJob], over: float, most: float
) -> None:
    row = Like(ScheduledJob(0, JobSpec(name="a", nodes=Bounds(1, 8))), opaque=False)
    by_estimate: dict[float, list[ScheduledJob]] = {}
    for job in waiting:
        row.add(job, job.spec.walltime_s)
        by_estimate.setdefault(job.spec.walltime_s, []).append(job)
    between = sorted(each for each in by_estimate if over < each <= most)
    assert [(span.most, span.alike) for span in row.each(over, most)] == [
        (each, all(job.spec.model == by_estimate[each][0].spec.model for job in by_estimate[each]))
        for each in between
    ]
    for span in row.each(over, most):
        assert row.first(0, span.over, span.most) is by_estimate[span.most][0]


INDEXED = [
    (name, rule) for name in POLICIES for rule in (START_RULES if has_start_rule(POLICIES[name]) else [None])
]


@settings(max_examples=examples(100))
@given(elastic_jobs, st.sampled_from(INDEXED), settings_)
def test_with_an_index_all_is_as_without(
    jobs: list[SimJob], policy: tuple[str, str | None], options: Settings
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(core_state, "LONG", 1)
        indexed = run(jobs, NODES, make(*policy), options)
        patch.setattr(core_state, "LONG", 10**9)
        assert run(jobs, NODES, make(*policy), options) == indexed


def index(core: Driven) -> Backlog | None:
    return core.state.backlog


def test_it_follows_cancels_and_is_gone_when_few_wait() -> None:
    core = Driven(make("easy"))
    wide, one = (JobSpec(name="a", nodes=Bounds.exactly(n), walltime_s=9.0) for n in (2, 1))
    many = range(3, core_state.LONG + 4)
    core.tell([e.Granted(NodeSet.first(3)), e.Submitted(1, wide), e.Submitted(2, wide)], 0.0)
    assert index(core) is None
    core.tell([e.Submitted(number, wide) for number in many], 0.0)
    core.tell([e.Cancelled(number) for number in many[10:20]], 1.0)
    assert (backlog := index(core)) is not None
    assert next(backlog.behind(many[9], unlimited, at_least, lambda _: LONG_S)).id == many[20]
    core.tell([e.Submitted(many[-1] + 1, one)], 2.0)
    assert core.state.jobs[many[-1] + 1].size == 1  # it ends no later than the head can start
    core.tell([e.Cancelled(number) for number in many[20:60]], 3.0)
    assert index(core) is None
    core.tell([e.Ended(1, 0)], 4.0)
    core.tell([e.Clean(1, NodeSet.first(2))], 4.0)
    assert core.state.jobs[2].size == 2
