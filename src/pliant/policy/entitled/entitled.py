"""Declaring a job malleable is safe: nobody ends later than under rigid EASY with all jobs at their preferred sizes."""

from __future__ import annotations

from operator import attrgetter

from pliant.model.errors import PolicyError
from pliant.policy.entitled.ledger import Ledger
from pliant.policy.entitled.room import Room, Span
from pliant.policy.entitled.shares import NEVER, Share, give
from pliant.policy.entitled.terms import SLACK_S, AllTerms, Terms, costs
from pliant.policy.entitled.virtual import Entry
from pliant.policy.view import ClusterView, Decision, JobView, Promise, Reason, Remember, Resize, Start, Wake

SMALL_LEAD_S = 60.0
"""A lead of so much is not lent while there are nodes enough: it is not worth two resizes."""
LEAST_S = 10.0
"""Less time left than this counts as this, as in the bounded slowdown."""
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
        self._terms = AllTerms()

    def decide(self, view: ClusterView) -> list[Decision]:
        ledger = self._ledger
        if ledger is None or view.memory != self._memory:
            ledger = self._ledger = Ledger.of(view)
        ledger.follow(view)
        self._terms.keep(ledger.entries, view.cost)
        decisions = _Pass(view, ledger, self._terms, self._certain).decide()
        memory = ledger.memory()
        self._memory = memory
        if memory != view.memory:
            decisions.append(Remember(memory))
        return decisions


