"""Batches, as ``pliant run`` takes them, for the simulator: each job runs as long as its model says."""

from __future__ import annotations

from pliant.model.batch import Batch
from pliant.model.errors import BatchError
from pliant.workloads.job import SimJob


def batch_jobs(batch: Batch, *, rigid: bool = False) -> list[SimJob]:
    """The batch's jobs; ``rigid`` fixes each at its preferred size.

    BatchError if a job has no model: then nobody knows how long it would run.
    """
    jobs: list[SimJob] = []
    for spec in batch.jobs:
        if spec.model is None:
            raise BatchError(
                f"{batch.source}: job {spec.name!r}: model: missing; the simulator has to know how long it runs: "
                "add model = {work_s = ..., serial_fraction = ...}"
            )
        jobs.append(SimJob(spec.rigid() if rigid else spec))
    return jobs
