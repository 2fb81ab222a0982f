"""Arrays that are spread over the ranks along one axis, and follow the job through its resizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import prod
from operator import index
from typing import Any, NamedTuple, SupportsIndex
from weakref import WeakValueDictionary, ref

import numpy as np
from mpi4py import MPI
from numpy.typing import DTypeLike, NDArray

from pliant.mpi.data.alike import Alike
from pliant.mpi.data.delivery import as_bytes
from pliant.mpi.data.movable import Copy, Movable, Parcel, Parcels, Way
from pliant.mpi.data.transport import deliver
from pliant.mpi.data.uses import Uses
from pliant.mpi.data.verify import checksum
from pliant.mpi.team import Team
from pliant.mpi.wait import Look, Wait
from pliant.plan.data.layouts import Layout, Replicated, even, with_halo
from pliant.plan.data.splits import Cuts, RowRange, Split, Stripe
from pliant.plan.data.traffic import halo_moves, traffic


class Seat(NamedTuple):
    """What an array needs of its job: the team (or NotJoined), its waits, the first of its message tags, who is
    told that it is used, and of a tag to which call it belongs."""

    team: Callable[[str], Team]
    wait: Wait
    tag: Callable[[str], int]
    uses: Uses
    calls: Callable[[int], str]

    def alike(self, comm: MPI.Intracomm, tag: int, awaited: Callable[[], Iterable[int]]) -> Look | None:
        """For waits of a collective call of the program, whose messages have this ``tag``: PliantError if a rank whose
        messages are ``awaited`` is in another call. None in a resize, which looks for what can go wrong there."""
        if self.wait.phase is not None:
            return None
        return Alike(comm, tag, self.calls, awaited).look


class Part(NamedTuple):
    """Part ``part`` of an array, whose rows are along ``axis`` of ``data``; ``halo`` rows come before them."""

    data: NDArray[Any]
    split: Split
    part: int
    axis: int
    halo: int = 0

    def view(self, stripe: Stripe) -> NDArray[Any]:
        """These rows, given by their numbers in the whole."""
        first, width, step, count = self.split.place(self.part, stripe)
        first += self.halo
        before = (slice(None),) * self.axis
        if count == 1:
            return self.data[(*before, slice(first, first + width))]
        view = self.data[(*before, slice(first, first + (count - 1) * step + width))]
        shape, strides = [*view.shape], [*view.strides]
        shape[self.axis : self.axis + 1] = [count, width]
        strides[self.axis : self.axis + 1] = [step * strides[self.axis], strides[self.axis]]
        return np.lib.stride_tricks.as_strided(view, shape, strides)

    def parcel(self, peer: int, stripe: Stripe) -> Parcel:
        """These rows, to or from a peer whose part is of the same array."""
        plain = stripe.times == 1 and prod(self.data.shape[: self.axis]) <= 1
        return Parcel(peer, self.view(stripe), plain)


def parcels(old: Part | None, new: Part | None, way: Way, old_split: Split, new_split: Split) -> Parcels:
    """What takes an array from one split to another, on this rank: ``old`` is what it has, ``new`` what it fills."""
    plan = traffic(old_split, new_split, way.sources, way.targets)
    sends = [old.parcel(m.target, s) for m in plan.moves if old and m.source == way.rank for s in m.stripes]
    receives = [
        new.parcel(m.source, s) for m in plan.moves if new and m.target == way.rank for s in m.stripes
    ]
    kept = [s for m in plan.kept if m.source == way.rank for s in m.stripes]
    copies = [Copy(old.view(s), new.view(s)) for s in kept if old is not None and new is not None]
    return Parcels(sends, receives, copies)


class Array(Movable):
    """One distributed array; made by ``job.array``, never directly.

    A rank *owns* the rows that the layout gives it, along the layout's axis; it may be none. ``local`` is those and,
    beyond them, up to ``halo`` rows on either side. At the two ends of the whole array there is no halo.
    """

    moves_ahead = True

    def __init__(  # noqa: PLR0913 - what an array is
        self,
        name: str,
        shape: Iterable[int] | int,
        dtype: DTypeLike,
        layout: Layout,
        seat: Seat,
        *,
        constant: bool = False,
    ) -> None:
        self.name = name
        self.dtype = np.dtype(dtype)
        self.shape = shape_of(shape, f"array {name!r}")
        if self.dtype.subdtype is not None:
            self.dtype, more = self.dtype.subdtype
            self.shape += more
        self.layout = layout
        self.constant = constant
        self._seat, self._uses = seat, seat.uses
        self._data: NDArray[Any] | None = None
        self._before: tuple[NDArray[Any] | None, tuple[Split, int] | None] = None, None
        self._owned: WeakValueDictionary[int, NDArray[Any]] = WeakValueDictionary()
        self._halo: tuple[list[Parcel], list[Parcel]] | None = None
        self._held: tuple[Split, int] | None = None
        if any(length < 0 for length in self.shape):
            raise ValueError(f"array {name!r}: {self.shape} is no shape")
        if not isinstance(layout, Layout):
            raise TypeError(f"array {name!r}: {layout!r} is no layout; mpi.Block() is one")
        if not isinstance(layout.axis, SupportsIndex) or not 0 <= layout.axis < len(self.shape):
            raise ValueError(f"array {name!r} of shape {self.shape} has no axis {layout.axis}")
        if self.dtype.hasobject:
            raise ValueError(f"array {name!r}: dtype {self.dtype} holds Python objects, which cannot be sent")
        try:
            layout.check(self.rows)
        except ValueError as error:
            raise ValueError(f"array {name!r} of shape {self.shape}: {error}") from None

    @property
    def rows(self) -> int:
        """The length of the layout's axis of the whole array."""
        return self.shape[self.layout.axis]

    @property
    def most_ranks(self) -> int | None:
        """With more of them some own no row; None where all own all."""
        return None if isinstance(self.layout, Replicated) else max(1, self.rows)

    # ---- where things are ---------------------------------------------------------------------------

    def _spread(self) -> tuple[Split, int]:
        """How the rows are over the job's ranks, and which part is this rank's."""
        self._seat.team(f"the rows of array {self.name!r}")
        if self._held is None:
            raise RuntimeError(f"array {self.name!r} has no data on this rank")
        return self._held

    def owned_rows(self) -> RowRange:
        """The rows this rank owns, as numbers of the whole array; ValueError if they are not consecutive."""
        split, part = self._spread()
        if isinstance(split, Cuts):
            return split.span(part)
        if isinstance(self.layout, Replicated):
            return RowRange(0, self.rows)
        raise ValueError(
            f"the rows that a rank owns of array {self.name!r} are not consecutive: ask row_numbers()"
        )

    def row_numbers(self) -> NDArray[np.int64]:
        """The number in the whole array of each row that this rank owns, ascending."""
        return row_numbers(*self._spread())

    def _first(self, owned: RowRange) -> int:
        return owned.start - with_halo(owned, self.layout.halo, self.rows).start

    def _cut(self, rows: slice | NDArray[np.int64]) -> tuple[Any, ...]:
        """Index of rows of the layout's axis, all of the others."""
        axis = self.layout.axis
        return tuple(rows if i == axis else slice(0, n) for i, n in enumerate(self.shape))

    @property
    def local(self) -> NDArray[Any]:
        """This rank's rows with the halo: writable, and a new array after every resize, so take it in each step.

        One that is kept over a resize is no part of the array any more: see :meth:`settle`.
        """
        if (data := self._data) is None:
            self._seat.team(f"{self.name}.local")
            raise RuntimeError(f"array {self.name!r} has no data on this rank")
        if self._uses.on:
            self._uses.note(self.name)
        return data

    @property
    def index(self) -> tuple[Any, ...]:
        """Where ``local`` lies in the whole array: ``whole[a.index]`` has the shape of ``a.local``. Slices, but for a
        cyclic layout, whose rows are numbered one by one."""
        if self.layout.halo:
            return self._cut(slice(*with_halo(self.owned_rows(), self.layout.halo, self.rows)))
        return self.owned_index

    @property
    def owned(self) -> NDArray[Any]:
        """The part of ``local`` that this rank owns: a view without the halo. As ``local``, it is not to be kept."""
        split, part = self._spread()
        first = self._first(split.span(part)) if isinstance(split, Cuts) else 0
        rows = slice(first, first + split.size(part))
        view = self.local[(*(slice(None),) * self.layout.axis, rows)]
        self._owned[id(view)] = view
        return view

    @property
    def owned_index(self) -> tuple[Any, ...]:
        """Where ``owned`` lies in the whole array, as ``index``."""
        split, _ = self._spread()
        contiguous = isinstance(split, Cuts) or isinstance(self.layout, Replicated)
        return self._cut(slice(*self.owned_rows()) if contiguous else self.row_numbers())

    # ---- halos, and the whole -----------------------------------------------------------------------

    def exchange_halo(self) -> None:
        """Fill the halo with the rows of their owners; collective over the job."""
        team = self._seat.team(f"{self.name}.exchange_halo")
        if self._uses.on:
            self._uses.note(self.name)
        if not self.layout.halo or team.own.size == 1:
            return
        if self._halo is None:
            self._halo = self._halo_parcels()
        comm, tag = team.own, self._seat.tag(self.name) + 1
        receives, landings = [], []
        for peer, view, _ in self._halo[0]:
            data = view if view.flags.c_contiguous else np.empty(view.shape, view.dtype)
            landings += [] if data is view else [(view, data)]
            receives.append((peer, comm.Irecv(as_bytes(data), peer, tag)))
        requests = [request for _, request in receives]
        for peer, view, _ in self._halo[1]:
            requests.append(comm.Isend(as_bytes(np.ascontiguousarray(view)), peer, tag))
        if not MPI.Request.Testall(requests):
            look = self._seat.alike(comm, tag, lambda: [peer for peer, each in receives if not each.Test()])
            self._seat.wait.requests(requests, f"the halo of array {self.name!r}", limited=False, look=look)
        for view, data in landings:
            view[...] = data

    def _halo_parcels(self) -> tuple[list[Parcel], list[Parcel]]:
        split, part = self._spread()
        assert isinstance(split, Cuts)  # noqa: S101 - the other layouts have no halo
        assert self._data is not None  # noqa: S101 - what is spread is held
        mine = Part(self._data, split, part, self.layout.axis, self._first(split.span(part)))
        received, sent = halo_moves(split, self.layout.halo, part)
        return (
            [Parcel(peer, mine.view(Stripe(span.start, span.rows))) for peer, span in received],
            [Parcel(peer, mine.view(Stripe(span.start, span.rows))) for peer, span in sent],
        )

    def gather(self) -> NDArray[Any] | None:
        """The whole array on rank 0 of ``job.comm``, None elsewhere; collective over the job."""
        comm = self._seat.team(f"{self.name}.gather").own
        one, (split, part) = even(self.rows, 1), self._spread()
        whole = np.empty(self.shape, self.dtype) if comm.rank == 0 else None
        new = None if whole is None else Part(whole, one, 0, self.layout.axis)
        way = Way(comm.rank, range(comm.size), [0])
        moves = parcels(self._part(self.local, split, part), new, way, split, one)
        what = f"the rows of array {self.name!r}"
        deliver(comm, self._seat.tag(self.name), iter([moves]), self._seat.wait, what, self._seat.alike)
        return whole

    # ---- moving -------------------------------------------------------------------------------------

    def _part(self, data: NDArray[Any], split: Split, part: int) -> Part:
        halo = self._first(split.span(part)) if isinstance(split, Cuts) else 0
        return Part(data, split, part, self.layout.axis, halo)

    def _room(self, split: Split, part: int) -> tuple[int, ...]:
        """The shape of ``local``."""
        rows = split.size(part)
        if isinstance(split, Cuts):
            rows = with_halo(split.span(part), self.layout.halo, self.rows).rows
        return tuple(rows if i == self.layout.axis else n for i, n in enumerate(self.shape))

    def begin(self) -> None:
        """Zeros for this rank's rows."""
        own = self._seat.team(f"array {self.name!r}").own
        self._held = self.layout.split(self.rows, own.size), own.rank
        self._data = np.zeros(self._room(*self._held), self.dtype)

    def describe(self) -> tuple[object, ...]:
        dtype = str(self.dtype) if self.dtype.names else self.dtype.str
        return (self.name, self.shape, dtype, self.layout, *(["constant"] if self.constant else []))

    def move(self, way: Way) -> Iterator[Parcels]:
        old_split = self.layout.split(self.rows, len(way.sources))
        new_split = self.layout.split(self.rows, len(way.targets))
        old = new = None
        self._before, self._data, self._held, self._halo = (self._data, self._held), None, None, None
        if way.old_part is not None and (held := self._before[0]) is not None:
            if held.shape != (shape := self._room(old_split, way.old_part)):
                raise ValueError(
                    f"the program has given its memory back: .local of shape {shape} is {held.shape} now"
                )
            old = self._part(held, old_split, way.old_part)
        if way.new_part is not None:
            self._held = new_split, way.new_part
            self._data = np.empty(self._room(*self._held), self.dtype)
            new = self._part(self._data, *self._held)
        yield parcels(old, new, way, old_split, new_split)

    @property
    def held_bytes(self) -> int:
        return 0 if self._data is None else self._data.nbytes

    def hold(self, data: NDArray[Any] | None, parts: int, part: int) -> None:
        """Without a job: ``data`` is this rank's part of so many, or nothing is held."""
        self._data, self._before = data, (None, None)
        self._held = None if data is None else (self.layout.split(self.rows, parts), part)

    def held_block(self) -> NDArray[Any] | None:
        """What this rank holds, with the halo; also without a job."""
        return self._data

    def undo(self) -> None:
        (self._data, self._held), self._before, self._halo = self._before, (None, None), None

    def settle(self) -> bool:
        """Whether the program still holds the block of before the last move.

        It would compute with old data, and write where nobody reads. So that this is seen, the block is filled
        with :func:`filler`, and what was handed out as ``local`` or ``owned`` is made read-only.
        """
        (old, _), self._before = self._before, (None, None)
        views, self._owned = [*self._owned.values()], WeakValueDictionary()
        if old is None:
            return False
        seen = ref(old)
        del old
        if (still := seen()) is None:
            return False
        spoil(still, views)
        return True

    def checksum(self) -> int:
        """Of the rows that this rank owns."""
        if self._data is None or self._held is None:
            return 0
        split, part = self._held
        first = self._part(self._data, split, part).halo
        index = [np.arange(n, dtype="u8") for n in self.shape]
        index[self.layout.axis] = row_numbers(split, part).astype("u8")
        mine = self._data[(*(slice(None),) * self.layout.axis, slice(first, first + split.size(part)))]
        return checksum(mine, index, self.shape)

    def total(self, checksums: Sequence[int]) -> object:
        """Of a replicated array each rank has to have the same."""
        return set(checksums) if isinstance(self.layout, Replicated) else super().total(checksums)


