"""Arrays cut into boxes that are small enough."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray


def boxes(shape: tuple[int, ...], most: int) -> Iterator[tuple[slice, ...]]:
    """Boxes of at most ``most`` elements that make up the whole, in the order of its memory if it is contiguous: each
    of them is contiguous then."""
    if not prod(shape):
        return
    inner, axis = 1, len(shape)
    while axis and inner * shape[axis - 1] <= most:
        axis -= 1
        inner *= shape[axis]
    if not axis:
        yield tuple(slice(0, length) for length in shape)
        return
    axis -= 1
    each = max(1, most // inner)
    rest = tuple(slice(0, length) for length in shape[axis + 1 :])
    for outer in np.ndindex(*shape[:axis]):
        before = tuple(slice(number, number + 1) for number in outer)
        for start in range(0, shape[axis], each):
            yield (*before, slice(start, min(start + each, shape[axis])), *rest)


def raw(view: NDArray[Any]) -> NDArray[Any]:
    """The same elements; those of records with all of their bytes, also those that belong to no field."""
    return view.view(np.dtype((np.void, view.itemsize))) if view.dtype.names else view


def run_bytes(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    """How many bytes lie in a row, and how many of the first axes say where the rows are."""
    axis, run = len(shape), itemsize
    while axis and (strides[axis - 1] == run or shape[axis - 1] == 1):
        axis -= 1
        run *= shape[axis]
    return run, axis
