"""A malleable heat solver that goes on until a file appears: what has to happen to it has all the time it needs.
Its result is the number of steps and the digest of the field. A group says whether it was forked."""

import pathlib
import sys
import time

from pliant import mpi
from pliant.apps.heat import digest, initial, relax

START = "forked" if "pliant.job.preload" in sys.modules else "executed"


def main(flag: pathlib.Path) -> None:
    with mpi.malleable(min=1, max=8) as job:
        print(START, flush=True)
        grid = job.array("grid", (64, 64), "f8", mpi.Block(axis=0, halo=1))
        if job.fresh:
            grid.local[...] = initial(grid.index)
        done = job.value("done", 0)
        for step in job.steps(1_000_000):
            taken = step
            assert done.value == step  # on all ranks, whenever they have come
            done.value = step + 1
            time.sleep(0.01)
            if job.comm.bcast(flag.exists()):  # what rank 0 sees
                break
            grid.exchange_halo()
            relax(grid.local)
        whole = grid.gather()
        if whole is not None:
            job.result(f"{taken} {digest(whole)}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
