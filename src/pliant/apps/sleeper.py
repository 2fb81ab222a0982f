"""A malleable program that does nothing but hold an array and be resized, until a file appears.

    python -m pliant.apps.sleeper FILE --bytes 1048576 --step-s 0.005

``pliant bench cycles`` and ``pliant bench resize`` measure with it. Each rank prints whether it was forked from a warm
process or executed, and the first, at last and as a line of JSON, its ``steps``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", type=Path, help="end when this file is there")
    parser.add_argument("--bytes", type=int, default=1 << 20, help="of the array, over all ranks")
    parser.add_argument("--step-s", type=float, default=0.005, help="how long each step sleeps")
    options = parser.parse_args()
    from pliant import mpi

    start = "forked" if "pliant.job.preload" in sys.modules else "executed"
    sys.stdout.write(f"{start}\n")
    sys.stdout.flush()
    with mpi.malleable(min=1, max=1024) as job:
        job.array("data", (max(1, options.bytes // 8),), "f8", mpi.Block())
        for step in job.steps(1_000_000_000):
            steps = step + 1
            time.sleep(options.step_s)
            if job.comm.bcast(options.file.exists()):  # what rank 0 sees
                break
        if job.comm.rank == 0:
            print(json.dumps({"steps": steps}), flush=True)  # noqa: T201 - the last line is the result


if __name__ == "__main__":
    main()
