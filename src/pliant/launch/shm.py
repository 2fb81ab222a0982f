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

SHM = Path("/dev/shm")


def kvsname(run: str, node: str, job: int, group: int) -> str:
    """The name of a group's key-value space; no two groups share one."""
    return f"pliant_{run}_{node}_{job}_{group}"


def directory(run: str, node: str) -> Path:
    """Where UCX puts the shared memory of a node's processes; normally it unlinks each file at once."""
    return SHM / f"pliant-{run}-{node}"


def token_file(runtime: Path, node: str, job: int, group: int) -> Path:
    return runtime / f"{node}.{job}.{group}.token"


def segments(run: str, node: str, job: int, group: int) -> list[Path]:
    """The group's files that are in /dev/shm now."""
    return list(SHM.glob(f"mpich_shm_{_fnv1a(kvsname(run, node, job, group).encode()):x}_*"))


def clear(runtime: Path, run: str, node: str, job: int, group: int) -> None:
    """Remove what a dead group has left in /dev/shm, and its token."""
    for path in segments(run, node, job, group):
        with suppress(OSError):
            path.unlink()
    with suppress(OSError):
        token_file(runtime, node, job, group).unlink()


def sweep(runtime: Path, run: str, node: str = "*") -> None:
    """Clear up after all groups of a node (of all nodes) whose agent is dead."""
    for path in SHM.glob(directory(run, node).name):
        shutil.rmtree(path, ignore_errors=True)
    for path in runtime.glob(f"{node}.*.*.token"):
        name, job, group = path.name.removesuffix(".token").rsplit(".", 2)
        clear(runtime, run, name, int(job), int(group))


def _fnv1a(data: bytes) -> int:
    """The 32-bit FNV-1a hash."""
    value = 0x811C9DC5
    for byte in data:
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value
