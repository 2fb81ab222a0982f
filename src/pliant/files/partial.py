"""Files that are there once they are whole, written at once or while something goes on."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pliant.model.errors import BatchError


class Partial:
    """The file that ``option`` names; a context, which is left when it is whole.

    What is written goes to a temporary file beside ``path`` that takes its place at the end, and is removed if there
    was an error. ``private``: only its owner can read it. BatchError, on entering already, if ``path`` cannot be
    written.
    """

    def __init__(self, option: str, path: Path, *, private: bool = False) -> None:
        self._option = option
        self._path = path
        self._mode = 0o600 if private else 0o666
        self._partial = path.absolute().parent / f".{path.name}.{os.getpid()}.partial"

    def __enter__(self) -> Self:
        folder = self._partial.parent
        if not folder.is_dir():
            raise self._refused(f"there is no directory {folder}")
        if self._path.exists() and not self._path.is_file():
            raise self._refused("it is there and no regular file; name another")
        try:
            self._file = open(
                self._partial, "x", newline="", encoding="utf-8", errors="backslashreplace", opener=self._opened
            )  # fmt: skip
        except OSError as error:
            raise self._unwritable(error) from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._finish()
            self._file.close()
            if kind is None:
                self._partial.replace(self._path)
        except OSError as failure:
            if kind is None:
                raise self._unwritable(failure) from None
        finally:
            self._partial.unlink(missing_ok=True)

    def write(self, text: str) -> None:
        """BatchError if there is no room for it."""
        try:
            self._file.write(text)
        except OSError as error:
            raise self._unwritable(error) from None

    def _finish(self) -> None:
        """Write what is left."""

    def _opened(self, path: str, flags: int) -> int:
        return os.open(path, flags, self._mode)

    def _unwritable(self, error: OSError) -> BatchError:
        return self._refused(f"cannot be written: {error.strerror}")

    def _refused(self, why: str) -> BatchError:
        return BatchError(f"{self._option} {self._path}: {why}")


class PartialTable(Partial):
    """Rows in order of their numbers, from 1: those that come before one of a lower number wait in memory."""

    def __init__(self, option: str, path: Path, delimiter: str = ",") -> None:
        super().__init__(option, path)
        self._writer = csv.writer(self, lineterminator="\n", delimiter=delimiter)
        self._waiting: dict[int, Sequence[Any]] = {}
        self._next = 1

    def head(self, row: Sequence[Any]) -> None:
        """Write this row now."""
        self._writer.writerow(row)

    def put(self, number: int, row: Sequence[Any]) -> None:
        self._waiting[number] = row
        while self._next in self._waiting:
            self._writer.writerow(self._waiting.pop(self._next))
            self._next += 1

    def _finish(self) -> None:
        for number in sorted(self._waiting):
            self._writer.writerow(self._waiting[number])


def save(contents: Mapping[Path, bytes]) -> None:
    """Write the files, all of them or none: they are drafted beside their places first, so that a full disk
    leaves what was there before. What is no regular file, a pipe for one, is written to as it is. Raises
    OSError."""
    drafts: dict[Path, Path] = {}
    try:
        for number, (path, content) in enumerate(contents.items()):
            place = path.resolve()
            if place.exists() and not place.is_file():
                place.write_bytes(content)
                continue
            draft = place.with_name(f".pliant-{os.getpid()}-{number}")
            drafts[draft] = place
            draft.write_bytes(content)
        for draft, place in drafts.items():
            draft.replace(place)
    finally:
        for draft in drafts:
            draft.unlink(missing_ok=True)
