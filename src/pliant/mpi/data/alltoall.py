"""All to all: one non-blocking collective, whose datatypes say where in memory everything lies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mpi4py import MPI
from numpy.typing import NDArray

from pliant.mpi.data.boxes import raw, run_bytes
from pliant.mpi.data.delivery import Delivery, MoveStage, Tagged


class AllToAll(Delivery):
    """By ``MPI_Ialltoallw``. What MPI packs, where rows lie in pieces, it packs in buffers of its own."""

    def __init__(self, comm: MPI.Intracomm, stage: MoveStage) -> None:
        super().__init__(stage)
        self._kept = stage
        self._types: list[MPI.Datatype] = []
        sends, receives = self._side(comm.size, stage.sends), self._side(comm.size, stage.receives)
        self._request = comm.Ialltoallw(sends, receives)

    def _side(self, ranks: int, parts: Iterable[Tagged]) -> list[Any]:
        views: list[list[NDArray[Any]]] = [[] for _ in range(ranks)]
        for _, parcel in parts:
            if parcel.view.nbytes:
                views[parcel.peer].append(raw(parcel.view))
        types = [_joined(each) if each else MPI.BYTE for each in views]
        self._types += (made for made, each in zip(types, views, strict=True) if each)
        # Of memory in one piece the address is told apart from the type: MPI then sees that it is in one piece.
        places = [MPI.Get_address(memory(each[0])) if in_one_piece(each) else 0 for each in views]
        return [MPI.BOTTOM, [1 if each else 0 for each in views], places, types]

    def poll(self) -> bool:
        return bool(self._request.Test())

    def end(self) -> None:
        for each in self._types:
            each.Free()


def _joined(views: list[NDArray[Any]]) -> MPI.Datatype:
    """All of them, where they lie in memory, one after the other."""
    if in_one_piece(views):
        return MPI.BYTE.Create_contiguous(views[0].nbytes).Commit()
    parts = [datatype(view.shape, view.strides, view.itemsize) for view in views]
    places = [MPI.Get_address(memory(view)) for view in views]
    made = MPI.Datatype.Create_struct([1] * len(views), places, parts).Commit()
    for each in parts:
        each.Free()
    return made


def in_one_piece(views: list[NDArray[Any]]) -> bool:
    return len(views) == 1 and bool(views[0].flags.c_contiguous)


def memory(view: NDArray[Any]) -> NDArray[Any]:
    """Its first element: what MPI takes an address of."""
    return view[(slice(0, 1),) * view.ndim].reshape(-1).view("u1")


def datatype(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> MPI.Datatype:
    """Elements that lie like this, from the first one on; not committed."""
    run, axis = run_bytes(shape, strides, itemsize)
    made = MPI.BYTE.Create_contiguous(run)
    for length, stride in zip(reversed(shape[:axis]), reversed(strides[:axis]), strict=True):
        outer = made.Create_hvector(length, 1, stride)
        made.Free()
        made = outer
    return made
