"""What a live system was given, as a workload: its journal replayed under another policy ("what if")."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec

from pliant.core import records as r
from pliant.core.arrays import limited
from pliant.files.journal import read_records
from pliant.model.errors import TraceError
from pliant.model.jobs import JobSpec
from pliant.model.speedup import scaled
from pliant.workloads.job import SimJob


class Recorded(NamedTuple):
    """The jobs of a journal, in order of submission, and the machine and policy they had."""

    jobs: list[SimJob]
    nodes: int
    policy: str


class _Ran:
    """How much of a job was computed: shares of its run time, by its model or by linear speed-up."""

    def __init__(self, spec: JobSpec) -> None:
        self.spec = spec
        self.done = 0.0
        self.ended = False
        self._size = 0
        self._since: float | None = None

    def compute(self, at: float, size: int, still_s: float = 0.0) -> None:
        """From ``at`` on, the job computes on ``size`` nodes; before that it stood still for ``still_s``."""
        if self._since is not None and self._size:
            self.done += max(0.0, at - self._since - still_s) / self._time(self._size)
        self._since, self._size = at, size

    def _time(self, size: int) -> float:
        """Seconds for the whole job; without a model, of one that takes a second at the preferred size."""
        if self.spec.model is not None:
            return self.spec.model.time(size)
        return self.spec.speed_ratio(size, self.spec.nodes.preferred)

    def job(self) -> SimJob:
        """The job with the run time it turned out to have; the estimate where it did not complete a run."""
        model = self.spec.model
        if not self.ended:
            return SimJob(self.spec, None if model else self.spec.walltime_s)
        if model is None or self.done <= 0:  # no model has times of 0
            return SimJob(self.spec, self.done)
        return SimJob(msgspec.structs.replace(self.spec, model=scaled(model, self.done)))


def read_journal(path: Path) -> Recorded:
    """The jobs that a journal (records.ndjson) tells of; TraceError names file and line.

    A job runs as long as it did, converted from the sizes it had: by its model, else by linear speed-up; but for the
    time that it stood still in resizes, which these take again. What it did not get to compute, because it was ended or
    the journal stops, is not made up for. One that was submitted again is the job of its first
    submission, with the run time of its last. No record tells of checkpoints.
    """
    header, records = read_records(path)
    ran: dict[int, _Ran] = {}
    sizes: dict[int, int] = {}
    for number, record in enumerate(records, 2):
        try:
            _follow(record, ran, sizes)
        except KeyError as error:
            raise TraceError(f"{path}: line {number}: job {error} was never submitted or started") from None
    if not ran:
        raise TraceError(f"{path}: no job was ever submitted")
    there = 0
    for record in records:
        there |= record.nodes.mask if isinstance(record, r.NodesGranted) else 0
    return Recorded(_together([each.job() for each in ran.values()]), there.bit_count(), header.policy)


def _together(jobs: list[SimJob]) -> list[SimJob]:
    """Those of an array with a limit were all asked for with its first, whenever their turn came."""
    firsts: dict[str, float] = {}
    asked: list[SimJob] = []
    for job in jobs:
        if (array := limited(job.spec)) is not None:
            submit_s = firsts.setdefault(array.name, job.spec.submit_s)
            job = msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, submit_s=submit_s))  # noqa: PLW2901
        asked.append(job)
    return asked


IGNORES: r.Ignores = frozenset({
    r.JobPromised, r.JobLaunched, r.JobMalleable, r.JobPinned, r.JobWishes, r.JobProgressed, r.JobNoted,
    r.ResizeOffered, r.ResizeWithdrawn, r.ResizeAccepted, r.ResizeDeclined, r.ResizeFailed, r.JobEnding,
    r.ControllerResumed, r.PolicyFailed, r.PolicyRemembers, r.NodesGranted, r.NodesClean, r.NodesLost,
    r.NodesBack, r.NodesOrdered, r.NodesRefused, r.NodesReclaimed, r.NodesReturned,
    r.NodesExpire, r.NodesWithdrawn,
})  # fmt: skip
"""What ``_follow`` leaves aside."""


def _follow(record: r.AnyRecord, ran: dict[int, _Ran], sizes: dict[int, int]) -> None:
    match record:
        case r.JobSubmitted(at=at, job=job, spec=spec, requeue_of=former):
            if former:  # one job still, and what it had computed is lost
                at = ran.pop(former).spec.submit_s
            ran[job] = _Ran(msgspec.structs.replace(spec, submit_s=at))
        case r.JobStarted(at=at, job=job, nodes=nodes):
            sizes[job] = len(nodes)
            ran[job].compute(at, sizes[job])
        case r.JobRunning(at=at, job=job):
            ran[job].compute(at, sizes[job])
            ran[job].done = 0.0  # what went before was starting
        case r.ResizeDone(at=at, job=job, gained=gained, released=released, blocked_s=still_s):
            sizes[job] += len(gained) - len(released)
            ran[job].compute(at, sizes[job], still_s)
        case r.GroupsLost(at=at, job=job, nodes=nodes):
            sizes[job] -= len(nodes)
            ran[job].compute(at, sizes[job])
        case r.JobEnded(at=at, job=job):
            ran[job].ended = job in sizes
            ran[job].compute(at, 0)
        case _:
            pass
