"""Free nodes given to many at once, and one by one: the same sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pytest
from drawing import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.model.speedup import Amdahl, Downey
from pliant.plan.cost import INSTANT, ResizeCost
from pliant.policy import giving
from pliant.policy.giving import EVENLY
from pliant.policy.job_view import JobView
from pliant.policy.resizing import Limit, largest
from pliant.policy.view import Resize


@dataclass(frozen=True)
class Running:
    """What ``grow`` asks of a job."""

    id: int
    spec: JobSpec
    size: int
    left_s: float
    fraction: float = 0.0

    @property
    def bounds(self) -> Bounds:
        return self.spec.nodes

    def remaining_s(self, _now: float) -> float:
        return self.left_s


@dataclass(frozen=True)
class Cluster:
    """What it asks of the cluster."""

    cost: ResizeCost
    elastic: list[Running]
    now: float = 0.0

    def resizable(self, _job: JobView, *, grow: bool) -> bool:
        return grow


MODELS = st.one_of(
    st.none(),
    st.builds(
        Amdahl, st.floats(0.1, 1e5), st.sampled_from([0.0, 0.01, 0.3, 1.0]), st.sampled_from([0.0, 5.0])
    ),
    st.builds(Downey, st.floats(0.1, 1e5), st.floats(1.0, 80.0), st.sampled_from([0.0, 0.5, 1.0, 2.0])),
)
COSTS = st.one_of(
    st.just(INSTANT),
    st.builds(
        ResizeCost,
        start_s=st.sampled_from([0.0, 2.0]),
        start_each_s=st.sampled_from([0.0, 0.2, 3.0]),
        blocked_s=st.sampled_from([0.0, 0.1]),
    ),
)


@st.composite
def running(draw: st.DrawFn, number: int) -> Running:
    low, factor = draw(st.integers(1, 40)), draw(st.sampled_from([1, 1, 1, 2, 3]))
    bounds = Bounds(low, low * factor**4 if factor > 1 else low + draw(st.integers(0, 300)), factor)
    # One that has lost nodes may have a size that it does not allow.
    size = draw(st.one_of(st.integers(1, bounds.max), st.just(low)))
    spec = JobSpec(
        name=f"job {number}",
        nodes=bounds,
        job_class=JobClass.MALLEABLE,
        walltime_s=100.0,
        unestimated=draw(st.booleans()) or UNSET,
        model=draw(MODELS),
    )
    return Running(number, spec, size, draw(st.floats(0.0, 1e5)), draw(st.sampled_from([0.0, 0.0, 0.5])))


@st.composite
def jobs(draw: st.DrawFn) -> list[Running]:
    return [draw(running(i + 1)) for i in range(draw(st.integers(0, 7)))]


def _grown(few: float, cluster: Any, free: int, ceiling: Limit, payback: float) -> list[Resize]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(giving, "FEW", few)
        return EVENLY.grow(cluster, free, (ceiling,), payback)


def half(job: JobView) -> int:
    return job.bounds.floor((job.bounds.min + job.bounds.max) // 2)


@settings(max_examples=examples(200))
@given(jobs(), COSTS, st.integers(0, 1500), st.sampled_from([1.0, 2.0]), st.sampled_from([half, largest]))
def test_many_steps_at_once_are_the_same_steps(
    takers: list[Running], cost: ResizeCost, free: int, payback: float, ceiling: Limit
) -> None:
    given = Cluster(cost, takers), free, ceiling
    one_by_one = _grown(math.inf, *given, payback)
    assert _grown(0, *given, payback) == one_by_one
    assert _grown(4, *given, payback) == one_by_one
    assert sum(each.size - takers[each.job - 1].size for each in one_by_one) <= free
    for each in one_by_one:
        assert each.reason.figures == known(takers[each.job - 1])


def known(job: Running) -> dict[str, float]:
    """What anybody knows of how long it still takes."""
    if job.spec.model is None and not job.fraction:
        return {} if job.spec.unestimated is True else {"estimated_s": job.left_s}
    return {"remaining_s": job.left_s}


def test_what_rounding_seems_to_save_is_no_gain() -> None:
    """A perfect speed-up up to 30.38 nodes: from there on more save nothing, but for the last digit of a time."""
    model = Downey(1.0, 30.381128606498226)
    assert len({model.time(nodes) for nodes in (34, 35, 36)}) > 1
    spec = JobSpec(
        name="a", nodes=Bounds(34, 40), job_class=JobClass.MALLEABLE, walltime_s=100.0, model=model
    )
    for few in (0, 4, math.inf):
        assert _grown(few, Cluster(INSTANT, [Running(1, spec, 34, 1.0)]), 2, largest, 1.0) == []


def test_a_hundred_thousand_free_nodes_take_few_questions() -> None:
    """Ten jobs that may have all of them: a question is what its model says of one size."""
    asked = 0

    class Counted(Amdahl, frozen=True):
        def time(self, nodes: int) -> float:
            nonlocal asked
            asked += 1
            return super().time(nodes)

    takers = [
        Running(
            i,
            JobSpec(
                name=str(i),
                nodes=Bounds(1, 100_000),
                job_class=JobClass.MALLEABLE,
                walltime_s=1e6,
                model=Counted(1e9),
            ),
            1 + i,
            1e6,
        )
        for i in range(10)
    ]
    grown = _grown(giving.FEW, Cluster(INSTANT, takers), 99_000, largest, 2.0)
    assert sum(each.size for each in grown) == 99_000 + sum(job.size for job in takers)
    assert asked < 600
