"""Files that the MPI library leaves in /dev/shm when its processes are killed.

MPICH's are known by name (`live/node/dialects.py`). UCX draws its names at random; it gets a directory of its own
for each node, where whatever is found is ours. A token file in the run's directory stands for each group that was
started and not yet cleared away.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pliant.live.node import dialects
from pliant.live.node.register import token_name

SHM = Path(dialects.SHM)


class GroupFiles(NamedTuple):
    """Where the files of one group are: its token, and the segment of its part of a world."""

    node: str
    job: int
    group: int
    world: int
    part: int

    def token_file(self, runtime: Path) -> Path:
        return runtime / token_name(*self)

    def segment(self, run: str) -> Path:
        """Where MPICH puts the memory that the group's ranks share."""
        return Path(dialects.mpich_segment(run, self.job, self.world, self.part))

    def clear(self, runtime: Path, run: str, *, token: bool = True) -> None:
        """Remove what the dead group has left in /dev/shm, and its token."""
        for path in (self.segment(run), *([self.token_file(runtime)] if token else [])):
            with suppress(OSError):
                path.unlink()


def directory(run: str, node: str) -> Path:
    """Where UCX puts the shared memory of a node's processes; normally it unlinks each file at once."""
    return SHM / f"pliant-{run}-{node}"


def remove(folder: Path) -> None:
    """Remove a directory and what is in it, if it can be."""
    try:
        folder.rmdir()
    except FileNotFoundError:
        return
    except OSError:
        import shutil  # slow to load, and what is removed here is mostly empty

        shutil.rmtree(folder, ignore_errors=True)


def _pattern(node: str) -> str:
    """One for the names of a node, which may have a bracket, or of all nodes."""
    return node if node == "*" else "".join(f"[{each}]" if each in "*?[" else each for each in node)


def started(runtime: Path, node: str = "*") -> list[GroupFiles]:
    """The groups of a node (of all nodes) that were started and not yet cleared away."""
    found = []
    for path in runtime.glob(f"{_pattern(node)}.*.*.*.*.token"):
        name, *numbers = path.name.removesuffix(".token").rsplit(".", 4)
        found.append(GroupFiles(name, *map(int, numbers)))
    return found


def sweep(runtime: Path, run: str, node: str = "*", *, tokens: bool = True) -> None:
    """Clear up after all groups of a node (of all nodes) whose agent is dead; without ``tokens`` theirs stay."""
    for path in SHM.glob(directory(run, _pattern(node)).name):
        remove(path)
    for files in started(runtime, node):
        files.clear(runtime, run, token=tokens)
