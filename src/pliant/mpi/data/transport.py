"""Carries out moves: point to point, in bounded chunks, all receives that need no buffer posted first.

A chunk that is contiguous on a side is sent from, or received into, its place there. What is not goes through a few
buffers, so that the extra memory of a rank stays under a tenth of the largest message that it takes part in.

Chunks that need a buffer, and those behind them, are taken in one order of all messages on all ranks, receives as well
as sends: the first that is not there yet is under way on both of its sides, so that nobody waits for ever.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from pliant.job import environment
from pliant.mpi.data.boxes import boxes, raw
from pliant.mpi.data.movable import Copy, Movable, Parcel, Parcels, Way
from pliant.mpi.data.verify import Sums
from pliant.mpi.wait import Wait

TAGS_EACH = 2
"""Of one movable: what is redistributed or gathered, and halos."""
LEAST_CHUNK, MOST_CHUNK = 1 << 16, 1 << 22
CHUNKS = 80
"""Of a message that may need buffers, where that makes them neither too small nor too large."""
WINDOW = 2
"""Buffers of a rank for what it sends, and for what it receives."""
SLOWEST = 100e6
"""Bytes a second that are waited for without losing patience."""


def redistribute(
    movables: Iterable[Movable],
    comm: MPI.Intracomm,
    sources: Sequence[int],
    targets: Sequence[int],
    wait: Wait,
) -> None:
    """Take all of them from ``sources`` to ``targets``, ranks of ``comm``; collective over ``comm``. Halos are not
    filled.

    With PLIANT_VERIFY=1, Undone on all ranks alike if something has not come to be what it was.
    """
    way, every = Way(comm.rank, sources, targets), list(movables)
    sums = Sums(every, way) if environment.verifies() else None
    deliver(comm, [(number * TAGS_EACH, each.move(way)) for number, each in enumerate(every)], wait)
    if sums is not None:
        sums.compare(comm, wait)


def deliver(
    comm: MPI.Intracomm,
    moves: Sequence[tuple[int, Iterator[Parcels]]],
    wait: Wait,
    what: str = "the redistribution of the data",
    *,
    limited: bool = True,
) -> None:
    """Carry out moves, each with its tag, stage by stage. The wait is not limited where a peer may be in user code."""
    while stage := [(tag, parcels) for tag, move in moves if (parcels := next(move, None)) is not None]:
        delivery = Delivery(comm, stage)
        delivery.copy()
        wait.work(delivery.poll, delivery, what, work_s=delivery.bytes / SLOWEST, limited=limited)


class Chunk(NamedTuple):
    peer: int
    tag: int
    view: NDArray[Any]


class Delivery:
    """The messages of one stage, under way as soon as it is made."""

    def __init__(self, comm: MPI.Intracomm, stage: Iterable[tuple[int, Parcels]]) -> None:
        receives: list[tuple[tuple[int, int, int], Parcel]] = []
        sends: list[tuple[tuple[int, int, int], Parcel]] = []
        self._copies: list[Copy] = []
        rank, size = comm.rank, comm.size
        for tag, parcels in stage:
            receives += (((tag, (rank - p.peer) % size, p.peer), p) for p in parcels.receives)
            sends += (((tag, (p.peer - rank) % size, rank), p) for p in parcels.sends)
            self._copies += parcels.copies
        self.bytes = sum(parcel.view.nbytes for _, parcel in (*receives, *sends))
        receives.sort(key=lambda each: each[0])
        sends.sort(key=lambda each: each[0])
        self._requests: list[MPI.Request] = []
        self._lanes: list[_Lane] = []
        for parts, post, incoming in ((receives, comm.Irecv, True), (sends, comm.Isend, False)):
            staged: list[Chunk] = []
            # What goes between two ranks with one tag has to be posted in its order on both sides.
            waits: set[tuple[int, int]] = set()
            for (tag, _, _), parcel in parts:
                stream = (parcel.peer, tag)
                for view in _chunks(parcel):
                    if view.flags.c_contiguous and stream not in waits:
                        self._requests.append(post(as_bytes(view), parcel.peer, tag))
                    else:
                        waits.add(stream)
                        staged.append(Chunk(parcel.peer, tag, view))
            self._lanes.append(_Lane(post, staged, incoming=incoming))

    def copy(self) -> None:
        """What stays on this rank, while the messages go on."""
        for old, new in self._copies:
            for box in boxes(old.shape, max(1, MOST_CHUNK // max(1, old.itemsize))):
                raw(new)[box] = raw(old)[box]
                self.poll()
        self._copies.clear()

    def poll(self) -> bool:
        """Go on; whether all is done."""
        lanes = [lane.poll() for lane in self._lanes]
        return all(lanes) and bool(MPI.Request.Testall(self._requests))


class _Lane:
    """Chunks in one direction that go through buffers, a few at a time."""

    def __init__(
        self, post: Callable[[Any, int, int], MPI.Request], chunks: Iterable[Chunk], *, incoming: bool
    ) -> None:
        self._post, self._incoming = post, incoming
        self._waiting = deque(chunks)
        self._active: deque[tuple[MPI.Request, NDArray[Any] | None, Chunk]] = deque()
        self._free: list[NDArray[Any]] = []

    def poll(self) -> bool:
        """Go on; whether all is done."""
        while self._active and self._active[0][0].Test():
            _, buffer, chunk = self._active.popleft()
            if buffer is None:
                continue
            if self._incoming:
                chunk.view[...] = _shaped(buffer, chunk.view)
            self._free.append(buffer)
        while self._waiting and len(self._active) < WINDOW:
            chunk = self._waiting.popleft()
            if chunk.view.flags.c_contiguous:
                request = self._post(as_bytes(chunk.view), chunk.peer, chunk.tag)
                self._active.append((request, None, chunk))
                continue
            buffer = self._free.pop() if self._free else np.empty(0, "u1")
            if buffer.nbytes < chunk.view.nbytes:
                buffer = np.empty(chunk.view.nbytes, "u1")
            if not self._incoming:
                _shaped(buffer, chunk.view)[...] = chunk.view
            filled = buffer[: chunk.view.nbytes]
            self._active.append((self._post([filled, MPI.BYTE], chunk.peer, chunk.tag), buffer, chunk))
        return not self._active


def _shaped(buffer: NDArray[Any], view: NDArray[Any]) -> NDArray[Any]:
    return buffer[: view.nbytes].view(view.dtype).reshape(view.shape)


def _chunks(parcel: Parcel) -> Iterator[NDArray[Any]]:
    """The same on both sides of a message."""
    if parcel.view.nbytes:
        view = raw(parcel.view)
        size = MOST_CHUNK if parcel.plain else min(MOST_CHUNK, max(LEAST_CHUNK, view.nbytes // CHUNKS))
        for box in boxes(view.shape, max(1, size // view.itemsize)):
            yield view[box]


def as_bytes(data: NDArray[Any]) -> list[Any]:
    """A contiguous array as MPI takes it, whatever its dtype."""
    return [data.reshape(-1).view("u1"), MPI.BYTE]
