"""Generated workloads and the transformation of rigid ones: against references, published facts and tables."""

from __future__ import annotations

import gzip
import math
import os
from collections.abc import Callable
from itertools import islice, pairwise
from pathlib import Path
from statistics import mean

import pytest
from workloads import measured

from pliant.core.settings import Settings
from pliant.model.errors import BatchError
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.plan.cost import INSTANT
from pliant.policy.registry import POLICIES, make
from pliant.workloads.generators import paper2
from pliant.workloads.generators.feitelson import ArrivalPace, feitelson_jobs, mean_work, size_weights
from pliant.workloads.generators.lublin import Drand48, gamma_cdf, lublin_jobs, lublin_stream
from pliant.workloads.job import SimJob
from pliant.workloads.malleability import PUBLISHED, make_malleable, malleable_job, serial_per_mille

REFERENCE = "lublin99_seed42_10000.swf.gz"


def reference_lines() -> list[str]:
    root = Path(__file__).resolve().parents[2]
    path = Path(os.environ.get("PLIANT_TRACES", root.parent / "shared" / "traces")) / REFERENCE
    if not path.is_file():
        pytest.skip(f"the trace is not there: {path} (set PLIANT_TRACES)")
    with gzip.open(path, "rt") as lines:
        return [line.rstrip("\n") for line in lines if not line.startswith(";")]


def test_lublin_equals_the_reference_line_by_line() -> None:
    lines = reference_lines()
    ours = [
        f"{number:5d} {job.submit:7d} -1 {job.run:7d} {job.nodes:3d} -1 -1 -1 -1 -1 1 -1 -1 -1 {job.queue} -1 -1 -1"
        for number, job in enumerate(islice(lublin_stream(128, 42), len(lines)), 1)
    ]
    assert len(lines) == 10_000
    assert ours == lines


def test_lublin_jobs_are_rigid_with_exact_estimates() -> None:
    jobs = lublin_jobs(50, 128, 42)
    first = jobs[0]
    assert (first.spec.name, first.spec.submit_s, first.runtime_s) == ("1", 124.0, 21.0)
    assert jobs[6].spec.nodes == Bounds.exactly(38)
    assert all(job.spec.walltime_s == job.runtime_s for job in jobs)
    assert jobs == lublin_jobs(50, 128, 42)
    assert jobs != lublin_jobs(50, 128, 43)


@pytest.mark.parametrize("nodes", [1, 2, 3, 100, 1152])
@pytest.mark.parametrize("one_kind", [False, True])
def test_lublin_fits_any_machine_and_any_load(nodes: int, *, one_kind: bool) -> None:
    jobs = lublin_jobs(300, nodes, 1, one_kind=one_kind, load=0.5)
    sizes = [job.spec.nodes.min for job in jobs]
    assert max(sizes) <= nodes
    assert max(sizes) > nodes // 4
    submits = [job.spec.submit_s for job in jobs]
    assert submits == sorted(submits)
    work = sum((job.runtime_s or 0.0) * job.spec.nodes.min for job in jobs)
    assert work / (nodes * submits[-1]) == pytest.approx(0.5)


def test_drand48_and_the_gamma_distribution() -> None:
    random = Drand48(42)
    assert random.uniform() == pytest.approx(0.744525, abs=1e-6)  # as of the C library
    assert gamma_cdf(2.0, 1.0, 1.0) == pytest.approx(1 - math.exp(-2.0), rel=1e-9)
    assert gamma_cdf(0.5, 1.0, 2.0) == pytest.approx(1 - math.exp(-0.25), rel=1e-9)
    drawn = [random.gamma(2.5, 3.0) for _ in range(4000)]
    assert mean(drawn) == pytest.approx(7.5, rel=0.05)


