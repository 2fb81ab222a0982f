"""Collective calls of arrays in which ranks use different arrays: an error, as they would wait for each other in vain.

Each call of each array has messages with a tag of its own. A rank that waits too long looks whether one of those it
waits for has sent it a message of another call: that rank is in another one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from zlib import crc32

import numpy as np
from mpi4py import MPI

from pliant.model.errors import PliantError
from pliant.mpi.errors import REMEDY
from pliant.mpi.wait import Look, Wait

LookMaker = Callable[[MPI.Intracomm, int, Callable[[], Iterable[int]]], Look | None]
"""Makes the look of one call, of its communicator, its tag and the ranks whose messages are awaited. None: no look."""
LOOK_S = 0.02
"""Between two looks. What is expected may come directly before what is not, so that two looks have to see the same."""


class Alike:
    """Of one call, whose messages over ``comm`` have this ``tag``. ``calls`` says of a tag what it belongs to, and
    ``awaited`` of which ranks messages are still to come."""

    def __init__(
        self, comm: MPI.Intracomm, tag: int, calls: Callable[[int], str], awaited: Callable[[], Iterable[int]]
    ) -> None:
        self._comm, self._tag, self._calls, self._awaited = comm, tag, calls, awaited
        self._next = 0.0
        self._before: set[tuple[int, int]] = set()

    def look(self) -> None:
        """PliantError if a rank that is waited for is in another call."""
        now = time.perf_counter()
        self._next = self._next or now + LOOK_S
        if now < self._next:
            return
        self._next, status = now + LOOK_S, MPI.Status()
        found: set[tuple[int, int]] = set()
        for peer in sorted(set(self._awaited())):
            if self._comm.Iprobe(peer, MPI.ANY_TAG, status) and status.tag != self._tag:
                found.add((peer, status.tag))
        for peer, tag in sorted(found & self._before):
            raise PliantError(
                f"rank {self._comm.rank} is in {self._calls(self._tag)} and waits for rank {peer}, which is in "
                f"{self._calls(tag)}: all ranks make the same calls of the same arrays, in the same order; {REMEDY}"
            )
        self._before = found


def compare(  # noqa: PLR0913, PLR0917 - what is compared, and how it is waited for
    comm: MPI.Intracomm,
    tag: int,
    mine: str,
    call: str,
    wait: Wait,
    alike: LookMaker,
) -> None:
    """PliantError on all ranks unless they all say the same of their ``call``; collective over ``comm``.

    By messages with the call's tag, so that a rank in another call is seen.
    """
    said = np.zeros((comm.size, 1), "u8")
    said[comm.rank] = crc32(mine.encode())
    others = np.zeros(1, "u8")
    if comm.rank == 0:
        _exchange(comm, tag, [], [(rank, said[rank]) for rank in range(1, comm.size)], call, wait, alike)
        others[0] = (said != said[0]).sum()
        _exchange(comm, tag, [(rank, others) for rank in range(1, comm.size)], [], call, wait, alike)
    else:
        _exchange(comm, tag, [(0, said[comm.rank])], [(0, others)], call, wait, alike)
    if others[0]:
        raise PliantError(
            f"{call}: all ranks must pass the same arguments; {others[0]} of {comm.size} ranks differ from rank 0; "
            f"this rank passed {mine}"
        )


def _exchange(  # noqa: PLR0913, PLR0917 - as compare
    comm: MPI.Intracomm,
    tag: int,
    sent: list[tuple[int, np.ndarray]],
    received: list[tuple[int, np.ndarray]],
    call: str,
    wait: Wait,
    alike: LookMaker,
) -> None:
    receives = [(rank, comm.Irecv(word, rank, tag)) for rank, word in received]
    requests = [request for _, request in receives] + [comm.Isend(word, rank, tag) for rank, word in sent]
    look = alike(comm, tag, lambda: [rank for rank, request in receives if not request.Test()])
    wait.requests(requests, f"all ranks to call {call}", limited=False, look=look)
