"""Heat in a loop of its own that asks by ichecks, as argv[1] says: for three nodes until it has them, and then for one;
its result is that of a serial run, with what was done behind it. ``late``: newcomers come too late. ``unlike``: rank 1
asks for something else until it is told. ``open``: the block ends while a question is open. ``slow``: each turn takes
longer than newcomers are waited for."""

from __future__ import annotations

import sys
import time

from pliant import mpi
from pliant.apps.heat import digest, initial, relax
from pliant.model.errors import PliantError

MOST, TURN_S = 4000, 0.005
SLOW_S = 3.0
TIMEOUTS_S = {"late": 0.3, "slow": 1.0}


def main(how: str) -> None:
    with mpi.malleable(min=1, max=4) as job:
        grid = job.array("grid", (64, 64), "f8", mpi.Block(axis=0, halo=1))
        done, seen = job.value("done", 0), job.value("seen", "")
        if job.fresh:
            grid.local[...] = initial(grid.index)
        elif how == "late":
            time.sleep(60)
        job.join()
        told = False
        end = 200 if how in {"late", "open"} else MOST
        while done.value < end:
            size = 1 if how == "unlike" else 3 if "EXPAND" not in seen.value else 1
            try:
                odd = how == "unlike" and job.rank == 1 and done.value >= 10 and not told
                action = job.icheck(
                    min=4 if odd else size, max=4 if odd else size, timeout_s=TIMEOUTS_S.get(how, 30)
                )
            except PliantError as error:
                print(f"rank {job.rank} is told: {error}", flush=True)
                action, end, told = mpi.Action.NO_ACTION, done.value + 20, True
            if action is not mpi.Action.NO_ACTION:
                seen.value += f" {action.name}"  # before newcomers get it
                job.resize(action)
                end = done.value + (1 if how == "slow" else 20) if size == 1 else end
            grid.exchange_halo()
            relax(grid.local)
            done.value += 1
            time.sleep(SLOW_S if how == "slow" else TURN_S)
        whole = grid.gather()
        if whole is not None:
            job.result(f"{done.value} {digest(whole)}{seen.value}")


if __name__ == "__main__":
    main(sys.argv[1])
