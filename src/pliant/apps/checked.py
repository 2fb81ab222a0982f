"""Loops that ask the scheduler themselves, as Iserte et al.'s programs do (section 5.1), in place of ``job.steps()``;
and how long that took, by what came of it: its Table 2."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from pliant.model.speedup import Model

if TYPE_CHECKING:
    from pliant.mpi import Job

SYNC, ASYNC = "sync", "async"
WAYS = (SYNC, ASYNC)
"""The scheduler's answer is waited for (``job.check``), or used at the next step (``job.icheck``)."""
NO_ACTION = "no action"
KEY = "actions"
"""Of the line of JSON that a program prints."""


class Spent(NamedTuple):
    """So many ``times``: the least, the most and the sum in seconds, and the sum of their squares."""

    times: int = 0
    min_s: float = float("inf")
    max_s: float = 0.0
    sum_s: float = 0.0
    squares: float = 0.0

    def plus(self, other: Spent) -> Spent:
        """All times of both."""
        return Spent(
            self.times + other.times, min(self.min_s, other.min_s), max(self.max_s, other.max_s),
            self.sum_s + other.sum_s, self.squares + other.squares,
        )  # fmt: skip


def once(seconds: float) -> Spent:
    return Spent(1, seconds, seconds, seconds, seconds * seconds)


def turns(job: Job, steps: int, pace: Model | None, way: str) -> Iterator[int]:
    """Steps 0 .. ``steps`` - 1, or from the job's current one on a newcomer; before each the scheduler is asked, and
    what it says is done. A step takes at least ``pace.time(nodes) / steps`` seconds. In the end rank 0 prints what its
    checks and resizes took, by the names of the actions."""
    from pliant.mpi import Action

    done, spent = job.value("done", 0), job.value("spent", dict[str, Spent]())
    job.join()
    ask = job.check if way == SYNC else job.icheck
    timetable, counts = _Timetable(pace, steps), job.fresh
    while done.value < steps:
        timetable.keep(done.value, job.nodes)
        began = time.perf_counter()
        action = ask()
        if action is not Action.NO_ACTION:
            job.resize(action)
        if counts and (job.asked or action):  # a newcomer is joined in the midst of its first
            took = once(time.perf_counter() - began)
            name = action.name.lower() if action else NO_ACTION
            spent.value = {**spent.value, name: spent.value.get(name, Spent()).plus(took)}
        counts = True
        yield done.value
        done.value += 1
    timetable.keep(done.value, job.nodes)
    if job.rank == 0:
        said(spent.value)


def said(spent: Mapping[str, Spent]) -> None:
    """Print it as one line of JSON."""
    sys.stdout.write(json.dumps({KEY: spent}) + "\n")
    sys.stdout.flush()


class _Timetable:
    """When steps may begin; a new one is made when the job has another size."""

    def __init__(self, pace: Model | None, steps: int) -> None:
        self._pace, self._steps = pace, steps
        self._nodes, self._first, self._begin_s = 0, 0, 0.0

    def keep(self, step: int, nodes: int) -> None:
        """Wait until ``step`` may begin."""
        if self._pace is None or not self._steps:
            return
        if self._nodes:
            each_s = self._pace.time(self._nodes) / self._steps
            left_s = self._begin_s + (step - self._first) * each_s - time.perf_counter()
            time.sleep(max(0.0, left_s))
        if nodes != self._nodes:
            self._nodes, self._first, self._begin_s = nodes, step, time.perf_counter()
