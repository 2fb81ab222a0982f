"""What jobs, classes and users met with: percentiles, Jain's index, and metrics that agree with kept jobs."""

from __future__ import annotations

import json
from statistics import fmean, median, quantiles

import msgspec
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st
from workloads import measured

from pliant.core import records as r
from pliant.core.settings import Settings
from pliant.history.distribution import jain_index, percentile, spread
from pliant.history.gantt import Gantt, Segment
from pliant.history.metrics import Metrics, RunMetrics, measure
from pliant.history.timeline import told
from pliant.model.jobs import Bounds, JobClass, JobSpec, JobState
from pliant.model.nodes import NodeSet
from pliant.model.speedup import Amdahl
from pliant.plan.cost import ResizeCost
from pliant.policy.malleable import Malleable
from pliant.policy.registry import make
from pliant.policy.view import Reason
from pliant.report.data import report_data
from pliant.report.runs import Run
from pliant.sim.simulator import Conditions, simulate
from pliant.workloads.failures import Down, Failures
from pliant.workloads.job import SimJob, reference_times
from pliant.workloads.machine import Checkpoints

WHY = Reason("fits")
RIGID = JobSpec(name="r", nodes=Bounds.exactly(2), user="anna")
GROWING = JobSpec(
    name="m", nodes=Bounds(1, 4, preferred=2), job_class=JobClass.MALLEABLE, user="berta", model=Amdahl(40.0)
)
PLAIN = JobSpec(name="p", nodes=Bounds(1, 4, preferred=2), job_class=JobClass.MOLDABLE, user="anna")


def nodes(text: str) -> NodeSet:
    return NodeSet.parse(text)


def resize(at: float, number: int, kind: str, changed: str, blocked_s: float) -> list[r.Record]:
    """Job 2 between 2 and 3 nodes, offered and done in one instant."""
    before, after = (2, 3) if kind == "expand" else (3, 2)
    gained, released = (nodes(changed), NodeSet()) if kind == "expand" else (NodeSet(), nodes(changed))
    done = r.ResizeDone(at, 2, number, gained, released, blocked_s)
    clean: list[r.Record] = [r.NodesClean(at, 2, released)] if released else []
    return [r.ResizeOffered(at, 2, number, before, after, gained, WHY), done, *clean]


RECORDS: list[r.Record] = [
    r.NodesGranted(0.0, NodeSet.first(4)),
    r.JobSubmitted(0.0, 1, RIGID),
    r.JobStarted(0.0, 1, nodes("0-1"), WHY),
    r.JobSubmitted(0.0, 2, GROWING),
    r.JobStarted(10.0, 2, nodes("2-3"), WHY),
    r.JobSubmitted(10.0, 3, PLAIN),
    r.JobEnded(20.0, 1, JobState.COMPLETED, 0, nodes("0-1")),
    r.JobStarted(30.0, 3, nodes("0"), WHY),
    *resize(40.0, 1, "expand", "1", 0.5),
    *resize(100.0, 2, "shrink", "1", 1.0),  # 60 s after
    *resize(161.0, 3, "expand", "1", 0.0),  # 61 s after
    *resize(170.0, 4, "shrink", "1", 0.0),
    r.JobEnded(180.0, 2, JobState.COMPLETED, 0, nodes("2-3")),
    r.JobEnded(200.0, 3, JobState.FAILED, 1, nodes("0")),
]


