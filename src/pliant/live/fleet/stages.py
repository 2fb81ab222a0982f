"""The life of a node, from when it is asked for until it is gone. The fleet moves along this table, which is drawn into
docs/protocol.md too."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from pliant.model.errors import ProtocolError


class NodeStage(StrEnum):
    """Where a node is in its life. ``GONE`` nodes are forgotten."""

    REQUESTED = "requested"
    """It was asked for: what an agent before it may have left there is being ended."""
    COMING = "coming"
    """Its agent has been started."""
    READY = "ready"
    """Its agent is there, and the node not granted yet."""
    GRANTED = "granted"
    UNLINKED = "unlinked"
    """The link to its agent is gone; what runs there goes on, for the grace."""
    EXPIRING = "expiring"
    """Its source takes it back soon: it is being emptied."""
    LEAVING = "leaving"
    """It was given back: its agent was told to end."""
    LOST = "lost"
    """Its agent is gone; what it has left is being ended."""
    GONE = "gone"


class Happens(StrEnum):
    """What befalls a node."""

    STARTED = "started"
    HELLO = "hello"
    GRANT = "grant"
    CUT = "cut"
    """The link is gone."""
    ENDED = "ended"
    """The agent is gone or not to be relied on, or the grace is over."""
    EXPIRE = "expire"
    LEAVE = "leave"
    """It is given back, or not wanted any more."""
    CLEARED = "cleared"
    """Nothing is left there."""
    AGAIN = "again"
    """Nothing is left there, and another agent is to be tried."""


_S, _H = NodeStage, Happens
TABLE: Final[Mapping[tuple[NodeStage, Happens], NodeStage]] = MappingProxyType(
    {
        (_S.REQUESTED, _H.STARTED): _S.COMING,
        (_S.REQUESTED, _H.LEAVE): _S.LEAVING,
        (_S.COMING, _H.HELLO): _S.READY,
        (_S.COMING, _H.ENDED): _S.LOST,
        (_S.COMING, _H.LEAVE): _S.LEAVING,
        (_S.READY, _H.GRANT): _S.GRANTED,
        (_S.READY, _H.ENDED): _S.LOST,
        (_S.GRANTED, _H.CUT): _S.UNLINKED,
        (_S.GRANTED, _H.ENDED): _S.LOST,
        (_S.GRANTED, _H.EXPIRE): _S.EXPIRING,
        (_S.GRANTED, _H.LEAVE): _S.LEAVING,
        (_S.UNLINKED, _H.HELLO): _S.GRANTED,
        (_S.UNLINKED, _H.ENDED): _S.LOST,
        (_S.UNLINKED, _H.EXPIRE): _S.UNLINKED,
        (_S.UNLINKED, _H.LEAVE): _S.LEAVING,
        (_S.EXPIRING, _H.CUT): _S.UNLINKED,
        (_S.EXPIRING, _H.ENDED): _S.LOST,
        (_S.EXPIRING, _H.LEAVE): _S.LEAVING,
        (_S.LEAVING, _H.CLEARED): _S.GONE,
        (_S.LOST, _H.AGAIN): _S.REQUESTED,
        (_S.LOST, _H.LEAVE): _S.LEAVING,
        (_S.LOST, _H.CLEARED): _S.GONE,
    }
)


def moved(stage: NodeStage, happens: Happens) -> NodeStage:
    """The stage after that; ProtocolError if it cannot happen there."""
    if (after := TABLE.get((stage, happens))) is None:
        raise ProtocolError(f"a node that is {stage} cannot meet {happens}")
    return after
