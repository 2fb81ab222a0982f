"""Running a batch for real and in the simulator, and bringing the results together. Used by several verbs."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from rich.console import Console

from pliant.cli.policies import choose
from pliant.core import records as r
from pliant.core.journal import names_of
from pliant.core.settings import batch_settings
from pliant.daemon import submission
from pliant.daemon.deadline import PASS_DEADLINE_S
from pliant.daemon.session import Interrupted, run_batch, signals_raised
from pliant.daemon.verify import verify, with_own_python
from pliant.model.batch import Batch, Cluster
from pliant.model.jobs import Check, JobState
from pliant.plan.cost import ResizeCost
from pliant.policy.view import Policy
from pliant.report.runs import Run
from pliant.report.words import count
from pliant.sim.simulator import simulate
from pliant.terminal.progress import LiveView
from pliant.workloads.batches import batch_jobs


def policy_of(cluster: Cluster, *, rigid: bool) -> Policy:
    """The cluster's policy, or EASY for a rigid run, with its queue's order either way; PolicyError."""
    name, start = ("easy", None) if rigid else (cluster.policy, cluster.start)
    return choose(name, start, order=cluster.order, weights=cluster.weights)


def live(
    batch: Batch,
    name: str,
    *,
    rigid: bool,
    output: Path,
    console: Console,
    predicted_s: float | None = None,
    cost: ResizeCost | None = None,
) -> Run:
    """Run the batch on virtual nodes of this machine, and check the results of jobs that say how. The run's
    ``stopped`` says what ended it early.

    ``cost`` is what its policy takes resizes to cost, else the default. BatchError before anything starts.
    """
    submission.check(batch, output)
    cluster = batch.cluster
    policy = policy_of(cluster, rigid=rigid)
    specs = tuple(job.rigid() for job in batch.jobs) if rigid else batch.jobs
    path = with_own_python(os.environ)["PATH"]
    jobs = tuple(msgspec.structs.replace(job, env={"PATH": path, **job.env}) for job in specs)
    names = tuple(f"n{i}" for i in range(cluster.nodes))
    with LiveView(name, policy.name, names, console) as view:
        records, stopped = run_batch(
            jobs,
            policy,
            batch_settings(cluster, cost),
            nodes=cluster.nodes,
            slots=cluster.slots,
            output=output,
            display=view,
            pass_deadline_s=cluster.pass_deadline_s or PASS_DEADLINE_S,
        )
        view.stopped = stopped is not None
    names = names_of(records) or names
    run = Run(name, policy.name, names, records, predicted_makespan_s=predicted_s, stopped=stopped)
    if stopped is None and any(job.verify for job in jobs):
        outcomes = run.metrics.jobs
        results = {job.name: job.result for job in outcomes if job.state is JobState.COMPLETED}
        checks: dict[str, Check] = {}
        try:
            with signals_raised(), console.status("checking the results"):
                if not console.is_terminal:
                    console.print(f"checking {count(len(results), 'result')}", highlight=False)
                checks = verify(jobs, results)
        except Interrupted as interrupted:
            checks = {
                job.name: Check(problem=interrupted.why) for job in jobs if job.verify and job.name in results
            }
            stopped = interrupted
        run = Run(name, policy.name, names, records, checks, predicted_s, stopped)
    return run


def whole(batch: Batch, name: str, *, rigid: bool, output: Path) -> Run:
    """``live`` without display, for measurements: raises what has stopped the run."""
    run = live(batch, name, rigid=rigid, output=output, console=Console(quiet=True))
    if run.stopped is not None:
        raise run.stopped
    return run


def predicted(batch: Batch, name: str, *, rigid: bool, cost: ResizeCost | None = None) -> Run:
    """The same batch under a virtual clock; BatchError if a job does not say how long it runs."""
    cluster = batch.cluster
    policy = policy_of(cluster, rigid=rigid)
    records: list[r.Record] = []
    simulate(
        batch_jobs(batch, rigid=rigid),
        cluster.nodes,
        policy,
        batch_settings(cluster, cost),
        records.append,
        starting=True,
    )
    return Run(name, policy.name, [f"n{i}" for i in range(cluster.nodes)], records)


def exit_code(runs: list[Run]) -> int:
    """1 if any job failed, did not end, or has a result that is wrong or could not be checked, or a policy went wrong."""
    return int(
        any(
            run.failed or run.unfinished or run.differing or run.unchecked or run.policy_failed
            for run in runs
        )
    )
