"""The checkpoints of a job that runs, by arithmetic: none of them is an event of its own."""

from __future__ import annotations

import math
from typing import NamedTuple

from pliant.workloads.machine import Checkpoints

NEARLY = 1e-9
"""So little of an interval is rounding: what is to coincide with the end of one does."""


class Saved(NamedTuple):
    """From where a job goes on after a loss: ``left`` of the work of its phase number ``phase`` is to do there. It has
    lost nodes ``vain`` times since that was saved."""

    left: float = 1.0
    phase: int = 0
    vain: int = 0


START = Saved()


class Saving:
    """Where a job is between two checkpoints, in seconds. It reads one up to 0, computes for an interval, writes the
    next, and is at 0 again. What resizes take is no part of that."""

    __slots__ = ("_at", "_cycle_s", "_plan")

    def __init__(self, plan: Checkpoints) -> None:
        self._plan = plan
        self._cycle_s = plan.interval_s + plan.cost_s
        self._at = 0.0

    def restart(self, saved: Saved) -> None:
        """Go on from there, which takes time if it is not the job's beginning."""
        there = saved.left < 1.0 or saved.phase > 0
        self._at = -self._plan.restart_s if there else 0.0

    def written(self, seconds: float) -> float:
        """When in the next ``seconds`` the last checkpoint of these is complete; 0 if none is."""
        count = self._complete(self._at + seconds)
        return count * self._cycle_s - self._at if count > 0 else 0.0

    def computed(self, seconds: float) -> float:
        """For how long of the next ``seconds`` the job computes."""
        return self._computed(self._at + seconds) - self._computed(self._at)

    def lasts(self, seconds: float) -> float:
        """How long it takes until it has computed for ``seconds`` more. None is written at the very end."""
        goal = self._computed(self._at) + seconds
        writes = max(0, math.ceil(goal / self._plan.interval_s - NEARLY) - 1)
        return max(0.0, goal + writes * self._plan.cost_s - self._at)

    def go(self, seconds: float) -> None:
        """So long it goes on."""
        at = self._at + seconds
        count = self._complete(at)
        self._at = max(0.0, at - count * self._cycle_s) if count > 0 else at

    def _complete(self, at: float) -> int:
        return max(0, math.floor(at / self._cycle_s + NEARLY))

    def _computed(self, at: float) -> float:
        if at <= 0.0:
            return 0.0
        count, interval_s = self._complete(at), self._plan.interval_s
        return count * interval_s + min(max(0.0, at - count * self._cycle_s), interval_s)
