"""The port of what carries the parcels of one stage, and what all methods share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from zlib import crc32

from mpi4py import MPI
from numpy.typing import NDArray

from pliant.mpi.data.boxes import boxes, raw
from pliant.mpi.data.movable import Copy, Parcel, Parcels

GATHER, HALO, CHANGE = range(3)
"""The tags of one movable: what is redistributed or gathered, halos, and what takes another layout or shape."""
CALL_NAMES = ("gather()", "exchange_halo()", "to() or resize()")
TAGS_EACH = len(CALL_NAMES)
LEAST_CHUNK, MOST_CHUNK = 1 << 16, 1 << 22
SLOWEST = 100e6
"""Bytes a second that are waited for without losing patience."""
PLAIN_CHUNK = 1 << 26
"""Of what needs no buffer on either side: it is cut only so that other work is looked after."""
CHUNKS = 80
"""Of a message that may need buffers, where that makes them neither too small nor too large."""


BALANCED = 1 << 62
"""What :meth:`MoveStage.balance` is counted by: a sum of 64 bits that overflows is the same by it."""

Lengths = dict[tuple[int, int], list[int]]
"""By tag and peer, in the order of the messages."""


class Tagged(NamedTuple):
    """A parcel with the tag of its move."""

    tag: int
    parcel: Parcel


class MoveStage(NamedTuple):
    """What this rank has to do, in the order in which it is taken on all ranks."""

    sends: list[Tagged]
    receives: list[Tagged]
    copies: list[Copy]

    @property
    def sent(self) -> int:
        """Bytes."""
        return sum(parcel.view.nbytes for _, parcel in self.sends)

    @property
    def bytes(self) -> int:
        return self.sent + sum(parcel.view.nbytes for _, parcel in self.receives)

    def balance(self, rank: int) -> int:
        """Over all ranks this comes to 0, modulo :data:`BALANCED`, where each message is as long as its receiver
        expects; else it hardly does. What is sent counts as much as is taken off where it is received."""
        sent, received = self.lengths()
        ways = [(1, tag, rank, peer, each) for (tag, peer), each in sent.items()]
        ways += [(-1, tag, peer, rank, each) for (tag, peer), each in received.items()]
        total = 0
        for sign, tag, source, target, lengths in ways:
            for number, length in enumerate(lengths):
                total += sign * length * crc32(f"{tag} {source} {target} {number}".encode())
        return total % BALANCED

    def lengths(self) -> tuple[Lengths, Lengths]:
        """The bytes of each message that is sent, and of each that is expected; empty ones are none."""
        sent: Lengths = {}
        received: Lengths = {}
        for found, parts in ((sent, self.sends), (received, self.receives)):
            for tag, parcel in parts:
                if length := parcel.view.nbytes:
                    found.setdefault((tag, parcel.peer), []).append(length)
        return sent, received


def stage_of(comm: MPI.Intracomm, every: Iterable[tuple[int, Parcels]]) -> MoveStage:
    """What moves, each with its tag, have to do at a time: one order of all messages on all ranks."""
    stage, rank, size = MoveStage([], [], []), comm.rank, comm.size
    for tag, parcels in every:
        stage.sends.extend(Tagged(tag, parcel) for parcel in parcels.sends)
        stage.receives.extend(Tagged(tag, parcel) for parcel in parcels.receives)
        stage.copies.extend(parcels.copies)
    stage.sends.sort(key=lambda each: (each.tag, (each.parcel.peer - rank) % size, rank))
    stage.receives.sort(key=lambda each: (each.tag, (rank - each.parcel.peer) % size, each.parcel.peer))
    return stage


def unlike(said: Sequence[tuple[Lengths, Lengths]], names: Sequence[str]) -> str:
    """Where the ranks, of which each has ``said`` the lengths of what it sends and expects, do not say the same of one
    of the movables ``names``; empty if they do."""
    for rank, (sent, received) in enumerate(said):
        pairs = [(tag, rank, peer) for tag, peer in sent] + [(tag, peer, rank) for tag, peer in received]
        for tag, source, target in pairs:
            there = said[source][0].get((tag, target), [])
            here = said[target][1].get((tag, source), [])
            if there != here:
                return (
                    f"of {names[tag // TAGS_EACH]!r} rank {source} sends {sum(there)} bytes in {len(there)} parts to "
                    f"rank {target}, which expects {sum(here)} bytes in {len(here)}"
                )
    return ""


class Delivery(ABC):
    """The parcels of one stage, under way as soon as it is made; collective, as one communicator has the same method
    for all of them."""

    def __init__(self, stage: MoveStage) -> None:
        self._copies = stage.copies
        self.bytes = stage.bytes

    def copying(self) -> Iterator[None]:
        """Copy what stays on this rank, a piece each time."""
        for old, new in self._copies:
            for box in boxes(old.shape, max(1, MOST_CHUNK // max(1, old.itemsize))):
                raw(new)[box] = raw(old)[box]
                yield
        self._copies.clear()

    def copy(self) -> None:
        """What stays on this rank, while the messages go on."""
        for _ in self.copying():
            self.poll()

    @abstractmethod
    def poll(self) -> bool:
        """Go on; whether all is done. Returns soon."""

    def end(self) -> None:  # noqa: B027 - there may be nothing to do
        """All is done on this rank: what was made for it is freed; collective."""


def chunks(parcel: Parcel) -> Iterator[NDArray[Any]]:
    """The same on both sides of a message."""
    if parcel.view.nbytes:
        view = raw(parcel.view)
        for box in chunk_boxes(view.shape, view.itemsize, plain=parcel.plain):
            yield view[box]


def chunk_boxes(shape: tuple[int, ...], itemsize: int, *, plain: bool) -> Iterator[tuple[slice, ...]]:
    """Those of a view of this shape."""
    size = itemsize
    for length in shape:
        size *= length
    most = PLAIN_CHUNK if plain else min(MOST_CHUNK, max(LEAST_CHUNK, size // CHUNKS))
    return boxes(shape, max(1, most // itemsize))


def as_bytes(data: NDArray[Any]) -> list[Any]:
    """A contiguous array as MPI takes it, whatever its dtype."""
    return [data.reshape(-1).view("u1"), MPI.BYTE]


def shaped(buffer: NDArray[Any], view: NDArray[Any]) -> NDArray[Any]:
    """The first bytes of a buffer as an array like ``view``."""
    return buffer[: view.nbytes].view(view.dtype).reshape(view.shape)