def test_every_figure_by_hand() -> None:
    figures = measure(RECORDS)
    # Reference times: 20 s as it ran (no model), 40 / 2 = 20 s by the model, 170 s as it ran.
    assert figures.bounded_slowdown_preferred_mean == pytest.approx((20 / 20 + 180 / 20 + 190 / 170) / 3)
    assert figures.bounded_slowdown_mean == pytest.approx((20 / 20 + 180 / 170 + 190 / 170) / 3)
    assert (figures.wait_median_s, figures.wait_max_s) == (10.0, 20.0)
    assert figures.wait_p95_s == pytest.approx(10 + 0.9 * 10)
    assert figures.wait_p99_s == pytest.approx(10 + 0.98 * 10)
    assert (figures.turnaround_median_s, figures.turnaround_max_s) == (180.0, 190.0)
    assert figures.turnaround_p95_s == pytest.approx(180 + 0.9 * 10)
    assert figures.turnaround_p99_s == pytest.approx(180 + 0.98 * 10)
    classes = {
        kind: (each.jobs, each.wait_mean_s, each.turnaround_mean_s) for kind, each in figures.classes.items()
    }
    assert classes == {
        JobClass.RIGID: (1, 0.0, 20.0), JobClass.MOLDABLE: (1, 20.0, 190.0), JobClass.MALLEABLE: (1, 10.0, 180.0),
    }  # fmt: skip
    assert figures.malleable_to_rigid_turnaround == pytest.approx((180 / 20) / (20 / 20))
    anna, berta = (20 / 20 + 190 / 170) / 2, 180 / 20
    assert figures.users == 2
    assert figures.users_jain == pytest.approx((anna + berta) ** 2 / (2 * (anna**2 + berta**2)))
    assert (figures.expands_per_malleable_job, figures.shrinks_per_malleable_job) == (2.0, 2.0)
    assert figures.thrash == 2  # the shrinks after 60 s and 9 s, not the expansion after 61 s
    assert figures.paused_node_s == pytest.approx(0.5 * 2 + 1.0 * 3)
    held = 20 * 2 + 170 * 2 + (60 + 9) * 1 + 170 * 1
    assert figures.utilisation == pytest.approx(held / (4 * 200))
    assert figures.useful_utilisation == pytest.approx((held - 4.0) / (4 * 200))
    assert figures.goodput == pytest.approx((20 * 2 + 20 * 2) / (4 * 200))  # job 3 failed


def test_reference_times_that_are_told_go_before_models() -> None:
    metrics = Metrics(reference=lambda number, _spec: 45.0 if number == 2 else None)
    for record in RECORDS:
        metrics.add(record)
    figures = metrics.summary()
    assert figures.bounded_slowdown_preferred_mean == pytest.approx((20 / 20 + 180 / 45 + 190 / 170) / 3)
    assert figures.goodput == pytest.approx((20 * 2 + 45 * 2) / (4 * 200))


def test_what_nobody_has_is_missing() -> None:
    empty = measure([])
    assert (empty.users, empty.users_jain, empty.classes) == (0, None, {})
    assert (empty.malleable_to_rigid_turnaround, empty.expands_per_malleable_job) == (None, None)
    assert (empty.wait_p99_s, empty.turnaround_max_s, empty.goodput, empty.useful_utilisation) == (0, 0, 0, 0)
    at_once = [*RECORDS[:3], r.JobEnded(0.0, 1, JobState.FAILED, 1, nodes("0-1"))]
    figures = measure(at_once)  # neither run time nor model: no stretch
    assert (figures.users, figures.users_jain) == (1, None)
    assert figures.classes[JobClass.RIGID].stretch_mean is None
    assert figures.bounded_slowdown_preferred_mean == 1.0


def test_the_report_has_them_rounded() -> None:
    [run] = json.loads(msgspec.json.encode(report_data([Run("a", "easy", ["n"] * 4, RECORDS)])))["runs"]
    assert run["classes"]["malleable"] == {
        "jobs": 1, "wait_mean_s": 10.0, "turnaround_mean_s": 180.0, "stretch_mean": 9.0,
    }  # fmt: skip
    assert run["wait_p99_s"] == 19.8
    assert run["paused_node_s"] == 4.0


