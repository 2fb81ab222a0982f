"""What policies believe of run times, and what is true."""

from __future__ import annotations

import json
import math

import pytest
from commands import command
from drawing import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from test_simulation import run

from pliant.core import records as r
from pliant.core.settings import Settings
from pliant.model.errors import BatchError
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.model.speedup import Amdahl, Phase, Phases
from pliant.plan.cost import INSTANT
from pliant.policy.easy import Easy
from pliant.policy.malleable import Malleable
from pliant.testing.policies.drawn import NODES, elastic_jobs
from pliant.workloads.estimates import with_beliefs
from pliant.workloads.job import SimJob

HOW = st.sampled_from(["exact", "estimate", "factor:1", "factor:3", "factor:20"])


@settings(max_examples=examples(50))
@given(elastic_jobs, HOW, st.integers(0, 9))
def test_the_truth_stays(jobs: list[SimJob], how: str, seed: int) -> None:
    believed = with_beliefs(jobs, how, seed)
    for before, after in zip(jobs, believed, strict=True):
        for size in before.spec.nodes.sizes():
            assert after.time(size) == pytest.approx(before.time(size))
        assert structs.replace(after.spec, model=None) == structs.replace(before.spec, model=None)
    # Under a policy that asks nothing of a model, nothing changes.
    rigid = [structs.replace(job, spec=job.spec.rigid()) for job in jobs]

    def ends(jobs: list[SimJob]) -> dict[int, float]:
        records = run(jobs, NODES, Easy(), Settings(cost=INSTANT))
        return {record.job: record.at for record in records if isinstance(record, r.JobEnded)}

    assert ends(with_beliefs(rigid, how, seed)) == pytest.approx(ends(rigid))


def long(name: str, walltime_s: float) -> SimJob:
    spec = JobSpec(
        name=name,
        nodes=Bounds(1, 4),
        job_class=JobClass.MALLEABLE,
        walltime_s=walltime_s,
        model=Amdahl(100.0),
    )
    return SimJob(spec)


def test_a_belief_is_of_the_model() -> None:
    [job] = with_beliefs([long("a", 300.0)], "estimate", 1)
    assert job.spec.model == Amdahl(300.0)
    assert (job.time(1), job.time(2)) == (100.0, 50.0)
    factors = [
        each.spec.model.time(1) / 100.0
        for each in with_beliefs([long(str(i), 300.0) for i in range(400)], "factor:4", 1)
        if each.spec.model is not None
    ]
    assert 0.25 <= min(factors) < 0.3
    assert 3.5 < max(factors) <= 4.0
    assert abs(sum(map(math.log, factors)) / 400) < 0.1
    plain = SimJob(JobSpec(name="plain", nodes=Bounds.exactly(1), walltime_s=9.0), 5.0)
    phases = Phases((Phase(Amdahl(5.0)),))
    evolving = SimJob(structs.replace(plain.spec, job_class=JobClass.EVOLVING, model=phases))
    assert with_beliefs([plain, evolving], "factor:9", 1) == [plain, evolving]


def test_a_policy_goes_by_it() -> None:
    """A job of 100 s, which is believed to take 2, is not worth a growth that takes 3; the end is the true one."""
    slow = Settings(cost=structs.replace(INSTANT, start_s=3.0))

    def expands(jobs: list[SimJob]) -> tuple[int, float]:
        records = run(jobs, 4, Malleable("min"), slow)
        done = sum(isinstance(record, r.ResizeDone) for record in records)
        return done, next(record.at for record in records if isinstance(record, r.JobEnded))

    assert expands([long("a", 2.0)])[0] == 1
    assert expands(with_beliefs([long("a", 2.0)], "estimate", 1)) == (0, 100.0)


def test_simulations_are_told() -> None:
    said = ("simulate", "lublin:300", "--nodes", "32", "--malleable", "100", "--policy", "marginal", "--json")

    def turnaround(belief: str) -> float:
        [row] = json.loads(command(*said, "--belief", belief))["rows"]
        return float(row["turnaround_mean_s"]["mean"])

    assert turnaround("exact") < turnaround("factor:30") == turnaround("factor:30")
    for wrong in ("factor:0.5", "factor:x", "guess"):
        with pytest.raises(BatchError, match="is none of exact, estimate and factor:F"):
            command(*said, "--belief", wrong)
