"""MPI_Comm_spawn over PMI-1, and the text for people where it is refused. Without I/O.

A rank sends a block of lines for each program, from ``mcmd=spawn`` to ``endcmd``, with a ``key=value`` each. The server
answers after the last block: after an earlier answer it would take the rest for other commands.
"""

from __future__ import annotations

import re

from pliant.protocol import pmix

MOST_CHARACTERS = 1 << 17
"""In the blocks of one call: it has to fit into a message."""
POOL = "mpi4py.futures.server"
"""The module that a pool of mpi4py spawns."""
_KEY = re.compile(
    r"mcmd|nprocs|execname|totspawns|spawnssofar|argcnt|arg\d+|(preput|info)_(num|key_\d+|val_\d+)"
)


class SpawnCall:
    """One rank's call, as its lines come. ``is_broken``: some lines belong to no call. An argument may have had line
    breaks, which PMI-1 does not quote."""

    def __init__(self) -> None:
        self._programs: list[pmix.Program] = []
        self._values: dict[str, str] = {}
        self._block: list[tuple[str, str]] = []
        self._characters = 0
        self.is_broken = False

    def take(self, line: str) -> pmix.Spawn | None:
        """Take a line. Returns the whole call after the last line of its last block, None before. ValueError if the
        call cannot be understood."""
        self._characters += len(line)
        if self._characters > MOST_CHARACTERS:
            raise ValueError(f"more than {MOST_CHARACTERS} characters in a spawn")
        if line != "endcmd":
            key, _, value = line.partition("=")
            self._block.append((key, value))
            self.is_broken |= not _KEY.fullmatch(key)
            return None
        found, self._block = dict(self._block), []
        numbers = [
            found.get(key, default) for key, default in (("nprocs", ""), ("totspawns", "1"), ("argcnt", "0"))
        ]
        if "execname" not in found or not all(each.isdecimal() and len(each) < 6 for each in numbers):
            raise ValueError("a spawn without execname or nprocs")
        ranks, programs, words = map(int, numbers)
        argv = (found["execname"], *(found.get(f"arg{number}", "") for number in range(1, words + 1)))
        self._programs.append(
            pmix.Program(argv, ranks, _pairs(found, "info_key_", "info_val_").get("wdir", ""))
        )
        self._values |= _pairs(found, "preput_key_", "preput_val_")  # one block has them
        return pmix.Spawn(tuple(self._programs), self._values) if len(self._programs) >= programs else None


def _pairs(found: dict[str, str], keys: str, values: str) -> dict[str, str]:
    names = {name.removeprefix(keys): key for name, key in found.items() if name.startswith(keys)}
    return {key: found.get(f"{values}{number}", "") for number, key in names.items()}


def refusal(rank: int, what: str = "") -> str:
    """For people."""
    return (
        f"rank {rank} called MPI_Comm_spawn{what}, which is not supported here: give "
        "the job all its ranks at the start; a pool of mpi4py.futures uses them with: "
        "pliant run -N 3 -- python -m mpi4py.futures SCRIPT"
    )
