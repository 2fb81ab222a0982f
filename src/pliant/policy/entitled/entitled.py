"""Declaring a job malleable is safe: nobody ends later than under rigid EASY with all jobs at their preferred sizes."""

from __future__ import annotations

from pliant.model.errors import PolicyError
from pliant.policy.entitled.ledger import VirtualLedger
from pliant.policy.entitled.orders import SOON_S, Beginning, Growth, PlannedOrders
from pliant.policy.entitled.room import Room, Span
from pliant.policy.entitled.shares import NEVER, Share, give
from pliant.policy.entitled.terms import SLACK_S, AllTerms, Terms, costs
from pliant.policy.entitled.virtual import VirtualJob
from pliant.policy.job_view import JobView
from pliant.policy.view import ClusterView, Decision, Promise, Reason, Resize, Wake

SMALL_LEAD_S = 60.0
"""A lead of so much is not lent while there are nodes enough: it is not worth two resizes."""
LEAST_S = 10.0
"""Less time left than this counts as this, as in the bounded slowdown."""
DEPTH = 100
"""So many waiting jobs are tried in a pass for an early start."""
GROWTH_S = 20.0
"""Growth into nodes that others are entitled to at any time takes no longer than this, where it takes longer for more
nodes: until it is over they cannot be taken back."""
MOST_BEHIND_S = 3600.0
"""Of no job is it said later that it ended earlier than so long ago."""
URGENT = 0.01
"""How little time a job that has fallen behind is taken to have left, of what it has."""
LENT = Reason("lead_lent")


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
    own_order = "jobs are entitled to what they would have in order of submission"

    def __init__(self, certain: float = 1.0) -> None:
        if not 0.0 < certain <= 1.0:
            raise PolicyError(f"policy 'entitled': certain is {certain:g}; it must be above 0, and 1 at most")
        self._certain = certain
        self._ledger: VirtualLedger | None = None
        self._terms = AllTerms()

    def decide(self, view: ClusterView) -> list[Decision]:
        ledger = self._ledger
        if anew := ledger is None or not ledger.notes.are(view.memory):
            ledger = self._ledger = VirtualLedger.of(view)
        decisions: list[Decision] = []
        if not ledger.follow(view) and not anew and ledger.orders is not None and not ledger.orders:
            return decisions
        coming = view.returning()
        if (orders := ledger.orders) is None:
            self._terms.keep(ledger.entries, view.cost)
            plan = _Pass(view, ledger, self._terms, self._certain)
            orders = ledger.orders = plan.decide(decisions)
            coming += plan.given
        now = orders.carry_out(view, ledger.waiting, coming, ledger.kept)
        ledger.start(now)
        decisions += now
        decisions += _promise(view, ledger)
        if (remember := ledger.remember()) is not None:
            decisions.append(remember)
        return decisions


