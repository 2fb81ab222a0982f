"""The journal of a run, and what an earlier run has left in the same directory: nothing of it is written over."""

from __future__ import annotations

import contextlib
import datetime as dt
import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import BinaryIO

import msgspec

from pliant.core.journal import JournalError, began_of
from pliant.model.errors import PliantError
from pliant.model.jobs import JobSpec
from pliant.model.limits import LOG

JOURNAL = "records.ndjson"
EARLIER = "earlier"
"""The directory of earlier runs. What looks for ``*/records.ndjson`` finds the latest runs only."""
ATTEMPTS = 100
LINE_BYTES = 1 << 23
"""More than any record has."""
MOST_WAITING = 64 << 20
"""Bytes that may wait for the disk: some 400,000 records."""


class JournalWriter:
    """Appends lines to ``file``. A disk may be full for a while: what cannot be written waits, in order, and
    ``problem`` says why; it is empty while all is written."""

    def __init__(self, file: BinaryIO) -> None:
        self.problem = ""
        self._descriptor = file.fileno()
        self._waiting = bytearray()

    def write(self, line: bytes) -> None:
        self._waiting += line
        self.flush()

    def flush(self) -> None:
        """Write as much of what waits as the disk takes."""
        try:
            while self._waiting:
                del self._waiting[: os.write(self._descriptor, self._waiting)]
        except OSError as error:
            self.problem = error.strerror or str(error)
        else:
            self.problem = ""

    @property
    def full(self) -> bool:
        """Whether more waits than may be kept in memory."""
        return len(self._waiting) > MOST_WAITING


def log_file(output: Path, spec: JobSpec) -> Path:
    """Where a job's output goes, in the directory ``output``."""
    return output / (spec.name + LOG)


class _Named(msgspec.Struct):
    name: str


class _Submitted(msgspec.Struct, tag_field="record", tag="JobSubmitted"):
    """What is looked at of the record."""

    spec: _Named


def open_journal(output: Path, jobs: Sequence[JobSpec]) -> BinaryIO:
    """The empty journal of a new run of ``jobs`` in ``output``, locked, and readable for its owner alone: the
    environments of the jobs are in it.

    The journal of an earlier run goes to ``earlier/<when it began>``, with the logs of its jobs and any that the new
    ones would write to. PliantError if it cannot be written, or another run is writing there.
    """
    path = output / JOURNAL
    try:
        output.mkdir(parents=True, exist_ok=True)
        for _ in range(ATTEMPTS):
            with contextlib.ExitStack() as closing:
                journal = closing.enter_context(_opened(path))
                fcntl.flock(journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not _is_at(path, journal):
                    continue  # a run that was quicker has put it aside, and ended
                logs = [log_file(output, job) for job in jobs]
                if os.fstat(journal.fileno()).st_size:
                    _put_aside(output, [*_logs_of(path), *logs, path], _began(path))
                    continue
                _put_aside(output, logs)
                closing.pop_all()
                return journal
    except BlockingIOError:
        raise PliantError(f"{path}: another run is writing there; choose another --output") from None
    except OSError as error:
        where = f" ({error.filename})" if error.filename not in (None, str(path)) else ""
        raise PliantError(
            f"{path}: cannot be written: {error.strerror}{where}; choose another --output"
        ) from None
    raise PliantError(f"{path}: other runs begin there again and again; choose another --output")


def _opened(path: Path) -> BinaryIO:
    journal = os.fdopen(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600), "ab")
    os.fchmod(journal.fileno(), 0o600)  # an older version may have left it
    return journal


def _is_at(path: Path, journal: BinaryIO) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(journal.fileno()), path.stat())
    return False


def _put_aside(output: Path, files: Iterable[Path], began: str = "") -> None:
    """Move those of the files that are there, in this order, to where nothing is lost by it."""
    there = [file for file in dict.fromkeys(files) if os.path.lexists(file)]
    if not there:
        return
    stem = began or _stamp(dt.datetime.fromtimestamp(there[0].lstat().st_mtime, dt.UTC))
    for number in count(1):
        place = output / EARLIER / (stem if number == 1 else f"{stem}-{number}")
        if not any(os.path.lexists(place / file.name) for file in there):
            break
    place.mkdir(parents=True, exist_ok=True)
    for file in there:
        file.rename(place / file.name)


def _began(path: Path) -> str:
    """When the journal's run began, as the name of a directory; empty if it does not say."""
    with path.open("rb") as file, contextlib.suppress(JournalError, ValueError):
        return _stamp(dt.datetime.fromisoformat(began_of(file.readline(LINE_BYTES))))
    return ""


def _stamp(time: dt.datetime) -> str:
    return f"{time.astimezone(dt.UTC):%Y-%m-%dT%H-%M-%SZ}"


def _logs_of(path: Path) -> Iterator[Path]:
    """The logs of the jobs that a journal tells of; what is no record in it does not matter here."""
    decoder = msgspec.json.Decoder(_Submitted)
    with path.open("rb") as file:
        while line := file.readline(LINE_BYTES):
            with contextlib.suppress(msgspec.DecodeError, ValueError):
                name = decoder.decode(line).spec.name
                if "/" not in name:
                    yield path.with_name(name + LOG)
