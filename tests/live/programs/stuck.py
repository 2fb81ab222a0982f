"""A malleable program that gets stuck where it is told to: ``newcomer`` before its first step (only on
groups that join later), ``source`` there too, and inside its loop once a file appears, ``crash`` or ``raise`` on a
newcomer.
All but ``source`` end when the file appears."""

import os
import pathlib
import sys
import time

from pliant import mpi

where, flag = sys.argv[1], pathlib.Path(sys.argv[2])
with mpi.malleable(min=1, max=8) as job:
    data = job.array("data", (64, 4), "f8", mpi.Block(axis=0))
    if job.fresh:
        data.local[...] = 1.0
    elif where == "crash":
        os._exit(7)
    elif where == "raise":
        raise KeyError("newcomer")
    elif where in ("newcomer", "source"):
        time.sleep(600)
    for _ in job.steps(1_000_000):
        time.sleep(0.02)
        if flag.exists():
            if where != "source":
                break
            time.sleep(600)
    whole = data.gather()
    if whole is not None:
        job.result(f"{whole.sum():.0f}")
