"""When jobs begin and how they end, by the records alone: passes at their interval, and what losses make of an end."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pliant.core import records as r
from pliant.model.jobs import JobSpec, JobState
from pliant.model.kinds import KINDS, Loss
from pliant.testing.audit.violation import Violation

if TYPE_CHECKING:
    from pliant.testing.world import World

ROUNDING, LATE_S = 1e-6, 0.021
"""How much a pass may be off: a timer comes a little late now and then."""


class Ends:
    """A fold over the records of one controller, and of those before it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._specs: dict[int, JobSpec] = {}
        self._losses: dict[int, list[r.GroupsLost]] = {}
        self._ending: set[int] = set()

    def add(self, record: r.Record) -> None:
        match record:
            case r.JobSubmitted():
                self._specs[record.job] = record.spec
            case r.JobStarted() if (interval_s := self._world.settings.pass_interval_s) > 0.0:
                passes = record.at / interval_s
                held = self._world.was_full  # a pass that was due meanwhile is made when it may be
                late_s = record.at - math.floor(passes + ROUNDING) * interval_s
                if late_s > LATE_S and not held:
                    raise Violation("wrong", f"job {record.job} starts at {record.at} s, between two passes")
            case r.GroupsLost():
                self._losses.setdefault(record.job, []).append(record)
            case r.JobEnding():
                self._ending.add(record.job)
            case r.JobEnded():
                self._ended(record)
            case _:
                pass

    def _ended(self, record: r.JobEnded) -> None:
        losses = self._losses.pop(record.job, [])
        if not 0 <= record.exit_code <= 255:
            raise Violation("wrong", f"job {record.job} ended with exit code {record.exit_code}")
        fails = KINDS[self._specs[record.job].kind].loss is Loss.FAILS_JOB
        if not losses or not fails or record.job in self._ending:
            return
        state = JobState.NODE_FAIL if any(loss.node for loss in losses) else JobState.FAILED
        if record.state is not state or not record.error.startswith("lost group"):
            raise Violation(
                "wrong", f"job {record.job} has lost groups, and ended {record.state}: {record.error}"
            )
