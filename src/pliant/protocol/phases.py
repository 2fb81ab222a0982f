"""The phases of a resize, by the names that jobs, records, reports and measurements share.

| phase        | of an expansion                                               | of a shrink                          |
|--------------|---------------------------------------------------------------|--------------------------------------|
| prepare      | from the offer until the job has accepted it                  | the same                             |
| start        | until all new groups have come to where they can be joined    |                                      |
| synchronise  | newcomers join each other, and all ranks of the job stop      | all ranks of the job stop            |
| connect      | the job and the newcomers meet                                |                                      |
| merge        | they become one communicator                                  |                                      |
| reorder      | who is which rank, and where the job stands                   | the communicator of those that stay  |
| redistribute | data go where they belong                                     | the same                             |
| commit       | the root's last word, and what was before is left             | what was before is left              |

A shrink redistributes before it reorders. A migration has the phases of an expansion, and behind its data those of a
shrink: the communicator of those that go on belongs to its phase reorder, and comes after the root's last word. What a
resize of some kind has no work for is no phase of it. A job that a bare mpiexec has started is offered nothing: its
resize is prepared by those who start others. A program of places prepares by what its handler does before,
redistributes until places that leave have ended their tasks, and commits by what its handler does behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Phase(StrEnum):
    """In the order of an expansion."""

    PREPARE = "prepare"
    START = "start"
    SYNCHRONISE = "synchronise"
    CONNECT = "connect"
    MERGE = "merge"
    REORDER = "reorder"
    REDISTRIBUTE = "redistribute"
    COMMIT = "commit"


BEFORE = (Phase.PREPARE, Phase.START, Phase.SYNCHRONISE)
"""The job computes in them, but for the end of the last."""

DEADLINES = {
    Phase.PREPARE: "offer_deadline_s",
    Phase.START: "resize_deadline_s",
    Phase.SYNCHRONISE: "resize_deadline_s",
    **{phase: "PLIANT_DEADLINE" for phase in Phase if phase not in BEFORE},
}
"""By which setting each phase ends: the scheduler's, or that of each wait of the job. docs/resizing.md has more."""


def in_order(seconds: Mapping[str, float]) -> dict[str, float]:
    """Those of ``seconds`` that are of a phase, in the order of the phases."""
    return {str(phase): seconds[phase] for phase in Phase if phase in seconds} if seconds else {}


class PhaseTimer:
    """When a resize has come to its phases, as the scheduler sees it: what it does itself it times, of the others it
    knows where they are."""

    __slots__ = ("_at", "phase")

    def __init__(self, at: float) -> None:
        self.phase = Phase.PREPARE
        self._at = {Phase.PREPARE: at}

    def come(self, phase: Phase, at: float) -> None:
        """It has come to ``phase``. Those in which the job computes come once; a resize of slots by which some ranks
        go to sleep and others wake up comes to others twice."""
        if phase not in self._at or phase not in BEFORE:
            self.phase = phase
            self._at.setdefault(phase, at)

    def seconds(self, told: Mapping[str, float], at: float) -> dict[str, float]:
        """What the phases took of a resize that was done at ``at``: what the job has ``told`` of those in which it did
        something, and what came before. A job that tells nothing has no phases."""
        found = in_order(told)
        if not found:
            return {}
        until = at - sum(found.values())
        for phase in reversed(BEFORE):
            if phase in self._at:
                found[phase] = found.get(phase, 0.0) + max(0.0, until - self._at[phase])
                until = self._at[phase]
        return in_order(found)
