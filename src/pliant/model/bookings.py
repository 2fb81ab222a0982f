"""Advance reservations: nodes on which no job runs for a time that is known beforehand. They are called bookings in the
code, where a reservation is what a policy keeps for a waiting job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pliant.model.errors import BatchError


class Booking(NamedTuple):
    """``nodes`` nodes, whichever they are, from ``start_s`` to ``end_s``; of that partition, empty for the first or
    where there are none."""

    name: str
    start_s: float
    end_s: float
    nodes: int
    partition: str = ""


def in_order(bookings: Sequence[Booking]) -> tuple[Booking, ...]:
    """As they begin."""
    return tuple(sorted(bookings, key=lambda booking: (booking.start_s, booking.end_s)))


def check_bookings(bookings: Sequence[Booking], nodes: int, there: str = "there are") -> None:
    """BatchError where at some time more are booked than the ``nodes`` nodes, which ``there`` are."""
    for booking in bookings:
        at_once = [each for each in bookings if each.start_s <= booking.start_s < each.end_s]
        if (booked := sum(each.nodes for each in at_once)) > nodes:
            raise BatchError(
                f"reservation {booking.name!r}: nodes: with those that go on then {booked} are reserved at "
                f"{booking.start_s:g} s, and {there} {nodes}"
            )
