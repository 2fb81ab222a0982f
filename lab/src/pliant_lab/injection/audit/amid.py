"""How long a scheduling pass may wait for nodes that jobs have left, or leave as they have lost one."""

from __future__ import annotations

from pliant.core.state import State

AT_ONCE_S = 1.0


def amid_s(state: State) -> float:
    """So many seconds after it is due a pass may be made at the latest: nodes that jobs have just left are on their way
    back, and so are the others of a job that is being ended."""
    ends = any(job.ending is not None for _, _, job in state.running)
    return AT_ONCE_S if state.nodes.dirty or ends else 0.0
