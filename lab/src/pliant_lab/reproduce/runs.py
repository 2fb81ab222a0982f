"""What the reproductions keep of each simulation."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from pliant.core.settings import Settings
from pliant.history.metrics import RunMetrics
from pliant.history.turnarounds import Turnarounds
from pliant.model.jobs import JobClass
from pliant.policy.view import Policy
from pliant.study.simulation import Simulation
from pliant.workloads.job import SimJob
from pliant.workloads.sources import Workload


class Outcome(NamedTuple):
    """One simulation: times in seconds, means over the jobs; resizes per malleable job; jobs that were
    promised a start, how many of them started later than that, and by how much at most."""

    jobs: int
    makespan_s: float
    utilisation: float
    wait_mean_s: float
    turnaround_mean_s: float
    bounded_slowdown_mean: float
    expands_per_malleable: float
    shrinks_per_malleable: float
    promised: int
    promises_broken: int
    promise_delay_max_s: float
    turnaround_max_s: float

    @property
    def run_mean_s(self) -> float:
        return self.turnaround_mean_s - self.wait_mean_s


def simulation_of(jobs: Sequence[SimJob], nodes: int, policy: Policy, settings: Settings) -> Simulation:
    """One of jobs that are at hand, as they are."""
    return Simulation(Workload(list(jobs), nodes, settings, starting=False), policy)


def outcome(jobs: Sequence[SimJob], nodes: int, policy: Policy, settings: Settings) -> Outcome:
    """Simulate ``jobs``; nothing of the single jobs is kept."""
    return summed(simulation_of(jobs, nodes, policy, settings).run().metrics, jobs)


def with_turnarounds(
    jobs: Sequence[SimJob], nodes: int, policy: Policy, settings: Settings
) -> tuple[Outcome, dict[int, float]]:
    """``outcome``, and each job's turnaround in seconds, by its number: the order of submission, from 1."""
    listener = Turnarounds([job.spec for job in sorted(jobs, key=attrgetter("spec.submit_s"))])
    ended = simulation_of(jobs, nodes, policy, settings).run(listener)
    return summed(ended.metrics, jobs), dict(enumerate(listener.turnarounds, 1))


def summed(summary: RunMetrics, jobs: Sequence[SimJob]) -> Outcome:
    malleable = sum(job.spec.job_class is JobClass.MALLEABLE for job in jobs) or 1
    return Outcome(
        len(jobs),
        summary.makespan_s,
        summary.utilisation,
        summary.wait_mean_s,
        summary.turnaround_mean_s,
        summary.bounded_slowdown_mean,
        summary.expands / malleable,
        summary.shrinks / malleable,
        summary.promised,
        summary.promises_broken,
        summary.promise_delay_max_s,
        summary.turnaround_max_s,
    )
