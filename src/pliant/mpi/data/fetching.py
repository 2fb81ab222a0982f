"""Targets that fetch their rows themselves: sources offer, by a message for each pair, where in their memory they lie.

A source goes on when all to whom it has offered something have said that they have it. What is not fetched goes point
to point.
"""

from __future__ import annotations

import pickle
from abc import abstractmethod
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from mpi4py import MPI
from numpy.typing import NDArray

from pliant.mpi.data.alltoall import memory
from pliant.mpi.data.boxes import raw
from pliant.mpi.data.delivery import Delivery, Stage, Tagged, chunk_boxes
from pliant.mpi.data.movable import Parcel
from pliant.mpi.data.pointwise import PointToPoint

OFFER_TAG, TAKEN_TAG = 32766, 32767
"""The last that each MPI has: moves have theirs from 0 on."""


class Offer(NamedTuple):
    """Where a parcel lies on its source. ``fetch``: it is not sent."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int
    fetch: bool


class Piece(NamedTuple):
    """What is fetched at a time: a box of a parcel, there and here."""

    peer: int
    there: Offer
    here: NDArray[Any]


class Fetching(Delivery):
    """How a piece is fetched is said by each method."""

    def __init__(self, comm: MPI.Intracomm, stage: Stage) -> None:
        super().__init__(stage)
        self._comm, self._stage = comm, stage
        self._offers: dict[int, list[Offer]] = {}
        self._messages: PointToPoint | None = None
        self._pieces: deque[Piece] = deque()
        self._sources = {parcel.peer for _, parcel in stage.receives}
        self._requests: list[MPI.Request] = []
        self._taken = False
        made: dict[int, list[Offer]] = {}
        for _, parcel in stage.sends:
            made.setdefault(parcel.peer, []).append(self._offer(parcel))
        self._made = made
        for peer, offers in made.items():
            self._requests.append(comm.Irecv(bytearray(0), peer, TAKEN_TAG))
            self._requests.append(comm.Isend([pickle.dumps(offers), MPI.BYTE], peer, OFFER_TAG))

    def _offer(self, parcel: Parcel) -> Offer:
        view = raw(parcel.view)
        address = MPI.Get_address(memory(view)) if view.nbytes else 0
        return Offer(
            address, view.shape, view.strides, view.itemsize, view.nbytes > 0 and self.offers(parcel)
        )

    @abstractmethod
    def offers(self, parcel: Parcel) -> bool:
        """Whether its target is to fetch this parcel of ours."""

    @abstractmethod
    def fetch(self, pieces: deque[Piece]) -> bool:
        """Go on with the pieces, the first one first; whether all have been fetched."""

    def poll(self) -> bool:
        if not self._hear():
            return False
        assert self._messages is not None  # noqa: S101 - made when all offers were heard
        done = self._messages.poll()
        if not self._taken and self.fetch(self._pieces):
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
                self._offers[peer] = [Offer(*each) for each in pickle.loads(buffer)]  # noqa: S301 - our own ranks'
        if self._sources.difference(self._offers):
            return False
        self._messages = PointToPoint(self._comm, self._sort_out())
        return True

    def _sort_out(self) -> Stage:
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
        return Stage(sends, receives, [])


def pieces(parcel: Parcel, offer: Offer) -> Iterator[Piece]:
    """The boxes of a parcel, with where each lies there."""
    view = raw(parcel.view)
    for box in chunk_boxes(view.shape, view.itemsize, plain=parcel.plain):
        here = view[box]
        first = sum(each.start * stride for each, stride in zip(box, offer.strides, strict=True))
        yield Piece(parcel.peer, offer._replace(address=offer.address + first, shape=here.shape), here)
