"""Heat that asks once for three nodes and goes on until it has as many; its result is that of a serial run."""

from __future__ import annotations

import sys
import time

from pliant import mpi
from pliant.apps.heat import digest, initial, relax

WIDE = 3


def main(most: int) -> None:
    with mpi.malleable(min=1, max=4) as job:
        grid = job.array("grid", (64, 64), "f8", mpi.Block(axis=0, halo=1))
        if job.fresh:
            grid.local[...] = initial(grid.index)
        for step in job.steps(most):
            taken = step
            if step == 0:
                job.request(min=WIDE, keep=True)
            if job.nodes >= WIDE:
                break
            time.sleep(0.01)
            grid.exchange_halo()
            relax(grid.local)
        whole = grid.gather()
        if whole is not None:
            job.result(f"{taken} {digest(whole)}")


if __name__ == "__main__":
    main(int(sys.argv[1]))
