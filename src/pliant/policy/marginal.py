"""Pliant's own policy: a node goes where it brings forward most, within what EASY has promised.

Every moment that a job is in the system, it loses what it does not compute. Written as a rate, the mean
turnaround falls quickest where the sum over all jobs of 1 / (time left at the present size) is largest: that
is the rate at which jobs end. A waiting job adds nothing to it, so starting it is worth 1 / (its estimate), and
a node more or less for a running job is worth the difference that it makes to 1 / (time left). Growing, shrinking
and starting are thus compared in one unit, and short jobs, and jobs that scale, come out ahead.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

from pliant.model.jobs import JobClass
from pliant.model.speedup import falls
from pliant.policy.easy import BACKFILLED, Reservation, earliest
from pliant.policy.fcfs import FITS
from pliant.policy.resizing import down, pays, up
from pliant.policy.view import ClusterView, Decision, JobView, Promise, Reason, Resize, Start

LEAST_S = 10.0
"""Less time left than this counts as this, as in the bounded slowdown: else a job's last moments outweigh all."""
DEPTH = 100
"""So many waiting jobs behind the head are tried in a pass once no node is free."""

MARGIN = 2.0
"""Nodes move between running jobs only if they are worth so many times more where they go."""

Entry = tuple[float, int, JobView]
"""A running job and what its next node is worth, ready for a heap."""


class Marginal:
    """Sizes by marginal speed-up: a node goes where it brings forward most, within what EASY has promised.

    1. Waiting jobs start in order, malleable ones at their minimum; behind a blocked head only those that do
       not delay it. Whoever lacks nodes gets them from the malleable jobs that lose least by it, if all of them
       lose less than the start is worth; a head that is blocked by more than that waits for its promise.
    2. Nodes left over go, one after the other, to the malleable job that gains most by the next one, where
       the growth pays for itself ``payback`` times and does the head no harm.
    3. While nobody waits, nodes move from the malleable jobs that lose least to those that gain far more.
    """

    name = "marginal"
    rebalances = True

    def __init__(self, payback: float = 2.0) -> None:
        self._payback = payback

    def decide(self, view: ClusterView) -> list[Decision]:
        return _Pass(view, self._payback).decide()


class _Nodes:
    """Nodes that nobody computes on: ``free`` now; ``coming`` in a moment; and ``awaited``, which come as well, but
    are given already to jobs that start then."""

    __slots__ = ("awaited", "coming", "free")

    def __init__(self, free: int, coming: int) -> None:
        self.free = free
        self.coming = coming
        self.awaited = 0

    def lacking(self, size: int) -> int:
        """How many of ``size`` would have to come from running jobs; 0 or less if none."""
        return size - self.free - self.coming

    def give(self, size: int) -> None:
        """Free ones, to one that starts or grows now."""
        self.free -= size

    def expect(self, size: int) -> None:
        """So many more, which running jobs leave."""
        self.coming += size

    def promise(self, size: int) -> None:
        """Those that are coming, then free ones, to one that starts when all of them have come."""
        back = min(self.coming, size)
        self.coming -= back
        self.awaited += back
        self.free -= size - back


class _Sizes(dict[int, int]):
    """The sizes that jobs go to, by number, where it is not the one they have, and for whom those shrink that do."""

    __slots__ = ("served",)

    def __init__(self) -> None:
        self.served: dict[int, JobView] = {}

    def shrink(self, sizes: dict[int, int], other: JobView) -> None:
        """Let jobs go to smaller ``sizes`` for ``other``."""
        self.update(sizes)
        self.served.update(dict.fromkeys(sizes, other))


class _Head:
    """Whether the head of the queue is ``blocked``, and its reservation, which nobody behind it may delay; None
    also if nobody knows when enough nodes will be there."""

    __slots__ = ("blocked", "reservation")

    def __init__(self) -> None:
        self.blocked = False
        self.reservation: Reservation | None = None

    def block(self, reservation: Reservation | None) -> None:
        self.blocked = True
        self.reservation = reservation

    def delayed(self, size: int, end: float) -> bool:
        """Whether ``size`` nodes more that are held until ``end`` would delay it."""
        reservation = self.reservation
        return reservation is not None and size > reservation.spare and end > reservation.at

    def book(self, size: int, end: float) -> None:
        """``size`` nodes more are held until ``end``."""
        reservation = self.reservation
        if reservation is not None and end > reservation.at:
            reservation.spare -= size


