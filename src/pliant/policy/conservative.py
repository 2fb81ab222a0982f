"""Conservative backfilling: every waiting job holds a reservation, and nobody may pass another to its harm.

Mu'alem and Feitelson, Utilization, Predictability, Workloads, and User Runtime Estimates in Scheduling the
IBM SP2 with Backfilling, 2001; compression as in pyss.
"""

from __future__ import annotations

from pliant.model.jobs import JobClass
from pliant.model.speedup import falls
from pliant.policy.easy import BACKFILLED
from pliant.policy.ends import ExpiryProfile, Taken
from pliant.policy.fcfs import FITS, least_size, start_size
from pliant.policy.job_view import JobView
from pliant.policy.lasting import Lasting
from pliant.policy.places import Places, asked_s, length
from pliant.policy.profile import Profile
from pliant.policy.view import ClusterView, Decision, Promise, Start

CHOOSING = ("preferred", "free")
"""By these rules a job that may have several sizes can start with more nodes than it has a place for."""
DEPTH = 100
"""So many waiting jobs hold a reservation amid nodes that expire."""


class Conservative:
    """Conservative backfilling: each job is promised a start when it is submitted, and keeps it or betters it.

    After something has ended, each waiting job in its turn gives up its place for the earliest one there is
    now: with estimates that are upper bounds its old place is one of them. Places are for the smallest
    size that rule ``start`` allows; a job that can start at once takes more, by rule ``start``, where that
    moves nobody's place.

    Amid nodes that expire the first 100 jobs alone hold a reservation: those that were promised a start, the soonest
    first, and then others in the order of the queue. A job behind them starts if it delays none of their reservations.

    All promises are in the view. What is kept between passes only saves the work of reserving anew what
    nothing has changed for; one that is made anew looks once more, and may better some places by it.
    """

    name = "conservative"

    def __init__(self, start: str = "preferred") -> None:
        self._start = start
        self._kept: Places | None = None

    def decide(self, view: ClusterView) -> list[Decision]:
        places, self._kept = self._kept, None
        if view.expiring:
            return _ExpiringPass(view, self._start).decide()
        if places is None or not places.follow(view):
            places = self._anew(view)
        decisions = self._place(view, places)
        self._kept = places
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
        passed = False
        for job in places.looking:
            if not places.may_better(job):
                passed = True
                continue
            left = places.leave(job)
            if size := size_now(job, self._start, profile, view.total):
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


class _ExpiringPass:
    """One pass amid nodes that expire: all is reserved anew, for ``DEPTH`` jobs, those first that were promised
    something."""

    def __init__(self, view: ClusterView, start: str) -> None:
        self._view = view
        self._rule = start
        self._profile = ExpiryProfile(view)
        self._lasting = Lasting(view)
        self._places: dict[int, Taken] = {}

    def decide(self) -> list[Decision]:
        view, profile = self._view, self._profile
        queue = list(view.queue)
        promised = sorted((job.promised, job.id, job) for job in queue if job.promised is not None)
        for at, _, job in promised[:DEPTH]:
            self._reserve(job, max(at, view.now))
        decisions: list[Decision] = []
        passed = False
        for job in queue:
            profile.give_back(self._places.pop(job.id, Taken()))
            if size := self._size_now(job):
                profile.take(0, size, length(job, size), whole=_whole(job))
                decisions.append(Start(job.id, size, BACKFILLED if passed else FITS))
                continue
            passed = True
            begins = self._reserve(job, view.now) if len(self._places) < DEPTH else None
            if begins is not None and begins != job.promised:
                decisions.append(Promise(job.id, begins))
        return decisions

    def _reserve(self, job: JobView, since: float) -> float | None:
        """Reserve nodes for the job as early as there are enough, but not before ``since``. When that is; None if there
        never are."""
        nodes, whole = least_size(job, self._rule, self._view.total), not job.spec.may_outlast
        if nodes > self._view.total:
            return None
        seconds = length(job, nodes)
        entry = self._profile.earliest(nodes, seconds, since, whole=whole)
        if entry is None:
            return None
        at = self._profile.times[entry]
        self._places[job.id] = self._profile.take(entry, nodes, seconds, whole=whole)
        return at

    def _size_now(self, job: JobView) -> int:
        """The largest size by the start rule with which the job can start at once, or 0. It takes its nodes of the
        free ones that last, and none of the profile."""
        rule, total, free = self._rule, self._view.total, self._profile.free
        size = start_size(job, rule, free, total)
        while size and (least := self._least(job, size)) < size:
            size = start_size(job, rule, least, total)
        if not size and job.bounds.min < job.bounds.max and not falls(job.spec.model):
            size = least_size(job, rule, total)
            size = size if size <= free and self._least(job, size) >= size else 0
        return self._lasting.start(job, size, rule, keep=False) if size else 0

    def _least(self, job: JobView, size: int) -> int:
        return sum(self._profile.counts(0, length(job, size), whole=_whole(job)))


def _whole(job: JobView) -> bool:
    """Whether all nodes on which it starts have to last until its end."""
    return not job.spec.may_outlast and job.spec.job_class is not JobClass.MALLEABLE


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
