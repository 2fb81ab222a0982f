"""Bags of tasks that make new tasks: a stack of rows, each of which stands for some tasks."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.uint32]
Counts = NDArray[np.int64]

ROOM = 32  # lanes of UTS, or queens of a board


class StackBag:
    """Rows and partial counts. Kernels work on them in place; a subclass knows what a row means."""

    def __init__(self, rows: Rows, counted: int) -> None:
        self._rows = rows  # those in use, and room for more
        self._counts: Counts = np.zeros(1 + counted, np.int64)  # the rows in use, then the partial result
        self._counts[0] = len(rows)

    def _sizes(self) -> Counts:
        """How many tasks each row in use stands for."""
        raise NotImplementedError

    def _half(self) -> Rows:
        """New rows with every second task of the rows in use, which have them no more."""
        raise NotImplementedError

    @property
    def _used(self) -> Rows:
        return self._rows[: self._counts[0]]

    @property
    def tasks(self) -> int:
        return int(self._sizes().sum())

    @property
    def is_empty(self) -> bool:
        return not self._counts[0]

    @property
    def is_splittable(self) -> bool:
        return self._counts[0] > 1 or self.tasks > 1

    def split(self, take_all: bool) -> Self:  # noqa: FBT001
        given = self._used.copy() if take_all else self._half()
        kept = self._used[:0] if take_all else self._used[self._sizes() > 0]
        self._rows[: len(kept)] = kept
        self._counts[0] = len(kept)
        return self._with(given)

    def merge(self, bag: Self) -> None:
        if not self.is_empty:
            self._rows = np.concatenate([bag._used, self._used])  # what this bag was at stays on top
        else:
            self._rows = bag._used
        self._counts += bag._counts

    def _with(self, rows: Rows) -> Self:
        """A bag of the same computation with these rows, and an empty partial result."""
        bag = object.__new__(type(self))
        bag.__dict__.update(self.__dict__)
        StackBag.__init__(bag, rows, len(self._counts) - 1)
        return bag

    def _make_room(self) -> None:
        """Have more rows above those in use than any kernel needs to go on."""
        if len(self._rows) - self._counts[0] < ROOM:
            used = self._used
            self._rows = np.empty((2 * len(used) + 8 * ROOM, used.shape[1]), np.uint32)
            self._rows[: len(used)] = used

    def _submitted(self) -> list[int]:
        """The partial counts, which begin anew."""
        partial: list[int] = self._counts[1:].tolist()
        self._counts[1:] = 0
        return partial

    def __getstate__(self) -> dict[str, Any]:
        """A snapshot: the rows in use alone."""
        return {**self.__dict__, "_rows": self._used.copy(), "_counts": self._counts.tolist()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._counts = np.array(state["_counts"], np.int64)
        if not self._rows.flags.writeable:  # it may be the message that it came in
            self._rows = self._rows.copy()
