"""Programs of which a newcomer misses something, for 40 steps, or until a file appears. ``python misses.py total``
sums up in a variable; ``names`` changes which array a variable is; ``calls`` has ranks call with different arrays; ``late`` has one come late to calls with the same; ``stuck`` has them wait
for each other in different calls; ``own`` sums up in a loop of its own, and ``own_names`` changes variables there."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from pliant import mpi

STEPS = 40


def total(job: mpi.Job, steps: int, flag: Path | None) -> float:
    rows = job.array("rows", (64,), "f8")
    found = own = 0.0
    began = time.perf_counter()
    for _ in job.steps(steps):
        rows.owned[:] += 1
        mine = float(rows.owned.sum())
        own += (job.rank + 1) * mine
        error = job.comm.allreduce(mine)
        found += error
        if is_over(job, flag):
            break
    print(f"{job.rank} of {job.size}: {error} {mine} {own >= 0} {time.perf_counter() > began}")
    return found


def names(job: mpi.Job, steps: int, flag: Path | None) -> float:
    a, b = job.array("a", (8,), "f8"), job.array("b", (8,), "f8")
    for step in job.steps(steps):
        if is_over(job, flag):
            break
        b.owned[:] = a.owned + 1
        if flag is None or step == 3:
            a, b = b, a
    whole = a.gather()
    return 0.0 if whole is None else float(whole.sum())


def calls(job: mpi.Job, _steps: int, _flag: Path | None) -> float:
    arrays = [job.array(name, (8,), "f8") for name in "ab"]
    for _ in job.steps(1):
        arrays[job.rank > 0].gather()
        job.comm.barrier()
    return 0.0


def late(job: mpi.Job, _steps: int, _flag: Path | None) -> float:
    """Rank 2 comes late, when rank 1 is a call ahead of the root, which has its part and waits for that of rank 2."""
    a, b = (job.array(name, (8, 300), "f8", mpi.Block(axis=1)) for name in "ab")
    for _ in job.steps(1):
        if job.rank == 2:
            time.sleep(1)
        a.gather()
        b.gather()
    return 0.0


def stuck(job: mpi.Job, steps: int, _flag: Path | None) -> float:
    for step in job.steps(steps):
        if step == 3 and job.rank:
            job.comm.recv(source=0)  # never sent
        job.comm.barrier()
    return 0.0


def own(job: mpi.Job, steps: int, flag: Path | None) -> float:
    found = 0.0
    for _ in turns(job, steps, flag):
        found += job.comm.allreduce(1.0)
    return found


def own_names(job: mpi.Job, steps: int, flag: Path | None) -> float:
    a, b = job.array("a", (8,), "f8"), job.array("b", (8,), "f8")
    for turn in turns(job, steps, flag):
        b.owned[:] = a.owned + 1
        if turn == 1:
            a, b = b, a
    return 0.0


def turns(job: mpi.Job, steps: int, flag: Path | None) -> Iterator[int]:
    done = job.value("done", 0)
    job.join()
    while done.value < steps:
        action = job.check(min=1, max=3)
        if action is not mpi.Action.NO_ACTION:
            job.resize(action)
        yield done.value
        done.value += 1
        if is_over(job, flag):
            return


def is_over(job: mpi.Job, flag: Path | None) -> bool:
    if flag is None:
        return False
    time.sleep(0.01)
    return bool(job.comm.bcast(flag.exists()))


def main(how: str, flag: str = "") -> None:
    programs = {
        "total": total,
        "names": names,
        "calls": calls,
        "late": late,
        "stuck": stuck,
        "own": own,
        "own_names": own_names,
    }
    with mpi.malleable(min=1, max=4, watch=os.environ.get("TEST_WATCH") != "0") as job:
        result = programs[how](job, 1_000_000 if flag else STEPS, Path(flag) if flag else None)
        if job.rank == 0:
            job.result(f"{how} {result}")
            print(how, result)


main(*sys.argv[1:])
