"""What MPI_Comm_spawn says over PMI-1, and why it is refused. Without I/O.

Each program is a block of lines, from ``mcmd=spawn`` to ``endcmd``, with a ``key=value`` each; the answer follows the
last block. Whoever answers earlier leaves lines behind that nobody understands.
"""

from __future__ import annotations

from typing import NamedTuple

MOST_CHARACTERS = 1 << 20
"""In the blocks of one call. An environment and arguments of that size could not be started."""
POOL = "mpi4py.futures.server"
"""What a pool of mpi4py spawns."""


class Spawned(NamedTuple):
    """A program that is to be spawned, on so many ``ranks``; of its arguments and all else the ``words``."""

    program: str
    ranks: int
    words: tuple[str, ...]


class SpawnCall:
    """One rank's call, as its lines come."""

    def __init__(self) -> None:
        self._done: list[Spawned] = []
        self._block: list[tuple[str, str]] = []
        self._characters = 0

    def take(self, line: str) -> tuple[Spawned, ...]:
        """All programs with the last line of the last block, nothing before. ValueError if it cannot be understood."""
        self._characters += len(line)
        if self._characters > MOST_CHARACTERS:
            raise ValueError(f"more than {MOST_CHARACTERS} characters in a spawn")
        if line != "endcmd":
            key, _, value = line.partition("=")
            self._block.append((key, value))
            return ()
        fields, self._block = self._block, []
        found = dict(fields)
        numbers = [found.get("nprocs", ""), found.get("totspawns", "1")]
        if "execname" not in found or not all(each.isdecimal() and len(each) < 10 for each in numbers):
            raise ValueError("a spawn without execname or nprocs")
        self._done.append(Spawned(found["execname"], int(numbers[0]), tuple(value for _, value in fields)))
        return tuple(self._done) if len(self._done) >= int(numbers[1]) else ()


def refusal(rank: int, what: str = "") -> str:
    """For people."""
    return (
        f"rank {rank} called MPI_Comm_spawn{what}, which is not supported under pliant run and pliant launch: give "
        "the job all its ranks at the start; a pool of mpi4py.futures uses them with: "
        "pliant run -N 3 -- python -m mpi4py.futures SCRIPT"
    )
