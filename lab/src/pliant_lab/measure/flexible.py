"""Holds an array that is full of numbers, and is resized until a file appears: ``flexible.py FILE BYTES [constant]``.
What Iserte et al. 2018 call Flexible Sleep (section 7.3): steps that do nothing, and data to move."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

STEP_S = 0.005


def main() -> None:
    from pliant import mpi

    end, size, constant = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:] == ["constant"]
    with mpi.malleable(min=1, max=1024) as job:
        data = job.array("data", (max(1, size // 8),), "f8", mpi.Block(), constant=constant)
        if job.fresh:
            data.owned[:] = 1.0
        for step in job.steps(1_000_000_000):
            steps = step + 1
            time.sleep(STEP_S)
            if job.comm.bcast(end.exists()):  # what rank 0 sees
                break
        right = job.comm.allreduce(bool((data.owned == 1.0).all()), op=min)
        if job.comm.rank == 0:
            sys.stdout.write(json.dumps({"steps": steps, "right": right}) + "\n")


if __name__ == "__main__":
    main()
