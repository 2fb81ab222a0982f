"""Files that an MPI library leaves in /dev/shm when its processes are killed."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

SHM = "/dev/shm/"  # noqa: S108 - the place is the MPI library's choice


def note(files: set[str], pids: Iterable[int]) -> None:
    """Add the files in /dev/shm that these processes have mapped to ``files``."""
    for pid in pids:
        with suppress(OSError), Path(f"/proc/{pid}/maps").open() as maps:
            for line in maps:
                at = line.find(SHM)
                if at >= 0 and not line.rstrip().endswith(" (deleted)"):
                    files.add(line[at:].rstrip())


def remove(files: Iterable[str]) -> None:
    """Remove those that are still there."""
    for name in files:
        with suppress(OSError):
            Path(name).unlink()