def test_simulated_jobs_are_measured_by_their_own_run_times() -> None:
    spec = JobSpec(name="a", nodes=Bounds.exactly(1), walltime_s=99.0)
    late = msgspec.structs.replace(spec, submit_s=50.0)
    reference = reference_times([SimJob(late, 7.0), SimJob(spec, 5.0), SimJob(spec, 6.0)])
    assert [reference(1, spec), reference(2, spec), reference(3, late)] == [5.0, 6.0, 7.0]
    assert reference(9, late) == 7.0  # submitted again
    assert reference(9, msgspec.structs.replace(late)) is None
    # Alone on 4 nodes, moldable, without a model: 40 s at the preferred size are 20 s at twice of it.
    wide = JobSpec(name="w", nodes=Bounds(2, 4), job_class=JobClass.MOLDABLE, walltime_s=40.0)
    figures = measured([SimJob(wide, 40.0)], 4, Malleable("max"))
    assert figures.makespan_s == 20.0
    assert figures.goodput == pytest.approx(1.0)
    assert figures.users_jain == 1.0


# ---- properties ----

numbers = st.floats(0.0, 1e9, allow_subnormal=False)


@given(st.lists(numbers, min_size=1, max_size=20))
def test_jains_index_is_a_share(values: list[float]) -> None:
    index = jain_index(values)
    assert 1 / len(values) * (1 - 1e-9) <= index <= 1.0
    assert jain_index([values[0]] * len(values)) == pytest.approx(1.0)
    assert jain_index([value / 2 for value in values]) == pytest.approx(index)
    assert jain_index([1.0] + [0.0] * (len(values) - 1)) == pytest.approx(1 / len(values))


@given(st.lists(numbers, min_size=2, max_size=40))
def test_percentiles_are_those_of_the_statistics_module(values: list[float]) -> None:
    cuts = quantiles(values, n=100, method="inclusive")
    found = spread(values)
    assert found.median == pytest.approx(median(values))
    assert found.p95 == pytest.approx(cuts[94])
    assert found.p99 == pytest.approx(cuts[98])
    assert found.max == max(values)
    assert percentile(sorted(values), 0.0) == min(values)


@st.composite
def mixed_jobs(draw: st.DrawFn) -> list[SimJob]:
    """Rigid, moldable and malleable jobs of few users, some of which are killed at their walltime."""
    jobs = []
    for number in range(draw(st.integers(1, 12))):
        kind = draw(
            st.sampled_from([JobClass.RIGID, JobClass.MOLDABLE, JobClass.MALLEABLE, JobClass.MALLEABLE])
        )
        low = draw(st.integers(1, 6))
        high = low if kind is JobClass.RIGID else draw(st.integers(low, 8))
        model = Amdahl(float(draw(st.integers(1, 900))), draw(st.sampled_from([0.0, 0.1])))
        preferred = draw(st.integers(low, high))
        runtime_s = model.time(preferred)
        spec = JobSpec(
            name=f"j{number}",
            nodes=Bounds(low, high, preferred=preferred),
            job_class=kind,
            submit_s=float(draw(st.integers(0, 90))),
            walltime_s=runtime_s * draw(st.sampled_from([0.6, 1.0, 2.0])),
            kill=draw(st.booleans()),
            user=draw(st.sampled_from(["", "anna", "berta"])),
            model=draw(st.sampled_from([model, None])),
        )
        jobs.append(SimJob(spec, runtime_s))
    return jobs


@limits(max_examples=examples(60))
@given(mixed_jobs(), st.sampled_from([ResizeCost(), ResizeCost(blocked_s=3.0, leave_s=2.0)]))
def test_metrics_agree_with_the_kept_jobs(jobs: list[SimJob], cost: ResizeCost) -> None:
    options = Settings(cost=cost, cooldown_s=5.0)
    kept, light = (Metrics(keep_jobs=keep, reference=reference_times(jobs)) for keep in (True, False))
    records: list[r.Record] = []
    simulate(jobs, 8, Malleable(), Conditions(options), records.append)
    for record in records:
        kept.add(record)
        light.add(record)
    figures = kept.summary()
    assert light.summary() == msgspec.structs.replace(figures, jobs=[])
    gantt = Gantt()
    told(records, gantt)
    agrees_with_jobs(figures, sorted(jobs, key=lambda job: job.spec.submit_s), gantt.segments)


