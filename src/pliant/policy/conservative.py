"""Conservative backfilling: every waiting job holds a reservation, and nobody may pass another to its harm.

Mu'alem and Feitelson, Utilization, Predictability, Workloads, and User Runtime Estimates in Scheduling the
IBM SP2 with Backfilling, 2001; compression as in pyss.
"""

from __future__ import annotations

from bisect import insort

from pliant.policy.easy import BACKFILLED
from pliant.policy.fcfs import FITS, least_size, start_size
from pliant.policy.profile import Profile
from pliant.policy.view import ClusterView, Decision, JobView, Promise, Start

LEAST_S = 1e-3
"""A job that takes no time by its estimate is given this: it needs its nodes, if only for an instant."""


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
        self._profile: Profile | None = None
        self._running: list[tuple[float, int]] = []
        self._placed = 0

    def decide(self, view: ClusterView) -> list[Decision]:
        queue = list(view.queue)
        self._running, before = [(end, number) for end, number, _ in view.running], self._running
        new = [job for job in queue if job.promised is None]
        profile = self._profile
        # A place that has come and could not be taken, since nodes were not clean yet, may be over by now.
        due = any(job.promised is not None and job.promised <= view.now for job in queue)
        if (
            profile is not None
            and not due
            and len(queue) - len(new) == self._placed
            and before == self._running
        ):
            profile.advance(view.now)
            if profile.free[0] == view.free and not view.returning() and not self._overrun(view.now):
                return self._place(view, profile, new, len(queue), {})
        self._profile = profile = Profile(view)
        return self._compress(view, profile, queue)

    def _overrun(self, now: float) -> bool:
        return bool(self._running) and self._running[0][0] <= now

    def _compress(self, view: ClusterView, profile: Profile, queue: list[JobView]) -> list[Decision]:
        """Reserve what has been promised; then each job in turn looks for something better."""
        held: dict[int, tuple[float, int]] = {}
        now = view.now
        # Where jobs have outrun their estimates, who was promised first gives way last.
        promised = [(job.promised, job.id, job) for job in queue if job.promised is not None]
        promised.sort()
        for at, number, job in promised:
            nodes = least_size(job, self._start, view.total)
            place = profile.hold(max(at, now), nodes, _length(job, nodes))
            if place is not None:
                held[number] = place
        return self._place(view, profile, queue, len(queue), held)

    def _place(
        self,
        view: ClusterView,
        profile: Profile,
        jobs: list[JobView],
        waiting: int,
        held: dict[int, tuple[float, int]],
    ) -> list[Decision]:
        """Start ``jobs`` or promise them a start, in turn; those ``held`` give up their place first."""
        decisions: list[Decision] = []
        now = view.now
        passed = False
        for job in jobs:
            nodes = least_size(job, self._start, view.total)
            length = _length(job, nodes)
            if job.id in held:
                at, later = held[job.id]
                profile.give_back(at, nodes, length, later)
            size = self._size_now(job, profile, view.total)
            if size:
                profile.take(0, size, _length(job, size))
                insort(self._running, (now + job.spec.estimate(size), job.id))
                decisions.append(Start(job.id, size, BACKFILLED if passed else FITS))
                waiting -= 1
                continue
            passed = True
            entry = profile.earliest(nodes, length)
            if entry is None:
                waiting -= 1  # more nodes than there are left: it waits for some to come back
                continue
            at = profile.times[entry]
            profile.take(entry, nodes, length)
            if at != job.promised:
                decisions.append(Promise(job.id, at))
        self._placed = waiting
        return decisions

    def _size_now(self, job: JobView, profile: Profile, total: int) -> int:
        """The largest size by the start rule with which ``job`` can start at once, or 0."""
        size = start_size(job, self._start, profile.free[0], total)
        while size:
            least = profile.least(_length(job, size))
            if least >= size:
                break
            size = start_size(
                job, self._start, least, total
            )  # those in between take longer, and find no more
        return size


def _length(job: JobView, nodes: int) -> float:
    """For how long a place on ``nodes`` nodes is reserved."""
    return max(LEAST_S, job.spec.estimate(nodes))
