"""The program of ``pliant bench redistribute``: an array goes from some ranks to others, by each method in turn, and by
the messages that one would write by hand. Run under mpiexec; it prints its figures as lines of JSON."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from pliant.mpi.data.arrays import Array, Part, Seat, parcels
from pliant.mpi.data.delivery import as_bytes
from pliant.mpi.data.movable import Way
from pliant.mpi.data.transport import redistribute
from pliant.mpi.data.uses import Uses
from pliant.mpi.team import Team
from pliant.mpi.wait import Wait
from pliant.plan.data.layouts import Block
from pliant.plan.data.splits import even
from pliant.plan.data.spreads import line

BARE = "bare"
LIMIT_S = 60.0


class Moves(msgspec.Struct, frozen=True):
    """An array of so many ``bytes`` goes from the first ranks to the first ranks, for each pair of ``cells``, by each
    of ``methods``, all of them once a round. After ``budget_s`` no round is begun that may not end in it, but there
    are two."""

    bytes: int
    cells: tuple[tuple[int, int], ...]
    methods: tuple[str, ...]
    rounds: int
    budget_s: float = float("inf")

    @property
    def ranks(self) -> int:
        return max(size for cell in self.cells for size in cell)


def main() -> None:
    moves = msgspec.json.decode(sys.argv[1], type=Moves)
    bench = Bench(moves.bytes // 8)
    for before, after in moves.cells:
        # The first to touch memory of the machine, and to speak to a rank, pays for all that follow.
        bench.once(moves.methods[0], range(before), range(after), counts=False)
    began = time.perf_counter()
    for number in range(moves.rounds):
        taken_s = MPI.COMM_WORLD.bcast(time.perf_counter() - began)
        if number > 1 and taken_s * (number + 1) / number > moves.budget_s:
            break
        turn = number % len(moves.methods)
        for before, after in moves.cells:
            for method in (*moves.methods[turn:], *moves.methods[:turn]):
                bench.once(method, range(before), range(after))


class Bench:
    """Each move begins with memory that is full of numbers, and ends in memory that nobody has touched."""

    def __init__(self, rows: int) -> None:
        self._comm, self._rows, self._wait = MPI.COMM_WORLD, rows, Wait(LIMIT_S)
        self._array = Array(
            "moved", (rows,), "f8", Block(), Seat(_no_team, self._wait, lambda _: 0, Uses(), str)
        )
        self._full: tuple[int, NDArray[Any] | None] = 0, None

    def _old(self, parts: int) -> NDArray[Any] | None:
        """What this rank holds before a move."""
        if self._full[0] != parts:
            self._full = 0, None  # not both at a time
            rank, full = self._comm.rank, None
            if rank < parts:
                full = np.arange(*even(self._rows, parts).span(rank), dtype="f8")
            self._full = parts, full
        return self._full[1]

    def once(
        self, method: str, sources: Sequence[int], targets: Sequence[int], *, counts: bool = True
    ) -> None:
        """Move it all and say what that took, unless it does not count."""
        comm, rank = self._comm, self._comm.rank
        old = self._old(len(sources))
        held = 0 if old is None else old.nbytes
        self._array.hold(old, len(sources), rank)
        before = begin_peak()
        comm.Barrier()
        began = time.perf_counter()
        if method == BARE:
            new = by_hand(comm, old, self._rows, Way(rank, sources, targets))
        else:
            redistribute([self._array], comm, sources, targets, self._wait, method)
            new = self._array.held_block()
        took = time.perf_counter() - began
        held += 0 if new is None else new.nbytes
        extra = peak() - before - (0 if new is None else new.nbytes)
        wrong = new is not None and not right(new, even(self._rows, len(targets)).span(rank))
        every = comm.gather((took, max(0, extra), held, wrong))
        if every and counts:
            row = {
                "kind": "move", "method": method, "before": len(sources), "after": len(targets),
                "seconds": max(each[0] for each in every),
                "extra": max(each[1] / each[2] for each in every if each[2]),
                "wrong": sum(each[3] for each in every),
            }  # fmt: skip
            sys.stdout.write(json.dumps(row) + "\n")
            sys.stdout.flush()
        del old, new
        self._array.hold(None, len(sources), rank)


def by_hand(comm: MPI.Intracomm, old: NDArray[Any] | None, rows: int, way: Way) -> NDArray[Any] | None:
    """Receives posted first, into memory that nobody has touched; one message for each pair of ranks."""
    olds, news = line(even(rows, len(way.sources))), line(even(rows, len(way.targets)))
    new = None if way.new_part is None else np.empty(news.size(way.new_part))
    mine = None if old is None or way.old_part is None else Part(old, olds, way.old_part)
    coming = None if new is None or way.new_part is None else Part(new, news, way.new_part)
    plan = parcels(mine, coming, way, olds, news)
    requests = [comm.Irecv(as_bytes(each.view), each.peer, 0) for each in plan.receives]
    requests += [comm.Isend(as_bytes(each.view), each.peer, 0) for each in plan.sends]
    for copy in plan.copies:
        copy.new[...] = copy.old
    MPI.Request.Waitall(requests)
    return new


def right(new: NDArray[Any], span: Sequence[int]) -> bool:
    """Whether each row has come to its place; a look at one in some thousand."""
    some = slice(None, None, 1021)
    return bool(np.array_equal(new[some], np.arange(*span, dtype="f8")[some])) and new[-1] == span[1] - 1


def begin_peak() -> int:
    """Forget the most memory that this process has had; what it has now, in bytes."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def peak() -> int:
    """The most memory that this process has had since then, in bytes."""
    return _status("VmHWM")


def _status(name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None  # noqa: S101 - Linux has both
    return int(found[1]) * 1024


def _no_team(what: str) -> Team:
    raise RuntimeError(f"{what}: there is no job here")


if __name__ == "__main__":
    main()
