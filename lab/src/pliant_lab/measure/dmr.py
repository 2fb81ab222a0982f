"""Iserte et al.'s batches with real processes, scaled down to one machine: fixed jobs, flexible ones that wait for the
scheduler's answers, and flexible ones that use them a step later; and what their checks and resizes took (Table 2)."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Sequence
from functools import reduce
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec

from pliant.apps.checked import ASYNC, KEY, SYNC, Spent
from pliant.daemon.journal import log_file
from pliant.history.metrics import JobOutcome, RunMetrics
from pliant.model.batch import Batch, ClusterSpec
from pliant.model.errors import PliantError
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.model.table1 import FACTOR, TABLE1

NODES = 8
"""Virtual nodes of one slot each: an eighth of the 64 of Iserte et al. 2018."""
NODE = 64 // NODES
"""So many of its nodes one of ours stands for."""
GAP_S = 10.0
"""Its mean time between two submissions."""
WALLTIME_S = 3600.0
FIXED = "fixed"
WAYS = (FIXED, SYNC, ASYNC)
PROGRAMS = {
    "cg": ("cg", "--side", "48"),
    "jacobi": ("jacobi", "--rows", "128", "--cols", "128"),
    "n-body": ("nbody", "--bodies", "96"),
}
"""What computes, and its size: little, since the pace makes up the time."""


class Scale(NamedTuple):
    """Times are ``times`` of the paper's, and so are the iterations of CG and Jacobi, so that an iteration takes what
    it took; N-body has few, and keeps them."""

    times: float

    def steps(self, program: str) -> int:
        many = TABLE1[program].iterations
        return many if many <= 25 else max(25, round(many * self.times))

    def bounds(self, program: str) -> Bounds:
        """Sizes in our nodes; less than one is one."""
        row = TABLE1[program]
        low, high, preferred = (max(1, nodes // NODE) for nodes in (row.min, row.max, row.preferred))
        return Bounds(low, high, FACTOR, preferred)


def batch(count: int, seed: int, scale: Scale, way: str, policy: str) -> Batch:
    """``count`` jobs in an order that ``seed`` gives, each submitted at its maximum; the same for all ``WAYS``. Fixed
    ones keep it, under EASY."""
    random, at, jobs = Random(seed), 0.0, list[JobSpec]()  # noqa: S311 - a workload, not a secret
    for number in range(count):
        jobs.append(_job(number, random.choice(tuple(PROGRAMS)), at, scale, way))
        at += random.expovariate(1.0 / (GAP_S * scale.times))
    cluster = ClusterSpec(NODES, policy="easy" if way == FIXED else policy, cooldown_s=0.0)
    return Batch(cluster, tuple(jobs), f"seed {seed}")


def _job(number: int, program: str, at: float, scale: Scale, way: str) -> JobSpec:
    bounds = scale.bounds(program)
    name, *size = PROGRAMS[program]
    words = ("python", "-m", f"pliant.apps.{name}", *size, "--steps", str(scale.steps(program)))
    sizes = [f"--{key}={getattr(bounds, key)}" for key in ("min", "max", "factor", "preferred")]
    check = () if way == FIXED else ("--check", way)
    row_s = TABLE1[program].inhibit_s
    inhibit_s = 0.0 if way == FIXED else row_s * scale.times  # a fixed job has nothing to look for
    return JobSpec(
        name=f"{number}-{program}",
        nodes=Bounds.exactly(bounds.max) if way == FIXED else bounds,
        job_class=JobClass.RIGID if way == FIXED else JobClass.MALLEABLE,
        submit_s=at,
        command=(*words, "--pace", f"{scale.times:g}/{NODE}", *sizes, *check),
        verify=(*words, "--serial"),
        env={"PLIANT_INHIBIT": f"{inhibit_s:g}"} if row_s else {},
        walltime_s=WALLTIME_S,
    )


# ---- what checks and resizes took -----------------------------------------------------------------------


class Statistic(NamedTuple):
    """A part of Table 2: times in seconds, None where there are none."""

    quantity: int
    per_job: float
    min_s: float | None
    max_s: float | None
    mean_s: float | None
    std_s: float | None


def statistic(spent: Iterable[Spent], jobs: int) -> Statistic:
    """Of all times of all jobs, with the standard deviation of all there are, not of a sample."""
    every = reduce(Spent.plus, spent, Spent())
    if not every.times:
        return Statistic(0, 0.0, None, None, None, None)
    mean = every.sum_s / every.times
    variance = max(0.0, every.squares / every.times - mean * mean)
    return Statistic(
        every.times, every.times / max(1, jobs), every.min_s, every.max_s, mean, math.sqrt(variance)
    )


def spent_in(output: Path, jobs: Sequence[JobSpec]) -> list[dict[str, Spent]]:
    """What each job said of its checks, by action; PliantError if one that has a log has said nothing."""
    return [spent_of(log_file(output, spec).read_text("utf-8", "replace"), spec.name) for spec in jobs]


def spent_of(log: str, name: str) -> dict[str, Spent]:
    """From the output of the job called ``name``; PliantError if that does not tell."""
    begin = f'{{"{KEY}": '
    for line in reversed(log.splitlines()):
        if line.startswith(begin):
            return {action: Spent(*each) for action, each in json.loads(line)[KEY].items()}
    raise PliantError(f"job {name} has not told what its checks took")


# ---- what became of a batch -------------------------------------------------------------------------------


class JobTimes(msgspec.Struct, frozen=True):
    """Seconds of a job."""

    name: str
    wait_s: float
    run_s: float

    @property
    def completion_s(self) -> float:
        return self.wait_s + self.run_s


class WayRun(msgspec.Struct, frozen=True):
    """One batch in one of ``WAYS``. ``came`` counts its offers by kind and outcome, ``problems`` say which jobs failed
    or have wrong results."""

    way: str
    seed: int
    utilisation: float
    makespan_s: float
    pace_overrun: float | None
    jobs: list[JobTimes]
    spent: list[dict[str, Spent]]
    came: dict[str, int]
    problems: list[str]


def times_of(metrics: RunMetrics) -> list[JobTimes]:
    """Of the jobs that have started and ended."""
    return [
        JobTimes(job.name, job.start_s - job.submit_s, job.end_s - job.start_s)
        for job in metrics.jobs
        if job.start_s is not None and job.end_s is not None
    ]


def came_of(jobs: Iterable[JobOutcome]) -> dict[str, int]:
    """How many offers there were of each kind and outcome: ``{"expand done": 3}``."""
    came: dict[str, int] = {}
    for job in jobs:
        for each in job.resizes:
            came[f"{each.kind} {each.outcome}"] = came.get(f"{each.kind} {each.outcome}", 0) + 1
    return came


def gain(fixed: float, flexible: float) -> float:
    """In per cent of the fixed value; above 0 the flexible one is shorter (Table 3)."""
    return 100.0 * (1.0 - flexible / fixed) if fixed else 0.0


class Spread(NamedTuple):
    """Mean, and standard deviation of a sample; None of fewer than two."""

    mean: float
    std: float | None


def spread(values: Sequence[float]) -> Spread:
    return Spread(statistics.mean(values), statistics.stdev(values) if len(values) > 1 else None)
