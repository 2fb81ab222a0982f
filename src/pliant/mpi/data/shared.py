"""Shared memory inside a machine: a target reads the memory of a source's process, with no copy in between.

This is Linux' process_vm_readv (cross memory attach). MPI's own shared windows have to be the memory that is shared
from its allocation on, and one world's; arrays are NumPy's, and groups that were joined are worlds of their own.

Sources offer, by a message for each pair, where in their memory the rows lie. A source goes on when all to whom it has
offered something have said that they have it. All other rows go point to point.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import socket
import time
from collections import deque
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from pliant.mpi.data.alltoall import memory
from pliant.mpi.data.boxes import raw, run_bytes
from pliant.mpi.data.delivery import Delivery, MoveStage, Tagged, chunk_boxes, shaped
from pliant.mpi.data.movable import Parcel
from pliant.mpi.data.pointwise import PointToPoint
from pliant.mpi.wait import Wait

OFFER_TAG, TAKEN_TAG = 32766, 32767
"""The last that each MPI has: moves have theirs from 0 on."""


class MemoryOffer(NamedTuple):
    """Where a parcel lies on its source. ``fetch``: it is not sent."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int
    fetch: bool


class Piece(NamedTuple):
    """What is fetched at a time: a box of a parcel, there and here."""

    peer: int
    there: MemoryOffer
    here: NDArray[Any]


LEAST_RUN = 1 << 10
"""Bytes in a row. Each row of a read costs a fraction of a microsecond: shorter ones are packed and sent."""
MOST_RUNS = 1024
"""IOV_MAX of Linux: the rows of one read."""
TURN_S = 2e-3
"""So long it is read before the messages are looked after."""


class Neighbours:
    """Which ranks are processes of this machine, and their numbers; all have found that they can read each other."""

    def __init__(self, pids: dict[int, int]) -> None:
        self.pids = pids

    @classmethod
    def find(cls, comm: MPI.Intracomm, wait: Wait) -> Neighbours | None:
        """None on all ranks if any cannot read another of its machine; collective."""
        word = np.array([comm.rank + 1], "i8")
        mine = np.array([machine(), os.getpid(), word.ctypes.data], "i8")
        every = np.empty((comm.size, 3), "i8")
        wait.request(comm.Iallgather(mine, every), "all ranks to say where they are")
        pids = {rank: int(pid) for rank, (where, pid, _) in enumerate(every) if where == mine[0]}
        seen = np.zeros(1, "i8")
        able = True
        for rank, pid in pids.items():
            read = read_memory(pid, np.array([[every[rank, 2], 8]], "u8"), seen)
            able = able and read and seen[0] == rank + 1
        agreed = np.array([able], "i4")
        # Complete only when all have read: until then the word has to stay where it is.
        wait.request(comm.Iallreduce(MPI.IN_PLACE, agreed, MPI.MIN), "all ranks to read each other's memory")
        return cls(pids) if agreed[0] and word[0] else None


