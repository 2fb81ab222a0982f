"""What the agents of a launch tree say to each other, and the envelopes that they pass on.

The three phases are those of paper 4: agents start along a tree, tell each other how they are reached, and the
application is started along a tree that may be another.
"""

from __future__ import annotations

import msgspec

from pliant.protocol.messages import From, Heartbeat, Message, To


class Calling(Message, frozen=True):
    """First on a link: the agent of ``rank`` calls whoever started it, or after the loss of its parent one that is
    further up; ``contact`` is how it is reached."""

    rank: int
    contact: str


class Below(Message, frozen=True):
    """To a new child: the ``nodes`` below it in the order of their ranks, the first of which follows its own. ``above``
    are the contacts of those from the root down to its parent, ``agents`` the number of all."""

    nodes: tuple[str, ...]
    above: dict[int, str]
    agents: int


class Contacts(Message, frozen=True):
    """How agents are reached, by rank, and why some ``gone`` ones will never be. ``whole``, once from each child:
    that is all that there is below it (paper 4, Algorithm 2)."""

    reached: dict[int, str]
    gone: dict[int, str] = msgspec.field(default_factory=dict)
    whole: bool = False


class Flood(Message, frozen=True):
    """``message`` is for every agent; those of one launch count from 1."""

    number: int
    message: msgspec.Raw


class Ended(Message, frozen=True):
    """The launch is over: everything below ends."""

    why: str = ""


BranchMessage = Calling | Below | Contacts | Flood | Ended | To | From
"""What an agent's machine hears and tells. To goes down towards its nodes, From up to the controller."""
LinkMessage = BranchMessage | Heartbeat
"""A line on a link: a heartbeat says that it stands."""
