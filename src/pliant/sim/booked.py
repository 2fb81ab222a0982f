"""Advance reservations as the simulator keeps them: their nodes are asked back from the core when they are free, and
granted again at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pliant.core import events as e
from pliant.model.bookings import Booking, in_order
from pliant.model.nodes import NodeSet, lowest_bits


class BookedNodes:
    """A booking with the nodes that it has got, ``mask``, since ``since``."""

    __slots__ = ("booking", "mask", "number", "since", "turn")

    def __init__(self, booking: Booking) -> None:
        self.booking = booking
        self.mask = self.turn = self.number = 0
        self.since = booking.start_s

    @property
    def lacking(self) -> int:
        return self.booking.nodes - self.mask.bit_count()


class Booked:
    """All of a machine. ``at`` lets something happen at a time, and ``tell`` tells the core of an event.

    Bookings have had ``held_node_s`` node-seconds. ``lacked_node_s`` they should have had, but jobs that took longer
    than they said were still on the nodes.
    """

    def __init__(
        self,
        bookings: Sequence[Booking],
        at: Callable[[float, Callable[[Any, int], None], BookedNodes], None],
        tell: Callable[[e.Event], None],
    ) -> None:
        self._at = at
        self._tell = tell
        self._going: list[BookedNodes] = []
        self.held_node_s = self.lacked_node_s = 0.0
        for booking in in_order(bookings):
            at(booking.start_s, self._begin, BookedNodes(booking))

    def _begin(self, held: BookedNodes, _turn: int) -> None:
        """It gets nodes as soon as the core has heard of this instant."""
        self._going.append(held)
        self._at(held.booking.end_s, self._end, held)
        self._tell(e.Tick())

    def _end(self, held: BookedNodes, _turn: int) -> None:
        self._count(held, held.booking.end_s)
        self._going.remove(held)
        if held.mask:
            self._tell(e.Granted(NodeSet(held.mask)))

    def claim(self, free: int, now: float) -> None:
        """Those of the ``free`` nodes that are booked now are asked back, for whoever began first."""
        claimed = 0
        for held in self._going:
            if lacking := held.lacking:
                self._count(held, now)
                left = free & ~claimed
                mask = lowest_bits(left, min(lacking, left.bit_count()))
                held.mask |= mask
                claimed |= mask
        if claimed:
            self._tell(e.Reclaim(NodeSet(claimed)))

    def close(self, now: float) -> None:
        """Nothing happens after ``now``."""
        for held in self._going:
            self._count(held, now)

    def _count(self, held: BookedNodes, now: float) -> None:
        self.held_node_s += held.mask.bit_count() * (now - held.since)
        self.lacked_node_s += held.lacking * (now - held.since)
        held.since = now
