"""What became of each job, a row for each: of this the table in a file and the one in memory are made."""

from __future__ import annotations

from typing import Any, ClassVar

from pliant.core import records as r
from pliant.history.distribution import bounded_slowdown
from pliant.history.lives import Life, Listener

COLUMNS = (
    "job", "name", "user", "class", "state", "submit_s", "start_s", "end_s", "wait_s", "run_s", "turnaround_s",
    "nodes_min", "nodes_preferred", "nodes_max", "nodes_start", "nodes_end", "nodes_mean", "expands", "shrinks",
    "bounded_slowdown", "exit_code", "requeue_of",
)  # fmt: skip
"""Times in seconds, the first three since the start of the simulation; ``nodes_mean`` is over the run time.
What a job that never started has none of is None, in a CSV an empty cell. A job that lost a node has a row for each
time that it was submitted; ``requeue_of`` is its number before."""


class _Sums:
    """What a job that has not ended has come to: the node-seconds that it has held, and its resizes."""

    __slots__ = ("expands", "held", "shrinks")

    def __init__(self) -> None:
        self.expands = self.shrinks = 0
        self.held = 0.0


class JobRows(Listener):
    """Listens to the jobs of a simulation, and gives ``take`` a row of ``COLUMNS`` for each, in order of job number:
    those of jobs that end before one of a lower number wait in memory."""

    IGNORES: ClassVar[frozenset[str]] = frozenset({
        "began", "started", "launched", "offered", "accepted", "withdrawn", "settled", "groups_lost", "wasted",
        "idle", "used", "nodes_there", "nodes_lost", "nodes_returned",
    })  # fmt: skip

    def __init__(self) -> None:
        self._jobs: dict[int, _Sums] = {}
        self._waiting: dict[int, list[Any]] = {}
        self._next = 1

    def take(self, row: list[Any]) -> None:
        """The next row."""
        raise NotImplementedError

    def take_rest(self) -> None:
        """Take the rows that wait for one that does not come."""
        for number in sorted(self._waiting):
            self.take(self._waiting[number])

    def submitted(self, life: Life) -> None:
        self._jobs[life.job] = _Sums()

    def held(self, life: Life) -> None:
        self._jobs[life.job].held += life.size * (self.lives.now - life.since)

    def resized(self, life: Life, _done: r.ResizeDone, _kind: str, before: int) -> None:
        sums = self._jobs[life.job]
        sums.expands += life.size > before
        sums.shrinks += life.size < before

    def ended(self, life: Life, end: r.JobEnded, size: int) -> None:
        self._waiting[life.job] = _row(life, size, self._jobs.pop(life.job), end)
        while self._next in self._waiting:
            self.take(self._waiting.pop(self._next))
            self._next += 1


class JobTable(JobRows):
    """The table in memory."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[list[Any]] = []

    def take(self, row: list[Any]) -> None:
        self._rows.append(row)

    def columns(self) -> dict[str, list[Any]]:
        """Column by column; the cells of one are of one type, or None."""
        columns = {name: [row[i] for row in self._rows] for i, name in enumerate(COLUMNS)}
        # That of a job that took no time is the number that it was given.
        columns["nodes_mean"] = [None if mean is None else float(mean) for mean in columns["nodes_mean"]]
        return columns


def _row(life: Life, size: int, sums: _Sums, end: r.JobEnded) -> list[Any]:
    spec, bounds, start, at = life.spec, life.spec.nodes, life.start, end.at
    turnaround = at - life.queued
    met: list[Any] = [None] * 3
    times: list[Any] = [None, _s(at), None, None, _s(turnaround)]
    slowdown: float | None = None
    if start is not None:
        run = at - start
        times = [_s(start), _s(at), _s(start - life.queued), _s(run), _s(turnaround)]
        met = [life.first, size, _s(sums.held / run) if run > 0 else life.first]
        slowdown = _s(bounded_slowdown(turnaround, run))
    return [
        end.job, spec.name, spec.user, str(spec.job_class), str(end.state), _s(life.queued), *times,
        bounds.min, bounds.preferred, bounds.max, *met, sums.expands, sums.shrinks, slowdown, end.exit_code,
        life.requeue_of or None,
    ]  # fmt: skip


def _s(value: float) -> float:
    """To the microsecond, as in report.json."""
    return round(value, 6)
