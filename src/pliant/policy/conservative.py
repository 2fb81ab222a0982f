"""Conservative backfilling: every waiting job holds a reservation, and nobody may pass another to its harm.

Mu'alem and Feitelson, Utilization, Predictability, Workloads, and User Runtime Estimates in Scheduling the
IBM SP2 with Backfilling, 2001; compression as in pyss.
"""

from __future__ import annotations

from pliant.model.speedup import falls
from pliant.policy.easy import BACKFILLED
from pliant.policy.fcfs import FITS, least_size, start_size
from pliant.policy.job_view import JobView
from pliant.policy.lasting import Lasting
from pliant.policy.places import Places, asked_s
from pliant.policy.profile import Profile
from pliant.policy.view import ClusterView, Decision, Promise, Start

CHOOSING = ("preferred", "free")
"""By these rules a job that may have several sizes can start with more nodes than it has a place for."""


class Conservative:
    """Conservative backfilling: each job is promised a start when it is submitted, and keeps it or betters it.

    After something has ended, each waiting job in its turn gives up its place for the earliest one there is
    now: with estimates that are upper bounds its old place is one of them. Places are for the smallest
    size that rule ``start`` allows; a job that can start at once takes more, by rule ``start``, where that
    moves nobody's place.

    All promises are in the view. What is kept between passes only saves the work of reserving anew what
    nothing has changed for; one that is made anew looks once more, and may better some places by it.
    """

    name = "conservative"

    def __init__(self, start: str = "preferred") -> None:
        self._start = start
        self._kept: Places | None = None

    def decide(self, view: ClusterView) -> list[Decision]:
        places, self._kept = self._kept, None
        if places is None or view.expiring or not places.follow(view):
            places = self._anew(view)
        decisions = self._place(view, places)
        self._kept = None if view.expiring else places
        return decisions

    def _places(self, view: ClusterView) -> Places:
        """What is taken by those that run."""
        return Places(view)

    def _anew(self, view: ClusterView) -> Places:
        """Reserve what has been promised; then all look for something better."""
        places = self._places(view)
        # Where jobs have outrun their estimates, who was promised first gives way last.
        promised = [(job.promised, job.id, job) for job in places.looking if job.promised is not None]
        promised.sort()
        for at, _, job in promised:
            places.hold(job, max(at, view.now), least_size(job, self._start, view.total))
        return places

    def _place(self, view: ClusterView, places: Places) -> list[Decision]:
        """Start those who look for a place or promise them a start, in turn."""
        decisions: list[Decision] = []
        profile = places.profile
        lasting = Lasting(view) if view.expiring else None
        passed = False
        for job in places.looking:
            if not places.may_better(job):
                passed = True
                continue
            left = places.leave(job)
            if size := size_now(job, self._start, profile, view.total, lasting):
                places.start(job, size, left)
                behind = passed or 0 < places.first < job.id
                decisions.append(Start(job.id, size, BACKFILLED if behind else FITS))
                continue
            passed = True
            nodes = least_size(job, self._start, view.total)
            entry = places.earliest(job, nodes)
            if entry is None:
                places.wait(job)
                continue
            at = places.take(job, entry, nodes, left)
            places.choosy |= self._start in CHOOSING and job.bounds.min < job.bounds.max
            if at != job.promised:
                decisions.append(Promise(job.id, at))
        return decisions


def size_now(job: JobView, rule: str, profile: Profile, total: int, lasting: Lasting | None = None) -> int:
    """The largest size by the start ``rule`` with which ``job`` can start at once, or 0. Where fewer nodes are quicker
    it may be a smaller one. Where nodes expire it takes those on which it starts."""
    size = _size_now(job, rule, profile, total)
    return size if lasting is None or not size else lasting.start(job, size, rule, keep=False)


def _size_now(job: JobView, rule: str, profile: Profile, total: int) -> int:
    size = start_size(job, rule, profile.free[0], total)
    while size:
        least = profile.least(asked_s(job, size, profile))
        if least >= size:
            return size
        size = start_size(job, rule, least, total)  # those in between mostly take longer, and find no more
    if job.bounds.min == job.bounds.max or falls(job.spec.model):
        return 0
    size = least_size(job, rule, total)
    return size if size <= profile.free[0] and profile.least(asked_s(job, size, profile)) >= size else 0
