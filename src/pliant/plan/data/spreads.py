"""How an array is spread over ranks: a split of each of its axes, with halos. Pure data.

The parts stand in a grid, with a length for each axis; their numbers are row-major, as those of MPI_Cart_create.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from pliant.plan.data.splits import Copies, Cuts, RowRange, Split, Stripe

Patch = tuple[Stripe, ...]
"""Cells of an array: those whose rows along each axis are in that axis' stripe."""


class SpreadAxis(NamedTuple):
    """One axis: how its rows are split, and how many rows of halo a part has on either side.

    Where it is ``periodic`` its last row is followed by its first. Only consecutive parts have a halo.
    """

    split: Split
    halo: int = 0
    periodic: bool = False

    @property
    def rows(self) -> int:
        """The length of the whole axis."""
        return self.split.at[-1] if isinstance(self.split, Cuts) else self.split.rows

    def window(self, coordinate: int) -> RowRange:
        """The rows that the parts at this ``coordinate`` see: their own and the halo; none where they own none.

        A window of a periodic axis may begin below row 0 and end behind the last row.
        """
        if not isinstance(self.split, Cuts):
            return RowRange(0, self.split.size(coordinate))
        own = self.split.span(coordinate)
        if not own.rows:
            return own
        low, high = own.start - self.halo, own.stop + self.halo
        return RowRange(low, high) if self.periodic else RowRange(max(0, low), min(self.rows, high))

    def before(self, coordinate: int) -> int:
        """How many rows of halo come before its own."""
        if not isinstance(self.split, Cuts):
            return 0
        return self.split.at[coordinate] - self.window(coordinate).start


class Spread(NamedTuple):
    """An array over parts: ``axes`` has one entry for each axis of the array. Numbers of parts are row-major over the
    axes in this ``order``; default: as they come."""

    axes: tuple[SpreadAxis, ...]
    order: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the whole array."""
        return tuple(axis.rows for axis in self.axes)

    @property
    def dims(self) -> tuple[int, ...]:
        """How many parts there are along each axis of the array."""
        return tuple(axis.split.parts for axis in self.axes)

    @property
    def parts(self) -> int:
        return prod(self.dims)

    @property
    def replicated(self) -> bool:
        """Whether each part holds all of it."""
        return any(isinstance(axis.split, Copies) for axis in self.axes)

    def coordinates(self, part: int) -> tuple[int, ...]:
        """Where a part stands in the grid of parts."""
        dims, found = self.dims, [0] * len(self.axes)
        for axis in reversed(self.order or range(len(dims))):
            part, found[axis] = divmod(part, dims[axis])
        return tuple(found)

    def part_at(self, coordinates: Sequence[int]) -> int:
        """The number of the part that stands there."""
        dims, part = self.dims, 0
        for axis in self.order or range(len(dims)):
            part = part * dims[axis] + coordinates[axis]
        return part

    def size(self, part: int) -> int:
        """How many cells a part owns."""
        return prod(self.owned_shape(part))

    def owned_shape(self, part: int) -> tuple[int, ...]:
        """The lengths of what a part owns."""
        return tuple(axis.split.size(at) for axis, at in zip(self.axes, self.coordinates(part), strict=True))

    def local_shape(self, part: int) -> tuple[int, ...]:
        """The lengths of what a part owns, with the halo. It has no cells where it owns none."""
        return tuple(axis.window(at).rows for axis, at in zip(self.axes, self.coordinates(part), strict=True))

    def before(self, part: int) -> tuple[int, ...]:
        """Where what a part owns begins in what it holds."""
        return tuple(axis.before(at) for axis, at in zip(self.axes, self.coordinates(part), strict=True))

    def held(self, part: int) -> Iterator[Patch]:
        """The cells that a part owns; none is in two of the patches."""
        at = self.coordinates(part)
        return product(*(axis.split.held(here) for axis, here in zip(self.axes, at, strict=True)))

    def place(self, part: int, patch: Patch) -> Patch:
        """Where these cells are in what the part holds, with the halo."""
        found = []
        for axis, here, stripe in zip(self.axes, self.coordinates(part), patch, strict=True):
            placed = axis.split.place(here, stripe)
            found.append(placed._replace(start=placed.start + axis.before(here)))
        return tuple(found)

    def clipped(self, shape: Sequence[int]) -> Spread:
        """What of it is within an array of this ``shape``, of the same parts; without halos."""
        return Spread(
            tuple(SpreadAxis(axis.split.clipped(rows)) for axis, rows in zip(self.axes, shape, strict=True)),
            self.order,
        )


def line(split: Split) -> Spread:
    """An array with this split of its only axis."""
    return Spread((SpreadAxis(split),))


def along(split: Split, axis: int, shape: Sequence[int], halo: int = 0) -> Spread:
    """An array of this ``shape`` whose ``axis`` is split; of the other axes each part has all."""
    whole = [SpreadAxis(Cuts((0, rows))) for rows in shape]
    whole[axis] = SpreadAxis(split, halo)
    return Spread(tuple(whole))


# ---- halos ----------------------------------------------------------------------------------------------


class Segment(NamedTuple):
    """Rows of a window: those from ``start`` up to ``stop`` of what the part sees, which the parts at coordinate
    ``owner`` own as their rows from ``first`` on, counted from the first that they own. ``own``: the part's own."""

    owner: int
    start: int
    stop: int
    first: int
    own: bool = False


