"""Arrays that are spread over the ranks, and follow the job through its resizes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import prod
from operator import index
from typing import Any, NamedTuple
from weakref import WeakValueDictionary, ref

import numpy as np
from mpi4py import MPI
from numpy.typing import DTypeLike, NDArray

from pliant.model.errors import PliantError
from pliant.mpi.cart import Cart
from pliant.mpi.data.alike import Alike, compare
from pliant.mpi.data.delivery import CHANGE, GATHER, HALO
from pliant.mpi.data.halo import NOTHING, HaloExchange, HaloViews
from pliant.mpi.data.movable import Copy, Movable, Parcel, Parcels, Way
from pliant.mpi.data.transport import deliver
from pliant.mpi.data.uses import Uses
from pliant.mpi.data.verify import checksum
from pliant.mpi.team import Team
from pliant.mpi.wait import Look, Wait
from pliant.plan.data.grids import Grid
from pliant.plan.data.layouts import BlockCyclic, Layout, Replicated, check, spread
from pliant.plan.data.splits import Copies, Cuts, RowRange, Split, Stripe, even
from pliant.plan.data.spreads import Patch, Spread, SpreadAxis, halo_moves
from pliant.plan.data.traffic import traffic


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
    """Part ``part`` of an array that is spread like this: ``data`` is what it holds, with the halo."""

    data: NDArray[Any]
    spread: Spread
    part: int

    def view(self, patch: Patch) -> NDArray[Any]:
        """These cells, given by their rows in the whole. An axis with several stripes becomes two."""
        placed = self.spread.place(self.part, patch)
        view = self.data[tuple(slice(each.start, _behind(each)) for each in placed)]
        if all(stripe.times == 1 for stripe in placed):
            return view
        shape, strides = [], []
        for stripe, stride in zip(placed, view.strides, strict=True):
            shape += [stripe.width] if stripe.times == 1 else [stripe.times, stripe.width]
            strides += [stride] if stripe.times == 1 else [stripe.step * stride, stride]
        return np.lib.stride_tricks.as_strided(view, shape, strides)


def _behind(stripe: Stripe) -> int:
    """The first row behind it."""
    return stripe.start + (stripe.times - 1) * stripe.step + stripe.width


def parcels(old: Part | None, new: Part | None, way: Way, old_spread: Spread, new_spread: Spread) -> Parcels:
    """What takes an array from one spread to another, on this rank: ``old`` is what it has, ``new`` what it fills. Of
    arrays of different shapes what is in both is moved."""
    shape = tuple(map(min, old_spread.shape, new_spread.shape))
    both = old_spread.clipped(shape), new_spread.clipped(shape)
    plan, plain = traffic(*both, way.sources, way.targets, way.rank), _plain(old_spread, new_spread)

    def there(part: Part | None, near: int, peer: int) -> list[Parcel]:
        """What this rank has at the end ``near`` of moves (0: source, 1: target) and ``peer`` at the other."""
        return [
            Parcel(move[:2][peer], part.view(patch), plain and _is_one(patch))
            for move in plan.moves
            if part and move[near] == way.rank
            for patch in move.patches
        ]

    kept = [patch for move in plan.kept for patch in move.patches]
    copies = [Copy(old.view(patch), new.view(patch)) for patch in kept if old and new]
    return Parcels(there(old, 0, 1), there(new, 1, 0), copies)


def _plain(old: Spread, new: Spread) -> bool:
    """Whether what moves is contiguous on both sides, but for stripes: only the first axis that has several rows is
    divided or has a halo, or is of different lengths."""
    axes = [*zip(old.axes, new.axes, strict=True)]
    first = next((number for number, (one, other) in enumerate(axes) if max(one.rows, other.rows) > 1), 0)
    return all(
        one.split.parts == other.split.parts == 1
        and not one.halo
        and not other.halo
        and one.rows == other.rows
        for one, other in axes[first + 1 :]
    )


def _is_one(patch: Patch) -> bool:
    return all(stripe.times == 1 for stripe in patch)


class ArrayForm(NamedTuple):
    """What a program has made of an array: its shape and layout now, and the layout that it takes at a resize."""

    shape: tuple[int, ...]
    layout: Layout
    later: Layout | None = None

    @property
    def kind(self) -> tuple[object, ...]:
        """Equal for equal forms alone: layouts of different classes may be equal as tuples."""
        return self, type(self.layout), type(self.later)


class Array(Movable):
    """One distributed array; made by ``job.array``, never directly.

    A rank *owns* the cells that the layout gives it; it may be none. ``local`` is those and, beyond them, up to
    ``halo`` rows on either side of the axes that are spread. At the two ends of the whole array there is no halo,
    unless the axis is periodic.
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
        lengths = shape_of(shape, f"array {name!r}")
        if self.dtype.subdtype is not None:
            self.dtype, more = self.dtype.subdtype
            lengths += more
        self.constant = constant
        self._seat, self._uses = seat, seat.uses
        self._data: NDArray[Any] | None = None
        self._hidden: NDArray[Any] | None = None
        self._held: HeldPart | None = None
        self._before = _Before()
        self._owned: WeakValueDictionary[int, NDArray[Any]] = WeakValueDictionary()
        self._halo: HaloViews | None = None
        self._exchange: HaloExchange | None = None
        self._registered = self.now = ArrayForm(lengths, layout)
        """As all ranks have registered it, and as it is."""
        if self.dtype.hasobject:
            raise ValueError(f"array {name!r}: dtype {self.dtype} holds Python objects, which cannot be sent")
        self._check(self.now)

    def _check(self, form: ArrayForm) -> None:
        """ValueError or TypeError if the array cannot be this."""
        if any(length < 0 for length in form.shape):
            raise ValueError(f"array {self.name!r}: {form.shape} is no shape")
        for layout in (form.layout, form.later or form.layout):
            if not isinstance(layout, Layout):
                raise TypeError(f"array {self.name!r}: {layout!r} is no layout; mpi.Block() is one")
            try:
                check(layout, form.shape)
            except ValueError as error:
                raise ValueError(f"array {self.name!r} of shape {form.shape}: {error}") from None

    def _check_sendable(self, layout: Layout) -> None:
        """TypeError if a newcomer could not be given the layout."""
        if isinstance(layout, Grid) and callable(layout.dims):
            try:
                pickle.dumps(layout)
            except (pickle.PicklingError, AttributeError, TypeError) as error:
                raise TypeError(
                    f"array {self.name!r}: its layout cannot be pickled, as it has to be for a rank that joins later: "
                    f"{error}; give it a function that stands at the top of a module"
                ) from None

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the whole array."""
        return self.now.shape

    @property
    def layout(self) -> Layout:
        """How it is spread."""
        return self.now.layout

    @property
    def most_ranks(self) -> int | None:
        """With more of them some own nothing, and in a grid perhaps with fewer; None where all own all."""
        if isinstance(self.layout, Replicated):
            return None
        axes = self.layout.axes if isinstance(self.layout, Grid) else (self.layout.axis,)
        return max(1, prod(self.shape[axis] for axis in axes))

    # ---- where things are ---------------------------------------------------------------------------

    def _mine(self) -> HeldPart:
        """How it is over the job's ranks, and which part is this rank's."""
        self._seat.team(f"the part of array {self.name!r}")
        if self._held is None:
            raise RuntimeError(f"array {self.name!r} has no data on this rank")
        return self._held

    def owned_box(self) -> tuple[RowRange, ...]:
        """What this rank owns, as a range of rows of the whole array for each of its axes; ValueError if they are not
        consecutive."""
        spread, part, _ = self._mine()
        return tuple(self._range(axis, at) for axis, at in _places(spread, part))

    def _range(self, axis: SpreadAxis, at: int) -> RowRange:
        if isinstance(axis.split, Cuts):
            return axis.split.span(at)
        if isinstance(axis.split, Copies):
            return RowRange(0, axis.rows)
        raise ValueError(
            f"the rows that a rank owns of array {self.name!r} are not consecutive: ask row_numbers()"
        )

    def owned_rows(self) -> RowRange:
        """The rows this rank owns, as numbers of the whole array; ValueError if they are not consecutive, or along
        several axes."""
        return self._range(*self._one_axis())

    def row_numbers(self) -> NDArray[np.int64]:
        """The number in the whole array of each row that this rank owns, ascending; ValueError if it is spread along
        several axes."""
        axis, at = self._one_axis()
        return row_numbers(axis.split, at)

    def _one_axis(self) -> tuple[SpreadAxis, int]:
        """The axis that is spread, and where this rank stands there."""
        spread, part, _ = self._mine()
        if isinstance(self.layout, Grid):
            raise ValueError(f"array {self.name!r} is spread along {self.layout.axes}: ask owned_box()")
        return [*_places(spread, part)][self.layout.axis]

    @property
    def local(self) -> NDArray[Any]:
        """This rank's cells with the halo: writable, and a new array after every resize, so take it in each step.

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
        cyclic layout and where a halo goes around a periodic axis: these rows are numbered one by one."""
        return _index([_rows_seen(axis, at) for axis, at in _places(*self._mine()[:2])])

    @property
    def owned(self) -> NDArray[Any]:
        """The part of ``local`` that this rank owns: a view without the halo. As ``local``, it is not to be kept."""
        view = self.local[self._mine().inside]
        self._owned[id(view)] = view
        return view

    @property
    def owned_index(self) -> tuple[Any, ...]:
        """Where ``owned`` lies in the whole array, as ``index``."""
        return _index([_rows_owned(axis, at) for axis, at in _places(*self._mine()[:2])])

    @property
    def grid(self) -> tuple[tuple[int, ...], tuple[bool, ...]]:
        """How many ranks stand along each axis that is spread, and which of these are periodic; ValueError if the array
        is not in blocks."""
        spread, layout = self._mine().spread, self.layout
        if isinstance(layout, Replicated | BlockCyclic):
            raise ValueError(f"array {self.name!r} is not in blocks: its ranks stand in no grid")
        axes = layout.axes if isinstance(layout, Grid) else (layout.axis,)
        return tuple(spread.dims[axis] for axis in axes), tuple(spread.axes[axis].periodic for axis in axes)

    @property
    def cart(self) -> Cart:
        """The ranks as they stand for this array, as a Cartesian communicator with those of its rows and columns: see
        :class:`mpi.Cart`. Collective at its first use after a resize; ValueError if the array is not in blocks."""
        return self._seat.team(f"{self.name}.cart").cart(*self.grid, self._seat.wait)

    def hide(self) -> None:
        """This rank has joined the job, and is not in its loop yet: nothing of the array can be had."""
        self._hidden, self._data = self._data, None

    def show(self) -> None:
        """It is in its loop."""
        self._data, self._hidden = self._hidden, None

    # ---- halos, and the whole -----------------------------------------------------------------------

    def exchange_halo(self) -> None:
        """Fill the halo with the cells of their owners; collective over the job."""
        self._begin_exchange("exchange_halo").wait()

    def iexchange_halo(self) -> HaloExchange:
        """Begin to fill the halo, and go on: call ``wait()`` of what is returned before the halo is read, before cells
        beside it are changed, and before the step ends. Collective over the job."""
        self._exchange = self._begin_exchange("iexchange_halo")
        return self._exchange

    def _begin_exchange(self, call: str) -> HaloExchange:
        team, seat, data = self._seat.team(f"{self.name}.{call}"), self._seat, self.local
        self.check_complete(call)
        if self._halo is None:
            corners = not isinstance(self.layout, Grid) or self.layout.corners
            spread, part, _ = self._mine()
            self._halo = HaloViews.of(data, halo_moves(spread, part, corners=corners))
        if not any(self._halo):
            return NOTHING
        tag = seat.tag(self.name) + HALO
        return HaloExchange(self.name, self._halo, team.own, tag, seat.wait, seat.alike)

    def check_complete(self, call: str) -> None:
        """PliantError if a halo is under way."""
        if self._exchange is not None and not self._exchange.complete:
            raise PliantError(
                f"{call} of array {self.name!r}: its halo is under way since iexchange_halo(); call its wait() first"
            )
        self._exchange = None

    def gather(self) -> NDArray[Any] | None:
        """The whole array on rank 0 of ``job.comm``, None elsewhere; collective over the job."""
        comm = self._seat.team(f"{self.name}.gather").own
        spread, part, _ = self._mine()
        one = Spread(tuple(SpreadAxis(even(rows, 1)) for rows in self.shape))
        whole = np.empty(self.shape, self.dtype) if comm.rank == 0 else None
        new = None if whole is None else Part(whole, one, 0)
        way = Way(comm.rank, range(comm.size), [0])
        moves = parcels(Part(self.local, spread, part), new, way, spread, one)
        self._deliver(comm, moves, GATHER)
        return whole

    def _deliver(self, comm: MPI.Intracomm, moves: Parcels, call: int) -> None:
        tag, what = self._seat.tag(self.name) + call, f"the cells of array {self.name!r}"
        deliver(comm, tag, iter([moves]), self._seat.wait, what, self._seat.alike)

    # ---- another layout or shape --------------------------------------------------------------------

    def to(self, layout: Layout, *, at_resize: bool = False) -> None:
        """Take another layout: the data move, and halos are filled; collective over the job, all ranks call it alike.

        The array keeps that layout over resizes, until it takes another. With ``at_resize`` nothing moves now: the
        next resize takes the array there, as for weights that have changed, unless :meth:`to` or :meth:`resize` is
        called before. Take ``local`` and ``owned`` anew afterwards. The old ones are read-only. Views that the program
        made of them stay writable, but are no part of the array.

        Raises ValueError for a layout that does not cover the array, PliantError for a constant one, and PliantError on
        all ranks if they do not call it alike.
        """
        if at_resize:
            _, self.now = self._agree(lambda: self.now._replace(later=layout), "to")
            return
        self._change(lambda: ArrayForm(self.shape, layout), "to")

    def resize(self, shape: Iterable[int] | int, layout: Layout | None = None) -> None:
        """Take another shape, of as many axes, and perhaps another layout: cells that are in both keep what they hold,
        and new ones are zero. Otherwise as :meth:`to`."""
        self._change(lambda: self._resized(shape, layout), "resize")

    def _resized(self, shape: Iterable[int] | int, layout: Layout | None) -> ArrayForm:
        lengths = shape_of(shape, f"array {self.name!r}")
        if len(lengths) != len(self.shape):
            raise ValueError(f"array {self.name!r} of shape {self.shape} cannot be resized to {lengths}")
        return ArrayForm(lengths, layout or self.layout)

    def _agree(self, make: Callable[[], ArrayForm], call: str) -> tuple[MPI.Intracomm, ArrayForm]:
        """The ranks, and the form that ``make`` gives, if the array may take it, alike on all of them."""
        seat, comm = self._seat, self._seat.team(f"{self.name}.{call}").own
        if self._uses.on:
            self._uses.note(self.name)
        form = self._allowed(make, call, comm.size)
        wrong = isinstance(form, Exception)
        mine, what = f"what is refused: {form}" if wrong else repr(form), f"{call}() of array {self.name!r}"
        compare(comm, seat.tag(self.name) + CHANGE, mine, what, seat.wait, seat.alike)
        if isinstance(form, Exception):
            raise form
        return comm, form

    def _allowed(self, make: Callable[[], ArrayForm], call: str, ranks: int) -> ArrayForm | Exception:
        """The form, or why this rank refuses it, which the others are to hear before it is raised."""
        try:
            self.check_complete(call)
            if self.constant:
                raise PliantError(f"{call}: array {self.name!r} was registered with constant=True")
            form = make()
            self._check(form)
            self._check_sendable(form.later or form.layout)
            self._spread(form, ranks)
        except (PliantError, ValueError, TypeError) as error:
            return error
        return form

    def _change(self, make: Callable[[], ArrayForm], call: str) -> None:
        comm, form = self._agree(make, call)
        old, part, _ = self._mine()
        new = self._spread(form, comm.size)
        data = np.zeros(new.local_shape(comm.rank), self.dtype)
        ranks = range(comm.size)
        mine = Part(self.local, old, part), Part(data, new, comm.rank)
        self._deliver(comm, parcels(*mine, Way(comm.rank, ranks, ranks), old, new), CHANGE)
        for view in (self.local, *self._owned.values()):
            view.flags.writeable = False
        self._data, self._held, self._halo, self.now = data, HeldPart.of(new, comm.rank), None, form
        self._owned = WeakValueDictionary()
        self.exchange_halo()

    @property
    def changed(self) -> ArrayForm | None:
        """What the program has made of it, for ranks that join; None if it is as it was registered."""
        return None if self.now is self._registered else self.now

    def take_form(self, form: ArrayForm) -> None:
        """Be what the job's array is, on a rank that joins."""
        self.now = ArrayForm(*form)

    # ---- moving -------------------------------------------------------------------------------------

    def _spread(self, form: ArrayForm, parts: int) -> Spread:
        try:
            return spread(form.layout, form.shape, parts)
        except ValueError as error:
            raise ValueError(
                f"array {self.name!r}: {error}: give other dims, or keep to sizes that fit, as by "
                "mpi.malleable(factor=2)"
            ) from None

    def begin(self) -> None:
        """Zeros for this rank's cells."""
        own = self._seat.team(f"array {self.name!r}").own
        self._held = HeldPart.of(self._spread(self.now, own.size), own.rank)
        self._data = np.zeros(self._held.spread.local_shape(own.rank), self.dtype)

    def describe(self) -> tuple[object, ...]:
        """As it was registered: a newcomer knows that alone."""
        dtype, (shape, layout, _) = self.dtype, self._registered
        return (
            self.name, shape, str(dtype) if dtype.names else dtype.str, layout,
            *(["constant"] if self.constant else []),
        )  # fmt: skip

    def move(self, way: Way) -> Iterator[Parcels]:
        form = self.now
        self._before = _Before(self._data, self._held, form)
        self.check_complete("a resize")
        after = ArrayForm(form.shape, form.later or form.layout)
        old_spread, new_spread = self._spread(form, len(way.sources)), self._spread(after, len(way.targets))
        old = new = None
        self._data = self._held = self._halo = None
        self.now = after if form.later else form
        if way.old_part is not None and (held := self._before.data) is not None:
            if held.shape != (shape := old_spread.local_shape(way.old_part)):
                raise ValueError(
                    f"the program has given its memory back: .local of shape {shape} is {held.shape} now"
                )
            old = Part(held, old_spread, way.old_part)
        if way.new_part is not None:
            self._held = HeldPart.of(new_spread, way.new_part)
            self._data = np.empty(new_spread.local_shape(way.new_part), self.dtype)
            new = Part(self._data, new_spread, way.new_part)
        yield parcels(old, new, way, old_spread, new_spread)

    @property
    def held_bytes(self) -> int:
        return 0 if self._data is None else self._data.nbytes

    def hold(self, data: NDArray[Any] | None, parts: int, part: int) -> None:
        """Without a job: ``data`` is this rank's part of so many, or nothing is held."""
        self._data, self._before = data, _Before()
        self._held = None if data is None else HeldPart.of(self._spread(self.now, parts), part)

    def held_block(self) -> NDArray[Any] | None:
        """What this rank holds, with the halo; also without a job."""
        return self._data

    def undo(self) -> None:
        self._data, self._held, form = self._before
        self.now = form or self.now
        self._before, self._halo = _Before(), None

    def settle(self) -> bool:
        """Whether the program still holds the block of before the last move.

        It would compute with old data, and write where nobody reads. So that this is seen, the block is filled
        with :func:`filler`, and what was handed out as ``local`` or ``owned`` is made read-only.
        """
        old, self._before = self._before.data, _Before()
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
        """Of the cells that this rank owns."""
        if self._data is None or self._held is None:
            return 0
        spread, part, inside = self._held
        rows = [row_numbers(axis.split, at).astype("u8") for axis, at in _places(spread, part)]
        return checksum(self._data[inside], rows, self.shape)

    def total(self, checksums: Sequence[int]) -> object:
        """Of a replicated array each rank has to have the same."""
        return set(checksums) if isinstance(self.layout, Replicated) else super().total(checksums)


