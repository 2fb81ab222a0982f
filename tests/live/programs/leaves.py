"""A rank, the last, ends or leaves its loop alone, in step 30: "exit" by os._exit(0), "sys" by sys.exit(0) or "break".
With "all" all ranks leave like that, and rank 0 stays in the block for longer than PLIANT_DEADLINE.

    leaves.py HOW [all | rigid | bare]

"rigid": without pliant.mpi. "bare": without a with statement, to the end of the loop.
"""

import os
import sys
import time

STEP = 30
HOW, *WHO = sys.argv[1:]


def ends() -> None:
    if HOW == "exit":
        os._exit(0)
    if HOW == "sys":
        sys.exit(0)


def rigid() -> None:
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    for step in range(1000):
        if step == STEP and world.rank == world.size - 1:
            ends()
        world.allreduce(1)


def malleable() -> None:
    from pliant import mpi

    with mpi.malleable(min=1, max=4) as job:
        for step in job.steps(1000):
            if step == STEP and ("all" in WHO or job.rank == job.size - 1):
                ends()
                break
            job.comm.allreduce(1)
        if job.rank == 0:
            job.result("done")
            time.sleep(3.5)


def bare() -> None:
    from pliant import mpi

    job = mpi.malleable(min=1, max=4)
    for _ in job.steps(STEP):
        job.comm.allreduce(1)
    job.result("done")


if __name__ == "__main__":
    rigid() if "rigid" in WHO else bare() if "bare" in WHO else malleable()
