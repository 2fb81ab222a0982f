"""How long a scheduling pass may wait for nodes that jobs have left."""

from __future__ import annotations

from pliant.core.state import State

AT_ONCE_S = 1.0


def amid_s(state: State) -> float:
    """So many seconds after it is due a pass may be made at the latest, as nodes are on their way back or not."""
    return AT_ONCE_S if state.dirty else 0.0
