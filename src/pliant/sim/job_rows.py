"""What became of each job, a row for each: of this the table in a file and the one in memory are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from pliant.core import records as r
from pliant.files.partial import PartialTable
from pliant.history.distribution import bounded_slowdown
from pliant.history.timeline import Life, Listener

COLUMNS = (
    "job", "name", "user", "class", "state", "submit_s", "start_s", "end_s", "wait_s", "run_s", "turnaround_s",
    "nodes_min", "nodes_preferred", "nodes_max", "nodes_start", "nodes_end", "nodes_mean", "expands", "shrinks",
    "bounded_slowdown", "exit_code", "requeue_of", "sizes",
)  # fmt: skip
"""Times in seconds, the first three since the start of the simulation; ``nodes_mean`` is over the run time.
What a job that never started has none of is None, in a CSV an empty cell. A job has a row for each time that it
was submitted; ``requeue_of`` is its number before. ``sizes`` are the nodes that it had, as
``time:nodes`` steps: from so many seconds after its start, as in ``0:4;120.5:8``."""


class _Sums:
    """What a job that has not ended has come to: the node-seconds that it has held, its resizes, and when after its
    start it had another number of nodes."""

    __slots__ = ("expands", "held", "shrinks", "steps")

    def __init__(self) -> None:
        self.expands = self.shrinks = 0
        self.held = 0.0
        self.steps: list[tuple[float, int]] = []


PARTITION = "partition"
"""One column more, where the machine has partitions."""


class JobRows(Listener):
    """Listens to the jobs of a simulation, and ``put`` gets the number of each that has ended and its row of cells,
    called ``names``: the numbers from 1 on, each once, in any order. ``partitions``: the machine has some."""

    IGNORES: ClassVar[frozenset[str]] = frozenset({
        "began", "started", "launched", "offered", "accepted", "withdrawn", "settled", "wasted", "idle",
        "noted", "used", "nodes_there", "nodes_lost", "nodes_returned",
    })  # fmt: skip

    def __init__(self, put: Callable[[int, Sequence[Any]], None], *, partitions: bool = False) -> None:
        self._put = put
        self._jobs: dict[int, _Sums] = {}
        self._partitions = partitions
        self.names = (*COLUMNS, PARTITION) if partitions else COLUMNS

    def submitted(self, life: Life) -> None:
        self._jobs[life.job] = _Sums()

    def held(self, life: Life) -> None:
        self._jobs[life.job].held += life.size * (self.lives.now - life.since)

    def resized(self, life: Life, _done: r.ResizeDone, _kind: str, before: int) -> None:
        sums = self._jobs[life.job]
        sums.expands += life.size > before
        sums.shrinks += life.size < before
        if life.size != before:
            self._step(life)

    def groups_lost(self, life: Life, loss: r.GroupsLost) -> None:
        if loss.nodes:
            self._step(life)

    def _step(self, life: Life) -> None:
        start = life.start
        if start is not None:
            self._jobs[life.job].steps.append((self.lives.now - start, life.size))

    def ended(self, life: Life, end: r.JobEnded, size: int) -> None:
        row = _row(life, size, self._jobs.pop(life.job), end)
        self._put(life.job, [*row, life.spec.partition] if self._partitions else row)


class JobTable(JobRows):
    """The table in memory."""

    def __init__(self, *, partitions: bool = False) -> None:
        self._rows: dict[int, Sequence[Any]] = {}
        super().__init__(self._rows.__setitem__, partitions=partitions)

    def columns(self) -> dict[str, list[Any]]:
        """Column by column, in order of job number; the cells of one are of one type, or None."""
        rows = [self._rows[number] for number in sorted(self._rows)]
        columns = {name: [row[i] for row in rows] for i, name in enumerate(self.names)}
        # That of a job that took no time is the number that it was given.
        columns["nodes_mean"] = [None if mean is None else float(mean) for mean in columns["nodes_mean"]]
        return columns


@contextmanager
def jobs_csv(path: Path, *, partitions: bool = False) -> Iterator[JobRows]:
    """The table in a file, in order of job number, which is there when all jobs have ended. BatchError, on entering
    already, if ``path`` cannot be written."""
    with PartialTable("--jobs-csv", path) as table:
        rows = JobRows(table.put, partitions=partitions)
        table.head(rows.names)
        yield rows


def _row(life: Life, size: int, sums: _Sums, end: r.JobEnded) -> list[Any]:
    spec, bounds, start, at = life.spec, life.spec.nodes, life.start, end.at
    turnaround = at - life.queued
    met: list[Any] = [None] * 3
    times: list[Any] = [None, _s(at), None, None, _s(turnaround)]
    slowdown: float | None = None
    sizes: str | None = None
    if start is not None:
        run = at - start
        times = [_s(start), _s(at), _s(start - life.queued), _s(run), _s(turnaround)]
        met = [life.first, size, _s(sums.held / run) if run > 0 else life.first]
        slowdown = _s(bounded_slowdown(turnaround, run))
        sizes = _sizes(life.first, sums.steps)
    return [
        end.job, spec.name, spec.user, str(spec.job_class), str(end.state), _s(life.queued), *times,
        bounds.min, bounds.preferred, bounds.max, *met, sums.expands, sums.shrinks, slowdown, end.exit_code,
        life.requeue_of or None, sizes,
    ]  # fmt: skip


def _sizes(first: int, steps: Sequence[tuple[float, int]]) -> str:
    """Of several sizes in one instant, the last."""
    sizes = {"0": first}
    for after, size in steps:
        sizes[f"{after:.6f}".rstrip("0").rstrip(".")] = size
    return ";".join(f"{after}:{size}" for after, size in sizes.items())


def _s(value: float) -> float:
    """To the microsecond, as in report.json."""
    return round(value, 6)
