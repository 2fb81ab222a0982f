"""Three loops in one block, in a class, or what goes wrong with several (``unguarded``, ``skips``), or right (``swaps``).
``python loops.py [FLAG]``: the second loop ends when the file is there, or after some steps. It prints whether a serial
program has the same, and the sizes at which steps were made."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from pliant import mpi

WARM, MOST, LAST, CELLS = 6, 12, 5, 30


class Solver:
    """It warms up, goes on until all ranks agree to stop, and cools down."""

    def __init__(self, job: mpi.Job, flag: Path | None) -> None:
        self.job, self.flag, self.factor = job, flag, 1.0 if flag else 0.5
        self.field = job.array("field", (CELLS,), "f8", mpi.Block(halo=1))
        self.norm = job.value("norm", 0.0)
        self.sizes = job.value("sizes", [set(), set(), set()])
        self.between = job.value("between", 0)
        self.made = job.value("made", 0)
        if job.fresh:
            self.field.owned[...] = np.arange(*self.field.owned_rows())

    def step(self, loop: int, factor: float) -> None:
        self.field.exchange_halo()
        self.field.owned[...] = factor * self.field.owned + loop
        self.sizes.value[loop].add(self.job.size)

    def converged(self, step: int) -> bool:
        if self.flag is None:
            return step == MOST - 1
        time.sleep(0.01)
        return bool(self.job.comm.bcast(self.flag.exists()))

    def run(self) -> None:
        for _ in self.job.steps(WARM):
            self.step(0, 1.0)
        self.measure()
        for step in self.job.steps():
            self.step(1, self.factor)
            self.made.value = step + 1
            if self.converged(step):
                break
        self.measure()
        for step in self.job.steps(LAST):
            self.step(2, 2.0)
            assert step < LAST

    def measure(self) -> None:
        """Between two loops a rank that is before its own takes no part."""
        if self.job.joined:
            self.norm.value = self.job.comm.allreduce(float(self.field.owned.sum()))
            self.between.value += 1


def unguarded() -> None:
    """A newcomer changes its part between two loops, which has been changed already."""
    with mpi.malleable(min=1, max=3) as job:
        field = job.array("field", (CELLS,))
        for _ in job.steps(WARM):
            field.owned[...] += 1
        field.local[...] *= 2
        for _ in job.steps(MOST):
            field.owned[...] += 1


def skips() -> None:
    """A newcomer never begins the loop that the job is in."""
    with mpi.malleable(min=1, max=3) as job:
        for _ in job.steps(WARM):
            job.comm.barrier()
        for _ in job.steps(MOST) if job.joined else ():
            job.comm.barrier()


def swaps() -> None:
    """Arrays that share a layout, which a newcomer gets by message."""
    with mpi.malleable(min=1, max=3) as job:
        layout = mpi.Weighted(range(CELLS))
        a, b = (job.array(name, CELLS, "f8", layout) for name in "ab")
        a.to(mpi.Block()) if job.joined else None
        a.to(layout) if job.joined else None
        for _ in job.steps(MOST):
            a.owned[...] = b.owned + 1
            job.swap(a, b)
        whole = b.gather()
        if whole is not None:
            print(*{*whole.tolist()})


def serial(second_steps: int, factor: float) -> float:
    field = np.arange(CELLS, dtype="f8")
    for loop, (steps, by) in enumerate(((WARM, 1.0), (second_steps, factor), (LAST, 2.0))):
        for _ in range(steps):
            field = by * field + loop
    return float(field.sum())


def main(flag: Path | None) -> None:
    with mpi.malleable(min=1, max=3) as job:
        solver = Solver(job, flag)
        solver.run()
        total = job.comm.allreduce(float(solver.field.owned.sum()))
        right = total == serial(solver.made.value, solver.factor)
        if job.rank == 0:
            sizes = " ".join("".join(map(str, sorted(each))) for each in solver.sizes.value)
            text = f"{'right' if right else total} {sizes} {solver.between.value}"
            job.result(text)
            print(text)


if __name__ == "__main__":
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    others = {"unguarded": unguarded, "skips": skips, "swaps": swaps}
    if word in others:
        others[word]()
    else:
        main(Path(word) if word else None)
