"""What the parts of a world have around them: time, chance, the ledger, and those who listen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Protocol

from pliant.core import records as r
from pliant.live.cluster import orders as o
from pliant.protocol import messages as m
from pliant_lab.injection.clock import Clock
from pliant_lab.injection.ledger import Ledger

LOSSY = 4
"""One world in so many loses messages."""
REPEATED = 0.05
"""The share of orders to start a group that come twice."""
EARLY, HAIR_S, LATE, LATE_S = 0.2, 1e-9, 0.1, 0.02
"""The shares of the controller's timers that come early and late, and by how much."""


class Witness(Protocol):
    """Who watches the parts of a world."""

    def recorded(self, records: Sequence[r.Record]) -> None:
        """The controller has made these, and not yet done what they ask for."""

    def handled(
        self, inputs: Sequence[o.AnyInput], records: Sequence[r.Record], outputs: Sequence[o.Output]
    ) -> None:
        """The controller's machine has been told ``inputs``, and wants ``outputs``."""

    def sends(self, message: m.ControllerMessage, node: str, waiting: Iterable[r.Record]) -> None:
        """The controller sends this for the first time; ``waiting`` is not in its journal yet."""

    def checked(self) -> None:
        """The controller has done what it wanted."""

    def torn(self) -> None:
        """The controller's process has ended while it wrote."""

    def spawned(self, job: int, group: int, rank: int) -> None:
        """An agent executes a rank."""

    def accepts(self, job: int, node: str) -> None:
        """A process there says that its job accepts an offer."""

    def order(self, given: o.Resize) -> None:
        """An operator gives this order."""


class Connector(Protocol):
    """The end of the controller to which agents connect."""

    alive: bool

    def connected(self, node: str) -> None:
        """The agent of this node has come to the socket."""

    def died(self, node: str, agent: object) -> None:
        """The process of this agent of the node has ended."""


class Outside:
    """Around the parts of one seed's world. ``story`` is what happened, for people, told only where ``telling``."""

    connector: Connector
    witness: Witness

    def __init__(self, seed: int, grace: float, *, telling: bool) -> None:
        self.grace = grace
        """How long agents outlive their controller; with 0 they end with it."""
        self.lossy = seed % LOSSY == 0
        """Envelopes are lost and doubled on their way, though links stand."""
        self.random = Random(seed)  # noqa: S311 - seeded on purpose
        self.clock = Clock()
        self.ledger = Ledger(self.clock)
        self.over = False
        self.story: list[str] = []
        self.telling = telling

    def tell(self, text: str) -> None:
        if self.telling:
            self.story.append(f"{self.clock.now:10.3f} {text}")

    def note(self, met: list[int] | None, name: str = "meanwhile") -> None:
        self.tell(f"FAULT {name}: jobs {met}")

    def latency_s(self) -> float:
        return self.random.choice([1e-4, 1e-3, 5e-3])

    def about(self, moment: float) -> float:
        """When a timer comes: a clock that is read twice may say that it is a little too early, and others may be
        served before it."""
        if self.random.random() < EARLY:
            return moment - HAIR_S
        return moment + self.random.uniform(0.0, LATE_S) if self.random.random() < LATE else moment

    def repeat(self, send: Callable[[], None]) -> None:
        """Now and then an order comes once more, at any time."""
        if self.random.random() < REPEATED:
            self.clock.later(self.random.choice([0.0, 0.01, 1.0, 20.0]), send)
