"""Equipartition and keep-preferred: shares, limits and patience."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from drawing import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from workloads import NODES, records_of, rigid

from pliant.core import records as r
from pliant.core.settings import Settings
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.model.speedup import Amdahl
from pliant.plan.cost import ResizeCost
from pliant.policy.equipartition import Equipartition, equal_shares
from pliant.policy.keep_preferred import KeepPreferred
from pliant.policy.view import ClusterView, Decision, Resize, Start
from pliant.workloads.job import SimJob

EXAMPLES = examples(60)


@st.composite
def limits(draw: st.DrawFn) -> Bounds:
    low = draw(st.integers(1, 6))
    factor = draw(st.sampled_from([1, 1, 2]))
    return Bounds(low, low * factor**3 if factor > 1 else draw(st.integers(low, 24)), factor)


@settings(max_examples=EXAMPLES * 3)
@given(st.lists(limits(), max_size=8), st.integers(0, 60))
def test_shares_are_equal_within_bounds(bounds: list[Bounds], spare: int) -> None:
    nodes = sum(each.min for each in bounds) + spare
    shares = equal_shares(nodes, bounds)
    assert sum(shares) <= nodes
    assert all(each.allows(size) for each, size in zip(bounds, shares, strict=True))
    left = nodes - sum(shares)
    for each, size in zip(bounds, shares, strict=True):
        above = each.above(size)
        assert not above or above - size > left  # nothing is left over that a job could use
    even = [(each, size) for each, size in zip(bounds, shares, strict=True) if each.factor == 1]
    if len(even) == len(bounds):
        free = [size for each, size in even if each.min < size < each.max]
        assert max(free, default=0) - min(free, default=0) <= 1
        for (
            each,
            size,
        ) in even:  # who has more than others has it by its minimum; who has less, by its maximum
            assert all(size <= other + 1 or size == each.min for other in free)
            assert all(size >= other - 1 or size == each.max for other in free)


def malleable(
    name: str, low: int, high: int, work_s: float, *, at: float = 0.0, preferred: int = 0
) -> SimJob:
    model = Amdahl(work_s)
    bounds = Bounds(low, high, preferred=preferred)
    spec = JobSpec(
        name=name,
        nodes=bounds,
        job_class=JobClass.MALLEABLE,
        submit_s=at,
        walltime_s=model.time(bounds.preferred),
        model=model,
    )
    return SimJob(spec)


def sizes_over_time(records: list[r.Record]) -> list[tuple[float, dict[int, int]]]:
    sizes: dict[int, int] = {}
    steps: list[tuple[float, dict[int, int]]] = []
    for record in records:
        if isinstance(record, r.JobStarted):
            sizes[record.job] = len(record.nodes)
        elif isinstance(record, r.ResizeDone):
            sizes[record.job] += len(record.gained) - len(record.released)
        elif isinstance(record, r.JobEnded):
            sizes.pop(record.job, None)
        else:
            continue
        steps.append((record.at, dict(sizes)))
    return steps


@settings(max_examples=EXAMPLES)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(4, 16)), min_size=1, max_size=5),
    st.sampled_from([0.0, 2.0]),
    st.sampled_from([0.0, 0.1, 10.0]),
)
def test_equipartition_settles_at_equal_shares(
    shapes: list[tuple[int, int]], cooldown_s: float, gap_s: float
) -> None:
    """Long jobs and real costs: in the end all have their share, and nothing moves."""
    jobs = [malleable(f"j{i}", low, high, 1e6, at=gap_s * i) for i, (low, high) in enumerate(shapes)]
    records = records_of(
        jobs, Equipartition(), nodes=16, settings=Settings(cooldown_s=cooldown_s, cost=ResizeCost())
    )
    assert not [record for record in records if 100.0 < record.at < 10_000.0]
    sizes = [step for at, step in sizes_over_time(records) if at < 100.0][-1]
    bounds = [job.spec.nodes for job in jobs]
    assert sum(sizes.values()) == min(16, sum(each.max for each in bounds))
    for number, share in enumerate(equal_shares(16, bounds), 1):
        assert abs(sizes[number] - share) <= 1  # a single node is not worth a shrink


def test_equipartition_by_hand() -> None:
    """A newcomer gets half; a rigid job its size; who does not fit waits, and nobody passes it."""
    jobs = [
        malleable("a", 1, 8, 1000.0),
        malleable("b", 1, 8, 1000.0, at=10.0),
        rigid("c", 4, 10.0, at=20.0),
        rigid("d", 5, 10.0, at=21.0),
        rigid("e", 1, 10.0, at=22.0),
    ]
    steps = sizes_over_time(records_of(jobs, Equipartition()))
    at_once = {at: sizes for at, sizes in steps if at < 31.0}
    assert at_once == {0.0: {1: 8}, 10.0: {1: 4, 2: 4}, 20.0: {1: 2, 2: 2, 3: 4}, 30.0: at_once[30.0]}
    assert at_once[30.0][4] == 5
    assert 5 not in at_once[30.0] or sum(at_once[30.0].values()) == NODES


class Patient:
    """Keep-preferred, with every pass checked against what it saw."""

    name = "patient"

    def __init__(self, patience_s: float) -> None:
        self._policy = KeepPreferred(patience_s=patience_s)
        self._patience_s = patience_s
        self.below = 0

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        decisions = list(self._policy.decide(view))
        started = {decision.job for decision in decisions if isinstance(decision, Start)}
        waiting = [job for job in view.queue if job.id not in started]
        elastic = {job.id: job for job in view.elastic}
        for decision in decisions:
            if not isinstance(decision, Resize):
                continue
            job = elastic[decision.job]
            preferred = job.bounds.preferred
            if decision.size > job.size:
                assert decision.size <= preferred or not waiting
            else:
                assert waiting
                if decision.size < preferred:
                    assert decision.reason.figures["wait_saved_s"] > self._patience_s
                    self.below += 1
        return decisions


@settings(max_examples=EXAMPLES)
@given(st.data(), st.sampled_from([0.0, 20.0, 1e9]))
def test_keep_preferred_goes_above_for_nobody_and_below_only_after_long(
    data: st.DataObject, patience_s: float
) -> None:
    jobs = []
    for number in range(data.draw(st.integers(1, 12))):
        low = data.draw(st.integers(1, 4))
        high = data.draw(st.integers(low, NODES))
        job = malleable(
            f"j{number}", low, high, float(data.draw(st.integers(5, 400))), at=float(data.draw(st.integers(0, 60))),
            preferred=data.draw(st.integers(low, high)),
        )  # fmt: skip
        jobs.append(job if data.draw(st.booleans()) else SimJob(job.spec.rigid()))
    policy = Patient(patience_s)
    records_of(jobs, policy)
    if patience_s > 1e8:
        assert policy.below == 0


@pytest.mark.parametrize(("patience_s", "start_s"), [(60.0, 100.0), (30.0, 1.0)])
def test_keep_preferred_by_hand(patience_s: float, start_s: float) -> None:
    """Two jobs at their preferred 4 of 8 nodes for 100 s: the third waits for them, or makes them smaller."""
    jobs = [
        malleable("a", 1, 8, 400.0, preferred=4),
        malleable("b", 1, 8, 400.0, preferred=4),
        rigid("c", 2, 10.0, at=50.0 if patience_s > 50 else 1.0),
    ]
    records = records_of(jobs, KeepPreferred(patience_s=patience_s))
    starts = {record.job: record.at for record in records if isinstance(record, r.JobStarted)}
    assert starts[3] == start_s
    if patience_s < 60:  # what was taken goes back when the head has ended: preferred sizes first
        sizes = [step for at, step in sizes_over_time(records) if at == 11.0][-1]
        assert sizes == {1: 4, 2: 4}


def test_keep_preferred_gives_back_what_exceeds_it_on_the_next_arrival() -> None:
    jobs = [malleable("a", 1, 8, 800.0, preferred=4), malleable("b", 1, 8, 800.0, at=10.0, preferred=4)]
    steps = dict(sizes_over_time(records_of(jobs, KeepPreferred())))
    assert steps[0.0] == {1: 8}
    assert steps[10.0] == {1: 4, 2: 4}