class HeldPart(NamedTuple):
    """Part ``part`` of an array: what it owns is ``inside`` of what it holds."""

    spread: Spread
    part: int
    inside: tuple[slice, ...]

    @classmethod
    def of(cls, spread: Spread, part: int) -> HeldPart:
        both = zip(spread.before(part), spread.owned_shape(part), strict=True)
        return cls(spread, part, tuple(slice(first, first + rows) for first, rows in both))


class _Before(NamedTuple):
    """What an array held before the last move, and what it was."""

    data: NDArray[Any] | None = None
    held: HeldPart | None = None
    form: ArrayForm | None = None


def _places(spread: Spread, part: int) -> Iterator[tuple[SpreadAxis, int]]:
    """Each axis, with where the part stands along it."""
    return zip(spread.axes, spread.coordinates(part), strict=True)


def _rows_owned(axis: SpreadAxis, at: int) -> slice | NDArray[Any]:
    match axis.split:
        case Cuts():
            return slice(*axis.split.span(at))
        case Copies():
            return slice(0, axis.rows)
        case _:
            return row_numbers(axis.split, at)


def _rows_seen(axis: SpreadAxis, at: int) -> slice | NDArray[Any]:
    if not isinstance(axis.split, Cuts):
        return _rows_owned(axis, at)
    start, stop = axis.window(at)
    return slice(start, stop) if start >= 0 and stop <= axis.rows else np.arange(start, stop) % axis.rows


def _index(rows: list[slice | NDArray[Any]]) -> tuple[Any, ...]:
    """The rows of each axis, as NumPy takes several of them."""
    if sum(not isinstance(each, slice) for each in rows) < 2:
        return tuple(rows)
    return np.ix_(*(np.arange(each.start, each.stop) if isinstance(each, slice) else each for each in rows))


MOVES = ("_data", "_before", "_owned", "_halo", "_held", "_exchange")
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
        if (each.dtype, each.now.kind) != (first.dtype, first.now.kind):
            raise ValueError(
                f"job.swap: arrays {first.name!r} and {each.name!r} differ: {first.now.shape}, {first.dtype}, "
                f"{first.now.layout} and {each.now.shape}, {each.dtype}, {each.now.layout}; "
                "only arrays of one shape, dtype and layout take each other's data"
            )
        each.check_complete("job.swap")
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
