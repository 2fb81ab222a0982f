"""A malleable job whose released ranks do not end: ``lingers.py FLAG``. They ignore SIGTERM as well."""

import pathlib
import signal
import sys
import time

from pliant import mpi


def main(flag: pathlib.Path) -> None:
    try:
        with mpi.malleable(min=1, max=3) as job:
            for _ in job.steps(1_000_000):
                time.sleep(0.01)
                if job.comm.bcast(flag.exists()):
                    break
            job.result(str(job.comm.size))
    except mpi.Released:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
