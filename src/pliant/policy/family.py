"""The 3 x 3 malleable policies of PECS'23 (10.1007/978-3-031-48803-0_14): a sizing and a rule of agreement,
with true EASY in between. The published program's faults are mended as the notes list them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pliant.policy.agreement import ANYONE, AgreementLedger, NodeAgreement, Rule
from pliant.policy.backlog import ANYBODY, LONG_S, NONE_S, EstimateRange, Like, Rest, named
from pliant.policy.easy import Reservation, earliest, easy_pass, need_of, starts_best
from pliant.policy.giving import Able, growable
from pliant.policy.job_view import JobView
from pliant.policy.order import OtherQueue
from pliant.policy.resizing import Limit
from pliant.policy.sizing import Sizing
from pliant.policy.view import ClusterView, Decision, Reason, Remember, Resize, Start

ROUNDING_S = 1e-9
FEW = 16
"""So many nodes of donors are tried one by one."""
PATIENCE_S = 120.0
"""An agreement is dropped after so long: a donor inside a long step may not answer for any time."""


NEVER = float("inf")
ALL_ALIKE = (EstimateRange(NONE_S, LONG_S),)


class Agreeing:
    """Starts jobs by EASY; for those that still wait, shrinks others and keeps the nodes for them.

    A pass: jobs start whose agreements are met; others start by EASY on nodes that are not bound; whoever
    waits then, in the order of the queue, gets an agreement if all it lacks can be had at once, if that is
    quicker than to wait, and if no job ahead that has none would wait longer; nodes that none of them
    could use let jobs grow, where that pays for itself ``payback`` times.
    """

    def __init__(self, sizing: Sizing, rule: Rule, payback: float = 2.0) -> None:
        self.name = f"{sizing.name}-{rule.name}"
        self._sizing = sizing
        self._payback = payback
        self._rule = rule

    def decide(self, view: ClusterView) -> list[Decision]:
        ledger = AgreementLedger(self._rule, PATIENCE_S, view.memory)
        ledger.repair(view)
        met = ledger.resolve(self._poolable(view, ledger)) if ledger.held else []
        decisions: list[Decision] = [Start(each.job, each.size, reason) for each, reason in met]
        soon = ledger.soon(view.now, view.cost.shrink_s())
        seen: ClusterView = view
        if met or ledger.held or view.returning():
            seen = _Unbound(view, ledger, [each for each, _ in met])
            soon += [(view.now + each.run_s, each.size) for each, _ in met]
        starts, head, reservation, free = easy_pass(seen, self._sizing.start, soon, resizes=True)
        decisions += starts
        shrinks = self._agree(seen, ledger, starts, soon) if head is not None else []
        decisions += shrinks
        if not shrinks:
            idle = growable(seen, head, reservation, free)
            decisions += self._sizing.by.grow(view, idle, self._sizing.ceilings, self._payback)
        if (memory := ledger.memory()) != view.memory:
            decisions.append(Remember(memory))
        return decisions

    def _poolable(self, view: ClusterView, ledger: AgreementLedger) -> int:
        """Unbound free nodes that a pool may lend: not those with which the first job without agreement can
        start now, since they may be what it was promised."""
        unbound = view.free - ledger.bound
        if self._rule.pools and unbound:
            first = next((job for job in view.queue if job.id not in ledger.held), None)
            if first is not None and first.bounds.min <= unbound:
                return unbound - first.bounds.min
        return unbound

    def _agree(
        self,
        seen: ClusterView,
        ledger: AgreementLedger,
        starts: list[Decision],
        soon: list[tuple[float, int]],
    ) -> list[Resize]:
        """New agreements in the order of the queue, and the shrinks that they need."""
        donors = [job for job in seen.elastic if job.size > job.bounds.min and seen.resizable(job)]
        if not donors:
            return []
        begun = {each.job: each.size for each in starts if type(each) is Start}
        prospect = _Prospect(seen, donors, begun, soon)
        looking = _Looking(self._sizing, seen, begun)
        cost = seen.cost.shrink_s()
        guard: _Guard | None = None
        asked: dict[int, int] = {}
        while prospect.donors.surplus and (job := looking.next(prospect, guard, cost)):
            need = least_need(self._sizing, seen, job)
            plan = self._plan(prospect, job, need, guard, cost)
            if plan is None and guard is None:
                guard = _Guard(need, prospect.earliest(need))
            elif plan is not None:
                for donor in plan.given:
                    asked.setdefault(donor, job.id)
                ledger.add(*prospect.carry_out(plan))
                if guard is not None:
                    guard = _Guard(guard.need, prospect.earliest(guard.need))
        return [
            Resize(number, prospect.donors.sizes[number], Reason("shrink_for_agreement", for_job=beneficiary))
            for number, beneficiary in asked.items()
        ]

    def _plan(
        self, prospect: _Prospect, job: JobView, low: int, guard: _Guard | None, cost: float
    ) -> _Plan | None:
        """How ``job``, which starts with ``low`` nodes or more, could have an agreement that is worth it and does no
        harm to the guarded one."""
        donors, have = prospect.donors, prospect.supply.all
        if low > have + donors.surplus or (guard is None and low <= have):
            return None
        for wanted, floor in self._sizing.attempts:
            size = max(low, wanted(job))
            end = prospect.now + cost + job.spec.estimate(size)
            usable = have if guard is None else guard.leaves(have, end)
            need = size - usable
            if need <= 0:
                return None  # all is on its way back
            if need > donors.surplus:
                continue
            if prospect.unaided(low, guard) - prospect.now <= cost:
                return None
            able = prospect.able(self._sizing, floor)
            if able.surplus < need:
                continue
            given = self._sizing.by.take(able, need, floor, donors.sizes)
            plan = _Plan(job, size, usable, given, end, prospect.now)
            if guard is None or prospect.keeps(guard, size, end, given):
                return plan
        return None


class _Plan(NamedTuple):
    """``job`` on ``size`` nodes until ``end``: ``usable`` from free or returning ones, ``given`` by donors."""

    job: JobView
    size: int
    usable: int
    given: dict[int, int]
    end: float
    since: float


class _Guard(NamedTuple):
    """The first job without agreement: its need and its reservation, which nobody behind it may delay."""

    need: int
    reservation: Reservation | None

    def leaves(self, have: int, end: float) -> int:
        """How many of ``have`` nodes are left for who holds them until ``end``."""
        if self.reservation is None or end <= self.reservation.at:
            return have
        return min(have, self.reservation.spare)


class _Supply:
    """Nodes that no agreement binds yet: ``free`` ones, and those on their way ``back``."""

    __slots__ = ("back", "free")

    def __init__(self, free: int, back: int) -> None:
        self.free = free
        self.back = back

    @property
    def all(self) -> int:
        return self.free + self.back

    def bind(self, size: int, usable: int, given: int) -> int:
        """Bind ``size`` nodes: ``usable`` of the supply, free ones first, the others of ``given`` ones, which come
        back; how many of them are free."""
        bound = min(self.free, usable)
        self.free -= bound
        self.back += given - (size - bound)
        return bound


class _Donors:
    """Running jobs that can shrink: the ``sizes`` they go to, and their ``surplus``, all that they could still give."""

    __slots__ = ("_by_number", "jobs", "sizes", "surplus")

    def __init__(self, jobs: list[JobView]) -> None:
        self.jobs = jobs
        self.sizes = {job.id: job.size for job in jobs}
        self.surplus = sum(job.size - job.bounds.min for job in jobs)
        self._by_number = {job.id: job for job in jobs}

    def give(self, given: Mapping[int, int]) -> dict[int, int]:
        """Book what they give; the sizes that the givers go to."""
        for number, nodes in given.items():
            self.sizes[number] -= nodes
            self.surplus -= nodes
        return {number: self.sizes[number] for number in given}

    def ends(self, now: float) -> list[tuple[float, int]]:
        """(expected end, nodes) of all."""
        return [(self.end(number, size, now), size) for number, size in self.sizes.items()]

    def end(self, number: int, size: int, now: float) -> float:
        """The expected end of one of them, if it goes on with ``size`` nodes."""
        return end_at(self._by_number[number], size, now)


class _Prospect:
    """What is free, what comes back and what ends when, as the pass goes on."""

    def __init__(
        self,
        seen: ClusterView,
        donors: list[JobView],
        begun: dict[int, int],
        soon: list[tuple[float, int]],
    ) -> None:
        self.now = seen.now
        self.donors = _Donors(donors)
        self.supply = _Supply(seen.free - sum(begun.values()), seen.returning())
        shrinkable = self.donors.sizes
        self._fixed = [(end, job.target) for end, number, job in seen.running if number not in shrinkable]
        self._fixed += soon
        for job in named(seen.queue, seen.backlog, begun):
            self._fixed.append((self.now + job.spec.estimate(begun[job.id]), begun[job.id]))
        self._changed()

    def _changed(self) -> None:
        """What is known of donors, and of what ends when, has to be worked out anew."""
        self._entries = sorted([*self._fixed, *self.donors.ends(self.now)])
        self._alone: dict[int, float] = {}
        self._able: dict[Limit, Able] = {}
        self._ended: dict[float, int] = {}

    def able(self, sizing: Sizing, floor: Limit) -> Able:
        """Those of the donors who can give."""
        found = self._able.get(floor)
        if found is None:
            donors = self.donors
            found = self._able[floor] = sizing.by.able(donors.jobs, floor, donors.sizes)
        return found

    def earliest(self, need: int) -> Reservation | None:
        return earliest(self.now, self.supply.all, need, self._entries)

    def unaided(self, need: int, guard: _Guard | None) -> float:
        """When a job with this need would start without an agreement; where it must only wait for the guarded one,
        with that."""
        if guard is not None and need <= self.supply.all and guard.reservation is not None:
            return guard.reservation.at
        at = self._alone.get(need)
        if at is None:
            alone = self.earliest(need)
            at = self._alone[need] = alone.at if alone is not None else float("inf")
        return at

    def keeps(self, guard: _Guard, size: int, end: float, given: Mapping[int, int]) -> bool:
        """Whether the guarded job would get its nodes no later if a job had ``size`` nodes until ``end``, and donors
        had ``given`` these."""
        reservation = guard.reservation
        if reservation is None:
            return True
        return self.left(guard, given) >= (size if end > reservation.at + ROUNDING_S else 0)

    def left(self, guard: _Guard, given: Mapping[int, int]) -> int:
        """How many nodes more than the guarded job needs there are when it can start by its reservation, if donors have
        ``given`` these, and who has got them has given them back."""
        if guard.reservation is None:
            return 0
        by = guard.reservation.at + ROUNDING_S
        have = self._ended.get(by)
        if have is None:
            have = self._ended[by] = self.supply.all + sum(nodes for end, nodes in self._entries if end <= by)
        donors, now = self.donors, self.now
        for number, nodes in given.items():
            before = donors.sizes[number]
            had = before if donors.end(number, before, now) <= by else 0
            left = before - nodes if donors.end(number, before - nodes, now) <= by else 0
            have += nodes + left - had
        return have - guard.need

    def carry_out(self, plan: _Plan) -> tuple[NodeAgreement, dict[int, int]]:
        """The agreement, and the sizes that its donors go to."""
        bound = self.supply.bind(plan.size, plan.usable, sum(plan.given.values()))
        awaited = {ANYONE: plan.usable - bound} if plan.usable > bound else {}
        lacking = plan.size - plan.usable
        for number, nodes in plan.given.items():
            if part := min(nodes, lacking):
                awaited[number] = part
                lacking -= part
        sizes = self.donors.give(plan.given)
        self._fixed.append((plan.end, plan.size))
        self._changed()
        return NodeAgreement.of(plan.job, plan.size, bound, awaited, plan.since), sizes


class _Looking:
    """The waiting jobs that have not ``begun``, in order. Behind a guarded one, where there is an index, of those for
    which all is alike only the first: what is refused to it is refused to all of them."""

    __slots__ = ("_begun", "_found", "_guard", "_last", "_queue", "_seen", "_sizing")

    def __init__(self, sizing: Sizing, seen: ClusterView, begun: Mapping[int, int]) -> None:
        self._sizing = sizing
        self._seen = seen
        self._begun = begun
        self._queue = iter(Rest(seen.queue, begun))
        self._guard: _Guard | None = None
        self._last = 0
        self._found: Iterator[JobView] = self._queue

    def next(self, prospect: _Prospect, guard: _Guard | None, cost: float) -> JobView | None:
        """The next one; ``prospect`` has changed since the last one only if ``guard`` has."""
        backlog = self._seen.backlog
        if backlog is not None and guard is not self._guard and guard is not None:
            self._guard = guard
            kinds = _Kinds(self._sizing, self._seen, prospect, guard, cost)
            if not kinds.anybody():
                return None
            nodes = prospect.supply.all + prospect.donors.surplus
            self._found = backlog.without(self._begun).like(self._last, lambda: nodes, kinds.spans)
        job = next(self._found, None)
        if job is not None:
            self._last = job.id
        return job


def least_need(sizing: Sizing, seen: ClusterView, job: JobView) -> int:
    """The fewest nodes with which ``job`` would start."""
    start = sizing.start
    return need_of(job, start, seen.total) if starts_best(job, start) else job.bounds.min


class _Kinds:
    """Whose plans are alike, while the guarded job has this reservation: those of a row that would all end before it,
    or all after it, with each of the sizes that are tried. Those who would end just then are alike if their estimates
    are the same."""

    def __init__(
        self, sizing: Sizing, seen: ClusterView, prospect: _Prospect, guard: _Guard, cost: float
    ) -> None:
        self._sizing = sizing
        self._seen = seen
        self._prospect = prospect
        self._guard = guard
        self._have = prospect.supply.all
        self._spare = guard.leaves(self._have, NEVER)
        self._left_s = self._slack_s = 0.0
        self._known: dict[tuple[int, Limit], int] = {}
        self._possible: set[tuple[int, Limit]] | None = None
        if guard.reservation is not None:
            at = guard.reservation.at
            self._left_s = at - prospect.now - cost
            self._slack_s = 2.0 * ROUNDING_S + 1e-12 * abs(at)

    def anybody(self) -> bool:
        """Whether anybody may have a plan: where donors have but few nodes, each number of them is tried."""
        if self._prospect.donors.surplus > FEW or self._guard.reservation is None:
            return True
        self._possible = {
            (need, floor)
            for floor in {floor for _, floor in self._sizing.attempts}
            for need in range(1, self._prospect.able(self._sizing, floor).surplus + 1)
            if self._left(need, floor) >= 0
        }
        return bool(self._possible)

    def spans(self, row: Like) -> Iterable[EstimateRange]:
        """Of those who may have a plan."""
        if self._guard.reservation is None:
            return ALL_ALIKE
        low = least_need(self._sizing, self._seen, row.one)
        tries = [(max(low, wanted(row.one)), floor) for wanted, floor in self._sizing.attempts]
        if not any(self._may(*each) for each in tries):
            return ()
        if row.opaque:
            return ANYBODY
        edges = [self._edge(*row.ratios(size)) for size, _ in tries]
        found: list[EstimateRange] = []
        over = NONE_S
        for before, after in sorted({*edges, (LONG_S, LONG_S)}):
            if before > over:
                if self._may_all(tries, [edge[1] <= over for edge in edges]):
                    found.append(EstimateRange(over, before))
                over = before
            if after > over:
                found += row.each(over, after)
                over = after
        return found

    def _edge(self, least: float, most: float) -> tuple[float, float]:
        """Between which estimates jobs may end just when the guarded one starts, where their times are to these between
        ``least`` and ``most`` times as long."""
        before, after = (self._left_s - self._slack_s) / most, (self._left_s + self._slack_s) / least
        return before * (1.0 - 1e-9), after * (1.0 + 1e-9)

    def _may(self, size: int, floor: Limit) -> bool:
        """Whether any job may have a plan with this size."""
        before, after = size - self._have, size - self._spare
        if self._possible is not None:
            return (before, floor) in self._possible or (after, floor) in self._possible
        return self._left(before, floor) >= 0 or self._left(after, floor) >= 0

    def _may_all(self, tries: list[tuple[int, Limit]], late: list[bool]) -> bool:
        """Whether jobs have a plan that are ``late`` with some of the sizes, ending after the guarded one can start."""
        for (size, floor), outlasts in zip(tries, late, strict=True):
            need = size - (self._spare if outlasts else self._have)
            if need <= 0:
                return False
            if self._left(need, floor) >= (size if outlasts else 0):
                return True
        return False

    def _left(self, need: int, floor: Limit) -> int:
        """How many nodes more than the guarded one needs there are when it can start, if donors give ``need`` nodes and
        all of them are back by then; less than none if donors do not have them."""
        key = need, floor
        found = self._known.get(key)
        if found is None:
            able = self._prospect.able(self._sizing, floor)
            found = -1
            if 0 < need <= able.surplus:
                given = self._sizing.by.take(able, need, floor, self._prospect.donors.sizes)
                found = self._prospect.left(self._guard, given)
            self._known[key] = found
        return found


class _Unbound(OtherQueue):
    """The cluster without what agreements bind, their jobs, and what has been started in this pass."""

    def __init__(self, view: ClusterView, ledger: AgreementLedger, started: list[NodeAgreement]) -> None:
        left_out = {*ledger.held, *(each.job for each in started)}
        backlog = view.backlog
        rest = None if backlog is None else backlog.without(left_out)
        super().__init__(view, Rest(view.queue, left_out), rest)
        self.free -= ledger.bound + sum(each.size for each in started)
        self.running = _running(view)
        self.returning = self._left
        self._back = view.returning() - ledger.awaited

    def _left(self, job: int = 0) -> int:
        return self._view.returning(job) if job else self._back


def _running(view: ClusterView) -> Sequence[tuple[float, int, JobView]]:
    """The running jobs, those that are shrinking with the later ends that this gives them."""
    if all(job.target >= job.size for _, _, job in view.running):
        return view.running
    later = [
        (end_at(job, job.target, view.now) if job.target < job.size else end, number, job)
        for end, number, job in view.running
    ]
    return sorted(later, key=lambda entry: entry[:2])


def end_at(job: JobView, size: int, now: float) -> float:
    """The expected end, if ``job`` goes on with ``size`` nodes."""
    if size == job.size:
        return job.expected_end
    return now + max(0.0, job.expected_end - now) * job.spec.estimate(size) / job.spec.estimate(job.size)
