"""Something of the program's own that follows the ranks, and does not come through a resize as it was: ``torn.py FLAG``.
The result has the sizes of the job, and whether it has still what it had."""

from __future__ import annotations

import pathlib
import sys
import time
from collections.abc import Iterator

import numpy as np

from pliant import mpi


class Counters(mpi.Movable):
    """A number for each rank, which rank 0 gets more of than there are."""

    name = "counters"

    def __init__(self) -> None:
        self.held = self.before = np.zeros(0, "i8")

    def describe(self) -> object:
        return self.name

    def begin(self) -> None:
        self.held = np.array([7], "i8")

    def move(self, way: mpi.Way) -> Iterator[mpi.Parcels]:
        self.before, self.held = self.held, np.zeros(1, "i8")
        first, last = way.sources[0], way.targets[-1]
        if first == last:
            yield mpi.Parcels(copies=[mpi.Copy(self.before, self.held)])
        elif way.rank == first:
            yield mpi.Parcels(sends=[mpi.Parcel(last, self.before)])
        elif way.rank == last:
            yield mpi.Parcels(receives=[mpi.Parcel(first, self.held)])
        self.held = self.held + 1

    def undo(self) -> None:
        self.held = self.before

    def settle(self) -> bool:
        return False

    def checksum(self) -> int:
        return int(self.held.sum())


def main(flag: pathlib.Path) -> None:
    with mpi.malleable(min=1, max=3) as job:
        counters = Counters()
        job.register(counters)
        array = job.array("array", (5, 4), "i4", mpi.Block(axis=1))
        if job.fresh:
            array.local[...] = np.arange(20).reshape(5, 4)[array.index]
        sizes = []
        job.after_resize(lambda: sizes.append(job.size))
        for _ in job.steps(1_000_000):
            time.sleep(0.01)
            array.local[...] += 1
            array.local[...] -= 1
            if job.comm.bcast(flag.exists()):
                break
        whole = array.gather()
        every = job.comm.allgather(int(counters.held[0]))
        if whole is not None:
            job.result(f"{sizes} {every} {np.array_equal(whole, np.arange(20).reshape(5, 4))}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
