"""Advance reservations as a user describes them, in a file of TOML or in a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pliant.files.batch import tables_of
from pliant.model.bookings import Booking, check_bookings, in_order
from pliant.model.errors import BatchError
from pliant.model.jobs import JobClass
from pliant.model.keys import count_of, known, text_of, time_of
from pliant.model.limits import MOST_NODES
from pliant.model.speedup import Phases
from pliant.model.words import nearest
from pliant.workloads.job import SimJob
from pliant.workloads.partitions import Partitions

LATEST_S = 1e12
"""When a reservation may end at the latest: later, the times of jobs are no longer told apart to the millisecond."""
KEYS = ("name", "start", "end", "nodes", "partition")


def read_bookings(said: Any) -> tuple[Booking, ...]:
    """The reservations of a TOML file, or of tables with its keys, in order of time; BatchError names the file and what
    is wrong."""
    where, tables = tables_of(said, "reservation")
    return in_order([_booking(data, str(number), where) for number, data in enumerate(tables, 1)])


def _booking(data: Mapping[str, Any], number: str, where: str) -> Booking:
    name = text_of(data, "name", f"{where}: reservation {number}", number)
    at = f"{where}: reservation {name!r}"
    known(data, KEYS, at)
    for key in ("start", "end", "nodes"):
        if key not in data:
            raise BatchError(f"{at}: {key}: missing; a reservation says start, end and nodes")
    start_s, end_s = (time_of(data, key, at, 0.0) for key in ("start", "end"))
    if end_s <= start_s:
        raise BatchError(f"{at}: end: {end_s:g} s is no later than its start, {start_s:g} s")
    if end_s > LATEST_S:
        raise BatchError(f"{at}: end: {end_s:g} s is too late; the latest is {LATEST_S:g} s")
    nodes = count_of(data, "nodes", at, 1, MOST_NODES)
    return Booking(name, start_s, end_s, nodes, text_of(data, "partition", at, ""))


def check_booked(
    bookings: Sequence[Booking], jobs: Sequence[SimJob], nodes: int, partitions: Partitions | None
) -> None:
    """BatchError for reservations that a machine of these nodes or ``partitions`` cannot have, or not with ``jobs``."""
    names = [] if partitions is None else [each.name for each in partitions.each]
    for booking in bookings:
        if booking.partition and booking.partition not in names:
            there = f"there is no {booking.partition!r}{nearest(booking.partition, names)}"
            raise BatchError(f"reservation {booking.name!r}: partition: {there}")
    if partitions is None:
        check_bookings(bookings, nodes)
    else:
        for i, each in enumerate(partitions.each):
            check_bookings(of_partition(bookings, each.name, i), each.nodes, f"partition {each.name!r} has")
    for job in jobs if bookings else ():
        spec = job.spec
        asks = isinstance(spec.model, Phases) and spec.model.asks  # a malleable job that asks for nodes too
        if spec.job_class is JobClass.EVOLVING or asks:
            raise BatchError(
                f"job {spec.name!r}: it asks for nodes itself, and would grow into those that are reserved: give no "
                "--reservations, or --rigid"
            )


def of_partition(bookings: Sequence[Booking], name: str, index: int) -> tuple[Booking, ...]:
    """Those of the partition of this name; the first has those that name none, too."""
    return tuple(each for each in bookings if each.partition == name or (not index and not each.partition))
