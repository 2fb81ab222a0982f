"""One-sided: targets get their rows from a window of each source's memory."""

from __future__ import annotations

import os
import time
from collections import deque
from typing import Any

from mpi4py import MPI
from numpy.typing import NDArray

from pliant.mpi.data.alltoall import datatype, memory
from pliant.mpi.data.boxes import raw
from pliant.mpi.data.delivery import Stage
from pliant.mpi.data.fetching import Fetching, Piece
from pliant.mpi.data.movable import Parcel
from pliant.mpi.wait import Wait

WINDOW = 4
"""Pieces that are under way."""
TURN_S = 5e-3
"""So long it is looked for them at a time."""


class OneSided(Fetching):
    """By ``MPI_Rget`` from a dynamic window, to which each source attaches what it sends. Making and freeing the window
    are calls that block."""

    def __init__(self, comm: MPI.Intracomm, stage: Stage, wait: Wait) -> None:
        self._wait = wait
        self._active: deque[tuple[MPI.Request, list[MPI.Datatype], NDArray[Any]]] = deque()
        with wait.watchdog("making a window"):
            self._window = MPI.Win.Create_dynamic(comm=comm)
            self._attached = [stretch(*each) for each in extents(stage)]
            for each in self._attached:
                self._window.Attach(each)
            self._window.Lock_all(MPI.MODE_NOCHECK)
        super().__init__(comm, stage)

    def offers(self, parcel: Parcel) -> bool:  # noqa: ARG002 - all are alike
        return True

    def poll(self) -> bool:
        """A get takes many small answers of its source, so that both sides look for them without a pause."""
        until = time.perf_counter() + TURN_S
        while not super().poll():
            if time.perf_counter() > until:
                return False
            os.sched_yield()
        return True

    def fetch(self, pieces: deque[Piece]) -> bool:
        while self._active and self._active[0][0].Test():
            for made in self._active.popleft()[1]:
                made.Free()
        while pieces and len(self._active) < WINDOW:
            self._active.append(self._get(pieces.popleft()))
        return not self._active

    def _get(self, piece: Piece) -> tuple[MPI.Request, list[MPI.Datatype], NDArray[Any]]:
        peer, there, here = piece
        view = raw(here)
        mine = datatype(view.shape, view.strides, view.itemsize).Commit()
        theirs = datatype(there.shape, there.strides, there.itemsize).Commit()
        request = self._window.Rget([stretch(*extent(view)), 1, mine], peer, [there.address, 1, theirs])
        return request, [mine, theirs], here

    def end(self) -> None:
        with self._wait.watchdog("freeing a window"):
            self._window.Unlock_all()
            for each in self._attached:
                self._window.Detach(each)
            self._window.Free()


def extent(view: NDArray[Any]) -> tuple[int, int]:
    """The addresses between which it lies."""
    first = MPI.Get_address(memory(view))
    return first, first + view.itemsize + sum(
        (n - 1) * stride for n, stride in zip(view.shape, view.strides, strict=True)
    )


def stretch(first: int, stop: int) -> MPI.buffer:
    """This memory, as MPI takes it."""
    return MPI.buffer.fromaddress(first, stop - first)


def extents(stage: Stage) -> list[tuple[int, int]]:
    """The memory that a rank sends from, as stretches that have nothing in common."""
    found = []
    for _, parcel in stage.sends:
        if parcel.view.nbytes:
            found.append(extent(raw(parcel.view)))
    merged: list[tuple[int, int]] = []
    for first, stop in sorted(found):
        if merged and first <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(stop, merged[-1][1])
        else:
            merged.append((first, stop))
    return merged
