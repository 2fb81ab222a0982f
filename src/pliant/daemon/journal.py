"""The journal of a run on disk. A disk may be full for a while: what cannot be written waits, in order."""

from __future__ import annotations

import os
from typing import BinaryIO

MOST_WAITING = 64 << 20
"""Bytes that may wait for the disk: some 400,000 records."""


class Journal:
    """Appends lines to ``file``. ``problem`` says why they cannot be written now; it is empty if they can."""

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