def test_feitelson_as_documented() -> None:
    jobs = feitelson_jobs(4000, 128, 7)
    assert jobs == feitelson_jobs(4000, 128, 7)
    sizes = [job.spec.nodes.min for job in jobs]
    assert set(sizes) <= set(range(1, 129))
    powers = sum(1 for size in sizes if size > 1 and not size & (size - 1)) / len(sizes)
    weights = size_weights(128)
    assert sum(weights) == pytest.approx(1.0)
    assert weights[1] == pytest.approx(10 * 2**-1.5 * weights[0])
    assert powers == pytest.approx(sum(weights[2**i - 1] for i in range(1, 8)), abs=0.1)
    assert any(
        a.runtime_s == b.runtime_s and a.spec.nodes == b.spec.nodes and a.spec.submit_s < b.spec.submit_s
        for a, b in pairwise(jobs)
    )  # a job and its repetition
    work = sum((job.runtime_s or 0.0) * job.spec.nodes.min for job in jobs)
    assert work / (128 * jobs[-1].spec.submit_s) == pytest.approx(0.7, rel=0.1)
    fixed = feitelson_jobs(2000, 64, 3, ArrivalPace(gap_s=10.0))
    assert fixed[-1].spec.submit_s < 2000 * 12.0
    assert mean_work(64, 2.0) == pytest.approx(2 * mean_work(64, 1.0))


@pytest.mark.parametrize(
    ("make_jobs", "message"),
    [
        (lambda: lublin_jobs(0, 4, 1), "lublin: 0 jobs"),
        (lambda: lublin_jobs(5, 4, 1, load=0.0), "load: 0; it must be above 0"),
        (lambda: feitelson_jobs(5, 0, 1), "for 0 nodes"),
        (lambda: feitelson_jobs(5, 4, 1, ArrivalPace(gap_s=-1.0)), "gap_s: -1"),
        (lambda: paper2.paper2_jobs(43, 120), "paper2: 120 %"),
        (lambda: make_malleable(lublin_jobs(5, 4, 1), -5, 4, 1), "malleable: -5 %"),
    ],
)
def test_generators_say_what_is_wrong(make_jobs: Callable[[], object], message: str) -> None:
    with pytest.raises(BatchError, match=message):
        make_jobs()


# ---- Finnerty et al. 2024 ----


def test_table_2_and_the_batches() -> None:
    assert len(paper2.TABLE2) == paper2.JOBS == 25
    assert sum(row.weight for row in paper2.TABLE2) == 25.0
    assert sum(row.nodes * row.weight for row in paper2.TABLE2) / 25 == pytest.approx(5.52)
    assert all(
        paper2.RANGES[row.program][0] <= row.nodes <= paper2.RANGES[row.program][1] for row in paper2.TABLE2
    )
    for seed in paper2.SEEDS:
        jobs = paper2.paper2_jobs(seed)
        submits = [job.spec.submit_s for job in jobs]
        assert submits == sorted(submits)
        assert submits[:5] == [0.0] * 5
        assert submits[-1] < paper2.WINDOW_S
        assert all(job.spec.walltime_s == 800.0 and job.spec.job_class is JobClass.RIGID for job in jobs)


def test_the_first_batch_by_name() -> None:
    """What Python's generator gives for the experiment's first seed."""
    first = paper2.entries(43)[:6]
    assert [(entry.row.program, entry.row.nodes, entry.submit_s) for entry in first] == FIRST_43
    assert sorted(paper2.malleable_indices(43, 20)) == MALLEABLE_43


FIRST_43 = [
    ("UTS_20", 8, 0), ("UTS_18", 2, 0), ("BC_17", 2, 0), ("Pi_6e11", 4, 0), ("UTS_18", 2, 0), ("UTS_19", 2, 13),
]  # fmt: skip
MALLEABLE_43 = [1, 4, 9, 22, 24]


def test_the_shares_of_malleable_jobs() -> None:
    for percent in paper2.PERCENTAGES:
        jobs = paper2.paper2_jobs(44, percent)
        malleable = [job.spec for job in jobs if job.spec.job_class is JobClass.MALLEABLE]
        assert len(malleable) == 25 * percent // 100
        assert all((spec.nodes.min, spec.nodes.max) in paper2.RANGES.values() for spec in malleable)
    sets = [paper2.malleable_indices(44, percent) for percent in paper2.PERCENTAGES]
    assert any(not a <= b for a, b in pairwise(sets))


def test_the_calibrated_run_times_give_the_published_means() -> None:
    """Mean run time 195.36 s; 28.0 thousand node-seconds a batch, within the means of four algorithms."""
    batches = [paper2.paper2_jobs(seed) for seed in paper2.SEEDS]
    times = [job.time(job.spec.nodes.min) for batch in batches for job in batch]
    assert mean(times) == pytest.approx(195.36, rel=0.01)
    areas = [sum(job.time(job.spec.nodes.min) * job.spec.nodes.min for job in batch) for batch in batches]
    assert mean(areas) == pytest.approx(28_000, rel=0.03)


