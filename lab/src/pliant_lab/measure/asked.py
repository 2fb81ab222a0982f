"""What a rank pays for asking: ``asked.py check COUNT`` or ``steps COUNT``, as a job. Prints a median and its
repetitions: seconds of a ``job.check()`` that leads to no action, or the share of ``job.steps()`` in steps of a
millisecond."""

from __future__ import annotations

import json
import statistics
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pliant.mpi import Job

STEP_S = 1e-3
BLOCK = 64
"""Steps whose mean counts once: checks of the loop are in it, where those are not far apart."""
BEFORE = 20
"""Checks that do not count: connections are made in them."""


def checks(job: Job, count: int) -> list[float]:
    """Seconds of each."""
    took = []
    for _ in range(BEFORE + count):
        began = time.perf_counter()
        job.check(min=1, max=1)
        took.append(time.perf_counter() - began)
    return took[BEFORE:]


def shares(job: Job, count: int) -> list[float]:
    """Of each block of steps: the time between two steps as a share of a step that computes."""
    found, between_s, before = [], 0.0, 0.0
    for step in job.steps(count):
        began = time.perf_counter()
        if step % BLOCK == 0:
            found.append(between_s / (BLOCK * STEP_S))
            between_s = 0.0
        elif before:
            between_s += began - before
        while time.perf_counter() - began < STEP_S:
            pass
        before = time.perf_counter()
    return found[2:]


def main() -> None:
    from pliant import mpi

    what, count = sys.argv[1], int(sys.argv[2])
    with mpi.malleable(min=1, max=4) as job:
        found = (shares if what == "steps" else checks)(job, count)
        if job.rank == 0:
            said = {"median": statistics.median(found), "repetitions": len(found)}
            sys.stdout.write(json.dumps(said) + "\n")


if __name__ == "__main__":
    main()
