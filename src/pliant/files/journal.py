"""Journals of earlier runs, and of simulations."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pliant.core import records as r
from pliant.core.journal import Header, JournalError, header_line, read
from pliant.core.settings import Settings
from pliant.files.partial import Partial
from pliant.model.errors import TraceError

VIRTUAL = "1970-01-01T00:00:00Z"
"""When a virtual clock begins: the same simulation gives the same journal."""


def read_records(path: Path) -> tuple[Header, list[r.AnyRecord]]:
    """A whole journal; TraceError names file and line."""
    try:
        with path.open("rb") as file:
            read_journal = read(file.readlines())
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror}") from None
    except JournalError as error:
        raise TraceError(f"{path}: {error}") from None
    return read_journal.header, read_journal.records


class RecordsFile(Partial):
    """The journal of a simulation. As that of a live run it has the environments of its jobs, and is its owner's."""

    def __init__(self, path: Path, policy: str, settings: Settings) -> None:
        super().__init__("--records", path, private=True)
        self._header = Header(began=VIRTUAL, policy=policy, settings=settings)

    def __enter__(self) -> Self:
        super().__enter__()
        self.write(header_line(self._header).decode())
        return self

    def add(self, record: r.Record) -> None:
        self.write(r.to_line(record).decode())
