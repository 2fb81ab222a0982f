"""A table of what became of each job, as CSV: written while the simulation runs, there once it is whole."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pliant.model.errors import BatchError
from pliant.sim.job_rows import COLUMNS, JobRows


class JobsCsv(JobRows):
    """The table in a file; a context, which is left when all jobs have ended.

    The table goes to a temporary file beside ``path`` that takes its place at the end, and is removed if
    there was an error. BatchError, on entering already, if ``path`` cannot be written.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._partial = path.absolute().parent / f".{path.name}.{os.getpid()}.partial"

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
                self.take_rest()
            self._file.close()
            if kind is None:
                self._partial.replace(self._path)
        except OSError as failure:
            if kind is None:
                raise self._refused(f"cannot be written: {failure.strerror}") from None
        finally:
            self._partial.unlink(missing_ok=True)

    def take(self, row: list[Any]) -> None:
        try:
            self._writer.writerow(row)
        except OSError as failure:
            raise self._refused(f"cannot be written: {failure.strerror}") from None

    def _refused(self, why: str) -> BatchError:
        return BatchError(f"--jobs-csv {self._path}: {why}")