class _Pass:
    """What is still to be had, and what has been decided."""

    def __init__(self, view: ClusterView, payback: float) -> None:
        self.view = view
        self.now = view.now
        self._nodes = _Nodes(view.free, view.returning())
        self._sizes = _Sizes()
        self._head = _Head()
        self._payback = payback
        self._able = {job.id: job for job in view.elastic if view.resizable(job)}
        self._starts: list[tuple[JobView, Reason]] = []
        self._claims: list[JobView] = []
        self._late: set[int] = set()
        self._shrink_s = _shrink_s(view)
        self._donors: list[Entry] | None = None
        self._left: dict[int, tuple[float, Callable[[int], float]]] = {}

    def decide(self) -> list[Decision]:
        decisions: list[Decision] = self._serve()
        self._grow()
        if not self._head.blocked and not self._claims and self._nodes.coming <= 0:
            self._move()
        return decisions + self._decided()

    # ---- waiting jobs --------------------------------------------------------------------------------

    def _serve(self) -> list[Decision]:
        """Give the waiting jobs their nodes, in order; the promise to the one that has to wait."""
        promises: list[Decision] = []
        nodes, head = self._nodes, self._head
        tries = DEPTH
        for job in self.view.queue:
            if nodes.free <= 0:
                tries -= head.blocked
                if tries < 0 or (head.blocked and not self.donors()):
                    break
            if head.blocked and self._delays(job):
                continue
            size = self._wanted(job)
            if not head.blocked:
                if not self._claim(job, size, FITS):
                    reservation = self._first_time(size)
                    head.block(reservation)
                    if reservation is not None:
                        self._keep(reservation, job.promised)
                        promises.append(Promise(job.id, reservation.at))
            elif size := self._harmless(job, size):
                self._claim(job, size, BACKFILLED)
        return promises

    def _delays(self, job: JobView) -> bool:
        """Whether ``job`` would delay the head at any size: a quick look at what ``_harmless`` finds for most."""
        reservation, spec, bounds = self._head.reservation, job.spec, job.bounds
        if (
            reservation is None
            or self.now + spec.walltime_s <= reservation.at
            or bounds.min <= reservation.spare
        ):
            return False
        return bounds.min == bounds.max or (spec.job_class is JobClass.MALLEABLE and falls(spec.model))

    def _keep(self, reservation: Reservation, promised: float | None) -> None:
        """An earlier promise holds where the present one is later only because nodes that are on their way were
        counted as leaving just now."""
        late = self._shrink_s
        if promised is not None and self.now <= promised < reservation.at <= promised + late:
            reservation.at = promised

    def _wanted(self, job: JobView) -> int:
        """The size to start with: a moldable job takes less than it prefers only if it ends no later so."""
        bounds = job.bounds
        if job.spec.job_class is JobClass.MALLEABLE or bounds.min == bounds.max:
            return bounds.min
        preferred = bounds.preferred
        size = bounds.floor(min(preferred, self._nodes.free))
        if size in (0, preferred):
            return preferred
        later = self._first_time(preferred)
        if later is None or self.now + job.spec.estimate(size) <= later.at + job.spec.estimate(preferred):
            return size
        return preferred

    def _harmless(self, job: JobView, size: int) -> int:
        """``size``, or for a malleable job the next larger, with which it does not delay the head; or 0."""
        reservation = self._head.reservation
        if reservation is None or size <= reservation.spare:
            return size
        # The sum, not the difference, as EASY does: rounding must not tell the two apart.
        now, at = self.now, reservation.at
        if job.spec.job_class is JobClass.MALLEABLE:
            preferred = job.bounds.preferred
            while size < preferred and now + job.spec.estimate(size) > at:
                size = min(preferred, up(job, size) or preferred)
        return size if now + job.spec.estimate(size) <= at else 0

    def _claim(self, job: JobView, size: int, reason: Reason) -> bool:
        """Give ``job`` its nodes: now if they are free, else when others have left them."""
        nodes, head = self._nodes, self._head
        late = size > nodes.free
        if late:
            self._late.add(job.id)
        end = self._end(job, size) if head.reservation is not None else 0.0
        if late:
            if head.delayed(size, end):
                return False
            lack = nodes.lacking(size)
            if lack > 0 and not self._take(job, size, lack):
                return False
            nodes.promise(size)
        else:
            nodes.give(size)
            self._starts.append((job, reason))
        self._sizes[job.id] = size
        self._claims.append(job)
        head.book(size, end)
        return True

    # ---- what nodes are worth ------------------------------------------------------------------------

    def _time_left(self, job: JobView, size: int) -> float:
        """Seconds that ``job`` still takes on ``size`` nodes."""
        known = self._left.get(job.id)
        if known is None:
            preferred = job.bounds.preferred
            if job.size:
                left = job.remaining_s(self.now) * job.spec.speed_ratio(preferred, job.size)
            else:
                left = job.spec.estimate(preferred)
            known = self._left[job.id] = max(LEAST_S, left), job.spec.speed_ratios(preferred)
        left, ratio = known
        return left * ratio(size)

    def _worth(self, job: JobView, size: int, more: int) -> float:
        """What each node between ``size`` and ``more`` adds to the rate at which jobs end, in 1 / s."""
        return (1.0 / self._time_left(job, more) - 1.0 / self._time_left(job, size)) / (more - size)

    def donors(self) -> list[Entry]:
        """Those who could give nodes, the next node that is worth least first."""
        if self._donors is None:
            self._donors = []
            for job in self._able.values():
                if below := down(job, job.size):
                    self._donors.append((self._worth(job, below, job.size), job.id, job))
            heapify(self._donors)
        return self._donors

    def _take(self, waiting: JobView, size: int, lack: int) -> bool:
        """Take ``lack`` nodes from where they are worth least, if that is less than the start is worth."""
        gain = 1.0 / self._time_left(waiting, size)
        donors = self.donors()
        if not donors or donors[0][0] * lack >= gain:
            return False
        heap = donors.copy()
        sizes = self._cheapest(heap, lack, gain)
        if sizes is None:
            return False
        cost = self._shrink_s
        soon = self._first_time(size) if cost > 0.0 else None
        if soon is not None and soon.at - self.now <= cost:
            return False
        self._donors = heap
        self._nodes.expect(
            sum(self._sizes.get(number, self._able[number].size) - below for number, below in sizes.items())
        )
        self._sizes.shrink(sizes, waiting)
        return True

    def _cheapest(self, heap: list[Entry], lack: int, gain: float) -> dict[int, int] | None:
        """Sizes of donors that together give ``lack`` nodes and lose less than ``gain`` by it; None if there are none.
        ``heap`` is left with those who could give more."""
        sizes: dict[int, int] = {}
        while lack > 0:
            if not heap:
                return None
            worth, number, job = heappop(heap)
            have = sizes.get(number) or self._sizes.get(number, job.size)
            below = down(job, have, lack)
            if self._harms(job, below):
                continue
            gain -= worth * (have - below)
            if gain <= 0.0:
                return None
            lack -= have - below
            sizes[number] = below
            if further := down(job, below):
                heappush(heap, (self._worth(job, further, below), number, job))
        return sizes

    def _harms(self, job: JobView, size: int) -> bool:
        """Whether the head counts on nodes of ``job`` that it would hold for too long on ``size`` nodes."""
        reservation = self._head.reservation
        if reservation is None or job.expected_end > reservation.at:
            return False
        return self._end(job, size) > reservation.at

    def _end(self, job: JobView, size: int) -> float:
        """When ``job`` would end on ``size`` nodes by the user's estimate; no earlier than with what it costs."""
        cost, now = self.view.cost, self.now
        if not job.size:
            late = self._shrink_s if job.id in self._late else 0.0
            return now + late + job.spec.estimate(size)
        if size > job.size:
            late = cost.expand_s(job.size, size, job.spec.data_mb)
        else:
            late = cost.answer_s + cost.still_s(job.size, size, job.spec.data_mb)
        begun = job.offered_at
        if begun is not None and size == job.target:
            # As it was to be expected then: nobody knows whether it stands still by now, and computes no more.
            now = begun
        left = max(0.0, job.expected_end - now)
        return now + late + left * job.spec.speed_ratio(size, job.size)

    def _first_time(self, need: int) -> Reservation | None:
        """When ``need`` nodes are there, after all that has been decided."""
        releases: list[tuple[float, int]] = []
        nodes, sizes = self._nodes, self._sizes
        for end, number, job in self.view.running:
            size = sizes.get(number, job.target)
            # An end by the estimate holds for the size that a job has, not for the one that it goes to.
            releases.append((end if size == job.size else self._end(job, size), size))
        releases += [(self._end(job, sizes[job.id]), sizes[job.id]) for job in self._claims]
        if coming := nodes.coming + nodes.awaited:
            releases.append((self.now + self._shrink_s, coming))
        releases.sort()
        return earliest(self.now, nodes.free, need, _after(releases, nodes.awaited))

    # ---- what is left over ---------------------------------------------------------------------------

    def _growable(self, job: JobView) -> bool:
        """Whether the job, one of the able, may grow and nothing has been decided for it."""
        return job.id not in self._sizes and self.view.resizable(job, grow=True)

    def _grow(self) -> None:
        """Hand out the free nodes; if more are coming, only to those who start now: one resize for all."""
        nodes, sizes = self._nodes, self._sizes
        if nodes.free <= 0:
            return
        takers = [job for job, _ in self._starts if job.spec.job_class is JobClass.MALLEABLE]
        if nodes.coming <= 0:
            takers += [job for job in self._able.values() if self._growable(job)]
        heap: list[Entry] = []
        for job in takers:
            size = sizes.get(job.id, job.size)
            if more := up(job, size):
                heap.append((-self._worth(job, size, more), job.id, job))
        heapify(heap)
        while heap and nodes.free > 0:
            _, number, job = heappop(heap)
            size = sizes.get(number, job.size)
            more = up(job, size, nodes.free)
            if (
                more
                and (not job.size or pays(self.view, job, more, self._payback))
                and self._spares(job, size, more)
            ):
                nodes.give(more - size)
                sizes[number] = more
                if further := up(job, more):
                    heappush(heap, (-self._worth(job, more, further), number, job))

    def _move(self) -> None:
        """Nobody waits: nodes leave where they are worth least, for those to whom they are worth ``MARGIN`` times
        that; these get them in the next pass, once they are free."""
        takers = self._takers()
        donors = [entry for entry in self.donors() if entry[1] not in self._sizes]
        heapify(donors)
        grown: dict[int, int] = {}
        spare = self._nodes.free
        while takers:
            worth, number, taker = heappop(takers)
            size = grown.get(number, taker.size)
            more = grown[number] = up(taker, size)
            spare -= more - size
            taken: dict[int, int] = {}
            while spare < 0 and donors and donors[0][1] not in grown and -worth >= MARGIN * donors[0][0]:
                _, other, donor = heappop(donors)
                have = taken.get(other) or self._sizes.get(other, donor.size)
                below = taken[other] = down(donor, have, -spare)
                spare += have - below
                if further := down(donor, below):
                    heappush(donors, (self._worth(donor, further, below), other, donor))
            if spare < 0:
                return  # not enough for the whole step: then nobody gives anything for it
            self._sizes.shrink(taken, taker)
            if further := up(taker, more):
                heappush(takers, (-self._worth(taker, more, further), number, taker))

    def _takers(self) -> list[Entry]:
        """A heap of the running jobs to whom a larger size is worth it, the most by it first."""
        takers: list[Entry] = []
        for job in self._able.values():
            more = up(job, job.size) if self._growable(job) else 0
            if more and pays(self.view, job, more, self._payback):
                takers.append((-self._worth(job, job.size, more), job.id, job))
        heapify(takers)
        return takers

    def _spares(self, job: JobView, size: int, more: int) -> bool:
        """Whether the head can do without the nodes by which ``job`` grows; if so, they are booked."""
        head = self._head
        if not head.blocked:
            return True
        if head.reservation is None:
            return False
        # Who has outrun its estimate holds what it is given for nobody knows how long.
        end = float("inf") if job.expected_end <= self.now else self._end(job, more)
        if head.delayed(more - size, end):
            return False
        head.book(more - size, end)
        return True

    def _decided(self) -> list[Decision]:
        """The starts, and the resizes of those who can be resized now."""
        sizes = self._sizes
        decisions: list[Decision] = [Start(job.id, sizes[job.id], reason) for job, reason in self._starts]
        for number, job in self._able.items():
            size = sizes.get(number, job.size)
            if size > job.size:
                left = {"remaining_s": job.remaining_s(self.now)}
                decisions.append(Resize(number, size, Reason("best_use", figures=left)))
            elif size < job.size:
                other = sizes.served[number]
                code = "shrink_for_better_use" if other.size else "shrink_for_waiting"
                decisions.append(Resize(number, size, Reason(code, for_job=other.id)))
        return decisions


def _shrink_s(view: ClusterView) -> float:
    """From a shrink to the moment its nodes are free, with the most that any job may have to move."""
    cost = view.cost
    if not cost.data_s:
        return cost.shrink_s()
    most = max((job.spec.data_mb / job.bounds.min for job in view.elastic), default=0.0)
    return cost.shrink_s() + cost.data_s * most


def _after(releases: list[tuple[float, int]], first: int) -> list[tuple[float, int]]:
    """What is left of ``releases`` for those who come after others that wait for ``first`` nodes."""
    taken = 0
    while first > 0 and taken < len(releases):
        end, nodes = releases[taken]
        if nodes > first:
            releases[taken] = (end, nodes - first)
            break
        first -= nodes
        taken += 1
    return releases[taken:]
