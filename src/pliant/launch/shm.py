"""Files that the MPI library leaves in /dev/shm when its processes are killed.

MPICH names the segment of an MPI_COMM_WORLD after a hash of the kvsname that the launcher gave it. The
launcher is us, so that the files of a dead group are known by name, whoever else is at work on the machine. UCX
draws its names at random; it gets a directory of its own for each node, where whatever is found is ours.
A token file in the run's directory stands for each group that was started and not yet cleared away.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

SHM = Path("/dev/shm")


class GroupFiles(NamedTuple):
    """Where the files of one group are: its token, and the segment of its part of a world."""

    node: str
    job: int
    group: int
    world: int
    part: int

    def token_file(self, runtime: Path) -> Path:
        return runtime / (".".join(map(str, self)) + ".token")

    def segment(self, run: str) -> Path:
        """Where MPICH puts the memory that the group's ranks share."""
        name = kvsname(run, self.job, self.world)
        return SHM / f"mpich_shm_{_fnv1a(name.encode()):x}_{self.part}"

    def clear(self, runtime: Path, run: str) -> None:
        """Remove what the dead group has left in /dev/shm, and its token."""
        for path in (self.segment(run), self.token_file(runtime)):
            with suppress(OSError):
                path.unlink()


def kvsname(run: str, job: int, world: int) -> str:
    """The name of a world's key-value space; no two worlds share one."""
    return f"pliant_{run}_{job}_{world}"


def directory(run: str, node: str) -> Path:
    """Where UCX puts the shared memory of a node's processes; normally it unlinks each file at once."""
    return SHM / f"pliant-{run}-{node}"


def started(runtime: Path, node: str = "*") -> list[GroupFiles]:
    """The groups of a node (of all nodes) that were started and not yet cleared away."""
    found = []
    for path in runtime.glob(f"{node}.*.*.*.*.token"):
        name, *numbers = path.name.removesuffix(".token").rsplit(".", 4)
        found.append(GroupFiles(name, *map(int, numbers)))
    return found


def sweep(runtime: Path, run: str, node: str = "*") -> None:
    """Clear up after all groups of a node (of all nodes) whose agent is dead."""
    for path in SHM.glob(directory(run, node).name):
        shutil.rmtree(path, ignore_errors=True)
    for files in started(runtime, node):
        files.clear(runtime, run)


def _fnv1a(data: bytes) -> int:
    """The 32-bit FNV-1a hash."""
    value = 0x811C9DC5
    for byte in data:
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value
