"""PLIANT_VERIFY=1: every registered array is summed up before and after each resize, and has to come to the same."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import index
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from pliant.mpi.data.boxes import boxes, raw
from pliant.mpi.data.movable import SUM, Movable, Way
from pliant.mpi.errors import Undone
from pliant.mpi.wait import Wait

AT_ONCE = 1 << 14
"""Elements that are summed up in one go: it takes some dozen times their bytes."""
_MIX = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


class Sums:
    """What all data come to before a redistribution, for the comparison when it is made. ``wrong``: what could not be
    summed up on this rank, and why; empty if all could."""

    def __init__(self, movables: Sequence[Movable], way: Way) -> None:
        self._movables, self._way = movables, way
        self.wrong = ""
        self._before = self._sums(held=way.old_part is not None)
        self._after: list[int] = []

    def sum_up(self) -> None:
        """What they have come to."""
        self._after = self._sums(held=self._way.new_part is not None)

    def _sums(self, *, held: bool) -> list[int]:
        wrong, sums = [], [0] * len(self._movables)
        for number, each in enumerate(self._movables if held else ()):
            try:
                sums[number] = _whole(each.checksum())
            except Exception as error:  # noqa: BLE001 - a program's own movable may raise anything
                wrong.append(f"{each.name!r} cannot be summed up ({type(error).__name__}: {error})")
        self.wrong = ", ".join(wrong)
        return sums

    def compare(self, comm: MPI.Intracomm, wait: Wait) -> None:
        """When it is summed up: Undone on all ranks of ``comm`` that names what is not what it was; collective."""
        mine = np.array([self._before, self._after], "u8")
        every = np.empty((comm.size, *mine.shape), "u8")
        wait.request(comm.Iallgather(mine, every), "the checksums of the data")
        torn = [
            each.name
            for number, each in enumerate(self._movables)
            if each.total(every[list(self._way.sources), 0, number].tolist())
            != each.total(every[list(self._way.targets), 1, number].tolist())
        ]
        if torn:
            raise Undone(
                f"PLIANT_VERIFY: {', '.join(map(repr, torn))} would not have been the same after the resize as before: "
                "the checksums differ"
            )


def _whole(checksum: object) -> int:
    """It, if it is one; ValueError if not."""
    try:
        whole = int(index(checksum))  # type: ignore[arg-type]  # whatever a program's own movable says
    except TypeError:
        whole = -1
    if not 0 <= whole < SUM:
        raise ValueError(
            f"checksum() said {checksum!r:.60}, and has to say a whole number from 0 to 2^64 - 1"
        )
    return whole


def checksum(data: NDArray[Any], index: Sequence[NDArray[np.uint64]], shape: Sequence[int]) -> int:
    """The sum of one number for each element of ``data``, made of its bytes and of its place in the whole of ``shape``:
    ``index`` has the places along each axis. 0 if there are none."""
    if not data.size or not data.itemsize:
        return 0
    steps = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
    total = 0
    for box in boxes(data.shape, AT_ONCE):
        part = np.ascontiguousarray(raw(data)[box])
        place = np.zeros(part.shape, "u8")
        for axis, (numbers, step) in enumerate(zip(index, steps, strict=True)):
            along = [-1 if i == axis else 1 for i in range(data.ndim)]
            place += (numbers[box[axis]] * np.uint64(step)).reshape(along)
        total += elements(part.reshape(-1), place.reshape(-1))
    return total % SUM


def elements(part: NDArray[Any], place: NDArray[np.uint64]) -> int:
    """As :func:`checksum`, of elements in a row with a number each that says where they belong."""
    words, total = -(-part.itemsize // 8), 0
    for first in range(0, part.size, AT_ONCE):
        some, mixed = part[first : first + AT_ONCE], _mixed(place[first : first + AT_ONCE])
        padded = np.zeros((some.size, 8 * words), "u1")
        padded[:, : part.itemsize] = some.view("u1").reshape(some.size, part.itemsize)
        for word in padded.view("u8").T:
            mixed = _mixed(mixed ^ word)
        total += int(mixed.sum(dtype="u8"))
    return total % SUM


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64 (Steele, Lea and Flood 2014): each bit depends on all."""
    numbers = numbers + np.uint64(_MIX[0])
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(_MIX[1])
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(_MIX[2])
    return numbers ^ (numbers >> np.uint64(31))
