"""The file that a machine's inputs and outputs are appended to, if the environment names a directory for it."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

RECORD = "PLIANT_RECORD"
"""The variable that names the directory for recordings."""


class Recorder:
    """Appends lines to ``directory``/``name``.ndjson, if there is a directory. Only its user may read it: secrets and
    environments are in it."""

    def __init__(self, directory: Path | None, name: str) -> None:
        self._file: int | None = None
        self._name = name
        if directory is not None:
            with self._or_stop():
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                path = directory / f"{name}.ndjson"
                self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    @property
    def on(self) -> bool:
        """Whether there is a recording; else no line need be made."""
        return self._file is not None

    def write(self, line: bytes) -> None:
        if self._file is not None:
            with self._or_stop():
                os.write(self._file, line)

    @contextlib.contextmanager
    def _or_stop(self) -> Iterator[None]:
        """A recording that cannot be written ends, and nothing else does."""
        try:
            yield
        except OSError as error:
            if self._file is not None:
                os.close(self._file)
                self._file = None
            with contextlib.suppress(OSError):
                sys.stderr.write(f"pliant: the recording {self._name} cannot be written: {error}\n")


def directory() -> Path | None:
    """Where to record, if at all."""
    named = os.environ.get(RECORD)
    return Path(named) if named else None
