"""``--instant pyss``: the order of what happens in one instant, against a bare loop in that order."""

from __future__ import annotations

import pytest
from drawing import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from pyss_loop import loop_starts, simulated_starts
from workloads import records_of

from pliant.core import records as r
from pliant.core.settings import Settings
from pliant.model.jobs import Bounds, JobClass, JobSpec, JobState
from pliant.model.speedup import Amdahl
from pliant.plan.cost import INSTANT
from pliant.policy.registry import make
from pliant.sim.instant import Instant
from pliant.workloads.job import SimJob

PROCESSORS = 4


def job(name: str, submit: int, size: int, length: int, estimate: int) -> SimJob:
    spec = JobSpec(name=name, nodes=Bounds.exactly(size), submit_s=float(submit), walltime_s=float(estimate))
    return SimJob(spec, float(length))


@st.composite
def crowds(draw: st.DrawFn) -> list[SimJob]:
    """Jobs in order of submission, of so few and so short times that most of them are equal."""
    submits = sorted(draw(st.lists(st.integers(0, 3), min_size=8, max_size=16)))
    jobs = []
    for number, submit in enumerate(submits):
        length = draw(st.sampled_from([2, 2, 2, 3, 1, 0]))
        estimate = length + draw(st.sampled_from([0, 8, 1]))
        jobs.append(job(str(number), submit, draw(st.integers(1, 3)), length, estimate))
    return jobs


@settings(max_examples=examples(200))
@given(crowds(), st.booleans())
def test_it_is_the_order_of_the_loop(jobs: list[SimJob], backfill: bool) -> None:  # noqa: FBT001 - Hypothesis passes it
    expected = loop_starts(jobs, PROCESSORS, backfill=backfill)
    assert simulated_starts(jobs, PROCESSORS, backfill=backfill) == expected


EARLY, EXACT = (0, 1, 10, 20), (0, 1, 10, 10)
"""Two jobs that end at 10 s on one processor each, one of them before its estimate."""


@pytest.mark.parametrize(
    ("first", "second", "late", "wide_s", "narrow_s"),
    [
        # The batch is freed without a pass; the early end comes first, and both processors go to the head.
        (EARLY, EXACT, None, 10.0, 15.0),
        # Here the pass of the other end comes first: the narrow job passes the head, and does it no harm by
        # the estimates, by which the early job would end at 20 s.
        (EXACT, EARLY, None, 15.0, 10.0),
        # A submission and its pass come before all ends: the narrow job passes, and the new one is too wide.
        (EARLY, EXACT, (10, 2, 1, 1), 15.0, 10.0),
    ],
    ids=["early end first", "exact end first", "submission first"],
)
def test_each_end_has_its_pass_in_the_order_of_starts(
    first: tuple[int, int, int, int],
    second: tuple[int, int, int, int],
    late: tuple[int, int, int, int] | None,
    wide_s: float,
    narrow_s: float,
) -> None:
    jobs = [
        job("first", *first),
        job("second", *second),
        job("wide", 1, 2, 5, 5),
        job("narrow", 2, 1, 5, 5),
        *([job("late", *late)] if late else []),
    ]
    starts = simulated_starts(jobs, 2, backfill=True)
    assert starts[2:4] == [wide_s, narrow_s]
    assert starts == loop_starts(jobs, 2, backfill=True)


@pytest.mark.parametrize("policy", ["malleable", "entitled", "marginal"])
def test_a_job_of_no_time_is_resized_in_the_instant_of_its_start_and_ends_there(policy: str) -> None:
    spec = JobSpec(
        name="none", nodes=Bounds(1, 5), job_class=JobClass.MALLEABLE, walltime_s=1.0, model=Amdahl(1.0)
    )
    jobs = [job("first", 0, 2, 10, 10), SimJob(spec, 0.0), job("last", 0, 2, 1, 1)]
    free = Settings(cost=INSTANT, cooldown_s=0.0)
    records = records_of(jobs, make(policy), instant=Instant.PYSS, settings=free)
    ends = {x.job: (x.at, x.state) for x in records if isinstance(x, r.JobEnded)}
    assert ends == {number: (at, JobState.COMPLETED) for number, at in ((1, 10.0), (2, 0.0), (3, 1.0))}
