"""Backfilling that keeps advance reservations: no job starts that would, by its estimate, still be on their nodes when
they begin. All plan with a profile of free nodes, from which those that are booked are taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from pliant.model.bookings import Booking
from pliant.model.errors import PolicyError
from pliant.policy.conservative import Conservative, size_now
from pliant.policy.easy import BACKFILLED
from pliant.policy.fcfs import FITS, least_size
from pliant.policy.lasting import Lasting
from pliant.policy.places import Places, asked_s, length
from pliant.policy.profile import Profile
from pliant.policy.view import ClusterView, Decision, Policy, Promise, Start

EVER = float("inf")


class Calendar(NamedTuple):
    """What is booked of a machine of ``nodes`` nodes, in order of time."""

    nodes: int
    bookings: tuple[Booking, ...] = ()

    def book(self, profile: Profile, view: ClusterView) -> None:
        """Take what is booked from what would be free. Nodes that a booking has got are away, until its end; those that
        it lacks, as jobs take longer than they said, are nobody else's when they are free."""
        away = self.nodes - view.total
        for _, start_s, end_s, nodes, _ in self.bookings:
            if end_s <= view.now:
                continue
            if start_s > view.now:
                profile.add(start_s, end_s, -nodes)
                continue
            got = min(away, nodes)
            away -= got
            if got:
                profile.come(end_s, got)
            if got < nodes:
                profile.add(view.now, end_s, got - nodes)


class _Booked:
    """Starts who fits, in order of the queue; ``_goes_on`` behind the first who does not, for whom ``_reserves``."""

    name = ""
    _goes_on = False
    _reserves = False

    def __init__(self, calendar: Calendar, start: str = "preferred") -> None:
        self._calendar = calendar
        self._start = start

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        decisions: list[Decision] = []
        profile = Profile(view)
        self._calendar.book(profile, view)
        lasting = Lasting(view) if view.expiring else None
        passed = False
        for job in view.queue:
            if size := size_now(job, self._start, profile, view.total, lasting):
                profile.take(0, size, length(job, size))
                decisions.append(Start(job.id, size, BACKFILLED if passed and self._reserves else FITS))
                continue
            if not self._goes_on:
                break
            if self._reserves and not passed:
                nodes = least_size(job, self._start, view.total)
                entry = profile.earliest(nodes, asked_s(job, nodes, profile))
                if entry is not None:
                    decisions.append(Promise(job.id, profile.times[entry]))
                    profile.take(entry, nodes, length(job, nodes))
            passed = True
            if profile.free[0] <= 0:
                break
        return decisions


class BookedFcfs(_Booked):
    """``Fcfs``: who must wait for a booking to be over keeps all others waiting."""

    name = "fcfs"


class BookedFirstFit(_Booked):
    """``FirstFit``: whoever fits until the next booking, or beside it, starts."""

    name = "firstfit"
    _goes_on = True


class BookedEasy(_Booked):
    """``Easy``: the head of the queue is promised the first time from which nodes are there for its whole estimate."""

    name = "easy"
    _goes_on = True
    _reserves = True


class BookedConservative(Conservative):
    """``Conservative``: the places of all jobs are found beside the bookings. They are made anew in each pass."""

    def __init__(self, calendar: Calendar, start: str = "preferred") -> None:
        super().__init__(start)
        self._calendar = calendar

    def decide(self, view: ClusterView) -> list[Decision]:
        self._kept = None
        return super().decide(view)

    def _places(self, view: ClusterView) -> Places:
        places = Places(view)
        self._calendar.book(places.profile, view)
        return places


BOOKED: dict[str, Callable[[Calendar, str], Policy]] = {
    "fcfs": BookedFcfs,
    "firstfit": BookedFirstFit,
    "easy": BookedEasy,
    "conservative": BookedConservative,
}


def keeps_none(name: str) -> PolicyError:
    """Policy ``name`` knows nothing of bookings."""
    return PolicyError(
        f"policy {name!r} keeps no reservations: it might start or grow jobs on their nodes; those that keep them are "
        f"{', '.join(BOOKED)}"
    )