def machine() -> int:
    """A number for this machine, and for the numbers that processes have on it."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii")
        space = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        boot, space = socket.gethostname(), ""
    return crc32(f"{boot} {space}".encode())


def read_memory(pid: int, runs: NDArray[np.uint64], here: NDArray[Any]) -> bool:
    """Read the (address, bytes) of a process that ``runs`` has, one after the other, into contiguous ``here``; whether
    that has worked. ``runs`` is used up."""
    libc, done = _libc(), 0
    if libc is None:
        return False
    while len(runs):
        some = runs[:MOST_RUNS]
        local = np.array([here.ctypes.data + done, here.nbytes - done], "u8")
        read = libc.process_vm_readv(pid, local.ctypes.data, 1, some.ctypes.data, len(some), 0)
        if read <= 0:
            return False
        done += read
        ends = np.cumsum(some[:, 1])
        whole = int(np.searchsorted(ends, read, side="right"))
        if whole < len(some) and (part := read - (int(ends[whole - 1]) if whole else 0)):
            some[whole] += np.array([part, -part], "i8").astype("u8")
        runs = runs[whole:]
    return True


@cache
def _libc() -> ctypes.CDLL | None:
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "process_vm_readv"):
        return None
    libc.process_vm_readv.restype = ctypes.c_ssize_t
    many, place = ctypes.c_ulong, ctypes.c_void_p
    libc.process_vm_readv.argtypes = [ctypes.c_int, place, many, place, many, many]
    return libc


def runs_of(offer: MemoryOffer) -> NDArray[np.uint64]:
    """Address and length of each row, in the order of the elements."""
    run, axis = run_bytes(offer.shape, offer.strides, offer.itemsize)
    starts = np.array([offer.address], "i8")
    for length, stride in zip(offer.shape[:axis], offer.strides[:axis], strict=True):
        starts = (starts[:, None] + np.arange(length) * stride).reshape(-1)
    return np.column_stack([starts, np.full_like(starts, run)]).astype("u8")


class Shared(Delivery):
    """From processes of the same machine; others send messages."""

    def __init__(self, comm: MPI.Intracomm, stage: MoveStage, neighbours: Neighbours) -> None:
        super().__init__(stage)
        self._neighbours = neighbours
        self._buffer = np.empty(0, "u1")
        self._comm, self._stage = comm, stage
        self._offers: dict[int, list[MemoryOffer]] = {}
        self._messages: PointToPoint | None = None
        self._pieces: deque[Piece] = deque()
        self._sources = {parcel.peer for _, parcel in stage.receives}
        self._requests: list[MPI.Request] = []
        self._taken = False
        made: dict[int, list[MemoryOffer]] = {}
        for _, parcel in stage.sends:
            made.setdefault(parcel.peer, []).append(self._offer(parcel))
        self._made = made
        for peer, offers in made.items():
            self._requests.append(comm.Irecv(bytearray(0), peer, TAKEN_TAG))
            self._requests.append(comm.Isend([pickle.dumps(offers), MPI.BYTE], peer, OFFER_TAG))

    def _offer(self, parcel: Parcel) -> MemoryOffer:
        view = raw(parcel.view)
        address = MPI.Get_address(memory(view)) if view.nbytes else 0
        return MemoryOffer(
            address, view.shape, view.strides, view.itemsize, view.nbytes > 0 and self._offers_it(parcel)
        )

    def poll(self) -> bool:
        if not self._hear():
            return False
        assert self._messages is not None  # noqa: S101 - made when all offers were heard
        done = self._messages.poll()
        if not self._taken and self._fetch(self._pieces):
            self._taken = True
            self._requests += (self._comm.Isend(bytearray(0), peer, TAKEN_TAG) for peer in self._sources)
        return self._taken and done and bool(MPI.Request.Testall(self._requests))

    def _hear(self) -> bool:
        """Whether all offers are here; with the last of them what is not fetched is under way."""
        if self._messages is not None:
            return True
        for peer in self._sources.difference(self._offers):
            status = MPI.Status()
            if (message := self._comm.Improbe(peer, OFFER_TAG, status)) is not None:
                buffer = bytearray(status.Get_count(MPI.BYTE))
                message.Recv([buffer, MPI.BYTE])
                self._offers[peer] = [MemoryOffer(*each) for each in pickle.loads(buffer)]  # noqa: S301 - our own ranks'
        if self._sources.difference(self._offers):
            return False
        self._messages = PointToPoint(self._comm, self._sort_out())
        return True

    def _sort_out(self) -> MoveStage:
        """What goes by messages; the rest is cut into pieces."""
        mine = {peer: iter(offers) for peer, offers in self._made.items()}
        theirs = {peer: iter(offers) for peer, offers in self._offers.items()}
        sends = [each for each in self._stage.sends if not next(mine[each.parcel.peer]).fetch]
        receives: list[Tagged] = []
        for each in self._stage.receives:
            offer = next(theirs[each.parcel.peer])
            if offer.fetch:
                self._pieces.extend(pieces(each.parcel, offer))
            else:
                receives.append(each)
        return MoveStage(sends, receives, [])

    def _offers_it(self, parcel: Parcel) -> bool:
        """Whether its target is to read this parcel of ours."""
        view = raw(parcel.view)
        run, _ = run_bytes(view.shape, view.strides, view.itemsize)
        return parcel.peer in self._neighbours.pids and run >= min(LEAST_RUN, view.nbytes)

    def _fetch(self, pieces: deque[Piece]) -> bool:
        """Go on with the pieces, the first one first; whether all have been read. From a source that is gone nothing
        comes, as no message would: the deadline of the wait ends that."""
        until = time.perf_counter() + TURN_S
        while pieces:
            if not self._read(pieces[0]):
                return False
            pieces.popleft()
            if time.perf_counter() > until:
                break
        return not pieces

    def _read(self, piece: Piece) -> bool:
        here = piece.here
        straight = here.flags.c_contiguous
        if not straight and self._buffer.nbytes < here.nbytes:
            self._buffer = np.empty(here.nbytes, "u1")
        into = here if straight else shaped(self._buffer, here)
        read = read_memory(self._neighbours.pids[piece.peer], runs_of(piece.there), into)
        if read and not straight:
            here[...] = into
        return read


def pieces(parcel: Parcel, offer: MemoryOffer) -> Iterator[Piece]:
    """The boxes of a parcel, with where each lies there."""
    view = raw(parcel.view)
    for box in chunk_boxes(view.shape, view.itemsize, plain=parcel.plain):
        here = view[box]
        first = sum(each.start * stride for each, stride in zip(box, offer.strides, strict=True))
        yield Piece(parcel.peer, offer._replace(address=offer.address + first, shape=here.shape), here)
