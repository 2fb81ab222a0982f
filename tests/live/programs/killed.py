"""The solver of until.py, whose newcomers die as they are told: ``killed.py FLAG PLAN``.

PLAN is a file with the rank of a group that dies, or ``all``, the point from which its time runs, and how many
seconds it has from there: ``0 merged 0.001``. A timer of the kernel ends it, wherever it then is; with ``stop`` for the
seconds it stands still at that point, and with ``crash`` it ends as in a library that aborts. Of the first processes
rank 0 does so in place of newcomers where the rank is ``root``. What each came to last stands in ``PLAN.GROUP.RANK``.
"""

import importlib
import os
import pathlib
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

BEGAN = time.perf_counter()

FLAG, PLAN = (pathlib.Path(word) for word in sys.argv[1:3])
POINTS = {
    "start": "it runs, and is in its imports or in MPI_Init",
    "register": "it has opened its session, or is about to",
    "join": "it joins the other newcomers, and waits for the job",
    "connect": "it has been told the port",
    "connected": "it is connected, and waits until all are",
    "merge": "it is in Merge",
    "merged": "it is in one communicator with the job, and is told its state",
    "data": "it is in the redistribution",
    "settle": "it has all that it needs",
    "step": "it computes",
}
"""What a newcomer comes to, in this order."""
WIDTH = 16
SIGNALS = {"stop": signal.SIGSTOP, "crash": signal.SIGABRT}


def main() -> None:
    rank = os.environ.get("PMI_RANK") or os.environ["PMIX_RANK"]
    newcomer = os.environ["PLIANT_RESIZE"] != "0"
    who, point, after = PLAN.read_text().split()
    own = "root" if not newcomer and rank == "0" else rank
    reached = os.open(f"{PLAN}.{os.environ['PLIANT_GROUP']}.{rank}", os.O_WRONLY | os.O_CREAT, 0o600)

    def reach(name: str) -> None:
        if newcomer == (who == "root"):
            return
        os.pwrite(reached, name.ljust(WIDTH).encode(), 0)  # at once, or not at all
        if name == point and who in ("all", own) and after in SIGNALS:
            os.kill(os.getpid(), SIGNALS[after])
        elif name == point and who in ("all", own):
            left = float(after) - (time.perf_counter() - BEGAN if name == "start" else 0)
            if left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)
            signal.setitimer(signal.ITIMER_REAL, left)
        if name == "step":
            signal.setitimer(signal.ITIMER_REAL, 0)

    reach("start")
    # The solver's imports are a part of the start.
    solve = importlib.import_module("until").main
    join, scheduled, resize = (
        importlib.import_module(f"pliant.mpi.{name}")
        for name in ("join", "resizing.scheduled", "resizing.resize")
    )

    def pointed(module: Any, name: str, before: str = "", behind: str = "") -> None:
        call: Callable[..., Any] = getattr(module, name)

        def told(*words: Any, **more: Any) -> Any:
            if before:
                reach(before)
            result = call(*words, **more)
            if behind:
                reach(behind)
            return result

        setattr(module, name, told)

    reach("register")
    pointed(scheduled, "star", "join")
    pointed(resize, "grow_newcomer", "connect", "step")
    pointed(resize, "admit", "connect")
    pointed(resize, "redistribute", "data")
    pointed(resize, "settle", "settle")
    pointed(join, "connect", behind="connected")
    pointed(join, "merge", "merge", "merged")
    solve(FLAG)


if __name__ == "__main__":
    main()
