"""Heat that asks for three nodes, and for one when it has had them a while; its result is that of a serial run."""

from __future__ import annotations

import sys
import time

from pliant import mpi
from pliant.apps.heat import digest, initial, relax

WIDE, NARROW = 3, 1


def main(most: int) -> None:
    with mpi.malleable(min=1, max=4) as job:
        grid = job.array("grid", (64, 64), "f8", mpi.Block(axis=0, halo=1))
        if job.fresh:
            grid.local[...] = initial(grid.index)
        had = job.value("had", 0)
        for step in job.steps(most):
            taken = step
            if had.value == 0 and job.nodes < WIDE:
                job.request(min=WIDE)
            elif job.nodes == WIDE:
                had.value += 1
                if had.value >= 20:
                    job.request(max=NARROW)
            elif had.value:
                break
            time.sleep(0.01)
            grid.exchange_halo()
            relax(grid.local)
        whole = grid.gather()
        if whole is not None:
            job.result(f"{taken} {digest(whole)}")


if __name__ == "__main__":
    main(int(sys.argv[1]))
