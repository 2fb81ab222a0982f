"""Sizes chosen in few steps are those that trying all of them one by one would choose."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from drawing import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.model.speedup import Amdahl, Downey, Model, Table
from pliant.plan.cost import ResizeCost
from pliant.policy.easy import Reservation, _harmless
from pliant.policy.giving import EVENLY
from pliant.policy.resizing import largest, pays, preferred

MODELS: list[Model | None] = [
    None,
    Amdahl(100.0),
    Amdahl(60.0, 0.3, 5.0),
    Downey(80.0, 6.0, 0.5),
    Table({1: 50.0, 4: 20.0, 8: 45.0, 16: 10.0}),  # more nodes take longer, in between
]


@st.composite
def jobs_(draw: st.DrawFn, number: int = 1) -> Any:
    low = draw(st.integers(1, 4))
    factor = draw(st.integers(1, 3))
    sizes = Bounds(low, draw(st.integers(low, 20)), factor).sizes()
    bounds = Bounds(low, sizes[-1], factor, draw(st.sampled_from(sizes)))
    spec = JobSpec(
        name="a",
        nodes=bounds,
        job_class=JobClass.MALLEABLE,
        walltime_s=draw(st.sampled_from([10.0, 50.0])),
        model=draw(st.sampled_from(MODELS)),
    )
    left = draw(st.sampled_from([0.0, 1.0, 5.0, 50.0]))
    size = draw(st.sampled_from(sizes))
    return SimpleNamespace(
        id=number, spec=spec, bounds=bounds, size=size, remaining_s=lambda _now: left, fraction=0.0
    )


def stepwise(job: Any, size: int, now: float, reservation: Reservation) -> int:
    while size:
        if now + job.spec.estimate(size) <= reservation.at:
            return size
        if size <= reservation.spare:
            reservation.spare -= size
            return size
        size = job.bounds.floor(size - 1) if job.bounds.min < size else 0
    return 0


@settings(max_examples=examples(200))
@given(jobs_(), st.sampled_from([0.0, 3.0, 10.0, 12.5, 50.0, 200.0]), st.integers(0, 20))
def test_a_job_is_backfilled_at_the_largest_harmless_size(job: Any, at: float, spare: int) -> None:
    one, other = Reservation(at, spare), Reservation(at, spare)
    assert _harmless(job, job.size, 1.0, one) == stepwise(job, job.size, 1.0, other)
    assert one.spare == other.spare


@pytest.mark.long
@settings(max_examples=examples(200))
@given(
    st.lists(st.integers(), min_size=1, max_size=5).flatmap(
        lambda many: st.tuples(*[jobs_(number) for number in range(1, len(many) + 1)])
    ),
    st.integers(0, 30),
    st.sampled_from([largest, preferred]),
)
def test_the_smallest_grow_step_by_step(jobs: tuple[Any, ...], free: int, ceiling: Any) -> None:
    view: Any = SimpleNamespace(now=7.0, cost=ResizeCost(), elastic=jobs, resizable=lambda _, grow: grow)
    sizes = {job.id: job.size for job in jobs}
    open_ = list(jobs)
    left = free
    while open_ and left > 0:
        job = min(open_, key=lambda job: (sizes[job.id], job.id))
        size = job.bounds.above(sizes[job.id])
        step = size - sizes[job.id]
        if not size or size > ceiling(job) or step > left or not pays(view, job, size, 2.0):
            open_.remove(job)
            continue
        left -= step
        sizes[job.id] = size
    grown = {resize.job: resize.size for resize in EVENLY.grow(view, free, (ceiling,), 2.0)}
    assert grown == {job.id: sizes[job.id] for job in jobs if sizes[job.id] > job.size}
