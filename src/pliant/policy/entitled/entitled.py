"""Declaring a job malleable is safe: nobody ends later than under rigid EASY with all jobs at their preferred sizes."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple

from pliant.model.errors import PolicyError
from pliant.model.jobs import JobClass
from pliant.plan.cost import ResizeCost
from pliant.policy.entitled.ledger import Ledger
from pliant.policy.entitled.ratios import Ratios
from pliant.policy.entitled.room import Room, Span
from pliant.policy.view import ClusterView, Decision, JobView, Promise, Reason, Remember, Resize, Start, Wake

NEVER = float("inf")
SLACK_S = 1.0
"""A job gets its nodes back when its lead is down to this."""
SMALL_LEAD_S = 60.0
"""A lead of so much is not lent while there are nodes enough: it is not worth two resizes."""
LEAST_S = 10.0
"""Less time left than this counts as this, as in the bounded slowdown."""
HELD = 1.05
"""What a node that a job has already is worth, against one that it would get: to and fro is for nothing."""
SOON_S = 1e-6
"""Nobody asks to be woken sooner: a time that rounding brings to the present would be ignored."""
DEPTH = 100
"""So many waiting jobs are tried in a pass for an early start."""
GROWTH_S = 20.0
"""Growth into nodes that others are entitled to at any time takes no longer than this, where it takes longer for more
nodes: until it is over they cannot be taken back."""
MOST_BEHIND_S = 3600.0
"""Of no job is it said later that it ended earlier than so long ago."""
URGENT = 0.01
"""How little time a job that has fallen behind is taken to have left, of what it has."""
ENTITLED, EARLY = Reason("entitled"), Reason("early")
BEST_USE, LENT = Reason("best_use"), Reason("lead_lent")


class Entitled:
    """Nobody later than under rigid EASY: a job lends nodes while it is ahead of a virtual rigid EASY schedule.

    1. What that schedule has started starts, on its preferred size.
    2. Waiting jobs, the smallest first, start earlier where what others lend them is lent for their whole estimate.
    3. Nodes that nobody is entitled to go where they shorten most.

    With ``certain`` below 1 a job starts early where nodes are lent for that share of its estimate: most jobs take less
    than they say. Then some are later, and the mean is shorter.
    """

    name = "entitled"
    rebalances = True

    def __init__(self, certain: float = 1.0) -> None:
        if not 0.0 < certain <= 1.0:
            raise PolicyError(f"policy 'entitled': certain is {certain:g}; it must be above 0, and 1 at most")
        self._certain = certain
        self._ledger: Ledger | None = None
        self._memory: dict[str, object] = {}
        self._ratios = Ratios()

    def decide(self, view: ClusterView) -> list[Decision]:
        ledger = self._ledger
        if ledger is None or view.memory != self._memory:
            ledger = self._ledger = Ledger.of(view)
        ledger.follow(view)
        self._ratios.keep(ledger.entries)
        decisions = _Pass(view, ledger, self._ratios, self._certain).decide()
        memory = ledger.memory()
        self._memory = memory
        if memory != view.memory:
            decisions.append(Remember(memory))
        return decisions


class _Flexible(NamedTuple):
    """A running job that can be resized now; ``lead_s`` is None while the virtual schedule has not begun it."""

    job: JobView
    lead_s: float | None
    slack_s: float

    @property
    def behind(self) -> bool:
        """Whether it needs its preferred size now."""
        return self.lead_s is not None and self.lead_s <= self.slack_s


class _Taker(NamedTuple):
    """Who could use more nodes, up to ``most``, and has ``held``: a node adds ``haste`` times as much to
    1 / (time left) as to its speed."""

    job: JobView
    haste: float
    held: int = 0
    most: float = NEVER


class _Pass:
    """``left`` are the nodes that nobody is given yet; ``sizes`` those that jobs go to or start with, by number."""

    def __init__(self, view: ClusterView, ledger: Ledger, ratios: Ratios, certain: float) -> None:
        self.view = view
        self.now = view.now
        self.ledger = ledger
        self.left = view.total
        self.sizes: dict[int, int] = {}
        self._ratios = ratios
        self._certain = certain
        self._behind_s = 0.0
        self._able = {job.id: job for job in view.elastic if flexible(job) and view.resizable(job)}
        self._flexible: list[_Flexible] = []
        self._due: list[JobView] = []
        self._early: list[JobView] = []
        self._fitted: dict[int, int] = {}
        self._moved: list[tuple[JobView, int]] = []
        """Who was resized in this instant keeps that size in it, if nobody is entitled to the nodes: else two plans of
        equal worth may follow one another without end."""
        self._loans: list[Span] = []
        self._commitments: list[Span] = []

    def decide(self) -> list[Decision]:
        self._reserve()
        self._start_due()
        if self.left < 0:
            self._let_moved_give()
            self._borrow()
        if self.left > 0:
            self._start_early()
            self._keep_small_leads()
            self._give()
        return self._carried_out()

    # ---- what jobs are entitled to -------------------------------------------------------------------

    def _reserve(self) -> None:
        """Each running job keeps what it is entitled to; the room that is left by others is counted."""
        ledger, now = self.ledger, self.now
        self._loans += ledger.schedule.ghosts()
        for _, number, job in self.view.running:
            if (entry := ledger.entries.get(number)) is None:
                self.left -= job.target  # it has ended virtually, and outlives that by what resizes cost
                continue
            able = number in self._able
            if entry.began is None:
                least = ledger.kept.get(number, job.target)
                self._commit(job, least, self._certain * entry.estimate_s - job.worked_s(now))
                lead_s = None
            else:
                lead_s = ledger.lead_s(job, now)
                self._behind_s = min(self._behind_s, lead_s)
                least = self._least(job, lead_s)
            if able:
                if number in ledger.moved and job.size > least:
                    self._moved.append((job, least))
                    least = job.size
                self.sizes[number] = least
                self.left -= least
                self._flexible.append(_Flexible(job, lead_s, self._slack_s(job)))
            else:
                self.left -= job.target

    def _least(self, job: JobView, lead_s: float) -> int:
        """Its preferred size, or its smallest while it has a lead; by that it lends the difference."""
        if not flexible(job):
            return job.target
        slack_s = self._slack_s(job)
        if lead_s <= slack_s:
            return full(job)
        low, preferred = job.bounds.min, full(job)
        out_s = _lasts(lead_s - slack_s, 1.0 / self._ratios.of(job, low))
        # If it ends before, it is a ghost for no longer than its lead.
        self._loans.append((self.now + min(out_s, lead_s), preferred - low))
        return low

    def _commit(self, job: JobView, nodes: int, work_s: float) -> None:
        """A job that has begun early holds its nodes for the rest of its estimate, or, as the head of the virtual
        queue, until it begins there."""
        schedule = self.ledger.schedule
        until = self.now + max(0.0, work_s) * self._ratios.of(job, nodes)
        if schedule.head is not None and schedule.head.id == job.id:
            until = min(until, self._reserved())
        self._commitments.append((until, nodes))

    def _reserved(self) -> float:
        """When the head of the virtual queue begins there at the latest. A time that is over says only that others have
        outrun their estimates."""
        at = self.ledger.schedule.reserved
        return NEVER if at is None or at <= self.now else at

    def _slack_s(self, job: JobView) -> float:
        """How far ahead it has to be so that a resize brings it back to its preferred size in time."""
        cost, bounds = self.view.cost, job.bounds
        if not _costs(cost) or bounds.preferred == bounds.min:
            return SLACK_S
        return 3.0 * SLACK_S + cost.expand_s(bounds.min, bounds.preferred, job.spec.data_mb)

    def _start_due(self) -> None:
        """What has begun virtually and waits."""
        entries, waiting = self.ledger.entries, self.ledger.waiting
        due = [
            (entry.began, number)
            for number, job in waiting.items()
            if (entry := entries[number]).began is not None
        ]
        for _, number in sorted(due):
            job = waiting[number]
            self._due.append(job)
            self.sizes[number] = full(job)
            self.left -= self.sizes[number]
        if due:
            self._behind_s = min(self._behind_s, min(due)[0] - self.now)
        self.ledger.schedule.forget(self.now + max(-MOST_BEHIND_S, self._behind_s))

    def _let_moved_give(self) -> None:
        """Somebody is entitled to what they kept."""
        for job, least in self._moved:
            self.left += self.sizes[job.id] - least
            self.sizes[job.id] = least

    def _borrow(self) -> None:
        """More is due than there is, as nodes were lost or resizes take time: who can catch up again waits."""
        if self.left >= 0:
            return
        lenders = [each.job for each in self._flexible if each.lead_s is not None]
        lenders = [job for job in lenders if self.sizes[job.id] > job.bounds.min and full(job) < most(job)]
        lenders.sort(key=lambda job: (-job.remaining_s(self.now), job.id))
        for job in lenders:
            size = self.sizes[job.id]
            low = job.bounds.floor(max(job.bounds.min, size + self.left)) or job.bounds.min
            self.left += size - low
            self.sizes[job.id] = low
            if self.left >= 0:
                return

    # ---- what nobody is entitled to ------------------------------------------------------------------

    def _start_early(self) -> None:
        """Waiting jobs whose whole run fits, by the estimate, into room that nobody can claim before."""
        schedule, waiting = self.ledger.schedule, self.ledger.waiting
        room = Room(self._loans, self._commitments)
        if room.now <= 0:
            return
        candidates = []
        for number in schedule.queue:
            if number in waiting:
                candidates.append(waiting[number])
                if len(candidates) == DEPTH:
                    break
        candidates.sort(key=lambda job: (job.spec.walltime_s * job.bounds.preferred, job.id))
        for job in candidates:
            at_head = schedule.head is not None and schedule.head.id == job.id
            limit = self._reserved() if at_head else NEVER
            size = self._fitting(job, room, limit)
            if size:
                until = min(limit, self._until(job, size))
                room.commit(size, until)
                self._early.append(job)
                self.sizes[job.id] = self._fitted[job.id] = size
                self.left -= size
            if self.left <= 0 or room.now <= 0:
                return

    def _fitting(self, job: JobView, room: Room, limit: float) -> int:
        """The smallest of a few sizes with which it fits into the room; 0 if there is none."""
        size = job.bounds.min if flexible(job) else full(job)
        high = min(most(job) if flexible(job) else size, self.left, room.now)
        while 0 < size <= high:
            until = self._until(job, size)
            if room.fits(size, min(until, limit)):
                return size
            twice = job.bounds.floor(2 * size)
            size = twice if twice > size else 0
        return 0

    def _until(self, job: JobView, size: int) -> float:
        """When it has to have ended on so many nodes, if it starts now."""
        return self.now + self._certain * job.spec.walltime_s * self._ratios.of(job, size)

    def _keep_small_leads(self) -> None:
        for job, lead_s, slack_s in self._flexible:
            if lead_s is not None and slack_s < lead_s <= SMALL_LEAD_S and job.size >= full(job):
                more = full(job) - self.sizes[job.id]
                if 0 < more <= self.left:
                    self.sizes[job.id] += more
                    self.left -= more

    def _give(self) -> None:
        """The rest goes, node by node, where it adds most to 1 / (time left)."""
        takers = {job.id: _Taker(job, 1.0 / max(LEAST_S, job.spec.walltime_s)) for job in self._starting()}
        for each in self._flexible:
            stays = each.job.id in self.ledger.moved or not self.view.resizable(each.job, grow=True)
            most = each.job.size if stays else self._reach(each)
            takers[each.job.id] = _Taker(each.job, 1.0 / self._time_left(each), each.job.size, most)
        sizes, left, step = self.sizes, self.left, self._ratios.step
        heap: list[tuple[float, int, int]] = []
        for number, (job, haste, held, most) in takers.items():
            more, gain = step(job, sizes[number])
            if gain > 0.0 and more <= most:
                heap.append((-gain * haste * (HELD if more <= held else 1.0), number, more))
        heapify(heap)
        while heap and left > 0:
            _, number, more = heap[0]
            job, haste, held, most = takers[number]
            size = sizes[number]
            if more - size > left:
                more = job.bounds.floor(size + left)
                if more <= size:
                    heappop(heap)
                    continue
            left -= more - size
            sizes[number] = more
            more, gain = step(job, more)
            if gain > 0.0 and more <= most:
                heapreplace(heap, (-gain * haste * (HELD if more <= held else 1.0), number, more))
            else:
                heappop(heap)
        self.left = left

    def _reach(self, each: _Flexible) -> float:
        """How far it may grow at once."""
        job, cost = each.job, self.view.cost
        least_s = cost.expand_s(job.size, job.size, job.spec.data_mb)
        if not cost.start_each_s or least_s >= GROWTH_S:
            return NEVER
        reach = job.size + int((GROWTH_S - least_s) / cost.start_each_s)
        return max(reach, full(job)) if each.behind else max(reach, job.bounds.above(job.size))

    def _starting(self) -> Iterable[JobView]:
        return (job for job in (*self._due, *self._early) if flexible(job))

    def _time_left(self, each: _Flexible) -> float:
        """At its preferred size."""
        job = each.job
        left = max(LEAST_S, job.remaining_s(self.now) / self._ratios.of(job, job.size))
        return left * URGENT if each.lead_s is not None and each.lead_s < -SLACK_S else left

    # ---- what comes of it now ------------------------------------------------------------------------

    def _carried_out(self) -> list[Decision]:
        """Shrinks first, then starts as far as nodes are free, then growth."""
        decisions: list[Decision] = []
        coming = self.view.returning()
        for job, lead_s, _ in self._flexible:
            if (size := self.sizes[job.id]) < job.size:
                decisions.append(Resize(job.id, size, _lent(lead_s)))
                self.ledger.moved.add(job.id)
                coming += job.size - size
        free = self._starts(decisions, self.view.free, coming)
        self._growth(decisions, free, coming)
        self._promise(decisions)
        wake = self._wake_at()
        if wake < NEVER:
            decisions.append(Wake(wake))
        return decisions

    def _starts(self, decisions: list[Decision], free: int, coming: int) -> int:
        """The nodes that are left for growth; none while somebody waits for his."""
        short = False
        for jobs, reason in ((self._due, ENTITLED), (self._early, EARLY)):
            early = reason is EARLY
            for job in jobs:
                wanted = self.sizes[job.id]
                least = self._fitted[job.id] if early else full(job)
                if free >= least and not (short and early):
                    size = job.bounds.floor(min(wanted, free)) if flexible(job) else wanted
                elif not early and flexible(job) and not coming and free >= job.bounds.min:
                    size = job.bounds.floor(free)  # better than to wait for nobody knows what
                else:
                    short = True
                    continue
                free -= size
                decisions.append(Start(job.id, size, reason))
                if early:
                    self.ledger.kept[job.id] = least
        return 0 if short else free

    def _growth(self, decisions: list[Decision], free: int, coming: int) -> None:
        """Those that are behind first; the others when all nodes have come: one resize for all."""
        for urgent in (True, False):
            for each in self._flexible:
                job, size = each.job, self.sizes[each.job.id]
                if size <= job.size or free <= 0:
                    continue
                needs = job.size < full(job) and each.behind
                if needs is not urgent or (coming and (not needs or size - job.size > free)):
                    continue
                more = job.bounds.floor(min(size, job.size + free))
                if more > job.size and self.view.resizable(job, grow=True):
                    decisions.append(Resize(job.id, more, BEST_USE))
                    self.ledger.moved.add(job.id)
                    free -= more - job.size

    def _promise(self, decisions: list[Decision]) -> None:
        """To the head what EASY promises it; while it waits for jobs that have outrun their estimates, the present."""
        schedule = self.ledger.schedule
        head, at = schedule.head, schedule.reserved
        if head is None or at is None or head.id not in self.ledger.waiting:
            return
        if not any(isinstance(each, Start) and each.job == head.id for each in decisions):
            decisions.append(Promise(head.id, max(at, self.now) + self._late_s()))

    def _late_s(self) -> float:
        """By how much nodes may come late to the head: who has them has to leave them first, or even to come to the end
        of a growth."""
        cost = self.view.cost
        return GROWTH_S + 3.0 * SLACK_S if _costs(cost) else 0.0

    def _wake_at(self) -> float:
        """When the next virtual end comes, or the next lead is used up."""
        wake = self.ledger.schedule.next_end()
        for job, lead_s, slack_s in self._flexible:
            size = min(self.sizes[job.id], job.size)
            if lead_s is not None and lead_s > slack_s and size < full(job):
                wake = min(wake, self.now + _lasts(lead_s - slack_s, 1.0 / self._ratios.of(job, size)))
        return max(wake, self.now + SOON_S)


def flexible(job: JobView) -> bool:
    """Whether the scheduler may choose its size at any time."""
    return job.spec.job_class is JobClass.MALLEABLE and job.bounds.min < job.bounds.max


def full(job: JobView) -> int:
    """The size that it has in the virtual schedule, as far as it still allows that."""
    if job.spec.job_class is JobClass.RIGID or not job.size:
        return job.bounds.preferred
    return job.bounds.floor(job.bounds.preferred) or job.bounds.min


def most(job: JobView) -> int:
    return job.bounds.floor(job.bounds.max)


def _lasts(lead_s: float, rate: float) -> float:
    """How long a lead lasts at so many seconds of work a second."""
    return lead_s / (1.0 - rate) if rate < 1.0 else NEVER


def _costs(cost: ResizeCost) -> bool:
    return cost.start_s > 0.0 or cost.blocked_s > 0.0


def _lent(lead_s: float | None) -> Reason:
    return LENT if lead_s is None else Reason(LENT.code, figures={"lead_s": max(0.0, lead_s)})
