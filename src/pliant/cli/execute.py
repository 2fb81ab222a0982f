"""Running a batch for real and in the simulator, and bringing the results together. Used by several verbs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from rich.console import Console

from pliant.core import records as r
from pliant.core.journal import by_name
from pliant.core.settings import Settings, batch_settings
from pliant.daemon import submission
from pliant.daemon.foreground import run_batch, signals_raised
from pliant.daemon.interrupted import Interrupted
from pliant.drivers.tree import Hosts
from pliant.files.external import at_work, is_external
from pliant.files.policy import PolicySpec
from pliant.launch.verify import verify, with_own_python
from pliant.model.batch import Batch
from pliant.model.errors import BatchError
from pliant.model.jobs import Check, JobSpec, JobState
from pliant.model.words import count
from pliant.plan.cost import ResizeCost
from pliant.policy.view import Policy
from pliant.report.runs import Run
from pliant.sim.simulator import Conditions, Simulator
from pliant.terminal.progress import LiveView
from pliant.terminal.working import Working
from pliant.workloads.formats.batches import batch_jobs


class Variant(NamedTuple):
    """A batch as it is to be run, under a name for people: with ``rigid`` every job at its preferred size,
    under EASY. ``cost`` is what its policy takes resizes to cost, else the default. It runs on ``hosts``, the first of
    them, or on virtual nodes of this machine."""

    batch: Batch
    name: str
    rigid: bool
    cost: ResizeCost | None = None
    hosts: Hosts | None = None

    def policy(self) -> Policy:
        """A new one: the cluster's policy or EASY, with its queue's order either way; PolicyError."""
        spec = PolicySpec.of(self.batch.cluster)
        return (spec._replace(name="easy", start=None) if self.rigid else spec).make()

    @property
    def settings(self) -> Settings:
        return batch_settings(self.batch.cluster, self.cost, self.batch.jobs)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Their names."""
        count = self.batch.cluster.nodes
        return tuple(f"n{i}" for i in range(count)) if self.hosts is None else self.hosts.names[:count]


def live(variant: Variant, *, output: Path, console: Console, predicted_s: float | None = None) -> Run:
    """Run the batch on its nodes, and check the results of jobs that say how. The run's
    ``stopped`` says what ended it early. BatchError before anything starts.
    """
    batch, name = variant.batch, variant.name
    submission.check(batch, output)
    if not variant.rigid:
        check_policy(batch)
    policy = variant.policy()
    specs = tuple(job.rigid() for job in batch.jobs) if variant.rigid else batch.jobs
    path = with_own_python(os.environ)["PATH"]
    given = [msgspec.structs.replace(job, env={"PATH": path, **job.env}) for job in specs]
    jobs, notices = submission.settle(given, batch.source)
    with LiveView(name, policy.name, variant.nodes, console) as view:
        for notice in notices:
            view.notice(notice)
        records, stopped = run_batch(
            msgspec.structs.replace(batch, jobs=jobs), policy, variant.settings, output=output, display=view,
            hosts=variant.hosts,
        )  # fmt: skip
        view.stopped = stopped is not None
    names, told = by_name(records)
    run = Run(
        name, policy.name, names or variant.nodes, told, predicted_makespan_s=predicted_s, stopped=stopped
    )
    if stopped is None and any(job.verify for job in jobs):
        checks, stopped = _checked(run, jobs, console)
        run = msgspec.structs.replace(run, checks=checks, stopped=stopped)
    return run


def check_policy(batch: Batch) -> None:
    """BatchError if its policy is one that no live run can have."""
    if is_external(name := batch.cluster.policy):
        raise BatchError(
            f"{batch.source}: policy {name!r}: a policy in a process of its own can only be simulated with: use "
            "pliant simulate or --dry-run, or name a policy of pliant policies or a class in a FILE.py"
        )


def _checked(
    run: Run, jobs: Sequence[JobSpec], console: Console
) -> tuple[Mapping[str, Check], Interrupted | None]:
    """What came of the checks of its jobs' results by name, and what ended them early."""
    results = {job.name: job.result for job in run.metrics.jobs if job.state is JobState.COMPLETED}
    try:
        if not console.is_terminal:
            console.print(f"checking {count(len(results), 'result')}", highlight=False)
        with signals_raised(), Working("checking results", console=console):
            return verify(jobs, results), None
    except Interrupted as interrupted:
        why = interrupted.why
        checks = {job.name: Check(problem=why) for job in jobs if job.verify and job.name in results}
        return checks, interrupted


def whole(variant: Variant, *, output: Path) -> Run:
    """``live`` without display, for measurements: raises what has stopped the run."""
    run = live(variant, output=output, console=Console(quiet=True))
    if run.stopped is not None:
        raise run.stopped
    return run


def predicted(variant: Variant) -> Run:
    """The same batch under a virtual clock; BatchError if a job does not say how long it runs."""
    policy = variant.policy()
    records: list[r.Record] = []
    jobs = batch_jobs(variant.batch, rigid=variant.rigid)
    conditions = Conditions(variant.settings, starting=True)
    with at_work(policy), Working("simulating", len(jobs), "jobs") as progress:
        nodes = variant.batch.cluster.nodes
        Simulator(jobs, nodes, policy, conditions, records.append).run(progress.reach)
    return Run(variant.name, policy.name, variant.nodes, records)


def exit_code(runs: list[Run]) -> int:
    """1 if any job failed, did not end, or has a result that is wrong or could not be checked, or a policy
    went wrong."""
    return int(
        any(
            run.failed or run.unfinished or run.differing or run.unchecked or run.policy_failed
            for run in runs
        )
    )
