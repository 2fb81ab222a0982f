"""How long a scheduling pass may wait for nodes that jobs have left, or leave as they have lost one."""

from __future__ import annotations

from pliant.core.state import State
from pliant.model.jobs import JobState

AT_ONCE_S = 1.0


def amid_s(state: State) -> float:
    """So many seconds after it is due a pass may be made at the latest, as nodes are on their way back or not."""
    ends = any(job.ending is JobState.NODE_FAIL for _, _, job in state.running)
    return AT_ONCE_S if state.dirty or ends else 0.0
