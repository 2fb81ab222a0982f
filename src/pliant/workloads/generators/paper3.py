"""The workloads of Iserte, Mayo, Quintana-Orti, Beltran and Peña, DMR API: Improving the Cluster Productivity
by Turning Applications into Malleable (Iserte et al. 2018): 50 to 400 jobs of three programs on 64 nodes, each as a
fixed and as a flexible version.

Sizes and periods are its Table 1, submissions its section 7.1. Run times were not published: those here are
calibrated (``table1.TIMES``), not measured, and so is the order of the jobs (``SEED``).
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from pliant.core.settings import Settings
from pliant.model import table1
from pliant.model.errors import BatchError
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.model.table1 import FACTOR, TIMES, model
from pliant.plan.cost import ResizeCost
from pliant.workloads.job import SimJob

NODES = 64
"""Not stated in section 7; the text on figure 6 counts 64 allocated nodes at its peaks."""
COUNTS = (50, 100, 200, 400)
GAP_S = 10.0
"""Mean time between two submissions, exponentially distributed."""
DAY_S = 86400.0
"""Every job's estimate: the article tells of no time limits, so backfilling cannot tell jobs apart."""


class PaperProgram(NamedTuple):
    """A line of Table 1, in nodes; a job looks for offers every ``period_s`` seconds."""

    min: int
    max: int
    preferred: int
    period_s: float


SEED = 15907
"""Of the first 20 000 seeds, one that brings the shares of N-body jobs near to what the fixed jobs' mean run
times ask for: 0.42, 0.39, 0.32 and 0.33 of the first 50, 100, 200 and 400 jobs. With run times that do not
depend on the workload, nothing else lets the article's means differ (620, 587, 521 and 532 s)."""
TABLE1 = {
    name: PaperProgram(
        row.min, row.max, row.preferred, row.inhibit_s or TIMES[name].at_max_s / row.iterations
    )
    for name, row in table1.TABLE1.items()
    if name in TIMES
}
"""N-body has no period, and looks for offers between two iterations."""
COST = ResizeCost(start_s=0.0, start_each_s=0.0, blocked_s=0.42, leave_s=0.0, answer_s=0.01)
"""Table 2, synchronous: a resize takes 0.42 s on average, in which the job stands still, a look 0.01 s."""


class MeasuredProgram(NamedTuple):
    """A line of Table 4: a share, and means over the jobs in seconds; completion is wait and execution."""

    utilisation: float
    wait_s: float
    execution_s: float
    completion_s: float


FIXED, FLEXIBLE = "fixed", "flexible"
PUBLISHED = {
    (50, FIXED): MeasuredProgram(0.9871, 4115.02, 620.26, 4735.28),
    (50, FLEXIBLE): MeasuredProgram(0.6867, 1359.92, 900.3, 2260.22),
    (100, FIXED): MeasuredProgram(0.9739, 9750.34, 586.64, 10336.98),
    (100, FLEXIBLE): MeasuredProgram(0.7191, 2990.6, 858.16, 3848.76),
    (200, FIXED): MeasuredProgram(0.9838, 17466.2, 520.58, 17986.78),
    (200, FLEXIBLE): MeasuredProgram(0.7354, 6856.8, 825.88, 7676.67),
    (400, FIXED): MeasuredProgram(0.9838, 31788.39, 532.14, 32320.53),
    (400, FLEXIBLE): MeasuredProgram(0.7354, 13861.03, 843.19, 14704.22),
}
"""Table 4, by the number of jobs and their version. Its lines for 200 and 400 jobs state the same
utilisations, and the completion of 200 flexible jobs is not the sum of its parts: both as printed."""
PUBLISHED_ACTIONS = {"expand": 50, "shrink": 194}
"""Table 2: the synchronous resizes in the workload of 400 flexible jobs."""


def paper3_jobs(count: int, seed: int = SEED, *, flexible: bool) -> list[SimJob]:
    """The first ``count`` jobs of ``seed``, in order of submission: all flexible, or all fixed at their maximum.

    A smaller workload is the beginning of a larger one. Raises BatchError if ``count`` is below 1.
    """
    if count < 1:
        raise BatchError(f"paper3: {count} jobs; there must be at least 1")
    random = Random(seed)  # noqa: S311 - a workload, not a secret
    jobs: list[SimJob] = []
    at = 0.0
    for index in range(count):
        jobs.append(_job(index, random.choice(tuple(TABLE1)), at, flexible=flexible))
        at += random.expovariate(1.0 / GAP_S)
    return jobs


def paper3_settings() -> Settings:
    """The core's settings: the article's costs of resizes, and the patience that N-body's iterations need.

    There is no cooldown: the jobs' periods are the checking inhibitor.
    """
    return Settings(cooldown_s=0.0, offer_deadline_s=600.0, cost=COST)


def _job(index: int, program: str, at: float, *, flexible: bool) -> SimJob:
    low, high, preferred, period_s = TABLE1[program]
    spec = JobSpec(
        name=f"{index}-{program}",
        nodes=Bounds(low, high, FACTOR, preferred) if flexible else Bounds.exactly(high),
        job_class=JobClass.MALLEABLE if flexible else JobClass.RIGID,
        submit_s=at,
        walltime_s=DAY_S,
        model=model(program),
    )
    return SimJob(spec, period_s=period_s)
