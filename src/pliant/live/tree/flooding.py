"""Messages for all agents of a launch, along its routing tree (Bosilca et al. 2011, phase 3)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from pliant.live.tree import messages as b
from pliant.live.tree.trunk import Trunk
from pliant.model.deadlines import FLOOD_AGAIN_S, FLOOD_TRIES
from pliant.plan import tree
from pliant.plan.tree import Subtree
from pliant.protocol import branches as m


class Flooding:
    """One agent's part. A message for one that is not known yet waits until it is; for one that is gone, those
    that it would have passed it on to get it from here."""

    def __init__(self, seat: b.Seat, trunk: Trunk) -> None:
        self._here = seat.rank
        self._tree = tree.named(seat.routing)
        self._trunk = trunk
        self._floods: dict[int, msgspec.Raw] = {}
        self._delivered = 0
        """The number of the last one."""
        self._sent: dict[int, set[int]] = {}
        """By rank the numbers of those that it was sent."""
        self._reaching: set[int] = set()
        """Those to which a link is being made, or soon will be."""
        self._tries: dict[int, int] = {}

    def spread(self, message: msgspec.Raw) -> None:
        """At the root: a new one."""
        self.heard(m.Flood(len(self._floods) + 1, message))

    def heard(self, flood: m.Flood) -> None:
        """Each once, and in order: after a loss they may come by different ways."""
        if flood.number in self._floods:
            return
        self._floods[flood.number] = flood.message
        while (message := self._floods.get(self._delivered + 1)) is not None:
            self._delivered += 1
            self._trunk.deliver(message)
        self.push()

    def repeat(self, rank: int) -> None:
        """Tell one that has just come all that there was: it may have missed it."""
        for number in sorted(self._floods.keys() - self._sent.get(rank, set())):
            self._send(rank, number)

    def cut(self, rank: int) -> None:
        """It may not have got what it was sent: that goes out again a little later, if it is still to be
        reached from here."""
        self._reaching.discard(rank)
        self._sent.pop(rank, None)
        tries = self._tries[rank] = self._tries.get(rank, 0) + 1
        if self._floods and tries <= FLOOD_TRIES and rank in self._trunk.reached:
            self._reaching.add(rank)
            self._trunk.do(b.SetTimer(f"again {rank}", FLOOD_AGAIN_S))

    def again(self, rank: int) -> None:
        self._reaching.discard(rank)
        self.push()

    def push(self) -> None:
        """Send what has not been sent to whom it should go."""
        trunk = self._trunk
        if not self._floods or not trunk.agents:
            return
        for rank in self._targets():
            missing = self._floods.keys() - self._sent.get(rank, set())
            if rank in trunk.links:
                self._reaching.discard(rank)
                for number in sorted(missing):
                    self._send(rank, number)
            elif missing and rank in trunk.reached and rank not in self._reaching:
                self._reaching.add(rank)
                trunk.do(b.Reach(rank, trunk.reached[rank]))

    def _send(self, rank: int, number: int) -> None:
        self._sent.setdefault(rank, set()).add(number)
        self._trunk.tell(rank, m.Flood(number, self._floods[number]))

    def _targets(self) -> Iterator[int]:
        """The next ones along the routing tree, those that are gone passed over. Whoever was added later has it from
        the root."""
        yield from (rank for rank in self._trunk.late if rank not in self._trunk.gone)
        if self._here > self._trunk.agents:
            return
        _, subtree = tree.span_of(self._tree, self._here, Subtree(0, self._trunk.agents + 1))
        open_spans = list(self._tree.spans(subtree.child + 1, subtree.end))
        while open_spans:
            each = open_spans.pop()
            if each.child in self._trunk.gone:
                open_spans.extend(self._tree.spans(each.child + 1, each.end))
            else:
                yield each.child
