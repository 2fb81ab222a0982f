"""Shared memory inside a machine: a target reads the memory of a source's process, with no copy in between.

This is Linux' process_vm_readv (cross memory attach). MPI's own shared windows have to be the memory that is shared
from its allocation on, and one world's; arrays are NumPy's, and groups that were joined are worlds of their own.
"""

from __future__ import annotations

import ctypes
import os
import socket
import time
from collections import deque
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from pliant.mpi.data.boxes import raw, run_bytes
from pliant.mpi.data.delivery import Stage, shaped
from pliant.mpi.data.fetching import Fetching, Offer, Piece
from pliant.mpi.data.movable import Parcel
from pliant.mpi.wait import Wait

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


def runs_of(offer: Offer) -> NDArray[np.uint64]:
    """Address and length of each row, in the order of the elements."""
    run, axis = run_bytes(offer.shape, offer.strides, offer.itemsize)
    starts = np.array([offer.address], "i8")
    for length, stride in zip(offer.shape[:axis], offer.strides[:axis], strict=True):
        starts = (starts[:, None] + np.arange(length) * stride).reshape(-1)
    return np.column_stack([starts, np.full_like(starts, run)]).astype("u8")


class Shared(Fetching):
    """From processes of the same machine; others send messages."""

    def __init__(self, comm: MPI.Intracomm, stage: Stage, neighbours: Neighbours) -> None:
        self._neighbours = neighbours
        self._buffer = np.empty(0, "u1")
        super().__init__(comm, stage)

    def offers(self, parcel: Parcel) -> bool:
        view = raw(parcel.view)
        run, _ = run_bytes(view.shape, view.strides, view.itemsize)
        return parcel.peer in self._neighbours.pids and run >= min(LEAST_RUN, view.nbytes)

    def fetch(self, pieces: deque[Piece]) -> bool:
        """A source that is gone is waited for, as for a message of it: who waits knows how long, and what then."""
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
