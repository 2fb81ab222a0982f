"""What the agents of a launch tree say to each other, and the envelopes that they pass on.

The three phases are those of Bosilca et al. 2011: agents start along a tree, tell each other how they are reached, and
the application is started along a tree that may be another.
"""

from __future__ import annotations

import msgspec

from pliant.protocol.messages import Adrift, From, Heartbeat, Message, To

NO_ROUND = -1
"""The round before the first."""


class Calling(Message, frozen=True):
    """First on a link: the agent of ``rank`` calls whoever started it, or after the loss of its parent one that is
    further up; ``contact`` is how it is reached. ``placed``: a parent has told it what is below it."""

    rank: int
    contact: str
    placed: bool = False


class Below(Message, frozen=True):
    """To a new child: the ``nodes`` below it in the order of their ranks, the first of which follows its own. ``above``
    are the contacts of those from the root down to its parent, ``agents`` the number of all. One that has been placed
    before is told no nodes. ``adrift``: the controller is gone."""

    nodes: tuple[str, ...]
    above: dict[int, str]
    agents: int
    adrift: bool = False


class Contacts(Message, frozen=True):
    """How agents are reached, by rank, and, from above, why some ``gone`` ones will never be. ``whole``, once from each
    child: that is all that there is below it (Bosilca et al. 2011, Algorithm 2). An agent that is gone itself ends, and
    all that is below it."""

    reached: dict[int, str]
    gone: dict[int, str] = msgspec.field(default_factory=dict)
    whole: bool = False


class Lost(Message, frozen=True):
    """Upwards: these ranks are lost, and ``why``, as far as the agent of rank ``by`` can tell, which had them below it.
    The controller decides. Of the ``unborn``, which were below a lost one, nobody has heard: they were still to be
    started, or are lost as well."""

    by: int
    why: dict[int, str]
    unborn: tuple[int, ...] = ()


class Moved(Message, frozen=True):
    """Upwards: the agent of ``rank`` has lost its parent, and ``parent`` has adopted it."""

    rank: int
    parent: int


class Flood(Message, frozen=True):
    """``message`` is for every agent; those of one launch count from 1."""

    number: int
    message: msgspec.Raw


class Gathered(Message, frozen=True):
    """Upwards: a piece of what was put before a fence in ``round``, of one node or of several, merged. ``parts`` are
    the nodes, by the number of their groups, of which all has come with this. ``until``: up to this round that is all
    that there is of the agent and those below it, as far as it knows."""

    round: int = 0
    entries: dict[str, str] = msgspec.field(default_factory=dict)
    parts: tuple[int, ...] = ()
    until: int = NO_ROUND


class Ended(Message, frozen=True):
    """The launch is over: everything below ends."""

    why: str = ""


BranchMessage = Calling | Below | Contacts | Lost | Moved | Flood | Gathered | Adrift | Ended | To | From
"""What an agent's machine hears and tells. To goes down towards its nodes, From up to the controller."""
LinkMessage = BranchMessage | Heartbeat
"""A line on a link: a heartbeat says that it stands."""
