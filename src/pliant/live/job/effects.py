"""What the life of a job can bring about: the cluster does it, or a test notes it."""

from __future__ import annotations

from typing import Protocol

from pliant.core import events as e
from pliant.live.cluster.orders import Key
from pliant.protocol import messages as m


class Effects(Protocol):
    """What a life can bring about."""

    def happened(self, event: e.Event) -> None:
        """Tell the core."""

    def send(self, node: int, message: m.ControllerMessage) -> None:
        """Send to the agent of a node."""

    def later(self, key: Key, delay_s: float) -> None:
        """Have ``fired`` called with this key after so long."""

    def read_tail(self, job: int, path: str) -> None:
        """Have ``tail`` called with the end of a file."""

    def log(self, path: str, text: str) -> None:
        """Add a line of ours to a file."""
