"""A table of what became of each job, as CSV: written while the simulation runs, there once it is whole."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from pliant.core import records as r
from pliant.core.distribution import SLOWDOWN_BOUND_S
from pliant.model.errors import BatchError
from pliant.model.jobs import JobSpec

COLUMNS = (
    "job", "name", "user", "class", "state", "submit_s", "start_s", "end_s", "wait_s", "run_s", "turnaround_s",
    "nodes_min", "nodes_preferred", "nodes_max", "nodes_start", "nodes_end", "nodes_mean", "expands", "shrinks",
    "bounded_slowdown", "exit_code", "requeue_of",
)  # fmt: skip
"""Times in seconds, the first three since the start of the simulation; ``nodes_mean`` is over the run time.
What a job that never started has none of is left empty. A job that lost a node has a line for each time that it was
submitted; ``requeue_of`` is its number before."""


class _Job:
    """A job that has not ended, and the node-seconds it has held up to ``since``."""

    __slots__ = (
        "expands",
        "first",
        "held",
        "requeue_of",
        "shrinks",
        "since",
        "size",
        "spec",
        "start",
        "submit",
    )

    def __init__(self, spec: JobSpec, submit: float, requeue_of: int) -> None:
        self.spec = spec
        self.requeue_of = requeue_of or ""
        self.submit = submit
        self.start: float | None = None
        self.first = self.size = self.expands = self.shrinks = 0
        self.held = self.since = 0.0

    def hold(self, at: float, size: int) -> None:
        """From ``at`` on, the job has ``size`` nodes."""
        self.held += self.size * (at - self.since)
        self.since, self.size = at, size


class JobsCsv:
    """Add every record of a simulation, in order; a context, which is left when all of it has been added.

    The table goes to a temporary file beside ``path`` that takes its place at the end, and is removed if
    there was an error. Lines are in order of job number: those of jobs that end before one of a lower
    number wait in memory. BatchError, on entering already, if ``path`` cannot be written.
    """

    IGNORES: ClassVar[r.Ignores] = frozenset({
        r.JobPromised, r.JobLaunched, r.JobRunning, r.JobMalleable, r.JobPinned, r.JobProgressed,
        r.ResizeOffered, r.ResizeWithdrawn, r.ResizeAccepted, r.ResizeDeclined, r.ResizeFailed,
        r.JobEnding, r.ControllerResumed, r.PolicyFailed, r.PolicyRemembers, r.NodesGranted, r.NodesClean,
        r.NodesLost, r.NodesBack, r.NodesOrdered, r.NodesRefused, r.NodesReclaimed, r.NodesReturned,
    })  # fmt: skip

    def __init__(self, path: Path) -> None:
        self._path = path
        self._partial = path.absolute().parent / f".{path.name}.{os.getpid()}.partial"
        self._jobs: dict[int, _Job] = {}
        self._lines: dict[int, list[Any]] = {}
        self._next = 1
        self._fold: dict[type[r.Record], Callable[[Any], None]] = {
            r.JobSubmitted: self._submitted,
            r.JobStarted: self._started,
            r.ResizeDone: self._resized,
            r.GroupsLost: self._groups_lost,
            r.JobEnded: self._ended,
        }

    def __enter__(self) -> Self:
        folder = self._partial.parent
        if not folder.is_dir():
            raise self._refused(f"there is no directory {folder}")
        if self._path.exists() and not self._path.is_file():
            raise self._refused("it is there and no regular file; name another")
        try:
            self._file = self._partial.open("x", newline="", encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            raise self._refused(f"cannot be written: {error.strerror}") from None
        self._writer = csv.writer(self._file, lineterminator="\n")
        self._writer.writerow(COLUMNS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                for number in sorted(self._lines):
                    self._writer.writerow(self._lines[number])
            self._file.close()
            if kind is None:
                self._partial.replace(self._path)
        except OSError as failure:
            if kind is None:
                raise self._refused(f"cannot be written: {failure.strerror}") from None
        finally:
            self._partial.unlink(missing_ok=True)

    def add(self, record: r.Record) -> None:
        fold = self._fold.get(type(record))
        if fold is not None:
            fold(record)

    def beside(self, sink: Callable[[r.Record], None]) -> Callable[[r.Record], None]:
        """A sink that hands each record to ``sink`` and to this table."""

        def both(record: r.Record) -> None:
            sink(record)
            self.add(record)

        return both

    def _refused(self, why: str) -> BatchError:
        return BatchError(f"--jobs-csv {self._path}: {why}")

    def _submitted(self, record: r.JobSubmitted) -> None:
        self._jobs[record.job] = _Job(record.spec, record.at, record.requeue_of)

    def _started(self, record: r.JobStarted) -> None:
        job = self._jobs[record.job]
        job.start = record.at
        job.first = len(record.nodes)
        job.hold(record.at, job.first)

    def _resized(self, record: r.ResizeDone) -> None:
        job = self._jobs[record.job]
        grown = len(record.gained) - len(record.released)
        job.expands += grown > 0
        job.shrinks += grown < 0
        job.hold(record.at, job.size + grown)

    def _groups_lost(self, record: r.GroupsLost) -> None:
        job = self._jobs[record.job]
        job.hold(record.at, job.size - len(record.nodes))

    def _ended(self, record: r.JobEnded) -> None:
        self._lines[record.job] = _line(self._jobs.pop(record.job), record)
        try:
            while self._next in self._lines:
                self._writer.writerow(self._lines.pop(self._next))
                self._next += 1
        except OSError as failure:
            raise self._refused(f"cannot be written: {failure.strerror}") from None


def _line(job: _Job, end: r.JobEnded) -> list[Any]:
    spec, bounds, start, at = job.spec, job.spec.nodes, job.start, end.at
    turnaround = at - job.submit
    met: list[Any] = [""] * 3
    times: list[Any] = ["", _s(at), "", "", _s(turnaround)]
    slowdown: Any = ""
    if start is not None:
        run = at - start
        last = job.size
        job.hold(at, 0)
        times = [_s(start), _s(at), _s(start - job.submit), _s(run), _s(turnaround)]
        met = [job.first, last, _s(job.held / run) if run > 0 else job.first]
        slowdown = _s(max(1.0, turnaround / max(SLOWDOWN_BOUND_S, run)))
    return [
        end.job, spec.name, spec.user, str(spec.job_class), str(end.state), _s(job.submit), *times,
        bounds.min, bounds.preferred, bounds.max, *met, job.expands, job.shrinks, slowdown, end.exit_code, job.requeue_of,
    ]  # fmt: skip


def _s(value: float) -> float:
    """To the microsecond, as in report.json."""
    return round(value, 6)
