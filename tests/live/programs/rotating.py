"""A wave in three arrays that change their roles in each step. ``python rotating.py swap`` has job.swap do it; ``names``
changes variables, ``attributes`` those of an object that runs the loop, and ``hidden`` those of one that does not:
newcomers have others then. ``still``, behind that: without halos, each element for itself.

Rank 0 prints whether the wave is that of NumPy alone.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pliant import mpi

N, STEPS = 24, 12
STILL = "still" in sys.argv
Numbers = NDArray[np.float64]


class Wave:
    def __init__(self, job: mpi.Job, how: str) -> None:
        self.job, self.how = job, how
        made = (job.array(name, (N,), "f8", mpi.Block(halo=1)) for name in ("u", "v", "w"))
        self.old, self.now, self.new = made
        if job.fresh:
            self.now.owned[:] = self.old.owned[:] = np.sin(np.arange(*self.now.owned_rows()))

    def step(self) -> None:
        if STILL:
            self.new.owned[:] = 1.5 * self.now.owned - self.old.owned
        else:
            self.now.exchange_halo()
            self.new.local[1:-1] = leap(self.old.local, self.now.local)
        if self.how == "swap":
            self.job.swap(self.old, self.now, self.new)
        else:
            self.old, self.now, self.new = self.now, self.new, self.old

    def whole(self) -> Any:
        return self.now.gather()

    def run(self) -> Any:
        for _ in self.job.steps(STEPS):
            self.step()
        return self.whole()


def leap(old: Numbers, now: Numbers) -> Numbers:
    return 1.5 * now[1:-1] + 0.25 * (now[:-2] + now[2:]) - old[1:-1]


def by_names(job: mpi.Job, wave: Wave) -> Any:
    old, now, new = wave.old, wave.now, wave.new
    for _ in job.steps(STEPS):
        now.exchange_halo()
        new.local[1:-1] = leap(old.local, now.local)
        old, now, new = now, new, old
    return now.gather()


def hidden(job: mpi.Job, wave: Wave) -> Any:
    step, whole = wave.step, wave.whole
    for _ in job.steps(STEPS):
        step()
    return whole()


def serial() -> Numbers:
    old, now, new = np.sin(np.arange(N)), np.sin(np.arange(N)), np.zeros(N)
    for _ in range(STEPS):
        new[1:-1] = leap(old, now)
        old, now, new = now, new, old
    return now


def main(how: str) -> None:
    with mpi.malleable(min=1, max=4) as job:
        wave = Wave(job, how)
        ways = {"names": by_names, "hidden": hidden}
        whole = ways[how](job, wave) if how in ways else wave.run()
        if job.rank == 0:
            said = "right" if np.array_equal(whole, serial()) else "wrong"
            job.result(said)
            print(said)


main(sys.argv[1])