class HaloMove(NamedTuple):
    """Cells that ``peer`` sends, or is sent: where they lie in what this part holds."""

    peer: int
    at: tuple[slice, ...]


class HaloMoves(NamedTuple):
    """What a part receives for its halo, what it sends for those of others, and what it copies, as (from, to): at a
    periodic axis a part may be its own neighbour. Each pair of parts has its moves in one order on both sides."""

    received: list[HaloMove]
    sent: list[HaloMove]
    copied: list[tuple[tuple[slice, ...], tuple[slice, ...]]]


def halo_moves(spread: Spread, part: int, *, corners: bool = True) -> HaloMoves:
    """How the halo of ``part`` is filled. A halo may be deeper than a neighbour's part: it has cells of several then.

    Without ``corners`` only the cells come that lie beside a part along one axis: faces, and no edges or corners. Parts
    without cells see and send none.
    """
    mine, moves = spread.coordinates(part), HaloMoves([], [], [])
    if not spread.size(part) or not any(axis.halo for axis in spread.axes):
        return moves
    before = spread.before(part)
    seen = [_segments(axis, here) for axis, here in zip(spread.axes, mine, strict=True)]
    for combined in product(*seen):
        if not _is_halo(combined, corners=corners):
            continue
        owner = tuple(segment.owner for segment in combined)
        here = tuple(slice(segment.start, segment.stop) for segment in combined)
        if owner == mine:
            moves.copied.append((_owned(combined, before), here))
        else:
            moves.received.append(HaloMove(spread.part_at(owner), here))
    for requested in product(*(_requested(axis, here) for axis, here in zip(spread.axes, mine, strict=True))):
        combined, peer = tuple(segment for _, segment in requested), tuple(there for there, _ in requested)
        if peer != mine and _is_halo(combined, corners=corners):
            moves.sent.append(HaloMove(spread.part_at(peer), _owned(combined, before)))
    return moves


def _is_halo(segments: tuple[Segment, ...], *, corners: bool) -> bool:
    outside = sum(not segment.own for segment in segments)
    return outside == 1 or (corners and outside > 1)


def _owned(segments: tuple[Segment, ...], before: tuple[int, ...]) -> tuple[slice, ...]:
    """Where these lie in what their owner holds, which has so many rows of halo ``before`` its own."""
    firsts = [segment.first + rows for segment, rows in zip(segments, before, strict=True)]
    return tuple(
        slice(first, first + segment.stop - segment.start)
        for segment, first in zip(segments, firsts, strict=True)
    )


def _segments(axis: SpreadAxis, coordinate: int) -> list[Segment]:
    """What the parts at ``coordinate`` see of an axis, in its order."""
    split, (low, high) = axis.split, axis.window(coordinate)
    assert isinstance(split, Cuts)  # noqa: S101 - others have no halo
    own = split.span(coordinate)
    if not own.rows:
        return []
    return [
        *_around(axis, split, RowRange(low, own.start), low),
        Segment(coordinate, own.start - low, own.stop - low, 0, own=True),
        *_around(axis, split, RowRange(own.stop, high), low),
    ]


def _around(axis: SpreadAxis, split: Cuts, span: RowRange, low: int) -> Iterator[Segment]:
    """The halo ``span`` of a window that begins at row ``low``; it may go around a periodic axis."""
    rows = axis.rows
    for turn in range(span.start // rows, (span.stop - 1) // rows + 1):
        base = turn * rows
        for found, owner in split.runs(max(span.start - base, 0), min(span.stop - base, rows)):
            at = base + found.start - low
            yield Segment(owner, at, at + found.rows, found.start - split.at[owner])


def _requested(axis: SpreadAxis, coordinate: int) -> list[tuple[int, Segment]]:
    """For each neighbouring coordinate, the rows of ``coordinate`` in its window. Neighbours see each other."""
    neighbours = dict.fromkeys(segment.owner for segment in _segments(axis, coordinate))
    return [
        (there, segment)
        for there in neighbours
        for segment in _segments(axis, there)
        if segment.owner == coordinate
    ]
