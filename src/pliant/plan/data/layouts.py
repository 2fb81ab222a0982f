"""Layouts: how an array is spread, for any number of ranks. Pure data.

All but a grid spread the rows of one axis. A rank may be left without rows: there may be more ranks than rows.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from operator import index
from typing import NamedTuple, SupportsIndex
from zlib import crc32

from pliant.plan.data.grids import Grid
from pliant.plan.data.splits import Copies, Cuts, Cycle, at_least_one, even
from pliant.plan.data.spreads import Spread, along

LONGEST_TOLD = 8
"""Numbers of a layout that are told one by one; of more of them, how many they are and a checksum."""


class Block(NamedTuple):
    """Consecutive blocks of ``axis``, the first ones a row longer where it does not divide evenly.

    ``halo`` rows on either side of a rank's block are kept beside its own, whoever owns them.
    """

    axis: int = 0
    halo: int = 0

    def check(self, rows: int) -> None:  # noqa: ARG002 - any number will do
        """ValueError if it cannot be the layout of so many rows."""
        _check_halo(self.halo)

    def split(self, rows: int, parts: int) -> Cuts:
        """The rows of each part."""
        return even(rows, parts)


class BlockCyclic(NamedTuple):
    """Blocks of ``block`` rows of ``axis``, dealt out to the ranks in turn."""

    block: int = 1
    axis: int = 0

    @property
    def halo(self) -> int:
        """None: 0 rows."""
        return 0

    def check(self, rows: int) -> None:  # noqa: ARG002 - any number will do
        """ValueError if its blocks cannot be dealt out; any number of rows will do."""
        if not isinstance(self.block, SupportsIndex) or self.block < 1:
            raise ValueError(
                f"a block of {self.block} rows cannot be dealt out; it must have a whole number, 1 or more"
            )

    def split(self, rows: int, parts: int) -> Cycle:
        """The rows of each part: blocks, dealt out in turn."""
        return Cycle(rows, at_least_one(parts), self.block)


class _Listed(ABC):
    """A layout by numbers: equal, and shown alike, where class, numbers, axis and halo are."""

    axis: int
    halo: int

    @property
    @abstractmethod
    def _numbers(self) -> tuple[float, ...]: ...

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Listed) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        return type(self), self._numbers, self.axis, self.halo

    def __repr__(self) -> str:
        return f"{type(self).__name__}({_told(self._numbers)}, axis={self.axis}, halo={self.halo})"


class Irregular(_Listed):
    """Consecutive parts of ``counts[0]``, ``counts[1]``, ... rows of ``axis``, one a rank.

    At another number of ranks the same curve is cut: where the counts say that the first tenth of the ranks has
    half of the rows, it has half of them at any number.
    """

    def __init__(self, counts: Iterable[int], axis: int = 0, halo: int = 0) -> None:
        try:
            self.counts = tuple(map(index, counts))
        except TypeError:
            self.counts = ()
        self.axis, self.halo = axis, halo
        if not self.counts or min(self.counts) < 0:
            raise ValueError(
                f"the counts of a layout are one or more whole numbers, 0 or more each, not {counts!r:.80}"
            )

    def check(self, rows: int) -> None:
        """ValueError if its counts do not cover so many rows."""
        _check_halo(self.halo)
        if (told := sum(self.counts)) != rows:
            raise ValueError(
                f"the counts of the layout cover {told} rows of {rows}; they have to cover all of them"
            )

    def split(self, rows: int, parts: int) -> Cuts:  # noqa: ARG002 - they are in the counts
        """The rows of each part: consecutive, by the counts."""
        before = (0, *accumulate(self.counts))
        at = [0]
        for part in range(1, at_least_one(parts)):
            whole, rest = divmod(part * len(self.counts), parts)
            at.append(before[whole] + (self.counts[whole] * rest // parts if rest else 0))
        return Cuts((*at, before[-1]))

    @property
    def _numbers(self) -> tuple[float, ...]:
        return self.counts


class Weighted(_Listed):
    """Consecutive parts of ``axis`` whose weights are as equal as its rows allow; each row has a weight of 0 or more.

    The weights have to be the same on all ranks, also on those that join later.
    """

    def __init__(self, weights: Iterable[float], axis: int = 0, halo: int = 0) -> None:
        try:
            self.weights = tuple(float(weight) for weight in weights)
        except (TypeError, ValueError):
            self.weights = (math.nan,)
        self.axis, self.halo = axis, halo
        if any(not 0 <= weight < math.inf for weight in self.weights):
            raise ValueError(
                f"the weights of a layout are finite numbers, 0 or more each, not {weights!r:.80}"
            )
        self._before = (0.0, *accumulate(self.weights))

    def check(self, rows: int) -> None:
        """ValueError if it has not a weight for each of so many rows."""
        _check_halo(self.halo)
        if len(self.weights) != rows:
            raise ValueError(f"the layout has {len(self.weights)} weights for {rows} rows; each row has one")

    def split(self, rows: int, parts: int) -> Cuts:
        """The rows of each part: consecutive, of about equal weight."""
        total = self._before[-1]
        if not total:
            return even(rows, parts)
        return Cuts(
            (0, *(self._nearest(total * part / parts) for part in range(1, at_least_one(parts))), rows)
        )

    def _nearest(self, wanted: float) -> int:
        """The row before which the weights come nearest to it."""
        found = bisect_left(self._before, wanted)
        if found and wanted - self._before[found - 1] <= self._before[found] - wanted:
            return found - 1
        return found

    @property
    def _numbers(self) -> tuple[float, ...]:
        return self.weights


class Replicated(NamedTuple):
    """All ranks hold all of it. What they compute has to be the same."""

    axis: int = 0

    @property
    def halo(self) -> int:
        """None: 0 rows."""
        return 0

    def check(self, rows: int) -> None:
        """Any number of rows will do."""

    def split(self, rows: int, parts: int) -> Copies:
        """All rows, for each part."""
        return Copies(rows, at_least_one(parts))


Contiguous = Block | Irregular | Weighted
AxisLayout = Contiguous | BlockCyclic | Replicated
Layout = AxisLayout | Grid


def check(layout: Layout, shape: Sequence[int]) -> None:
    """ValueError if it cannot be the layout of an array of this shape."""
    if isinstance(layout, Grid):
        layout.check(shape)
        return
    if not isinstance(layout.axis, SupportsIndex) or not 0 <= layout.axis < len(shape):
        raise ValueError(f"there is no axis {layout.axis}")
    layout.check(shape[layout.axis])


def spread(layout: Layout, shape: Sequence[int], parts: int) -> Spread:
    """An array of this shape over so many parts; ValueError if they cannot have this layout."""
    if isinstance(layout, Grid):
        return layout.spread(shape, at_least_one(parts))
    return along(layout.split(shape[layout.axis], parts), layout.axis, shape, layout.halo)


def _check_halo(halo: int) -> None:
    if not isinstance(halo, SupportsIndex) or halo < 0:
        raise ValueError(f"a halo of {halo} rows; it must be a whole number, 0 or more")


def _told(numbers: tuple[float, ...]) -> str:
    """Equal for equal numbers and for no others, and short: it goes with each resize."""
    if len(numbers) <= LONGEST_TOLD:
        return ", ".join(map(repr, numbers))
    return f"{len(numbers)} numbers, checksum {crc32(repr(numbers).encode()):08x}"
