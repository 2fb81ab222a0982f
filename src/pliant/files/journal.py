"""Journals of earlier runs."""

from __future__ import annotations

from pathlib import Path

from pliant.core import records as r
from pliant.core.journal import Header, JournalError, read
from pliant.model.errors import TraceError


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
