"""Where nodes come from: the port between a controller and whoever has nodes for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from pliant.live.cluster import orders as o
from pliant.protocol import messages as m

Event = o.Granted | o.EndAll | o.Refused | o.Returned | o.Lost | o.Back | o.Unlinked | o.Said
"""What a provider tells. It speaks of a node from when it is granted until it is returned or lost for good."""
Tell = Callable[[Event], object]


class Provider(Protocol):
    """Nodes with an agent each, by name. Nothing here waits for an answer: what becomes of a request is told."""

    env: dict[str, str]
    """What ranks on these nodes need in their environment."""

    async def start(self, tell: Tell) -> None:
        """Grant the nodes that the cluster begins with; PliantError if they cannot be had. ``tell`` is called from
        the event loop, from now on."""

    def request(self, count: int) -> None:
        """Ask for so many nodes more: Granted for those that come, Refused for the others, at once or later."""

    def give_back(self, nodes: Iterable[str]) -> None:
        """Nobody uses these nodes any more: their agents are ended, and Returned is told."""

    def send(self, nodes: Iterable[str], message: m.ControllerMessage, order: int = 0) -> None:
        """Send to the agents of these nodes, under the id ``order`` if it has one. A node that is lost gets nothing."""

    async def stop(self) -> None:
        """End all agents and all that they started; nothing is left afterwards."""
