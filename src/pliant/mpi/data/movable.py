"""The port of what follows the ranks: arrays, sparse rows, and what a program makes of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from operator import index
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

SUM = 1 << 64


class Way(NamedTuple):
    """From which ranks to which a redistribution goes: ranks of one communicator, each list in the order of the parts.
    ``rank`` is this process' own; it may be in either list, or both."""

    rank: int
    sources: Sequence[int]
    targets: Sequence[int]

    @property
    def old_part(self) -> int | None:
        """The part that this rank holds before; None if it is none of the sources."""
        return self.sources.index(self.rank) if self.rank in self.sources else None

    @property
    def new_part(self) -> int | None:
        """The part that this rank is to hold; None if it is none of the targets."""
        return self.targets.index(self.rank) if self.rank in self.targets else None


class Parcel(NamedTuple):
    """``view`` goes to rank ``peer``, or is to be filled by it. It need not be contiguous. ``plain``: it is so on both
    sides, and both say so: then it goes in larger chunks."""

    peer: int
    view: NDArray[Any]
    plain: bool = False


class Copy(NamedTuple):
    """``old`` stays on this rank: it is copied into ``new``, of the same shape and dtype."""

    old: NDArray[Any]
    new: NDArray[Any]


class Parcels(NamedTuple):
    """What this rank has to do for one stage of a move. A pair of ranks names what it exchanges in the same order, each
    parcel with the same shape and dtype on both sides."""

    sends: Sequence[Parcel] = ()
    receives: Sequence[Parcel] = ()
    copies: Sequence[Copy] = ()


def checked(parcels: object, ranks: int) -> Parcels:
    """A stage that a move has made, between so many ranks; TypeError or ValueError if it is none. What it iterates
    over is gone through once."""
    if not isinstance(parcels, Parcels):
        raise TypeError(f"move() made {parcels!r:.60} where a stage is an mpi.Parcels")
    copies = tuple(parcels.copies)
    for old, new in copies:
        if (old.shape, old.dtype) != (new.shape, new.dtype):
            raise ValueError(
                f"move() made a copy of shape {old.shape} and {old.dtype} into {new.shape} and {new.dtype}"
            )
    sends, receives = (
        tuple([_parcel(each, ranks) for each in several]) for several in (parcels.sends, parcels.receives)
    )
    return Parcels(sends, receives, copies)


def _parcel(parcel: object, ranks: int) -> Parcel:
    if not isinstance(parcel, Parcel) or not isinstance(parcel.view, np.ndarray):
        raise TypeError(f"move() made {parcel!r:.60} where an mpi.Parcel(peer, array) is sent or received")
    peer = int(index(parcel.peer))
    if not 0 <= peer < ranks:
        raise ValueError(f"move() made a parcel for rank {peer} of {ranks}")
    return parcel if type(parcel.peer) is int else parcel._replace(peer=peer)


class Movable(ABC):
    """Something that is registered under a name of its own, alike on all ranks, and redistributed at every resize.

    What was held before a move is kept until :meth:`settle` or :meth:`undo` says how the resize has ended.
    """

    name: str
    constant: bool = False
    """The program does not change it in its loop."""
    moves_ahead: ClassVar[bool] = False
    """Whether one that is constant can move while the program computes: its ``move`` then runs on a shallow copy, must
    change nothing that the copy shares with it, and what the copy holds in the end becomes its own."""

    @property
    def held_bytes(self) -> int:
        """What this rank holds of it; 0 if that is not known."""
        return 0

    @property
    def most_ranks(self) -> int | None:
        """With more ranks some would hold nothing; None if that cannot be said."""
        return None

    @abstractmethod
    def describe(self) -> object:
        """What has to be equal on all ranks; its ``repr`` is compared, and goes with every resize."""

    def begin(self) -> None:  # noqa: B027 - there may be nothing to do
        """Take this rank's part of a job that has just been started."""

    @abstractmethod
    def move(self, way: Way) -> Iterator[Parcels]:
        """The stages of a redistribution. The next one is asked for when what was exchanged before is there."""

    @abstractmethod
    def undo(self) -> None:
        """The last move has not happened: what was held before it is held again."""

    @abstractmethod
    def settle(self) -> bool:
        """The last move is for good: what was held before it is dropped. Whether the program still holds some of it."""

    def exchange_halo(self) -> None:  # noqa: B027 - there may be nothing to do
        """Bring up to date what this rank has of others' rows; collective over the job."""

    @abstractmethod
    def checksum(self) -> int:
        """Of what this rank holds: 0 up to 2^64 - 1. Who holds what must not matter to :meth:`total`."""

    def total(self, checksums: Sequence[int]) -> object:
        """What the checksums of all ranks that hold a part come to."""
        return sum(checksums) % SUM
