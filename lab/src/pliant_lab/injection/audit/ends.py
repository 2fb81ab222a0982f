"""When jobs begin and how they end, by the records alone: passes at their interval, and what losses make of an end."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pliant.core import records as r
from pliant.model.jobs import JobSpec, JobState
from pliant.model.kinds import KINDS, Loss
from pliant_lab.injection.audit.violation import Violation

if TYPE_CHECKING:
    from pliant_lab.injection.world import World

ROUNDING, LATE_S = 1e-6, 0.021
"""How much a pass may be off: a timer comes a little late now and then."""


class Ends:
    """A fold over the records of one controller, and of those before it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._specs: dict[int, JobSpec] = {}
        self._losses: dict[int, list[r.GroupsLost]] = {}
        self._ending: dict[int, r.JobEnding] = {}
        self._nodes: dict[int, set[int]] = {}
        """Those that a job has had, or was to have."""
        self._lost: set[int] = set()

    def add(self, record: r.Record) -> None:
        match record:
            case r.JobSubmitted():
                self._specs[record.job] = record.spec
            case r.JobStarted():
                self._nodes[record.job] = {*record.nodes}
                self._starts(record)
            case r.ResizeOffered():
                self._nodes[record.job].update(record.nodes)
            case r.NodesLost():
                self._lost.update(record.nodes)
            case r.GroupsLost():
                self._losses.setdefault(record.job, []).append(record)
            case r.JobEnding():
                self._ending[record.job] = record
                if record.state is JobState.NODE_FAIL and not self._nodes[record.job] & self._lost:
                    raise Violation("wrong", f"job {record.job} has lost no node, and is to end: {record}")
            case r.JobEnded():
                self._ended(record)
            case _:
                pass

    def _starts(self, record: r.JobStarted) -> None:
        if (interval_s := self._world.settings.pass_interval_s) <= 0.0:
            return
        held = self._world.was_full  # a pass that was due meanwhile is made when it may be
        late_s = record.at - math.floor(record.at / interval_s + ROUNDING) * interval_s
        if late_s > LATE_S and not held:
            raise Violation("wrong", f"job {record.job} starts at {record.at} s, between two passes")

    def _ended(self, record: r.JobEnded) -> None:
        losses = self._losses.pop(record.job, [])
        if not 0 <= record.exit_code <= 255:
            raise Violation("wrong", f"job {record.job} ended with exit code {record.exit_code}")
        fails = KINDS[self._specs[record.job].kind].loss is Loss.FAILS_JOB
        ending = self._ending.pop(record.job, None)
        if ending is not None and (ending.state, ending.error or record.error) != (
            record.state,
            record.error,
        ):
            raise Violation("wrong", f"job {record.job} was to end {ending}, and ended {record}")
        if record.state is JobState.COMPLETED and (record.exit_code or record.error):
            raise Violation("wrong", f"job {record.job} is COMPLETED, and there is an error: {record}")
        if record.state is JobState.COMPLETED and record.job in self._world.ledger.left_early:
            raise Violation(
                "wrong", f"job {record.job} is COMPLETED, and a rank had left it before MPI_Finalize"
            )
        if not losses or not fails or ending is not None:
            return
        state = JobState.NODE_FAIL if any(loss.node for loss in losses) else JobState.FAILED
        if record.state is not state or not record.error.startswith("lost group"):
            raise Violation(
                "wrong", f"job {record.job} has lost groups, and ended {record.state}: {record.error}"
            )
