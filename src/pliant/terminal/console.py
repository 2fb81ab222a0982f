"""Standard output as it may be: a pipe whose reader has left, a full disk. What is shown must not end a run."""

from __future__ import annotations

import os
import sys
from typing import IO, Any, TextIO, cast

from rich.console import Console


class Steady:
    """A text stream that goes quiet at its first error; ``lost`` says what that was."""

    def __init__(self, stream: TextIO) -> None:
        self.lost: OSError | None = None
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as error:
            self._lose(error)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._lose(error)

    def _lose(self, error: OSError) -> None:
        self.lost = self.lost or error
        # What is still in its buffer goes nowhere, or the interpreter would fail on it at its end.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self._stream.fileno())
        os.close(null)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def console(*, stderr: bool = False) -> Console:
    """A console that goes quiet where it cannot be written to."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(file=cast("IO[str]", Steady(stream)))


def write_out(data: bytes) -> OSError | None:
    """Write ``data`` to standard output as it is, whatever the terminal's letters; what went wrong, if anything did."""
    steady = Steady(sys.stdout)
    steady.flush()
    try:
        sys.stdout.buffer.write(data)
    except OSError as error:
        return error
    steady.flush()
    return steady.lost