def rigid_makespan(policy: str) -> float:
    """Mean over the ten batches, in seconds."""
    return mean(
        measured(paper2.paper2_jobs(seed), paper2.NODES, make(policy), Settings(cost=INSTANT)).makespan_s
        for seed in paper2.SEEDS
    )


def test_rigid_makespans_are_the_articles() -> None:
    fcfs = rigid_makespan("fcfs")
    assert fcfs == pytest.approx(1157.5, rel=0.05)
    assert rigid_makespan("easy") < fcfs
    if "firstfit" in POLICIES:
        assert rigid_makespan("firstfit") == pytest.approx(1035.2, rel=0.05)


def test_malleable_batches_end_earlier() -> None:
    makespans = [
        mean(
            measured(
                paper2.paper2_jobs(seed, percent),
                paper2.NODES,
                make("malleable", "min"),
                paper2.paper2_settings(),
            ).makespan_s
            for seed in paper2.SEEDS
        )
        for percent in (0, 100)
    ]
    assert makespans[1] < 0.95 * makespans[0]


# ---- rigid jobs made malleable ----


@pytest.mark.parametrize(
    ("first", "last", "parallel", "most"),
    [
        (1, 5, 0.95, 20), (6, 6, 0.955, 23), (7, 7, 0.96, 25), (8, 8, 0.965, 29), (9, 9, 0.97, 34),
        (10, 10, 0.975, 40), (11, 13, 0.98, 50), (14, 17, 0.985, 67), (18, 25, 0.99, 100), (26, 50, 0.995, 200),
        (51, 999, 0.999, 1000), (1000, 1200, 0.999, 0),
    ],
)  # fmt: skip
def test_the_published_table_of_speed_ups(first: int, last: int, parallel: float, most: int) -> None:
    for preferred in range(first, last + 1):
        sizes = PUBLISHED.bounds(preferred, 5000)
        assert 1 - serial_per_mille(preferred) / 1000 == pytest.approx(parallel)
        assert sizes.max == (most or preferred)
        assert sizes.min == max(1, preferred // 5)
        assert sizes.preferred == preferred
    assert PUBLISHED.bounds(last, last).max == last


def rigid(name: str, nodes: int, runtime: float) -> SimJob:
    return SimJob(JobSpec(name=name, nodes=Bounds.exactly(nodes), walltime_s=runtime), runtime)


def test_the_run_time_at_the_preferred_size_is_the_traces() -> None:
    job = malleable_job(rigid("a", 10, 100.0), PUBLISHED.bounds(10, 64))
    assert job.spec.nodes == Bounds(2, 40, preferred=10)
    assert job.time(10) == 100.0
    efficiency = 1 / (10 * 0.025 + 0.975)
    assert job.time(40) == pytest.approx(100.0 * (0.025 + 0.975 / 40) / (0.025 + 0.975 / 10))
    assert job.spec.estimate(10) == 100.0
    compat = malleable_job(rigid("a", 10, 100.0), PUBLISHED.bounds(10, 64), compat=True)
    assert compat.time(10) == pytest.approx(100.0 / efficiency)
    assert compat.time(40) / compat.time(10) == pytest.approx(job.time(40) / job.time(10))
    assert compat.spec.estimate(10) == pytest.approx(compat.time(10))


def test_the_drawn_share() -> None:
    jobs = [rigid(f"{i}", 4, 10.0) for i in range(1000)]

    def chosen(percent: float, seed: int) -> set[str]:
        made = make_malleable(jobs, percent, 64, seed, conversion=PUBLISHED)
        return {job.spec.name for job in made if job.spec.job_class is JobClass.MALLEABLE}

    assert not chosen(0, 1)
    assert len(chosen(100, 1)) == 1000
    assert 350 < len(chosen(40, 1)) < 450
    assert chosen(20, 1) <= chosen(40, 1)
    assert chosen(40, 1) != chosen(40, 2)
    with pytest.raises(BatchError, match="job '0' has sizes 1:20 of its own"):
        make_malleable(make_malleable(jobs, 100, 64, 1, conversion=PUBLISHED), 50, 64, 1)
