"""Grids: arrays that are spread along several axes, over ranks that stand in a grid. Pure data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from operator import index
from typing import Any

from pliant.plan.data.splits import Cuts, even
from pliant.plan.data.spreads import Spread, SpreadAxis

BALANCED, SURFACE = "balanced", "surface"
Dims = str | Sequence[int] | Callable[[int], Sequence[int]]
"""How ranks stand in a grid: ``balanced``, ``surface``, lengths of which 0 are chosen, or a function of the ranks."""


@dataclass(frozen=True)
class Grid:
    """Blocks along several ``axes``, over ranks that stand in a grid with as many axes; it is chosen anew for each
    number of ranks.

    ``halo`` rows of the neighbours are kept beside a block on either side, at its edges and corners as well: one
    number, or one for each of ``axes``. Without ``corners`` only faces are exchanged. Where an axis is periodic, one
    of ``periods`` or all, its last row is followed by its first.

    ``dims`` says how many ranks stand along each of ``axes``:

    - ``"balanced"``: as equal as can be, the first not below the second, as the standard describes MPI_Dims_create;
    - ``"surface"``: so that the largest block has the smallest halo, for the array's shape;
    - numbers, of which those that are 0 are balanced: ``(0, 1)``;
    - a function of the number of ranks that returns them, written with ``def``, the same on all ranks.

    Raises ValueError for what is no grid.
    """

    axes: tuple[int, ...] = (0, 1)
    halo: int | tuple[int, ...] = 0
    periods: bool | tuple[bool, ...] = False
    dims: Dims = BALANCED
    corners: bool = True

    def __post_init__(self) -> None:
        axes = _whole(self.axes, "axes")
        if not axes or len(set(axes)) < len(axes) or min(axes) < 0:
            raise ValueError(f"mpi.Grid: axes are one or more different numbers, 0 or more, not {axes}")
        halos = _whole(_each(self.halo, axes), "halo")
        periods = tuple(map(bool, _each(self.periods, axes)))
        for name, some in (("halo", halos), ("periods", periods)):
            if len(some) != len(axes):
                raise ValueError(f"mpi.Grid: {name} has {len(some)} entries for {len(axes)} axes")
        if min(halos) < 0:
            raise ValueError(f"mpi.Grid: a halo of {min(halos)} rows; it must be 0 or more")
        dims = _checked_dims(self.dims, axes)
        for name, value in (("axes", axes), ("halo", halos), ("periods", periods), ("dims", dims)):
            object.__setattr__(self, name, value)

    @property
    def halos(self) -> tuple[int, ...]:
        """The halo along each of ``axes``."""
        assert isinstance(self.halo, tuple)  # noqa: S101 - it was made one
        return self.halo

    @property
    def periodic(self) -> tuple[bool, ...]:
        """Whether each of ``axes`` is periodic."""
        assert isinstance(self.periods, tuple)  # noqa: S101 - it was made one
        return self.periods

    def check(self, shape: Sequence[int]) -> None:
        """ValueError if it cannot be the layout of an array of this shape."""
        if max(self.axes) >= len(shape):
            raise ValueError(f"there is no axis {max(self.axes)}")
        for axis, halo, periodic in zip(self.axes, self.halos, self.periodic, strict=True):
            if periodic and halo > shape[axis]:
                raise ValueError(
                    f"a halo of {halo} rows goes around axis {axis} of {shape[axis]} rows more than once"
                )

    def dims_for(self, ranks: int, shape: Sequence[int]) -> tuple[int, ...]:
        """How many ranks stand along each of ``axes``; ValueError if so many ``ranks`` cannot stand so."""
        if callable(self.dims):
            try:
                said = self.dims(ranks)
            except Exception as error:
                raise ValueError(f"{self._function}({ranks}): {type(error).__name__}: {error}") from error
            dims = _whole(said, "dims")
            if len(dims) != len(self.axes) or prod(dims) != ranks or min(dims) < 1:
                raise ValueError(f"{self._function}({ranks}) returned {dims}, which are not {ranks} ranks")
            return dims
        if self.dims == SURFACE:
            return self._least_surface(ranks, shape)
        fixed = (0,) * len(self.axes) if isinstance(self.dims, str) else tuple(self.dims)
        rest, missing = divmod(ranks, prod(filter(None, fixed)))
        if missing or (0 not in fixed and rest != 1):
            raise ValueError(
                f"{ranks} ranks cannot stand in a grid of {' x '.join(str(n or 'any') for n in fixed)}"
            )
        free = iter(balanced(rest, fixed.count(0)))
        return tuple(length or next(free) for length in fixed)

    def _least_surface(self, ranks: int, shape: Sequence[int]) -> tuple[int, ...]:
        """By the cells of the largest block's halo; of equal ones the one that leaves no rank empty, then the most
        balanced."""
        lengths = [shape[axis] for axis in self.axes]
        widths = [halo or 1 for halo in self.halos]

        def cost(dims: tuple[int, ...]) -> tuple[Any, ...]:
            block = [-(-rows // parts) for rows, parts in zip(lengths, dims, strict=True)]
            seen = [
                rows + width * _sides(parts, periodic=periodic)
                for rows, width, parts, periodic in zip(block, widths, dims, self.periodic, strict=True)
            ]
            empty = any(parts > rows for rows, parts in zip(lengths, dims, strict=True))
            return empty, prod(seen) - prod(block), max(dims) - min(dims), tuple(-each for each in dims)

        return min(factorisations(ranks, len(lengths)), key=cost)

    def spread(self, shape: Sequence[int], ranks: int) -> Spread:
        """An array of this shape over so many ranks."""
        dims = dict(zip(self.axes, self.dims_for(ranks, shape), strict=True))
        halos = dict(zip(self.axes, self.halos, strict=True))
        periodic = dict(zip(self.axes, self.periodic, strict=True))
        return Spread(
            tuple(
                SpreadAxis(even(rows, dims[axis]), halos[axis], periodic[axis])
                if axis in dims
                else SpreadAxis(Cuts((0, rows)))
                for axis, rows in enumerate(shape)
            ),
            (*self.axes, *(axis for axis in range(len(shape)) if axis not in dims)),
        )

    @property
    def _function(self) -> str:
        assert callable(self.dims)  # noqa: S101 - who asks has looked
        return f"{self.dims.__module__}.{self.dims.__qualname__}"

    def __repr__(self) -> str:
        dims = self._function if callable(self.dims) else self.dims
        return f"Grid({self.axes}, halo={self.halo}, periods={self.periods}, dims={dims}, corners={self.corners})"


def _checked_dims(dims: Dims, axes: tuple[int, ...]) -> Dims:
    if isinstance(dims, str):
        if dims not in {BALANCED, SURFACE}:
            raise ValueError(
                f"mpi.Grid: dims are {BALANCED!r}, {SURFACE!r}, numbers or a function, not {dims!r:.60}"
            )
        return dims
    if callable(dims):
        if not hasattr(dims, "__qualname__"):  # its text has an address, which differs from rank to rank
            raise ValueError(f"mpi.Grid: dims is a function with a name, not {dims!r:.60}; write it with def")
        return dims
    lengths = _whole(dims, "dims")
    if len(lengths) != len(axes) or min(lengths) < 0:
        raise ValueError(f"mpi.Grid: dims {lengths} need a number, 0 or more, for each of the axes {axes}")
    return lengths


def _sides(parts: int, *, periodic: bool) -> int:
    """On how many sides an inner block has neighbours."""
    return 2 if periodic else min(2, parts - 1)


def _each(value: Any, axes: Sequence[int]) -> Any:
    """It for each of the axes, if it is one for all."""
    return tuple(value) if isinstance(value, Iterable) else (value,) * len(axes)


def _whole(values: Any, what: str) -> tuple[int, ...]:
    try:
        return tuple(map(index, values))
    except TypeError:
        raise ValueError(f"mpi.Grid: {what} are whole numbers, as (0, 1), not {values!r:.60}") from None


# ---- how ranks stand ------------------------------------------------------------------------------------


def balanced(ranks: int, axes: int) -> tuple[int, ...]:
    """So many ranks along so many axes, as equal as can be, none below the next: Träff and Lübbe 2015, "Specification
    guideline violations by MPI_Dims_create", who read that in the standard. () for no axes."""
    every = {tuple(sorted(dims, reverse=True)) for dims in factorisations(ranks, axes)}
    return min(every, key=lambda dims: (max(dims, default=0) - min(dims, default=0), dims))


@cache
def factorisations(number: int, factors: int) -> tuple[tuple[int, ...], ...]:
    """All ways to write ``number`` as a product of so many factors, in order."""
    return tuple(_factorisations(number, factors))


def _factorisations(number: int, factors: int) -> Iterator[tuple[int, ...]]:
    if factors == 0:
        yield ()
    elif factors == 1:
        yield (number,)
    else:
        for first in _divisors(number):
            for rest in _factorisations(number // first, factors - 1):
                yield (first, *rest)


def _divisors(number: int) -> list[int]:
    low = [each for each in range(1, int(number**0.5) + 1) if number % each == 0]
    return low + [number // each for each in reversed(low) if each * each != number]
