"""Pliant's own policy: a node goes where it brings forward most, within what EASY has promised.

Every moment that a job is in the system, it loses what it does not compute. Written as a rate, the mean
turnaround falls quickest where the sum over all jobs of 1 / (time left at the present size) is largest: that
is the rate at which jobs end. A waiting job adds nothing to it, so starting it is worth 1 / (its estimate), and
a node more or less for a running job is worth the difference that it makes to 1 / (time left). Growing, shrinking
and starting are thus compared in one unit, and short jobs, and jobs that scale, come out ahead.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop

from pliant.model.instants import rounding_s
from pliant.model.jobs import JobClass
from pliant.model.speedup import falls
from pliant.plan.cost import ResizeCost
from pliant.policy.easy import BACKFILLED, NEVER, Reservation, earliest, lasts_s, reserve
from pliant.policy.fcfs import FITS
from pliant.policy.job_view import JobView
from pliant.policy.ladder import LEAST_S, Entry, Ladder, put_back
from pliant.policy.lasting import Lasting
from pliant.policy.moves import MARGIN, move
from pliant.policy.pass_budget import PassBudget, QueueHead, after, anything, promising, quickest, shrink_s
from pliant.policy.resizing import left_figures, up
from pliant.policy.view import ClusterView, Decision, Promise, Reason, Resize, Start

DEPTH = 100
"""So many waiting jobs behind the head are tried in a pass once no node is free."""
KEPT = 64
"""So many ladders are kept at least."""


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
        self._ladders: dict[int, Ladder] = {}
        self._cost: ResizeCost | None = None
        self._passes = 0

    def decide(self, view: ClusterView) -> list[Decision]:
        self._passes += 1
        if self._cost is not view.cost:
            self._ladders, self._cost = {}, view.cost
        made = _Pass(view, self._payback, self._ladders, self._passes)
        decisions = made.decide()
        if len(self._ladders) > KEPT + 2 * made.looked_at:
            self._ladders = {
                number: ladder for number, ladder in self._ladders.items() if ladder.seen == self._passes
            }
        return decisions


class _Pass:
    """What is still to be had, and what has been decided."""

    def __init__(self, view: ClusterView, payback: float, ladders: dict[int, Ladder], number: int) -> None:
        self.view = view
        self.looked_at = 0
        self._cost = view.cost
        self._number = number
        self._ladders = ladders
        self.now = view.now
        self._nodes = PassBudget(view.free, view.returning())
        self._lasting = Lasting(view) if view.expiring else None
        self._sizes: dict[int, int] = {}
        self._served: dict[int, JobView] = {}
        """By number, where a job goes to another size than it has, and for whom, if it shrinks."""
        self._head = QueueHead()
        self._payback = payback
        able = [self._look(job) for job in view.elastic if view.resizable(job)]
        self._able = {ladder.number: ladder for ladder in able}
        self._starts: list[tuple[JobView, Reason]] = []
        self._claims: list[JobView] = []
        self._by = NEVER
        self._late: set[int] = set()
        self._shrink_s = shrink_s(view)
        self._donors: list[Entry] | None = None
        self._in_vain: list[tuple[int, float]] = []

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
        head = self._head
        for job in self._candidates():
            if head.blocked and (self._delays(job) or self._hopeless(job)):
                continue
            size = self._wanted(job)
            if not head.blocked:
                if not self._claim(job, size, FITS):
                    head.block(*self._reserve(job, size))
                    if head.promise is not None:
                        promises.append(Promise(job.id, head.promise.at))
            elif size := self._harmless(job, size):
                self._claim(job, size, BACKFILLED)
        return promises

    def _candidates(self) -> Iterator[JobView]:
        """The waiting jobs in their order, as far as a pass goes; behind a blocked head, while nodes are free, only
        those that may be found neither to delay it nor to be hopeless."""
        nodes, head, backlog = self._nodes, self._head, self.view.backlog
        last, tries = 0, DEPTH
        for job in self.view.queue:
            if nodes.free <= 0:
                tries -= head.blocked
                if tries < 0 or (head.blocked and not self.donors()):
                    return
            yield job
            if head.blocked and backlog is not None:
                last = job.id
                break
        else:
            return
        until = claims = -1
        asked: tuple[int, float, float, float] | None = None
        found: Iterator[JobView] = iter(())
        while True:
            if len(self._claims) != claims:  # nothing else changes what is asked
                claims, before, asked = len(self._claims), asked, self._asked()
                if asked != before:
                    found = backlog.behind(last, anything, quickest, promising(*asked))
            next_ = next(found, None)
            if nodes.free <= 0 and until < 0:
                until = backlog.last_of(tries, last)
            if next_ is None or (nodes.free <= 0 and (next_.id > until or not self.donors())):
                return
            last = next_.id
            yield next_

    def _asked(self) -> tuple[int, float, float, float]:
        """For ``promising``: of which jobs ``_delays`` and ``_hopeless``, which look closely, may be untrue."""
        reservation, donors, nodes = self._head.soon, self.donors(), self._nodes
        spare, limit, quick_s = NEVER, NEVER, 0.0
        if reservation is not None:
            spare, limit = float(reservation.spare), reservation.at - self.now
            limit += rounding_s(reservation.at)
        if donors:
            loss = donors[0][0]
            quick_s = (1.0 + 1e-9) / loss if loss > 0.0 else NEVER
        return nodes.free + nodes.coming, quick_s, spare, limit

    def _hopeless(self, job: JobView) -> bool:
        """Whether ``job`` lacks nodes at any size, and no size is worth what they are worth to the one who would give
        the first: a quick look at what ``_take`` finds for most."""
        lack = self._nodes.lacking(job.bounds.min)
        if lack <= 0:
            return False
        if not self.donors():
            return True
        spec = job.spec
        return self._too_dear(lack, 1.0 / max(LEAST_S, spec.walltime_s)) and (
            job.bounds.min == job.bounds.max or (spec.job_class is JobClass.MALLEABLE and falls(spec.model))
        )

    def _delays(self, job: JobView) -> bool:
        """Whether ``job`` would delay the head at any size: a quick look at what ``_harmless`` finds for most."""
        reservation, spec, bounds = self._head.soon, job.spec, job.bounds
        if (
            reservation is None
            or self.now + spec.walltime_s <= reservation.at
            or bounds.min <= reservation.spare
        ):
            return False
        return bounds.min == bounds.max or (spec.job_class is JobClass.MALLEABLE and falls(spec.model))

    def _reserve(self, job: JobView, size: int) -> tuple[Reservation | None, Reservation | None]:
        """When the head gets its nodes, and by when it is promised them."""
        if self.view.expiring:
            self._by = -NEVER  # the promise counts on the sizes that jobs have
            started = [(self._end(each, self._sizes[each.id]), self._sizes[each.id]) for each in self._claims]
            found = reserve(self.view, size, self._nodes.free, started, lasts_s(job, size))
            return found, found
        promised = NEVER if job.promised is None else job.promised
        rounding = rounding_s(promised)
        self._by = promised + rounding
        soon, promise = self._first_time(size), self._first_time(size, shrinking=True)
        if soon is None or promise is None:
            return soon, soon
        if promise.at < soon.at:
            promise = Reservation(soon.at, soon.spare)
        # An earlier promise holds where the present one is later only because nodes that are on their way were
        # counted as leaving just now.
        if self.now <= promised < promise.at <= promised + self._shrink_s + rounding:
            promise.at = promised
            soon.at = min(soon.at, promised)
        return soon, promise

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
        reservation = self._head.soon
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
        if not late and self._lasting is not None and not self._lasting.fits(job, size):
            return False  # too few of those that are free last long enough
        lack = nodes.lacking(size) if late else 0
        if lack > 0 and self._too_dear(lack, self._gain(job, size)):
            return False
        if late:
            self._late.add(job.id)
        end = self._end(job, size) if head.soon is not None else 0.0
        if head.delayed(size, end):
            return False
        if late:
            if lack > 0 and not self._take(job, size, lack):
                return False
            nodes.promise(size)
        else:
            nodes.give(size)
            if self._lasting is not None:
                self._lasting.take(job, size)
            self._starts.append((job, reason))
        self._sizes[job.id] = size
        self._claims.append(job)
        head.book(size, end)
        return True

    # ---- what nodes are worth ------------------------------------------------------------------------

    def _look(self, job: JobView) -> Ladder:
        """The ladder of ``job``, as of now."""
        ladder = self._ladders.get(job.id)
        if (
            ladder is None
            or ladder.bounds is not job.bounds
            or (ladder.job is not job and ladder.spec is not job.spec)
        ):
            ladder = self._ladders[job.id] = Ladder(job, self._cost)
        if ladder.seen != self._number:
            ladder.look(job, self.now, self._number)
            self.looked_at += 1
        return ladder

    def donors(self) -> list[Entry]:
        """Those who could give nodes, the next node that is worth least first."""
        if self._donors is None:
            self._donors = []
            for number, ladder in self._able.items():
                if ladder.below.to:
                    self._donors.append((ladder.below.worth / ladder.left, number, ladder, ladder.below))
            heapify(self._donors)
        return self._donors

    def _gain(self, waiting: JobView, size: int) -> float:
        """What its start adds to the rate at which jobs end, in 1 / s."""
        spec, preferred = waiting.spec, waiting.bounds.preferred
        return 1.0 / (max(LEAST_S, spec.estimate(preferred)) * spec.speed_ratio(size, preferred))

    def _too_dear(self, lack: int, gain: float) -> bool:
        """Whether ``lack`` nodes are worth ``gain`` or more where one is worth least; or somebody who lacked no more,
        to whom it was worth no less, has failed to get them in this pass."""
        donors = self.donors()
        if not donors or donors[0][0] * lack >= gain:
            return True
        return any(lack >= least and gain <= most for least, most in self._in_vain)

    def _take(self, waiting: JobView, size: int, lack: int) -> bool:
        """Take ``lack`` nodes from where they are worth least, if that is less than the start is worth."""
        gain = self._gain(waiting, size)
        donors = self.donors()
        heap = donors.copy()
        sizes = self._cheapest(heap, lack, gain)
        if sizes is None:
            self._in_vain.append((lack, gain))
            return False
        cost = self._shrink_s
        soon = self._first_time(size) if cost > 0.0 else None
        if soon is not None and soon.at - self.now <= cost:
            return False
        self._donors = heap
        self._in_vain.clear()
        self._nodes.expect(
            sum(self._sizes.get(number, self._able[number].size) - below for number, below in sizes.items())
        )
        self._sizes.update(sizes)
        for number in sizes:
            self._served[number] = waiting
        return True

    def _cheapest(self, heap: list[Entry], lack: int, gain: float) -> dict[int, int] | None:
        """Sizes of donors that together give ``lack`` nodes and lose less than ``gain`` by it; None if there are none.
        ``heap`` is left with those who could give more."""
        sizes: dict[int, int] = {}
        while lack > 0:
            if not heap:
                return None
            worth, number, ladder, _ = heap[0]
            have = sizes.get(number) or self._sizes.get(number, ladder.size)
            below = ladder.less(have, lack)
            if self._harms(ladder.job, below):
                heappop(heap)
                continue
            gain -= worth * (have - below)
            if gain <= 0.0:
                return None
            lack -= have - below
            sizes[number] = below
            put_back(heap, ladder, ladder.down(below), ladder.left)
        return sizes

    def _harms(self, job: JobView, size: int) -> bool:
        """Whether the head counts on nodes of ``job`` that it would hold for too long on ``size`` nodes."""
        promise = self._head.promise
        if promise is None:
            return False
        # Two ends that are one may differ in their last digit, as the promise may be kept from an earlier pass.
        by = promise.at + rounding_s(promise.at)
        if job.expected_end > by or self._end(job, size) <= by:
            return False
        return not self._goes_back(job, job.size) or self._end(job, job.bounds.preferred) <= by

    def _goes_back(self, job: JobView, size: int) -> bool:
        """Whether the head's promise counts on ``job`` only as it would be if it went back from ``size`` nodes to its
        preferred ones: if that keeps what has been promised already."""
        preferred = job.bounds.preferred
        return (
            size > preferred
            and job.spec.job_class is JobClass.MALLEABLE
            and self._end(job, preferred) <= self._by
        )

    def _end(self, job: JobView, size: int) -> float:
        """When ``job`` would end on ``size`` nodes by the user's estimate; no earlier than with what it costs."""
        cost, now = self._cost, self.now
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
        return now + late + left * job.spec.estimate_ratio(size, job.size)

    def _first_time(self, need: int, *, shrinking: bool = False) -> Reservation | None:
        """When ``need`` nodes are there, after all that has been decided; ``shrinking``: if those go back that may."""
        releases: list[tuple[float, int]] = []
        nodes, sizes = self._nodes, self._sizes
        for end, number, job in self.view.running:
            held = size = sizes.get(number, job.target)
            if shrinking and self._goes_back(job, size):
                size = job.bounds.preferred
            # An end by the estimate holds for the size that a job has, not for the one that it goes to.
            releases.append((end if size == job.size else self._end(job, size), held))
        releases += [(self._end(job, sizes[job.id]), sizes[job.id]) for job in self._claims]
        if coming := nodes.coming + nodes.awaited:
            releases.append((self.now + self._shrink_s, coming))
        releases.sort()
        return earliest(self.now, nodes.free, need, after(releases, nodes.awaited))

    # ---- what is left over ---------------------------------------------------------------------------

    def _growable(self, ladder: Ladder) -> bool:
        """Whether the job, one of the able, may grow and nothing has been decided for it."""
        return ladder.number not in self._sizes and self.view.resizable(ladder.job, grow=True)

    def _grow(self) -> None:
        """Hand out the free nodes; if more are coming, only to those who start now: one resize for all."""
        nodes, sizes = self._nodes, self._sizes
        if nodes.free <= 0:
            return
        takers = [self._look(job) for job, _ in self._starts if job.spec.job_class is JobClass.MALLEABLE]
        if nodes.coming <= 0:
            takers += [ladder for ladder in self._able.values() if self._growable(ladder)]
        heap: list[Entry] = []
        for ladder in takers:
            step = ladder.above if ladder.size else ladder.up(sizes[ladder.number])
            if step.to:
                heap.append((-step.worth / ladder.left, ladder.number, ladder, step))
        heapify(heap)
        blocked = self._head.blocked
        while heap and nodes.free > 0:
            _, number, ladder, step = heap[0]
            size, more = sizes.get(number, ladder.size), step.to
            if more - size > nodes.free:
                more = up(ladder.job, size, nodes.free)
            pays = more and (not ladder.size or ladder.pays(more, self._payback))
            if pays and (not blocked or self._spares(ladder.job, size, more)):
                nodes.give(more - size)
                sizes[number] = more
                put_back(heap, ladder, ladder.up(more), -ladder.left)
            else:
                heappop(heap)

    def _move(self) -> None:
        """Nobody waits: nodes leave where they are worth least, for those to whom they are worth far more."""
        if not self._worth_moving():
            return
        donors = self.donors()
        if self._sizes:
            donors = [entry for entry in donors if entry[1] not in self._sizes]
            heapify(donors)
        sizes, served = move(self._takers(), donors, self._nodes.free, self._payback)
        self._sizes.update(sizes)
        self._served.update(served)

    def _worth_moving(self) -> bool:
        """Whether a node is worth enough more to somebody than to somebody else: mostly it is not."""
        gain, loss = 0.0, float("inf")
        for ladder in self._able.values():
            left = ladder.left
            if ladder.below.to:
                loss = min(loss, ladder.below.worth / left)
            if ladder.above.to and ladder.above.worth > gain * left and self._growable(ladder):
                gain = ladder.above.worth / left
        return gain >= MARGIN * loss

    def _takers(self) -> list[Entry]:
        """A heap of the running jobs that may grow, the most by it first."""
        takers = [
            (-ladder.above.worth / ladder.left, number, ladder, ladder.above)
            for number, ladder in self._able.items()
            if ladder.above.to and self._growable(ladder)
        ]
        heapify(takers)
        return takers

    def _spares(self, job: JobView, size: int, more: int) -> bool:
        """Whether the head, which is blocked, can spare the nodes by which ``job`` grows; if so, they are booked."""
        head = self._head
        if head.soon is None:
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
        if len(sizes) == len(self._starts):
            return decisions
        for number, ladder in self._able.items():
            size = sizes.get(number, ladder.size)
            if size > ladder.size:
                figures = left_figures(ladder.job, ladder.present)
                decisions.append(Resize(number, size, Reason("best_use", figures=figures)))
            elif size < ladder.size:
                other = self._served[number]
                code = "shrink_for_better_use" if other.size else "shrink_for_waiting"
                decisions.append(Resize(number, size, Reason(code, for_job=other.id)))
        return decisions
