"""What conservative backfilling has reserved, for all that runs and all that waits, from pass to pass."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from heapq import heappop, heappush

from pliant.policy.job_view import JobView
from pliant.policy.profile import Profile
from pliant.policy.view import ClusterView

LEAST_S = 1e-3
"""A job that takes no time by its estimate is given this: it needs its nodes, if only for an instant."""
ROOM = 4
"""So many entries of the profile for each job, and those that change nothing are left out."""

Run = tuple[float, int, int]
"""(expected end, number, nodes) of a running job."""
Place = tuple[float, int, float, int]
"""(start, nodes, seconds) of a waiting job, and 1 if it stands for nodes that may be free any moment, else 0."""
Gap = tuple[float, float]
"""From when to when something may have come free."""


def length(job: JobView, nodes: int) -> float:
    """For how long a place on ``nodes`` nodes is reserved."""
    return max(LEAST_S, job.spec.estimate(nodes))


def asked_s(job: JobView, nodes: int, profile: Profile) -> float:
    """For how long its nodes have to be there: who may outlast some is content with those that there are now."""
    seconds = length(job, nodes)
    if profile.ends < math.inf and job.spec.may_outlast:
        return max(LEAST_S, min(seconds, profile.ends - profile.times[0]))
    return seconds


class Places:
    """A profile, the place of each waiting job in it, and the gap: where something came free since those jobs looked.

    A place can be bettered only by a gap before it. So only those look again whose size fits into what an ended job
    has left before its time, or into the old place of one that has bettered its own.
    """

    def __init__(self, view: ClusterView) -> None:
        self.profile = Profile(view)
        self.looking: Iterable[JobView] = list(view.queue)
        """Who may look for a place, or for a better one, in this pass: in the order of the queue."""
        self.first = 0
        """The number of the first waiting job that is not ``looking``; 0 if all are."""
        self.choosy = False
        """Whether one waits that may start with other sizes than the one it has a place for."""
        self._of: dict[int, Place] = {}
        self._without: set[int] = set()
        self._soonest: list[tuple[float, int]] = []
        self._last = 0
        self._total = view.total
        self._running = _running(view)
        # With nodes that may be free at any moment it is true of this moment only.
        self._lasts = not view.returning() and not (self._running and self._running[0][0] <= view.now)
        self._followed = False
        self._gap: Gap | None = None
        self._most = 0
        self._opened: Gap | None = None
        self._sought = _Sought()

    # ---- one job ---------------------------------------------------------------------------------------

    def hold(self, job: JobView, at: float, nodes: int) -> None:
        """Its place is at ``at``, or after it where others have left no room there."""
        seconds = length(job, nodes)
        held = self.profile.hold(at, nodes, seconds)
        if held is not None:
            self._of[job.id] = held[0], nodes, seconds, held[1]

    def may_better(self, job: JobView) -> bool:
        """Whether it has no place, one that has come, or may find a better one."""
        place = self._of.get(job.id)
        if place is None or not self._followed:
            return True
        at, nodes, seconds, _ = place
        if at <= self.profile.times[0]:
            return True
        if self._gap is None:
            return False
        since, until = self._gap
        fits = since < at and (self._most >= nodes or at < until)
        return fits and self.profile.room(nodes, seconds, since - seconds, min(until, at), at)

    def leave(self, job: JobView) -> Place | None:
        """Give up its place, if it has one."""
        place = self._of.pop(job.id, None)
        if place is not None:
            at, nodes, seconds, later = place
            self.profile.give_back(at, nodes, seconds, later)
            self._sought = _Sought()
        return place

    def earliest(self, job: JobView, nodes: int) -> int | None:
        """The first entry of the profile from which it has so many nodes."""
        seconds = asked_s(job, nodes, self.profile)
        since = self._sought.latest(nodes, seconds)
        entry = self.profile.earliest(nodes, seconds, bisect_left(self.profile.times, since))
        if entry is not None:
            self._sought.note(nodes, seconds, self.profile.times[entry])
        return entry

    def take(self, job: JobView, entry: int, nodes: int, left: Place | None) -> float:
        """Its place begins with this entry of the profile, of which the time is told; ``left`` is what it had."""
        at, seconds = self.profile.times[entry], length(job, nodes)
        self.profile.take(entry, nodes, seconds)
        self._of[job.id] = at, nodes, seconds, 0
        heappush(self._soonest, (at, job.id))
        self._last = max(self._last, job.id)
        self._open(left, at)
        return at

    def start(self, job: JobView, nodes: int, left: Place | None) -> None:
        """It runs from now on."""
        now = self.profile.times[0]
        self.profile.take(0, nodes, length(job, nodes))
        insort(self._running, (now + job.spec.estimate(nodes), job.id, nodes))
        self._last = max(self._last, job.id)
        self._open(left, now if left is not None and left[1] == nodes else -1.0)

    def wait(self, job: JobView) -> None:
        """It needs more nodes than there are: it waits for some to come back."""
        self._without.add(job.id)
        self._last = max(self._last, job.id)

    def _open(self, left: Place | None, at: float) -> None:
        """The old place of a job that has another one at ``at`` now may be a gap, for those behind it in this pass, for
        all others in the next."""
        if left is None or left[0] == at:
            return
        gap = left[0], left[0] + left[2]
        self._opened = _hull(self._opened, gap)
        if self._followed:
            self._most = max(self._most if self._gap else 0, self.profile.most(*gap))
            self._gap = _hull(self._gap, gap)

    # ---- from pass to pass -----------------------------------------------------------------------------

    def follow(self, view: ClusterView) -> bool:
        """Go on to this pass, or tell that all is to be reserved anew: it cannot be told what has changed."""
        now = view.now
        before, self._running = self._running, _running(view)
        ended = _ended(before, self._running)
        if ended is None or not self._lasts or self._total != view.total or view.returning():
            return False
        if self._running and self._running[0][0] <= now:
            return False
        if any(end < now for end, _, _ in ended):
            return False
        self.profile.advance(now)
        for end, _, nodes in ended:
            self._free(now, end, nodes)
        due = self._due(now)
        if due is None or (self.choosy and (ended or due)):
            return False
        if self.profile.free[0] + sum(self._of[number][1] for number in due) != view.free:
            return False
        self._followed, self._gap = True, None
        if (ended or due) and self._opened is not None:
            if self._opened[1] > now:
                self._gap, self._most = self._opened, self.profile.most(*self._opened)
            self._opened = None
        if self._gap or len(self.profile.times) > ROOM * (len(self._of) + len(self._running)):
            self.profile.tidy()
        return self._look(view, due)

    def _free(self, now: float, end: float, nodes: int) -> None:
        """A job has ended, which was to have these nodes up to ``end``."""
        if end > now:
            self.profile.add(now, end, nodes)
            self._sought = _Sought()
            self._opened = _hull(self._opened, (now, end))

    def _due(self, now: float) -> list[int] | None:
        """The numbers of those whose place has come, in order; None if one was not taken when it had come."""
        due = []
        while self._soonest and self._soonest[0][0] <= now:
            at, number = heappop(self._soonest)
            place = self._of.get(number)
            if place is not None and place[0] == at:
                if at < now:
                    return None
                due.append(number)
        return sorted(set(due))

    def _look(self, view: ClusterView, due: list[int]) -> bool:
        """Find who may look for a place; not if one has gone that had one."""
        backlog, self.first = view.backlog, 0
        if backlog is None or self._gap:
            self.looking = queue = list(view.queue)
            waiting = len(queue)
            new = sum(1 for job in queue if job.id > self._last)
        else:
            coming = set(due)
            last = self._last
            # As one expression: compiled, a generator that has a name goes through the whole queue at once.
            self.first = next((job.id for job in view.queue if job.id <= last and job.id not in coming), 0)
            newcomers = backlog.after(self._last)
            self.looking = [*filter(None, map(backlog.get, due)), *newcomers]
            waiting, new = len(backlog), len(newcomers)
        return waiting == len(self._of) + len(self._without) + new


class _Sought:
    """Where places were found. While nothing comes free, who needs no less than another, in nodes and in time, does not
    find a place before that one's: those of the same number of nodes are compared, and of numbers with fewer digits."""

    __slots__ = ("_by_digits", "_by_nodes")

    def __init__(self) -> None:
        self._by_nodes: dict[int, _Stairs] = {}
        self._by_digits: dict[int, _Stairs] = {}

    def latest(self, nodes: int, seconds: float) -> float:
        """No such place begins before this."""
        same, digits = self._by_nodes.get(nodes), nodes.bit_length()
        since = 0.0 if same is None else same.latest(seconds)
        for fewer, stairs in self._by_digits.items():
            if fewer < digits and (at := stairs.latest(seconds)) > since:
                since = at
        return since

    def note(self, nodes: int, seconds: float, at: float) -> None:
        """This was the first place for so many nodes and seconds."""
        self._by_nodes.setdefault(nodes, _Stairs()).note(seconds, at)
        self._by_digits.setdefault(nodes.bit_length(), _Stairs()).note(seconds, at)


