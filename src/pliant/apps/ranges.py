"""Bags of tasks that are known beforehand: numbers, kept as ranges."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

Range = tuple[int, int]


def joined(ranges: Iterable[Range]) -> list[Range]:
    """The same numbers in as few ranges as possible, in order."""
    result: list[Range] = []
    for first, last in sorted(ranges):
        if result and result[-1][1] == first:
            result[-1] = result[-1][0], last
        elif first < last:
            result.append((first, last))
    return result


def cut(ranges: Iterable[Range], begin: int, end: int) -> list[Range]:
    """The numbers of those ranges from the ``begin``-th to before the ``end``-th."""
    result: list[Range] = []
    passed = 0
    for first, last in ranges:
        low, high = max(first, first + begin - passed), min(last, first + end - passed)
        if low < high:
            result.append((low, high))
        passed += last - first
    return result


class RangeBag:
    """Tasks first <= number < last of each range; a subclass does them and has the partial result."""

    def __init__(self, ranges: Iterable[Range]) -> None:
        self._ranges = joined(ranges)

    def _another(self, ranges: list[Range]) -> Self:
        """A bag of the same computation with these tasks, and an empty partial result."""
        raise NotImplementedError

    @property
    def tasks(self) -> int:
        return sum(last - first for first, last in self._ranges)

    @property
    def is_empty(self) -> bool:
        return not self._ranges

    @property
    def is_splittable(self) -> bool:
        return self.tasks > 1

    def split(self, take_all: bool) -> Self:  # noqa: FBT001
        return self._another(self._take(self.tasks if take_all else self.tasks // 2))

    def share(self, index: int, of: int) -> Self:
        """The ``index``-th of ``of`` equal parts, in a new bag: each place takes its own at the start."""
        return self._another(cut(self._ranges, self.tasks * index // of, self.tasks * (index + 1) // of))

    def _take(self, n: int) -> list[Range]:
        """Remove ``n`` tasks, or all there are."""
        kept = max(0, self.tasks - n)
        taken, self._ranges = cut(self._ranges, kept, self.tasks), cut(self._ranges, 0, kept)
        return taken

    def _add(self, ranges: list[Range]) -> None:
        self._ranges = joined([*self._ranges, *ranges])
