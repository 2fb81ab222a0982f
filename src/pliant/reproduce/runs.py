"""Many simulations in parallel processes, and what a study keeps of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import as_completed
from typing import Any, NamedTuple

from pliant.core import records as r
from pliant.core.metrics import Metrics, RunMetrics
from pliant.core.settings import Settings
from pliant.model.jobs import JobClass
from pliant.policy.view import Policy
from pliant.sim.simulator import simulate
from pliant.sim.workers import pool, processes
from pliant.workloads.job import SimJob


class Outcome(NamedTuple):
    """One simulation: times in seconds, means over the jobs; resizes per malleable job; jobs that were promised
    a start, how many of them started later than that, and by how much at most."""

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


Task = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function of a module and its arguments: both go to another process."""


def outcome(jobs: Sequence[SimJob], nodes: int, policy: Policy, settings: Settings) -> Outcome:
    """Simulate ``jobs``; nothing of the single jobs is kept."""
    return with_turnarounds(jobs, nodes, policy, settings)[0]


def with_turnarounds(
    jobs: Sequence[SimJob], nodes: int, policy: Policy, settings: Settings
) -> tuple[Outcome, dict[int, float]]:
    """``outcome``, and each job's turnaround in seconds, by its number: the order of submission, from 1."""
    metrics = Metrics(keep_jobs=False)
    turnarounds: dict[int, float] = {}

    def sink(record: r.Record) -> None:
        metrics.add(record)
        if type(record) is r.JobSubmitted:
            turnarounds[record.job] = -record.at
        elif type(record) is r.JobEnded:
            turnarounds[record.job] += record.at

    simulate(jobs, nodes, policy, settings, sink)
    return summed(metrics.summary(), jobs), turnarounds


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


def run_all(tasks: Sequence[Task], workers: int, progress: Callable[[int], None]) -> list[Any]:
    """The results in the order of ``tasks``, from ``workers`` processes (0: one a processor).

    ``progress`` is told how many are done. The first error stops all.
    """
    workers = processes(workers)
    if workers == 1:
        results = []
        for function, arguments in tasks:
            results.append(function(*arguments))
            progress(len(results))
        return results
    found: dict[int, Any] = {}
    with pool(workers) as executor:
        try:
            waiting = {
                executor.submit(function, *arguments): i for i, (function, arguments) in enumerate(tasks)
            }
            for future in as_completed(waiting):
                found[waiting[future]] = future.result()
                progress(len(found))
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            raise
    return [found[i] for i in range(len(tasks))]
