"""Long queues: what is decided in them, and that what a pass costs does not grow with them."""

from __future__ import annotations

import cProfile
import csv
import hashlib
from pathlib import Path
from random import Random

import pytest

from pliant.core import records as r
from pliant.core.settings import Settings
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.model.speedup import Amdahl, Downey, Model, Table
from pliant.plan.cost import INSTANT, ResizeCost
from pliant.policy.registry import make
from pliant.sim.simulator import Conditions, simulate
from pliant.workloads.job import SimJob
from pliant_lab.commands import bench_bursts

NODES = 24
COSTS = (INSTANT, ResizeCost())
CLASSES = (JobClass.RIGID, JobClass.MOLDABLE, JobClass.MALLEABLE, JobClass.MALLEABLE)


def mixed(seed: int, count: int) -> list[SimJob]:
    """Jobs of all classes but evolving ones and with all models, most of them at once, of whole seconds mostly, so that
    many things coincide."""
    random = Random(f"bursts {seed}")
    jobs = []
    for number in range(count):
        job_class = random.choice(CLASSES)
        low = random.choice([1, 1, 2, 3, 4, 6, 8])
        factor = random.choice([1, 1, 2])
        sizes = Bounds(
            low, low if job_class is JobClass.RIGID else random.choice([low, 2 * low, NODES]), factor
        ).sizes()
        preferred = random.choice(sizes)
        time_s = float(random.choice([1, 2, 5, 10, 20, 60, 100, 300]))
        model = model_of(random, sizes, time_s)
        runtime_s = time_s if model is None else model.time(preferred)
        spec = JobSpec(
            name=f"j{number}",
            nodes=Bounds(low, sizes[-1], factor, preferred),
            job_class=job_class,
            submit_s=0.0 if random.random() < 0.8 else float(random.randint(0, 500)),
            walltime_s=runtime_s * random.choice([0.5, 1.0, 1.0, 2.0, 5.0]),
            model=model,
            data_mb=random.choice([0.0, 100.0]),
        )
        jobs.append(SimJob(spec, runtime_s))
    return sorted(jobs, key=lambda job: job.spec.submit_s)


def model_of(random: Random, sizes: list[int], time_s: float) -> Model | None:
    """One under which the job takes some ``time_s``."""
    match random.randint(0, 5):
        case 0:
            return None
        case 1:
            return Table({size: float(random.randint(1, 100)) for size in sizes})
        case 2:
            return Downey(
                time_s * sizes[0], float(random.randint(1, 12)), random.choice([0.0, 0.5, 2.0]), 1.0
            )
        case 3:
            return Amdahl(time_s * sizes[0], 0.1, random.choice([0.0, 3.0]))
        case _:
            return Amdahl(time_s * sizes[0], random.choice([0.0, 0.02, 0.3]))


def digest(policy: str, start: str | None = None) -> str:
    """Of all that is decided for three such workloads."""
    found = hashlib.sha256()

    def note(record: r.Record) -> None:
        match record:
            case r.JobStarted():
                found.update(f"{record.at!r} {record.job} starts on {len(record.nodes)}\n".encode())
            case r.ResizeOffered():
                found.update(f"{record.at!r} {record.job} to {record.after}\n".encode())
            case r.JobPromised():
                found.update(f"{record.at!r} {record.job} by {record.start_by!r}\n".encode())
            case _:
                pass

    for seed in range(3):
        settings = Settings(cost=COSTS[seed % 2], cooldown_s=float(seed))
        simulate(mixed(seed, 160), NODES, make(policy, start), Conditions(settings), note)
    return found.hexdigest()[:16]


with (Path(__file__).parent / "bursts.csv").open(encoding="utf-8", newline="") as file:
    KNOWN = [(row["policy"], row["start"] or None, row["digest"]) for row in csv.DictReader(file)]


@pytest.mark.parametrize(("policy", "start", "known"), KNOWN)
def test_decisions_are_those_of_a_look_at_all(policy: str, start: str | None, known: str) -> None:
    """As they were before there were indexes for more than EASY: bursts.csv is of that time, but for conservative, by
    whose rules preferred and free jobs that are quicker on fewer nodes now start on these, and for entitled, under which
    those without a model grow beyond their preferred size."""
    assert digest(policy, start) == known


SERVED = ["easy", "firstfit", "malleable", "marginal", "keep-preferred", "dmr-preferred", "dmr-wide"]
SERVED += ["min-agreement", "preferred-pool", "average-steal"]


@pytest.mark.parametrize("policy", SERVED)
def test_what_a_pass_costs_does_not_grow_with_the_queue(policy: str) -> None:
    """In calls of functions: they do not depend on what else the machine does."""
    short, long = calls(policy, 250), calls(policy, 1000)
    assert long < 5 * short


def calls(policy: str, count: int) -> int:
    jobs = bench_bursts.burst(count, bench_bursts.POLICIES[policy])
    profile = cProfile.Profile(builtins=False)
    profile.enable()
    simulate(jobs, bench_bursts.NODES, make(policy), Conditions(Settings(cost=INSTANT)))
    profile.disable()
    return sum(entry.callcount for entry in profile.getstats())
