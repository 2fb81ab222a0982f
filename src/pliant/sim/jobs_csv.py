"""A table of what became of each job, as CSV: written while the simulation runs, there once it is whole."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from pliant.core import records as r
from pliant.history.distribution import bounded_slowdown
from pliant.history.lives import Life, Listener
from pliant.model.errors import BatchError

COLUMNS = (
    "job", "name", "user", "class", "state", "submit_s", "start_s", "end_s", "wait_s", "run_s", "turnaround_s",
    "nodes_min", "nodes_preferred", "nodes_max", "nodes_start", "nodes_end", "nodes_mean", "expands", "shrinks",
    "bounded_slowdown", "exit_code", "requeue_of",
)  # fmt: skip
"""Times in seconds, the first three since the start of the simulation; ``nodes_mean`` is over the run time.
What a job that never started has none of is left empty. A job that lost a node has a line for each time that it was
submitted; ``requeue_of`` is its number before."""


class _Sums:
    """What a job that has not ended has come to: the node-seconds that it has held, and its resizes."""

    __slots__ = ("expands", "held", "shrinks")

    def __init__(self) -> None:
        self.expands = self.shrinks = 0
        self.held = 0.0


class JobsCsv(Listener):
    """Listens to the jobs of a simulation; a context, which is left when all of them have ended.

    The table goes to a temporary file beside ``path`` that takes its place at the end, and is removed if
    there was an error. Lines are in order of job number: those of jobs that end before one of a lower
    number wait in memory. BatchError, on entering already, if ``path`` cannot be written.
    """

    IGNORES: ClassVar[frozenset[str]] = frozenset({
        "began", "started", "launched", "offered", "accepted", "withdrawn", "settled", "groups_lost", "wasted",
        "idle", "used", "nodes_there", "nodes_lost", "nodes_returned",
    })  # fmt: skip

    def __init__(self, path: Path) -> None:
        self._path = path
        self._partial = path.absolute().parent / f".{path.name}.{os.getpid()}.partial"
        self._jobs: dict[int, _Sums] = {}
        self._lines: dict[int, list[Any]] = {}
        self._next = 1

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

    def _refused(self, why: str) -> BatchError:
        return BatchError(f"--jobs-csv {self._path}: {why}")

    def submitted(self, life: Life) -> None:
        self._jobs[life.job] = _Sums()

    def held(self, life: Life) -> None:
        self._jobs[life.job].held += life.size * (self.lives.now - life.since)

    def resized(self, life: Life, _done: r.ResizeDone, _kind: str, before: int) -> None:
        sums = self._jobs[life.job]
        sums.expands += life.size > before
        sums.shrinks += life.size < before

    def ended(self, life: Life, end: r.JobEnded, size: int) -> None:
        self._lines[life.job] = _line(life, size, self._jobs.pop(life.job), end)
        try:
            while self._next in self._lines:
                self._writer.writerow(self._lines.pop(self._next))
                self._next += 1
        except OSError as failure:
            raise self._refused(f"cannot be written: {failure.strerror}") from None


def _line(life: Life, size: int, sums: _Sums, end: r.JobEnded) -> list[Any]:
    spec, bounds, start, at = life.spec, life.spec.nodes, life.start, end.at
    turnaround = at - life.queued
    met: list[Any] = [""] * 3
    times: list[Any] = ["", _s(at), "", "", _s(turnaround)]
    slowdown: Any = ""
    if start is not None:
        run = at - start
        times = [_s(start), _s(at), _s(start - life.queued), _s(run), _s(turnaround)]
        met = [life.first, size, _s(sums.held / run) if run > 0 else life.first]
        slowdown = _s(bounded_slowdown(turnaround, run))
    return [
        end.job, spec.name, spec.user, str(spec.job_class), str(end.state), _s(life.queued), *times,
        bounds.min, bounds.preferred, bounds.max, *met, sums.expands, sums.shrinks, slowdown, end.exit_code,
        life.requeue_of or "",
    ]  # fmt: skip


def _s(value: float) -> float:
    """To the microsecond, as in report.json."""
    return round(value, 6)
