"""Moves a plain list by itself, in a hook during the resize, until a file appears: ``carries.py steps|own FILE [BAD]``.
Its result is the number of turns and what a serial run would have as well. With BAD the hook fails at the first resize,
on rank 1 of those that are there. Without a FILE, but a number, it goes on for so many turns."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

from mpi4py import MPI

from pliant import mpi

LENGTH = 97


def part(rank: int, size: int) -> range:
    return range(LENGTH * rank // size, LENGTH * (rank + 1) // size)


def turned(numbers: list[int]) -> list[int]:
    return [number * 3 % 10007 for number in numbers]


def turns(job: mpi.Job, done: mpi.Value, how: str, until: str) -> Iterator[None]:
    """Of a loop of either kind."""
    most = int(until) if until.isdigit() else 1_000_000
    if how == "steps":
        for _ in job.steps(most):
            yield
            done.value += 1
            if not until.isdigit() and job.comm.bcast(Path(until).exists()):
                break
        return
    job.join()
    while done.value < most:
        action = job.check(min=job.nodes, max=job.nodes)
        if action is not mpi.Action.NO_ACTION:
            print(f"{action.name} {job.resize(action).done}", flush=True)
        yield
        done.value += 1
        if not until.isdigit() and job.comm.bcast(Path(until).exists()):
            break


def main(how: str, until: str, *, bad: bool) -> None:
    with mpi.malleable(min=1, max=4) as job:
        mine = list(part(job.rank, job.size)) if job.fresh else []
        done = job.value("done", 0)
        came: list[int] = []
        calls = 0

        @job.during_resize
        def carry(mapping: mpi.Mapping, comm: MPI.Intracomm) -> None:
            nonlocal came, calls
            calls += 1
            old = part(mapping.old, mapping.before) if mapping.old >= 0 else range(0)
            sends = []
            for receiver, number in zip(mapping.receivers, mapping.to, strict=True):
                theirs = part(number, mapping.after)
                sends.append(comm.isend([mine[i - old.start] for i in old if i in theirs], receiver))
            came = [number for sender in mapping.senders for number in comm.recv(source=sender)]
            MPI.Request.waitall(sends)
            if bad and calls == 1 and comm.rank == 1:
                raise ValueError("not this one")

        @job.after_resize
        def keep() -> None:
            nonlocal mine
            if len(came) == len(part(job.rank, job.size)):
                mine = came

        for _ in turns(job, done, how, until):
            mine = turned(mine)
            time.sleep(0.005)
        every = job.comm.gather(mine)
        if every is not None:
            numbers = [number for some in every for number in some]
            told = f"{done.value} {crc32(repr(numbers).encode())}"
            job.result(told)
            print(told, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], bad=len(sys.argv) > 3)
