"""A loop of its own of argv[1] turns of argv[2] seconds, in which each check takes what it took; its result says at
which turns the scheduler was asked, and how long the median of the other checks took, in seconds."""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

from pliant import mpi


def main(turns: int, turn_s: float) -> None:
    with mpi.malleable(min=1, max=4) as job:
        took: list[float] = []
        asked: list[int] = []
        sent = job._context.negotiation  # what is asked is counted where it is said
        if sent is not None:
            plain = sent.want

            def want(*wish: Any, **more: Any) -> bool:
                asked.append(len(took) + 1)
                return plain(*wish, **more)

            sent.want = want  # type: ignore[method-assign]
        began = time.perf_counter()
        for _ in range(1, turns + 1):
            begin = time.perf_counter()
            action = job.check(min=1, max=1)
            took.append(time.perf_counter() - begin)
            assert action is mpi.Action.NO_ACTION
            time.sleep(turn_s)
        whole_s = time.perf_counter() - began
        if job.rank == 0:
            job.result(f"{','.join(map(str, asked)) or 0} {statistics.median(took)} {whole_s}")


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