MOVES = ("_data", "_before", "_owned", "_halo", "_held")
"""What an array gives away when arrays change their data."""


def rotate(arrays: Sequence[Array]) -> None:
    """Each array takes the data of the one behind it, and the last those of the first; nothing is copied.

    ValueError unless they are two or more different arrays, alike in shape, dtype and layout, and none is constant.
    """
    names = ", ".join(repr(each.name) for each in arrays)
    if len({each.name for each in arrays}) < max(2, len(arrays)):
        raise ValueError(f"job.swap takes two or more different arrays, and these are: {names or 'none'}")
    first = arrays[0]
    for each in arrays:
        if (each.shape, each.dtype, each.layout) != (first.shape, first.dtype, first.layout):
            raise ValueError(
                f"job.swap: arrays {names} differ: {first.describe()} and {each.describe()}; "
                "only arrays of one shape, dtype and layout take each other's data"
            )
        if each.constant:
            raise ValueError(f"job.swap: array {each.name!r} was registered with constant=True")
    blocks = [{name: vars(each)[name] for name in MOVES} for each in arrays]
    for each, block in zip(arrays, [*blocks[1:], blocks[0]], strict=True):
        vars(each).update(block)


def shape_of(shape: Iterable[int] | int, what: str) -> tuple[int, ...]:
    """As NumPy takes it: one length, or one for each axis. ValueError if there is anything but whole numbers."""
    if isinstance(shape, Iterable):
        lengths: Iterable[int] = shape
    else:
        lengths = (shape,)
    try:
        return tuple(map(index, lengths))
    except TypeError:
        raise ValueError(f"{what}: {shape!r} is no shape, which has a whole number for each axis") from None


def row_numbers(split: Split, part: int) -> NDArray[np.int64]:
    """The rows that a part holds, ascending."""
    found = [
        (s.start + np.arange(s.times)[:, None] * s.step + np.arange(s.width)).reshape(-1)
        for s in split.held(part)
    ]
    return np.concatenate([np.empty(0, "i8"), *found]).astype("i8")


def spoil(old: NDArray[Any], views: list[NDArray[Any]]) -> None:
    """Fill it so that it is noticed, and lock it."""
    old.flags.writeable = True  # the program itself may have locked it
    if (value := filler(old.dtype)) is not None:
        old.fill(value)
    for view in (old, *views):
        view.flags.writeable = False


def filler(dtype: np.dtype[Any]) -> Any:
    """What nobody takes for data: NaN, NaT, the integer furthest from 0; None where a type has no such value."""
    match dtype.kind:
        case "f" | "c":
            return np.nan
        case "m" | "M":
            return np.array("NaT", dtype)[()]
        case "i":
            return np.iinfo(dtype).min
        case "u":
            return np.iinfo(dtype).max
        case _:
            return None
