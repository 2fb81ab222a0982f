"""How nodes are reached: the port between a fleet, which decides, and whatever starts agents and moves bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from pliant.live.cluster import orders as o
from pliant.live.fleet.fleet import Site
from pliant.protocol import codec
from pliant.protocol import messages as m

Event = o.Heard | o.Cut | o.Ended | o.Cleared | o.TakenAway | o.Warned | o.Granted | o.EndAll
"""What a driver tells: of agents, and what it hears of the time for which there are nodes."""
Tell = Callable[[Event], object]


class Driver(Protocol):
    """Nodes by name, and an agent on each. Nothing here waits for an answer: what comes of it is told."""

    env: dict[str, str]
    """What ranks on these nodes need in their environment."""
    secret: bytes
    """The run's, where agents outlive their controller: the next one has the same. Else nothing."""
    site: Site
    """Which nodes there may be, and how long things take there."""

    async def open(self, tell: Tell) -> None:
        """Be ready to start agents, and to be called by those that run already; PliantError if that cannot be. ``tell``
        is called from the event loop, from now on."""

    def start(self, nodes: Iterable[str]) -> None:
        """Start an agent on each of these nodes: Heard is told of its hello, or Ended."""

    def send(self, node: str, envelope: m.To) -> None:
        """Send to the agent of this node, if there is a link."""

    def clear(self, node: str) -> None:
        """End the agent of this node, if there is one, and all that was started there: then Cleared is told."""

    async def close(self) -> None:
        """End all agents and all that they started; nothing is left afterwards."""


def carry_out(driver: Driver, output: o.Output) -> bool:
    """Have a driver do what a fleet wants of it; False if that is for somebody else."""
    match output:
        case o.Send():
            envelope = m.To(output.nodes, codec.raw(output.message), output.id, output.after)
            for node in output.nodes:
                driver.send(node, envelope)
        case o.StartAgents():
            driver.start(output.nodes)
        case o.Clear():
            driver.clear(output.node)
        case _:
            return False
    return True