class _Pass:
    """``left`` are the nodes that nobody is given yet."""

    def __init__(self, view: ClusterView, ledger: Ledger, terms: AllTerms, certain: float) -> None:
        self.view = view
        self.now = view.now
        self.ledger = ledger
        self.left = view.total
        self._terms = terms
        self._certain = certain
        self._behind_s = 0.0
        self._flexible: list[Share] = []
        """The running jobs that can be resized now."""
        self._due: list[Share] = []
        self._early: list[Share] = []
        self._moved: list[Share] = []
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
        view, ledger, now = self.view, self.ledger, self.now
        entries, moved, cost = ledger.entries, ledger.moved, view.cost
        self._loans += ledger.schedule.ghosts()
        for _, number, job in view.running:
            if (entry := entries.get(number)) is None:
                self.left -= job.target  # it has ended virtually, and outlives that by what resizes cost
                continue
            terms = self._terms.of(job, cost)
            lead_s = None
            if entry.began is None:
                least = self._kept(job, entry, terms)
            else:
                lead_s = job.worked_s(now) - (now - entry.began)
                self._behind_s = min(self._behind_s, lead_s)
                least = self._least(lead_s, terms) if terms.flexible else job.target
            if not terms.flexible or not view.resizable(job):
                self.left -= job.target
                continue
            share = Share(job, terms, least, lead_s)
            if number in moved and job.size > least:
                self._moved.append(share)
                share.size = job.size
            self.left -= share.size
            self._flexible.append(share)

    def _kept(self, job: JobView, entry: Entry, terms: Terms) -> int:
        """What a job that began early holds for the rest of its estimate or, as the head of the virtual queue, until
        it begins there. If it had begun virtually until an end became known that was before, that is its least."""
        schedule = self.ledger.schedule
        least = self.ledger.kept.get(entry.id) or (job.bounds.min if terms.flexible else job.target)
        work_s = self._certain * entry.estimate_s - job.worked_s(self.now)
        until = self.now + max(0.0, work_s) * terms.ratio(least)
        if schedule.head is not None and schedule.head.id == job.id:
            until = min(until, self._reserved())
        self._commitments.append((until, least))
        return least

    def _least(self, lead_s: float, terms: Terms) -> int:
        """Its preferred size, or its smallest while it has a lead; by that it lends the difference."""
        ahead_s = lead_s - terms.slack_s
        if ahead_s <= 0.0:
            return terms.preferred
        low = terms.low
        # If it ends before, it is a ghost for no longer than its lead.
        self._loans.append((self.now + min(terms.lasts(ahead_s, low), lead_s), terms.preferred - low))
        return low

    def _reserved(self) -> float:
        """When the head of the virtual queue begins there at the latest. A time that is over says only that others have
        outrun their estimates."""
        at = self.ledger.schedule.reserved
        return NEVER if at is None or at <= self.now else at

    def _start_due(self) -> None:
        """What has begun virtually and waits."""
        entries, waiting = self.ledger.entries, self.ledger.waiting
        due = [(began, number) for number in waiting if (began := entries[number].began) is not None]
        if due:
            due.sort()
            for _, number in due:
                job = waiting[number]
                terms = self._terms.of(job, self.view.cost)
                self._due.append(Share(job, terms, terms.preferred))
                self.left -= terms.preferred
            self._behind_s = min(self._behind_s, due[0][0] - self.now)
        self.ledger.schedule.forget(self.now + max(-MOST_BEHIND_S, self._behind_s))

    def _let_moved_give(self) -> None:
        """Somebody is entitled to what they kept."""
        for share in self._moved:
            self.left += share.size - share.least
            share.size = share.least

    def _borrow(self) -> None:
        """More is due than there is, as nodes were lost or resizes take time: who can catch up again, and is not far
        behind, waits."""
        if self.left >= 0:
            return
        lenders = [each for each in self._flexible if each.lead_s is not None and each.lead_s > -GROWTH_S]
        lenders = [
            each for each in lenders if each.size > each.terms.low and each.terms.preferred < each.terms.high
        ]
        lenders.sort(key=lambda each: (-each.job.remaining_s(self.now), each.job.id))
        for each in lenders:
            low = each.terms.low
            size = each.terms.bounds.floor(max(low, each.size + self.left)) or low
            self.left += each.size - size
            each.size = size
            if self.left >= 0:
                return

    # ---- what nobody is entitled to ------------------------------------------------------------------

    def _start_early(self) -> None:
        """Waiting jobs whose whole run fits, by the estimate, into room that nobody can claim before."""
        schedule, waiting = self.ledger.schedule, self.ledger.waiting
        room = Room(self._loans, self._commitments)
        if room.now <= 0:
            return
        candidates: list[Entry] = []
        for number, entry in schedule.queue.items():
            if number in waiting:
                candidates.append(entry)
                if len(candidates) == DEPTH:
                    break
        candidates.sort(key=_BY_WORK)
        for entry in candidates:
            limit = self._reserved() if entry is schedule.head else NEVER
            job = waiting[entry.id]
            terms = self._terms.of(job, self.view.cost)
            for size, needs_s in terms.tries(self._certain):
                if size > self.left or size > room.now:
                    break
                until = min(self.now + needs_s, limit)
                if room.fits(size, until):
                    room.commit(size, until)
                    self._early.append(Share(job, terms, size))
                    self.left -= size
                    break
            if self.left <= 0 or room.now <= 0:
                return

    def _keep_small_leads(self) -> None:
        for each in self._flexible:
            if each.lead_s is None or not each.terms.slack_s < each.lead_s <= SMALL_LEAD_S:
                continue
            more = each.terms.preferred - each.size
            if 0 < more <= self.left and each.job.size >= each.terms.preferred:
                each.size += more
                self.left -= more

    def _give(self) -> None:
        """The rest goes, node by node, where it adds most to 1 / (time left)."""
        view, moved = self.view, self.ledger.moved
        shares = [each for each in (*self._due, *self._early) if each.terms.flexible]
        for each in shares:
            each.haste = 1.0 / max(LEAST_S, each.job.spec.walltime_s)
        for each in self._flexible:
            job = each.job
            stays = job.id in moved or not view.resizable(job, grow=True)
            each.held = job.size
            each.most = job.size if stays else self._reach(each)
            each.haste = 1.0 / self._time_left(each)
        self.left = give(shares + self._flexible, self.left)

    def _reach(self, each: Share) -> float:
        """How far it may grow at once."""
        job, cost = each.job, self.view.cost
        if (
            not cost.start_each_s
            or (least_s := cost.expand_s(job.size, job.size, job.spec.data_mb)) >= GROWTH_S
        ):
            return NEVER
        reach = job.size + int((GROWTH_S - least_s) / cost.start_each_s)
        return max(reach, each.terms.preferred if each.behind else job.bounds.above(job.size))

    def _time_left(self, each: Share) -> float:
        """At its preferred size."""
        job = each.job
        left = max(LEAST_S, job.remaining_s(self.now) / each.terms.ratio(job.size))
        return left * URGENT if each.lead_s is not None and each.lead_s < -SLACK_S else left

    # ---- what comes of it now ------------------------------------------------------------------------

    def _carried_out(self) -> list[Decision]:
        """Shrinks first, then starts as far as nodes are free, then growth."""
        decisions: list[Decision] = []
        coming = self.view.returning()
        for each in self._flexible:
            job = each.job
            if each.size < job.size:
                decisions.append(Resize(job.id, each.size, _lent(each.lead_s)))
                self.ledger.moved.add(job.id)
                coming += job.size - each.size
        free = self._starts(decisions, self.view.free, coming)
        if free > 0:
            self._growth(decisions, free, coming)
        self._promise(decisions)
        wake = self._wake_at()
        if wake < NEVER:
            decisions.append(Wake(wake))
        return decisions

    def _starts(self, decisions: list[Decision], free: int, coming: int) -> int:
        """The nodes that are left for growth; none while somebody waits for his."""
        short = False
        for shares, reason in ((self._due, ENTITLED), (self._early, EARLY)):
            early = reason is EARLY
            for share in shares:
                job, terms = share.job, share.terms
                if free >= share.least and not (short and early):
                    size = job.bounds.floor(min(share.size, free)) if terms.flexible else share.size
                elif not early and terms.flexible and not coming and free >= terms.low:
                    size = job.bounds.floor(free)  # better than to wait for nobody knows what
                else:
                    short = True
                    continue
                free -= size
                decisions.append(Start(job.id, size, reason))
                if early:
                    self.ledger.kept[job.id] = share.least
        return 0 if short else free

    def _growth(self, decisions: list[Decision], free: int, coming: int) -> None:
        """Those that are behind first; the others when all nodes have come: one resize for all."""
        growing = [each for each in self._flexible if each.size > each.job.size]
        for urgent in (True, False) if growing else ():
            for each in growing:
                job, size = each.job, each.size
                if free <= 0:
                    return
                needs = job.size < each.terms.preferred and each.behind
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
        return GROWTH_S + 3.0 * SLACK_S if costs(self.view.cost) else 0.0

    def _wake_at(self) -> float:
        """When the next virtual end comes, or the next lead is used up."""
        wake, now = self.ledger.schedule.next_end(), self.now
        for each in self._flexible:
            lead_s, terms = each.lead_s, each.terms
            if lead_s is None or lead_s <= terms.slack_s:
                continue
            size = min(each.size, each.job.size)
            if size < terms.preferred:
                wake = min(wake, now + terms.lasts(lead_s - terms.slack_s, size))
        return max(wake, now + SOON_S)


_BY_WORK = attrgetter("work", "id")


def _lent(lead_s: float | None) -> Reason:
    return LENT if lead_s is None else Reason(LENT.code, figures={"lead_s": max(0.0, lead_s)})