class _Stairs:
    """Starts by length: the longer, the later; who is longer than another and no later is left out."""

    __slots__ = ("_lengths", "_starts")

    def __init__(self) -> None:
        self._lengths: list[float] = []
        self._starts: list[float] = []

    def latest(self, seconds: float) -> float:
        """The latest start of those that are no longer than this."""
        i = bisect_right(self._lengths, seconds)
        return self._starts[i - 1] if i else 0.0

    def note(self, seconds: float, at: float) -> None:
        i = bisect_right(self._lengths, seconds)
        if i and self._starts[i - 1] >= at:
            return
        last = bisect_right(self._starts, at, i)
        self._lengths[i:last], self._starts[i:last] = [seconds], [at]


def _hull(gap: Gap | None, other: Gap) -> Gap:
    return other if gap is None else (min(gap[0], other[0]), max(gap[1], other[1]))


def _running(view: ClusterView) -> list[Run]:
    return [(end, number, job.target) for end, number, job in view.running]


def _ended(before: list[Run], running: list[Run]) -> list[Run] | None:
    """Those that run no more, if nothing else has changed."""
    if before == running:
        return []
    there = {number for _, number, _ in running}
    ended = [run for run in before if run[1] not in there]
    return ended if [run for run in before if run[1] in there] == running else None
