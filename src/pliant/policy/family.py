"""The 3 x 3 malleable policies of PECS'23 (10.1007/978-3-031-48803-0_14): a sizing and a rule of agreement,
with true EASY in between. The published program's faults are mended as the notes list them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pliant.policy.agreement import ANYONE, Agreement, Ledger, Rule
from pliant.policy.easy import Reservation, earliest, easy_pass, need_of, starts_best
from pliant.policy.order import OtherQueue
from pliant.policy.sizing import Sizing
from pliant.policy.view import ClusterView, Decision, JobView, Reason, Remember, Resize, Start

ROUNDING_S = 1e-9
PATIENCE_S = 120.0
"""An agreement is dropped after so long: a donor inside a long step may not answer for any time."""


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
        ledger = Ledger(self._rule, PATIENCE_S, view.memory)
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
        shrinks = self._agree(seen, ledger, starts, soon)
        decisions += shrinks
        if head is not None:
            free = min(free, reservation.spare) if reservation is not None else 0
        if free and not shrinks and seen.returning() == 0:
            takers = [job for job in view.elastic if view.resizable(job, grow=True)]
            decisions += self._sizing.give(view, takers, free, self._payback)
        if (memory := ledger.memory()) != view.memory:
            decisions.append(Remember(memory))
        return decisions

    def _poolable(self, view: ClusterView, ledger: Ledger) -> int:
        """Unbound free nodes that a pool may lend: not those with which the first job without agreement can
        start now, since they may be what it was promised."""
        unbound = view.free - ledger.bound
        if self._rule.pools and unbound:
            first = next((job for job in view.queue if job.id not in ledger.held), None)
            if first is not None and first.bounds.min <= unbound:
                return unbound - first.bounds.min
        return unbound

    def _agree(
        self, seen: ClusterView, ledger: Ledger, starts: list[Decision], soon: list[tuple[float, int]]
    ) -> list[Resize]:
        """New agreements in the order of the queue, and the shrinks that they need."""
        begun = {each.job: each.size for each in starts if type(each) is Start}
        waiting = [job for job in seen.queue if job.id not in begun]
        if not waiting:
            return []
        donors = [job for job in seen.elastic if job.size > job.bounds.min and seen.resizable(job)]
        if not donors:
            return []
        prospect = _Prospect(seen, donors, begun, soon)
        cost = seen.cost.shrink_s()
        guard: _Guard | None = None
        asked: dict[int, int] = {}
        for job in waiting:
            plan = self._plan(prospect, job, self._need(seen, job), guard, cost)
            if plan is None and guard is None:
                need = self._need(seen, job)
                guard = _Guard(need, prospect.earliest(need))
            elif plan is not None:
                for donor in plan.given:
                    asked.setdefault(donor, job.id)
                ledger.add(*prospect.carry_out(plan))
                if guard is not None:
                    guard = _Guard(guard.need, prospect.earliest(guard.need))
            if not prospect.donors.surplus:
                break
        return [
            Resize(number, prospect.donors.sizes[number], Reason("shrink_for_agreement", for_job=beneficiary))
            for number, beneficiary in asked.items()
        ]

    def _need(self, seen: ClusterView, job: JobView) -> int:
        """The fewest nodes with which it would start."""
        start = self._sizing.start
        return need_of(job, start, seen.total) if starts_best(job, start) else job.bounds.min

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
            given = self._sizing.take(donors.jobs, donors.sizes, need, floor)
            if given is None:
                continue
            plan = _Plan(job, size, usable, given, end, prospect.now)
            if guard is None or guard.keeps(prospect.after(plan)):
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

    def keeps(self, outlook: tuple[float, int, list[tuple[float, int]]]) -> bool:
        if self.reservation is None:
            return True
        now, have, entries = outlook
        later = earliest(now, have, self.need, entries)
        return later is not None and later.at <= self.reservation.at + ROUNDING_S


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

    def without(self, given: Mapping[int, int]) -> dict[int, int]:
        """The sizes, if they gave that."""
        return {number: size - given.get(number, 0) for number, size in self.sizes.items()}

    def give(self, given: Mapping[int, int]) -> dict[int, int]:
        """Book what they give; the sizes that the givers go to."""
        for number, nodes in given.items():
            self.sizes[number] -= nodes
            self.surplus -= nodes
        return {number: self.sizes[number] for number in given}

    def ends(self, sizes: Mapping[int, int], now: float) -> list[tuple[float, int]]:
        """(expected end, nodes) of all, at ``sizes``."""
        return [(end_at(self._by_number[number], size, now), size) for number, size in sizes.items()]


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
        left = len(begun)
        for job in seen.queue:
            if not left:
                break
            if job.id in begun:
                left -= 1
                self._fixed.append((self.now + job.spec.estimate(begun[job.id]), begun[job.id]))
        self._entries = self._with(shrinkable)

    def _with(self, sizes: Mapping[int, int]) -> list[tuple[float, int]]:
        """(expected end, nodes) of all, in order, with the donors at ``sizes``."""
        return sorted([*self._fixed, *self.donors.ends(sizes, self.now)])

    def earliest(self, need: int) -> Reservation | None:
        return earliest(self.now, self.supply.all, need, self._entries)

    def unaided(self, need: int, guard: _Guard | None) -> float:
        """When a job with this need would start without an agreement; where it must only wait for the guarded one,
        with that."""
        if guard is not None and need <= self.supply.all and guard.reservation is not None:
            return guard.reservation.at
        alone = self.earliest(need)
        return alone.at if alone is not None else float("inf")

    def after(self, plan: _Plan) -> tuple[float, int, list[tuple[float, int]]]:
        """(now, free or returning, entries) if ``plan`` were carried out."""
        have = self.supply.all + sum(plan.given.values()) - plan.size
        entries = self._with(self.donors.without(plan.given))
        return self.now, have, sorted([*entries, (plan.end, plan.size)])

    def carry_out(self, plan: _Plan) -> tuple[Agreement, dict[int, int]]:
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
        self._entries = self._with(self.donors.sizes)
        return Agreement.of(plan.job, plan.size, bound, awaited, plan.since), sizes


class _Unbound(OtherQueue):
    """The cluster without what agreements bind, their jobs, and what has been started in this pass."""

    def __init__(self, view: ClusterView, ledger: Ledger, started: list[Agreement]) -> None:
        queue = view.queue
        if ledger.held or started:
            without = {*ledger.held, *(each.job for each in started)}
            queue = [job for job in queue if job.id not in without]
        super().__init__(view, queue)
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
