"""The states of a resize, as data: the one table that the core applies. What may go over the wire in which state is
a projection of it (``scheduler_side``), and docs/protocol.md shows it.

| state     | meaning                                                                                        |
|-----------|------------------------------------------------------------------------------------------------|
| none      | the job has no resize outstanding                                                              |
| offered   | the job has not answered; the nodes of arriving groups are reserved                            |
| withdrawn | taken back before it was answered: its nodes are free again, and the answer is still to come   |
| crossed   | accepted after it was taken back: nothing was started, and the job has yet to fail it          |
| accepted  | arriving groups are started; the job reports that it is done, or that it failed                |
| recalled  | accepted, then taken back: done or failed is to come, whichever was sooner                     |

A drain is an offer that the job cannot decline.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

NONE, OFFERED, WITHDRAWN, CROSSED, ACCEPTED, RECALLED = (
    "none", "offered", "withdrawn", "crossed", "accepted", "recalled",
)  # fmt: skip
OUTSTANDING = (OFFERED, WITHDRAWN, CROSSED, ACCEPTED, RECALLED)


class Effect(Enum):
    """What becomes of the groups of a resize and of their nodes."""

    RESERVE = "the nodes of arriving groups are reserved"
    FREE = "the reserved nodes are free again: nothing was started there"
    START = "arriving groups are started"
    COMMIT = "arriving groups join the job, leaving ones have left it; slots are as offered"
    SHRINK = "leaving groups have left it, slots are as offered; it fails if groups were to arrive: none was started"
    CLEAN = "arriving groups are ended, and their nodes proved clean"
    NOTHING = "nothing: no group was started, no node is reserved"


class Move(NamedTuple):
    """Where an input leads, and what it does."""

    state: str
    effect: Effect


TABLE: dict[tuple[str, str], Move] = {
    (NONE, "Offer"): Move(OFFERED, Effect.RESERVE),
    (OFFERED, "Accept"): Move(ACCEPTED, Effect.START),
    (OFFERED, "Decline"): Move(NONE, Effect.FREE),
    (OFFERED, "Withdraw"): Move(WITHDRAWN, Effect.FREE),
    (WITHDRAWN, "Accept"): Move(CROSSED, Effect.NOTHING),
    (WITHDRAWN, "Decline"): Move(NONE, Effect.NOTHING),
    (CROSSED, "Done"): Move(NONE, Effect.SHRINK),
    (CROSSED, "Failed"): Move(NONE, Effect.NOTHING),
    (ACCEPTED, "Withdraw"): Move(RECALLED, Effect.NOTHING),
    **{(state, "Done"): Move(NONE, Effect.COMMIT) for state in (ACCEPTED, RECALLED)},
    **{(state, "Failed"): Move(NONE, Effect.CLEAN) for state in (ACCEPTED, RECALLED)},
    # The end of the job answers whatever is open.
    (OFFERED, "End"): Move(NONE, Effect.FREE),
    **{(state, "End"): Move(NONE, Effect.NOTHING) for state in (WITHDRAWN, CROSSED)},
    **{(state, "End"): Move(NONE, Effect.CLEAN) for state in (ACCEPTED, RECALLED)},
}
"""(state, input) -> what follows. Inputs that are not here come too late, or out of place, and change nothing.
``Offer`` stands for a drain as well, ``Withdraw`` is the scheduler's; ``End`` is the end of the job."""

HOLDING = frozenset({OFFERED, ACCEPTED, RECALLED})
"""The states in which the nodes of arriving groups are reserved for the job."""
STARTED = frozenset({ACCEPTED, RECALLED})
"""The states in which arriving groups may have been started."""
