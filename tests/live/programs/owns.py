"""Heat in a loop of its own, which asks for three nodes and then for one by checks; its result is that of a serial
run, with what was done behind it. argv[1]: seconds that newcomers take to come; argv[2]: those that a check
waits."""

from __future__ import annotations

import sys
import time

from pliant import mpi
from pliant.apps.heat import digest, initial, relax

WANTED = {20: (3, 3), 40: (1, 1)}


def main(late_s: float, timeout_s: float) -> None:
    with mpi.malleable(min=1, max=4) as job:
        grid = job.array("grid", (64, 64), "f8", mpi.Block(axis=0, halo=1))
        done, seen = job.value("done", 0), job.value("seen", "")
        if job.fresh:
            grid.local[...] = initial(grid.index)
        else:
            time.sleep(late_s)
        job.join()
        while done.value < 60:
            least, most = WANTED.get(done.value, (job.nodes, job.nodes))
            action = job.check(min=least, max=most, timeout_s=timeout_s)
            if action is not mpi.Action.NO_ACTION:
                mapping = job.resize(action)
                seen.value += f" {action.name}:{mapping.before}-{mapping.after}"
            grid.exchange_halo()
            relax(grid.local)
            done.value += 1
        whole = grid.gather()
        if whole is not None:
            job.result(f"{done.value} {digest(whole)}{seen.value}")


if __name__ == "__main__":
    main(float(sys.argv[1]), float(sys.argv[2]))
