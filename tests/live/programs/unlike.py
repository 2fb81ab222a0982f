"""Two ranks that do not call job.check() and job.resize() alike, or as they should, as argv[1] says; each prints what it
is told."""

from __future__ import annotations

import sys

from pliant import mpi
from pliant.model.errors import PliantError


def forget(job: mpi.Job) -> None:
    """Not to resize when that was said; it can be made up for."""
    action = job.check(min=2)
    try:
        job.check()
    finally:
        job.resize(action)
        job.resize(job.check(max=1))


def halve(job: mpi.Job) -> None:
    """One rank resizes, and the other asks on."""
    action = job.check(min=2)
    try:
        job.resize(action) if job.rank == 0 else job.check()
    finally:
        job.resize(action)
        job.resize(job.check(max=1))


def main(how: str) -> None:
    with mpi.malleable(min=1, max=4) as job:
        if not job.fresh:
            job.check()
            job.resize(job.check(max=1))  # and leaves
        rank = job.rank
        try:
            if how == "bounds":
                job.check(min=1 + rank)
            elif how == "time":
                job.check(timeout_s=1.0 + rank)
            elif how == "nothing":
                job.resize(None)  # type: ignore[arg-type]
            elif how == "action":
                job.resize(mpi.Action.EXPAND)
            elif how == "kinds" and rank == 0:
                job.check()
            elif how == "kinds":
                job.icheck()
                job.icheck()  # what the first one has asked comes here
            elif how == "forgotten":
                forget(job)
            elif how == "halves":
                halve(job)
            elif rank == 0:
                job.check()
        except PliantError as error:
            print(f"rank {rank} is told: {error}", flush=True)
        if how != "some":
            job.check(min=1, max=1)  # the job is as it was
            job.result("as it was")


if __name__ == "__main__":
    main(sys.argv[1])
