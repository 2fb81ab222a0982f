"""Measures a loop: a step that does nothing, and the looks at the program's variables at a resize.

    python -m pliant_lab.measure.steps     # nanoseconds a step, milliseconds a resize

The program runs alone, with one rank. Rank 0 looks three times at a resize: before it, behind it, and after the first
step. The time of the exchange between ranks comes on top.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

from pliant import mpi
from pliant.mpi.looking import look, prepare

STEPS, CHUNK = 1_000_000, 20_000
RESIZES, LOOKS = 100, 3


def step_ns(job: mpi.Job) -> float:
    """Nanoseconds a step, in the quickest CHUNK of STEPS."""
    best, last, done = float("inf"), time.perf_counter(), 0
    for _ in job.steps(STEPS):
        done += 1
        if done == CHUNK:
            now = time.perf_counter()
            best, last, done = min(best, now - last), now, 0
    return best / CHUNK * 1e9


def looks_ms(looked: Callable[[], object]) -> tuple[float, float]:
    """Milliseconds of processor time for the looks of a resize: of the quickest, and of the first."""
    each: list[float] = []
    for _ in range(RESIZES):
        began = time.thread_time()
        for _ in range(LOOKS):
            looked()
        each.append((time.thread_time() - began) * 1e3)
    return min(each), each[0]


def program(job: mpi.Job) -> tuple[float, float]:
    """A loop that looks at itself, with the kinds of variables that programs have."""
    old, new, source = (
        job.array(name, (64, 64), "f8", mpi.Block(halo=1)) for name in ("old", "new", "source")
    )
    total, count, title, shape, residuals = 1.5, 2, "a title", (3, 4), np.zeros(50)
    table, generator = {"first": 1, "rest": [1, 2, 3]}, np.random.default_rng(1)
    frame = sys._getframe()  # noqa: SLF001 - the interpreter's way to ask
    arrays = {each.name: each for each in (old, new, source)}
    prepare(frame)
    found = (0.0, 0.0)
    for _ in range(1):
        found = looks_ms(lambda: look(frame, arrays))
        total, count, old, new = total + 1.0, count + 1, new, old
        str((title, shape, residuals, table, generator, source))
    return found


def main() -> None:
    """Print both."""
    with mpi.malleable(max=1) as job:
        best, first = program(job)
        step = step_ns(job)
    sys.stdout.write(
        f"{step:.0f} ns a step; {LOOKS} looks a resize: {best:.2f} ms, the first {first:.2f} ms\n"
    )


if __name__ == "__main__":
    main()
