"""Point to point, in bounded chunks, all receives that need no buffer posted first.

A chunk that is contiguous on a side is sent from, or received into, its place there. What is not goes through a few
buffers, so that the extra memory of a rank stays under a tenth of the largest message that it takes part in.

Chunks that need a buffer, and those behind them, are taken in one order of all messages on all ranks, receives as well
as sends: the first that is not there yet is under way on both of its sides, so that nobody waits for ever.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from pliant.mpi.data.delivery import Delivery, MoveStage, as_bytes, chunks, shaped

WINDOW = 2
"""Buffers of a rank for what it sends, and for what it receives."""


class Chunk(NamedTuple):
    peer: int
    tag: int
    view: NDArray[Any]


class PointToPoint(Delivery):
    """By messages."""

    def __init__(self, comm: MPI.Intracomm, stage: MoveStage) -> None:
        super().__init__(stage)
        self._requests: list[MPI.Request] = []
        self._receives: list[tuple[int, MPI.Request]] = []
        self._lanes: list[_Lane] = []
        for parts, post, incoming in ((stage.receives, comm.Irecv, True), (stage.sends, comm.Isend, False)):
            staged: list[Chunk] = []
            # What goes between two ranks with one tag has to be posted in its order on both sides.
            waits: set[tuple[int, int]] = set()
            for tag, parcel in parts:
                stream = (parcel.peer, tag)
                for view in chunks(parcel):
                    if view.flags.c_contiguous and stream not in waits:
                        self._requests.append(post(as_bytes(view), parcel.peer, tag))
                        if incoming:
                            self._receives.append((parcel.peer, self._requests[-1]))
                    else:
                        waits.add(stream)
                        staged.append(Chunk(parcel.peer, tag, view))
            self._lanes.append(_Lane(post, staged, incoming=incoming))

    def poll(self) -> bool:
        lanes = [lane.poll() for lane in self._lanes]
        return all(lanes) and bool(MPI.Request.Testall(self._requests))

    def awaited(self) -> set[int]:
        """The ranks whose messages are still to come."""
        return {peer for peer, request in self._receives if not request.Test()} | self._lanes[0].peers


class _Lane:
    """Chunks in one direction that go through buffers, a few at a time."""

    def __init__(
        self, post: Callable[[Any, int, int], MPI.Request], chunks: Iterable[Chunk], *, incoming: bool
    ) -> None:
        self._post, self._incoming = post, incoming
        self._waiting = deque(chunks)
        self._active: deque[tuple[MPI.Request, NDArray[Any] | None, Chunk]] = deque()
        self._free: list[NDArray[Any]] = []

    @property
    def peers(self) -> set[int]:
        """The ranks of all that has not arrived, or is not sent."""
        unfinished = {chunk.peer for request, _, chunk in self._active if not request.Test()}
        return unfinished | {chunk.peer for chunk in self._waiting}

    def poll(self) -> bool:
        """Go on; whether all is done."""
        while self._active and self._active[0][0].Test():
            _, buffer, chunk = self._active.popleft()
            if buffer is None:
                continue
            if self._incoming:
                chunk.view[...] = shaped(buffer, chunk.view)
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
                shaped(buffer, chunk.view)[...] = chunk.view
            filled = buffer[: chunk.view.nbytes]
            self._active.append((self._post([filled, MPI.BYTE], chunk.peer, chunk.tag), buffer, chunk))
        return not self._active
