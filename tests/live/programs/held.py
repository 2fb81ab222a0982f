"""Runs a program of ``pliant.apps``, which waits for 3 nodes after a third of its steps and for 1 after two thirds: so
it computes at all three sizes, however slow its resizes are."""

import runpy
import sys
import time
from collections.abc import Iterator
from typing import Any

from pliant.mpi import Job

steps = Job.steps


def held(job: Job, n: int, **_pace: Any) -> Iterator[int]:
    done = job.value("done", 0)
    sizes = {n // 3: 3, 2 * n // 3: 1}
    for _ in steps(job, 1_000_000):
        if job.nodes != sizes.get(done.value, job.nodes):
            time.sleep(0.01)
        elif done.value == n:
            break
        else:
            yield done.value
            done.value += 1


if __name__ == "__main__":
    Job.steps = held  # type: ignore[method-assign, assignment]
    sys.argv = sys.argv[1:]
    runpy.run_module(f"pliant.apps.{sys.argv[0]}", run_name="__main__", alter_sys=True)
