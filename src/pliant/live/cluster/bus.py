"""What the parts of a live cluster and the lives of its jobs tell the core, and want done outside."""

from __future__ import annotations

from collections import deque

from pliant.core import events as e
from pliant.core.settings import NEVER
from pliant.live.cluster import orders as o
from pliant.protocol import messages as m


class Bus:
    """``events`` are for the core, ``outputs`` for others; both are taken by the cluster. ``names`` are those of the
    nodes, by number. ``now``: seconds, as the core counts them."""

    def __init__(self) -> None:
        self.now = 0.0
        self.names: dict[int, str] = {}
        self.events: deque[e.Event] = deque()
        self.outputs: list[o.Output] = []

    def happened(self, event: e.Event) -> None:
        self.events.append(event)

    def send(self, node: int, message: m.ControllerMessage) -> None:
        self.outputs.append(o.Send((self.names[node],), message))

    def later(self, key: o.Key, delay_s: float) -> None:
        if delay_s != NEVER:
            self.outputs.append(o.SetTimer(key, self.now + delay_s))

    def read_tail(self, job: int, path: str) -> None:
        self.outputs.append(o.ReadTail(job, path))

    def log(self, path: str, text: str) -> None:
        self.outputs.append(o.Log(path, text))
