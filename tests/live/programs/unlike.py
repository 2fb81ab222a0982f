"""Two ranks that do not call job.check() alike, as argv[1] says; each prints what it is told."""

from __future__ import annotations

import sys

from pliant import mpi
from pliant.model.errors import PliantError


def main(how: str) -> None:
    with mpi.malleable(min=1, max=4) as job:
        rank = job.rank
        try:
            if how == "bounds":
                job.check(min=1 + rank)
            elif how == "action":
                job.resize(mpi.Action.EXPAND)
            elif rank == 0:
                job.check()
        except PliantError as error:
            print(f"rank {rank} is told: {error}", flush=True)
        if how != "some":
            job.check(min=1, max=1)  # the job is as it was
            job.result("as it was")


if __name__ == "__main__":
    main(sys.argv[1])
