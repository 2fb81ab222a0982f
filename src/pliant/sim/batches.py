"""Batches, as ``pliant run`` takes them, for the simulator: each job runs as long as its model says."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec

from pliant.core.settings import Settings
from pliant.model.batch import Batch, Cluster, read_batch
from pliant.model.errors import BatchError
from pliant.plan.cost import ResizeCost
from pliant.sim.simulator import SimJob


def read_batch_file(path: Path) -> Batch:
    """The batch in a TOML file; BatchError names the file and what is wrong with it."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BatchError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise BatchError(f"{path}: is no text in UTF-8: {error}") from None
    except (ValueError, RecursionError) as error:  # numbers of 5,000 digits, and brackets in brackets, too
        raise BatchError(f"{path}: is no TOML: {error}") from None
    return read_batch(data, str(path))


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


def batch_settings(cluster: Cluster, cost: ResizeCost | None = None) -> Settings:
    """The core's settings, with those that the batch states; ``cost`` is what resizes cost, if known."""
    stated = {
        "cooldown_s": cluster.cooldown_s,
        "resize_deadline_s": cluster.resize_deadline_s,
        "pass_interval_s": cluster.pass_interval_s,
        "cost": cost,
    }
    known = {name: value for name, value in stated.items() if value is not None}
    return msgspec.structs.replace(Settings(), **known)