class _Pass:
    """What is decided for an instant. ``left`` are the nodes that nobody is given yet, ``given`` those that jobs give
    back."""

    def __init__(self, view: ClusterView, ledger: VirtualLedger, terms: AllTerms, certain: float) -> None:
        self.view = view
        self.now = view.now
        self.ledger = ledger
        self.left = view.total
        self.given = 0
        self._terms = terms
        self._certain = certain
        self._behind_s = 0.0
        self._flexible: list[Share] = []
        """The running jobs that can be resized now."""
        self._due: list[Share] = []
        self._early: list[Share] = []
        self._loans: list[Span] = []
        self._commitments: list[Span] = []

    def decide(self, decisions: list[Decision]) -> PlannedOrders:
        """What is done at once is added to ``decisions``."""
        self._reserve()
        self._start_due()
        if self.left < 0:
            self._borrow()
        if self.left > 0:
            self._start_early()
            self._keep_small_leads()
            self._give()
        self._shrink(decisions)
        self._wake(decisions)
        return self._orders()

    # ---- what jobs are entitled to -------------------------------------------------------------------

    def _reserve(self) -> None:
        """Each running job keeps what it is entitled to; the room that is left by others is counted."""
        view, ledger, now = self.view, self.ledger, self.now
        entries, terms_of, left = ledger.entries, self._terms.of, self.left
        self._loans += ledger.schedule.ghosts()
        for _, number, job in view.running:
            if (entry := entries.get(number)) is None:
                left -= job.target  # it has ended virtually, and outlives that by what resizes cost
                continue
            terms = terms_of(job, entry.nodes)
            lead_s = None
            if entry.began is None:
                least = self._kept(job, entry, terms)
            else:
                lead_s = job.worked_s(now) * terms.longer - (now - entry.began)
                if lead_s < self._behind_s:  # noqa: PLR1730 - a call of min would double what this costs
                    self._behind_s = lead_s
                least = self._least(lead_s, terms) if terms.flexible else 0
            if not terms.flexible or not view.resizable(job):
                left -= job.target
                continue
            left -= least
            self._flexible.append(Share(job, terms, least, lead_s))
        self.left = left

    def _kept(self, job: JobView, entry: VirtualJob, terms: Terms) -> int:
        """What a job that began early holds for the rest of its estimate or, as the head of the virtual queue, until
        it begins there. If it had begun virtually until an end became known that was before, that is its least."""
        schedule = self.ledger.schedule
        least = self.ledger.kept.get(entry.id) or (job.bounds.min if terms.flexible else job.target)
        work_s = self._certain * entry.estimate_s - job.worked_s(self.now) * terms.longer
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
        due = self.ledger.due()
        for _, number in due:
            job = self.ledger.waiting[number]
            terms = self._terms.of(job, self.ledger.entries[number].nodes)
            self._due.append(Share(job, terms, terms.preferred))
            self.left -= terms.preferred
        if due:
            self._behind_s = min(self._behind_s, due[0][0] - self.now)
        self.ledger.schedule.forget(self.now + max(-MOST_BEHIND_S, self._behind_s))

    def _borrow(self) -> None:
        """More is due than there is, as nodes were lost or resizes take time: who can catch up again, and is not far
        behind, waits."""
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
        if not (candidates := self._candidates()):
            return
        room = Room(self._loans, self._commitments)
        if room.now <= 0:
            return
        candidates.sort()
        head = self.ledger.schedule.head
        for _, number, entry in candidates:
            limit = self._reserved() if entry is head else NEVER
            job = self.ledger.waiting[number]
            terms = self._terms.of(job, entry.nodes)
            for size, needs_s in terms.tries(self._certain, entry.estimate_s):
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

    def _candidates(self) -> list[tuple[float, int, VirtualJob]]:
        """(node-seconds by the estimate, number, entry) of those who wait, the first of the virtual queue."""
        waiting = self.ledger.waiting
        found: list[tuple[float, int, VirtualJob]] = []
        for number, entry in self.ledger.schedule.queue.items():
            if number in waiting:
                found.append((entry.estimate_s * entry.nodes, number, entry))
                if len(found) == DEPTH:
                    break
        return found

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
        view = self.view
        shares = [each for each in (*self._due, *self._early) if each.terms.flexible]
        for each in shares:
            each.haste = 1.0 / max(LEAST_S, each.job.spec.walltime_s)
        for each in self._flexible:
            job = each.job
            each.held = job.size
            each.most = self._reach(each) if view.resizable(job, grow=True) else job.size
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

    # ---- what comes of it ------------------------------------------------------------------------

    def _shrink(self, decisions: list[Decision]) -> None:
        for each in self._flexible:
            job = each.job
            if each.size < job.size:
                decisions.append(Resize(job.id, each.size, _lent(each.lead_s)))
                self.given += job.size - each.size

    def _orders(self) -> PlannedOrders:
        """What is done when nodes are there for it."""
        starts = [Beginning(each.job.id, each.size, each.least, False) for each in self._due]
        starts += [Beginning(each.job.id, each.size, each.least, True) for each in self._early]
        growths = [
            Growth(each.job.id, each.size, each.behind, self._until(each, each.job.size))
            for each in self._flexible
            if each.size > each.job.size
        ]
        return PlannedOrders(starts, growths)

    def _until(self, each: Share, size: int) -> float:
        """When its lead is used up on so many nodes; 0 if that is no question."""
        lead_s, terms = each.lead_s, each.terms
        if lead_s is None or lead_s <= terms.slack_s or size >= terms.preferred:
            return 0.0
        until = self.now + terms.lasts(lead_s - terms.slack_s, size)
        return until if until < NEVER else 0.0

    def _wake(self, decisions: list[Decision]) -> None:
        """When the next virtual end comes, or the next lead is used up."""
        wake, at_once = self.ledger.schedule.next_end(), not costs(self.view.cost)
        for each in self._flexible:
            size = each.size if at_once else min(each.size, each.job.size)
            if until := self._until(each, size):
                wake = min(wake, until)
        if wake < NEVER:
            decisions.append(Wake(max(wake, self.now + SOON_S)))


def _promise(view: ClusterView, ledger: VirtualLedger) -> list[Decision]:
    """To the head what EASY promises it; while it waits for jobs that have outrun their estimates, the present. Nodes
    may come late to it: who has them has to leave them first, or even to come to the end of a growth. The virtual
    schedule does not know of nodes that expire: where some do, nothing is promised."""
    if view.expiring:
        return []
    head, at = ledger.schedule.head, ledger.schedule.reserved
    if head is None or at is None or head.id not in ledger.waiting:
        return []
    late_s = GROWTH_S + 3.0 * SLACK_S if costs(view.cost) else 0.0
    return [Promise(head.id, max(at, view.now) + late_s)]


def _lent(lead_s: float | None) -> Reason:
    return LENT if lead_s is None else Reason(LENT.code, figures={"lead_s": max(0.0, lead_s)})
