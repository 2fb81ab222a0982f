"""Envelopes through the launch tree: down to the nodes that they are for, up to the controller."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pliant.live.tree import messages as b
from pliant.live.tree.trunk import Trunk
from pliant.protocol import messages as m


class Routing:
    """One agent's part. What it passes on it does not read. An envelope for one that is gone, or cannot be reached
    now, goes nowhere: whoever must not lose it repeats it."""

    def __init__(self, seat: b.Seat, trunk: Trunk) -> None:
        self._here = seat.rank
        self._trunk = trunk
        self._ranks: dict[str, int] = {}
        """Of the nodes below."""
        self.spoken: set[str] = set()
        """At the root: the nodes that have said something."""

    def begin(self, nodes: Mapping[int, str]) -> None:
        """These nodes, by rank, are below, too; one that was there before has another rank now."""
        self._ranks |= {node: rank for rank, node in nodes.items()}

    def down(self, envelope: m.To) -> None:
        """One copy for all nodes behind each child. A node that is not below is this one."""
        ways: dict[int | None, list[str]] = {}
        for node in envelope.nodes:
            rank = self._ranks.get(node)
            way = self._here if rank is None else self._trunk.way(rank)
            ways.setdefault(way, []).append(node)
        for way, nodes in ways.items():
            part = envelope if len(ways) == 1 else msgspec.structs.replace(envelope, nodes=tuple(nodes))
            if way == self._here:
                self._trunk.do(b.Local(part))
            elif way is not None:
                self._trunk.tell(way, part)

    def up(self, envelope: m.From) -> None:
        if self._here:
            self._trunk.tell(self._trunk.parent, envelope)
        else:
            self.spoken.add(envelope.node)
            self._trunk.do(b.Arrived(envelope))