def agrees_with_jobs(figures: RunMetrics, jobs: list[SimJob], segments: list[Segment]) -> None:
    """The same from what was kept of the jobs, and from the ``segments`` in which they held nodes, the long way."""
    ran = [
        (job, sim.spec, sim.time(sim.spec.nodes.preferred))
        for job, sim in zip(figures.jobs, jobs, strict=True)
        if job.start_s is not None
    ]
    waits = [(job.start_s or 0.0) - job.submit_s for job, _, _ in ran]
    turnarounds = [(job.end_s or 0.0) - job.submit_s for job, _, _ in ran]
    assert figures.wait_median_s == pytest.approx(median(waits))
    assert figures.wait_max_s == max(waits)
    if len(ran) > 1:
        assert figures.turnaround_p95_s == pytest.approx(quantiles(turnarounds, n=20, method="inclusive")[-1])
    slowdowns = [max(1.0, t / max(10.0, each[2])) for t, each in zip(turnarounds, ran, strict=True)]
    assert figures.bounded_slowdown_preferred_mean == pytest.approx(fmean(slowdowns))
    assert sum(each.jobs for each in figures.classes.values()) == len(ran)
    stretches: dict[str, list[float]] = {}
    for turnaround, (_, spec, reference) in zip(turnarounds, ran, strict=True):
        stretches.setdefault(spec.user, []).append(turnaround / reference)
    assert figures.users == len(stretches)
    assert figures.users_jain is not None
    assert 0 < figures.users_jain <= 1.0
    assert figures.users_jain == pytest.approx(jain_index([fmean(each) for each in stretches.values()]))
    resizes = [x for job in figures.jobs for x in job.resizes if x.outcome == "done"]
    assert figures.paused_node_s == pytest.approx(sum(x.blocked_s * x.before for x in resizes))
    assert figures.useful_utilisation is not None
    assert 0 <= figures.useful_utilisation <= figures.utilisation
    assert figures.thrash <= len(resizes)
    held = {
        name: sum(len(each.nodes) * (each.to_s - each.from_s) for each in segments if each.name == name)
        for _, spec, _ in ran
        for name in [spec.name]
    }
    good = sum(
        min(t * spec.nodes.preferred, held[spec.name])
        for job, spec, t in ran
        if job.state is JobState.COMPLETED
    )
    assert figures.goodput == pytest.approx(good / (8 * figures.makespan_s))


def test_a_job_on_fewer_nodes_is_no_more_good_than_the_nodes_that_it_held() -> None:
    """It prefers 4 nodes, where it takes 13 s, and runs on 1 for 40 s: 52 node-seconds would be more than all."""
    spec = JobSpec(
        name="a", nodes=Bounds(1, 4, preferred=4), job_class=JobClass.MOLDABLE, model=Amdahl(40.0, 0.1)
    )
    figures = measured([SimJob(spec)], 1, Malleable("max"))
    assert figures.makespan_s == 40.0
    assert (figures.utilisation, figures.goodput) == (1.0, 1.0)


losses = st.lists(
    st.builds(Down, st.integers(0, 7), st.floats(0.0, 300.0), st.floats(301.0, 600.0)),
    unique_by=lambda down: down.node,
    max_size=5,
)


@limits(max_examples=examples(60))
@given(
    mixed_jobs(),
    st.sampled_from(["malleable", "marginal", "easy", "dmr-wide"]),
    losses,
    st.sampled_from([None, Checkpoints(10.0, 1.0)]),
)
def test_goodput_is_part_of_what_was_used(
    jobs: list[SimJob], policy: str, down: list[Down], saved: Checkpoints | None
) -> None:
    """Whatever jobs are lost, begun anew, more efficient on fewer nodes or resized for nothing."""
    metrics = Metrics(reference=reference_times(jobs))
    conditions = Conditions(
        Settings(cooldown_s=0.0),
        failures=Failures(listed=tuple(down)),
        checkpoints=saved,
    )
    simulate(jobs, 8, make(policy), conditions, metrics.add)
    figures = metrics.summary()
    assert figures.goodput is not None
    assert 0.0 <= figures.goodput <= figures.utilisation * (1 + 1e-12) + 1e-12
    assert figures.utilisation <= 1.0 + 1e-12
