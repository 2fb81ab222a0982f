"""What became of each job, in the Standard Workload Format: written while the simulation runs, there once it is
whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from pliant.core import records as r
from pliant.files.partial import PartialTable
from pliant.history.timeline import Life, Listener
from pliant.model.jobs import JobState
from pliant.workloads.formats.swf import SwfJob
from pliant.workloads.formats.swf_writing import Numbers, further, words
from pliant.workloads.job import SimJob

STATUS = {JobState.COMPLETED: 1, JobState.CANCELLED: 5}
"""All others have failed: 0."""
NONE: dict[str, float] = {}


class SwfSchedule(Listener):
    """Listens to a simulation of ``jobs``, and fills a table; ``partitions``: those of the machine by name.

    A line a job, in order of submission. One that was submitted again has the wait for its last start, and the run time
    from there. The processors of one that was resized are the mean over its run time, rounded. What
    never started has neither. Times to the microsecond.
    """

    IGNORES: ClassVar[frozenset[str]] = frozenset({
        "began", "launched", "offered", "accepted", "withdrawn", "resized", "settled", "groups_lost", "wasted",
        "idle", "noted", "used", "nodes_there", "nodes_lost", "nodes_returned",
    })  # fmt: skip

    def __init__(self, table: PartialTable, jobs: Sequence[SimJob], partitions: Sequence[str] = ()) -> None:
        self._table = table
        self._numbers = Numbers(jobs)
        self._count = 0
        self._order: dict[int, int] = {}
        """Of jobs that have not ended, by number: as which of all they were submitted first."""
        self._held: dict[int, float] = {}
        self._further = {id(job.spec): further(job, partitions) for job in jobs if job.after or partitions}
        """By the identity of a job's specification: several may have one name."""

    def submitted(self, life: Life) -> None:
        if life.again:
            self._order[life.job] = self._order.pop(life.requeue_of)
        else:
            self._count += 1
            self._order[life.job] = self._count

    def started(self, life: Life) -> None:
        self._held[life.job] = 0.0

    def held(self, life: Life) -> None:
        self._held[life.job] += life.size * (self.lives.now - life.since)

    def ended(self, life: Life, end: r.JobEnded, _size: int) -> None:
        held = self._held.pop(life.job, 0.0)
        if end.requeued:
            return
        count = self._order.pop(life.job)
        spec = life.spec
        wait = run = processors = -1.0
        if life.start is not None:
            wait, run = round(life.start - life.submit, 6), round(end.at - life.start, 6)
            processors = float(max(1, round(held / run)) if run > 0 else life.first)
        job = SwfJob(
            number=self._numbers.job(spec.name, count),
            submit=life.submit,
            wait=wait,
            run=run,
            allocated=processors,
            requested=spec.nodes.preferred,
            requested_time=spec.walltime_s,
            status=STATUS.get(end.state, 0),
            user=self._numbers.user(spec.user),
            **self._further.get(id(spec), NONE),
        )
        self._table.put(count, words(job))


@contextmanager
def swf_schedule(
    path: Path, jobs: Sequence[SimJob], head: str, partitions: Sequence[str] = ()
) -> Iterator[SwfSchedule]:
    """The schedule in a file with this header, there when all jobs have ended. BatchError, on entering already,
    if ``path`` cannot be written."""
    with PartialTable("--swf", path, " ") as table:
        table.write(head)
        yield SwfSchedule(table, jobs, partitions)
