"""``--instant elastisim``: the order of what happens in one instant, against a bare loop in that order."""

from __future__ import annotations

from collections.abc import Sequence

from drawing import examples
from elastisim_loop import Loop, Moldable
from hypothesis import given, settings
from hypothesis import strategies as st

from pliant.core import records as r
from pliant.core.settings import Settings
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.model.speedup import Amdahl
from pliant.plan.cost import INSTANT
from pliant.policy.fcfs import Fcfs
from pliant.sim.instant import Instant
from pliant.sim.simulator import Conditions, simulate
from pliant.workloads.job import SimJob

NODES = 8
Crowd = Sequence[tuple[int, int, int, int]]
"""Of each job, when it is submitted, its least and most nodes, and its node-seconds."""


def simulated(crowd: Crowd, instant: Instant) -> tuple[list[float], list[int]]:
    """When each job starts, and on how many nodes."""
    starts, sizes = [0.0] * len(crowd), [0] * len(crowd)

    def sink(record: r.Record) -> None:
        if isinstance(record, r.JobStarted):
            starts[record.job - 1], sizes[record.job - 1] = record.at, len(record.nodes)

    jobs = [
        SimJob(
            JobSpec(
                name=str(number),
                nodes=Bounds(least, most, preferred=most),
                job_class=JobClass.MOLDABLE,
                submit_s=float(submit),
                walltime_s=float(work),
                model=Amdahl(float(work)),
            )
        )
        for number, (submit, least, most, work) in enumerate(crowd)
    ]
    simulate(jobs, NODES, Fcfs(), Conditions(Settings(cost=INSTANT), instant=instant), sink)
    return starts, sizes


def looped(crowd: Crowd) -> tuple[list[float], list[int]]:
    jobs = [
        Moldable(float(submit), least, most, lambda nodes, work=float(work): work / nodes)  # type: ignore[misc]
        for submit, least, most, work in crowd
    ]
    loop = Loop(jobs, NODES).run()
    return loop.start, loop.nodes


@st.composite
def crowds(draw: st.DrawFn) -> Crowd:
    """Jobs in order of submission, of so few and so short times that many of them are equal."""
    submits = sorted(draw(st.lists(st.integers(0, 6), min_size=4, max_size=16)))
    sizes = st.sampled_from([(1, 2), (2, 4), (1, 4), (2, 8), (4, 4), (1, 1)])
    return [(submit, *draw(sizes), draw(st.sampled_from([4, 8, 16]))) for submit in submits]


@settings(max_examples=examples(200))
@given(crowds())
def test_it_is_the_order_of_the_loop(crowd: Crowd) -> None:
    assert simulated(crowd, Instant.ELASTISIM) == looped(crowd)


TWO_ENDS: Crowd = [(0, 4, 4, 40), (0, 4, 4, 40), (1, 2, 8, 80)]
"""Two jobs end at 10 s, while one waits that would take all nodes."""


def test_a_pass_after_each_end_starts_moldable_jobs_smaller() -> None:
    assert simulated(TWO_ENDS, Instant.TOGETHER) == ([0.0, 0.0, 10.0], [4, 4, 8])
    assert simulated(TWO_ENDS, Instant.ELASTISIM) == ([0.0, 0.0, 10.0], [4, 4, 4]) == looped(TWO_ENDS)


def test_ends_come_before_submissions() -> None:
    crowd = [(0, 8, 8, 80), (10, 2, 8, 8)]
    assert simulated(crowd, Instant.ELASTISIM) == ([0.0, 10.0], [8, 8]) == looped(crowd)


@given(crowds())
def test_the_clock_of_simgrid_gives_as_many_node_seconds(crowd: Crowd) -> None:
    """Rounding changes no more than the order within an instant, which is all that it is there to show."""
    jobs = [Moldable(float(s), low, high, lambda n, w=float(w): w / n) for s, low, high, w in crowd]  # type: ignore[misc]
    loop = Loop(jobs, NODES).run_as_simgrid(1e11)
    for number, (submit, low, high, work) in enumerate(crowd):
        assert loop.start[number] >= submit - 1e-9
        assert low <= loop.nodes[number] <= high
        assert abs((loop.end[number] - loop.start[number]) * loop.nodes[number] - work) < 1e-6
