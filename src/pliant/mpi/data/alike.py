"""Collective calls of arrays in which ranks use different arrays: an error, as they would wait for each other in vain.

Each call of each array has messages with a tag of its own. A rank that waits too long looks whether one of those it
waits for has sent it a message of another call: that rank is in another one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from mpi4py import MPI

from pliant.model.errors import PliantError
from pliant.mpi.errors import REMEDY

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
                f"{self._calls(tag)}: all ranks make the same calls of the same arrays, in one order; {REMEDY}"
            )
        self._before = found
