"""A table of what became of each job, as CSV: written while the simulation runs, there once it is whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pliant.files.partial import PartialTable
from pliant.sim.job_rows import JobRows


class JobsCsv(JobRows):
    """The table in a file; a context, which is left when all jobs have ended. Lines are in order of job number.
    BatchError, on entering already, if ``path`` cannot be written."""

    def __init__(self, path: Path, *, partitions: bool = False) -> None:
        super().__init__(partitions=partitions)
        self._table = PartialTable("--jobs-csv", path)

    def __enter__(self) -> Self:
        self._table.__enter__()
        self._table.head(self.names)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._table.__exit__(kind, error, trace)

    def put(self, number: int, row: Sequence[Any]) -> None:
        self._table.put(number, row)
