"""EASY backfilling: the head of the queue holds a reservation; others may pass it only where that does no
harm to it, by the users' estimates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from pliant.model.jobs import JobClass
from pliant.model.speedup import falls
from pliant.policy.backlog import ANYBODY, INDEXES, LONG_S, NONE_S, Backlog, EstimateRange, Like, Measure
from pliant.policy.fcfs import FITS, least_size, start_size
from pliant.policy.job_view import JobView
from pliant.policy.lasting import ONE_SIZE, Lasting
from pliant.policy.view import ClusterView, Decision, Promise, Reason, Start

BACKFILLED = Reason("backfilled")
NEVER = float("inf")
LOOKS = 8
"""So many jobs that could be quick enough are looked at in vain before their sizes are considered."""
WASTE = 2.0
"""On an idle machine a job gets more nodes than it prefers up to so many times the node-seconds."""


class Reservation:
    """When the head can start at the latest, and how many nodes are left over then."""

    __slots__ = ("at", "spare")

    def __init__(self, at: float, spare: int) -> None:
        self.at = at
        self.spare = spare


def reserve(
    view: ClusterView, need: int, free: int, started: list[tuple[float, int]], length_s: float = 0.0
) -> Reservation | None:
    """The first time at which ``need`` nodes are free, counting all releases up to then; where nodes expire, for
    ``length_s`` seconds from then on.

    ``started`` are (expected end, nodes) of this pass' own starts. A job that has outrun its estimate is
    taken to end any moment. None if the nodes that exist cannot be enough.
    """
    if view.expiring:
        return _reserve_lasting(view, need, free, started, length_s)
    return _reserve(view, need, free, started)


def _reserve(view: ClusterView, need: int, free: int, started: list[tuple[float, int]]) -> Reservation | None:
    entries: Iterable[tuple[float, int]] = ((end, job.target) for end, _, job in view.running)
    if started:
        entries = sorted([*entries, *started])
    return earliest(view.now, free + view.returning(), need, entries)


def lasts_s(job: JobView, nodes: int) -> float:
    """For how long its nodes have to be there."""
    return 0.0 if job.spec.may_outlast else job.spec.estimate(nodes)


def _reserve_lasting(
    view: ClusterView, need: int, free: int, started: list[tuple[float, int]], length_s: float
) -> Reservation | None:
    best: Reservation | None = None
    for at in (*(each.at for each in view.expiring), NEVER):
        free_then = view.lasting(at)
        held = [(end, view.lasting(at, number)) for end, number, _ in view.running]
        if free_then + sum(nodes for _, nodes in held) < need:
            continue  # whatever nodes those get that start now
        have = free_then - (view.free - free)
        found = earliest(view.now, have, need, sorted([*held, *started]))
        if found is not None and found.at + length_s <= at and (best is None or found.at < best.at):
            best = found
    return best


def earliest(now: float, have: int, need: int, entries: Iterable[tuple[float, int]]) -> Reservation | None:
    """As ``reserve``, where ``have`` nodes are free at once and ``entries`` are (end, nodes) in order."""
    at = now if have >= need else None
    for end, nodes in entries:
        if at is not None and end > at:
            break
        have += nodes
        if at is None and have >= need:
            at = max(now, end)
    return None if at is None else Reservation(at, have - need)


class Easy:
    """EASY backfilling: others may pass the head of the queue where that does not delay it by the estimates.

    Jobs with a choice start by rule ``start`` (min, preferred, free, max or exact).
    """

    name = "easy"

    def __init__(self, start: str = "preferred") -> None:
        self._start = start

    def decide(self, view: ClusterView) -> list[Decision]:
        return easy_pass(view, self._start)[0]


def starts_best(job: JobView, rule: str) -> bool:
    """Whether a policy that resizes jobs, and so starts them at their minimum, has to start this one at its best size
    instead: it has a choice, and it is not the scheduler who will change its size later."""
    flexible = job.bounds.min < job.bounds.max
    return (
        rule in ("min", "preferred")
        and flexible
        and job.spec.job_class in (JobClass.MOLDABLE, JobClass.EVOLVING)
    )


def need_of(job: JobView, rule: str, total: int) -> int:
    """The nodes that a blocked job waits for, where the policy resizes jobs."""
    if not starts_best(job, rule):
        return least_size(job, rule, total)
    return job.bounds.floor(min(job.bounds.preferred, total)) or job.bounds.min


def easy_pass(  # noqa: C901 - made after every event: a call a part costs time
    view: ClusterView, rule: str, soon: Iterable[tuple[float, int]] = (), *, resizes: bool = False
) -> tuple[list[Decision], JobView | None, Reservation | None, int]:
    """(decisions, blocked head, its reservation, nodes still free) of one pass in queue order.

    ``soon`` are (expected end, nodes) of jobs that start on nodes which the view does not count. If the policy
    ``resizes`` jobs, those that it cannot resize start at their best size.
    """
    decisions: list[Decision] = []
    free = view.free
    head: JobView | None = None
    reservation: Reservation | None = None
    started = list(soon)
    now, total = view.now, view.total
    lasting = Lasting(view) if view.expiring else None
    queue = iter(view.queue)
    for job in queue:
        best = resizes and starts_best(job, rule)
        size = _best_size(view, job, rule, free, started) if best else start_size(job, rule, free, total)
        if lasting is not None:
            size = lasting.start(job, size, rule, keep=False)
        if not size:
            head = job
            need = need_of(job, rule, total) if best else least_size(job, rule, total)
            if lasting is None:
                reservation = _reserve(view, need, free, started)
            else:
                reservation = reserve(view, need, free, started, lasts_s(job, need))
            if reservation is not None:
                decisions.append(Promise(job.id, reservation.at))
            break
        decisions.append(Start(job.id, size, FITS))
        free -= size
        started.append((now + job.spec.estimate(size), size))
    if head is None or free == 0:
        return decisions, head, reservation, free
    backlog = view.backlog
    behind = None if backlog is None else Behind(backlog, view, head.id, rule, started if resizes else None)
    while found := next(queue, None) if behind is None else behind.next(free, reservation):
        best = resizes and starts_best(found, rule)
        size = _best_size(view, found, rule, free, started) if best else start_size(found, rule, free, total)
        if lasting is not None:
            size = lasting.largest(found, size)
        if size and (
            size := _harmless(found, size, now, reservation, size if rule in ONE_SIZE or best else 0)
        ):
            if lasting is not None:
                lasting.take(found, size)  # if it is fewer now, the core sees whether they last
            decisions.append(Start(found.id, size, BACKFILLED))
            free -= size
            if free == 0:
                break
    return decisions, head, reservation, free


class Behind:
    """The jobs after number ``last`` that may start, one after the other. Where the policy resizes jobs, those that it
    cannot resize start at their best sizes only, and (expected end, nodes) are given of those that have ``started``."""

    __slots__ = (
        "_asked",
        "_backlog",
        "_closely",
        "_found",
        "_free",
        "_last",
        "_now",
        "_refused",
        "_resizes",
        "_rule",
        "_started",
        "_total",
        "_view",
    )  # fmt: skip

    def __init__(
        self,
        backlog: Backlog,
        view: ClusterView,
        last: int,
        rule: str,
        started: list[tuple[float, int]] | None = None,
    ) -> None:
        self._backlog = backlog
        self._view = view
        self._now, self._total = view.now, view.total
        self._last = last
        self._rule = rule
        self._started = started or []
        self._resizes = started is not None
        self._closely = False
        self._asked: tuple[float, float] | None = None
        self._free = self._refused = 0
        self._found: Iterator[JobView] = iter(())

    def next(self, free: int, reservation: Reservation | None) -> JobView | None:
        """The next that fits into ``free`` nodes and may not delay the reservation."""
        spare, at = (NEVER, NEVER) if reservation is None else (float(reservation.spare), reservation.at)
        if (spare, at) != self._asked or free > self._free or (self._closely and free < self._free):
            self._asked, self._free, self._refused, self._closely = (spare, at), free, 0, False
            self._found = self._looking(spare, at)
        elif free == self._free:
            close = ("min", "preferred") if self._resizes else ("preferred",)
            self._refused += 1
            if self._refused == LOOKS and self._rule in close:
                self._closely, self._found = True, self._looking_closely(spare, at)
        self._free = free
        job = next(self._found, None)
        if job is not None:
            self._last = job.id
        return job

    def _looking(self, spare: float, at: float) -> Iterator[JobView]:
        """Those who may start by what they need and how long they take."""
        if self._rule == "free" and spare < NEVER:
            return self._looking_closely(spare, at)
        limit, measure = self._limit(at), measure_of(self._rule, self._total)
        return self._backlog.behind(
            self._last, self._nodes, measure, lambda need: LONG_S if need <= spare else limit
        )

    def _looking_closely(self, spare: float, at: float) -> Iterator[JobView]:
        """Those who may start if they take as long as with the nodes that they would get now: they are quickest with
        the most."""
        rule, free, total, limit = self._rule, self._free, self._total, self._limit(at)
        within = (EstimateRange(NONE_S, limit, alike=False),)
        later: dict[int, Reservation | None] = {}

        def spans(row: Like) -> tuple[EstimateRange, ...]:
            if row.fixed:
                return within if row.need > spare else ANYBODY
            best = self._resizes and starts_best(row.one, rule)
            if row.opaque:
                return within if rule == "min" and not best and row.need > spare else ANYBODY
            size = start_size(row.one, "preferred" if best else rule, free, total)
            most = LONG_S if (size if best else row.need) <= spare else limit / row.ratios(size)[0]
            if best:
                most = min(most, self._soon_enough(row, size, later))
            return (EstimateRange(NONE_S, most * (1.0 + 1e-9), alike=False),)

        return self._backlog.like(self._last, self._nodes, spans)

    def _soon_enough(self, row: Like, size: int, known: dict[int, Reservation | None]) -> float:
        """How long jobs of this row may take that start at their best sizes, if they start with ``size`` nodes although
        they would rather have more: with them they end no later than if they wait for the others. What is ``known``
        are the times at which so many nodes will be there."""
        wanted = need_of(row.one, self._rule, self._total)
        if size >= wanted:
            return LONG_S
        if wanted not in known:
            known[wanted] = reserve(self._view, wanted, self._free, self._started)
        later = known[wanted]
        longer = row.ratios(size)[0] * (1.0 - 1e-12) - row.ratios(wanted)[1] * (1.0 + 1e-12)
        return self._limit(later.at) / longer if later is not None and longer > 0.0 else LONG_S

    def _limit(self, at: float) -> float:
        """How long a job may take that is over then; rounding is for who looks closely."""
        return at - self._now + 1e-9 + 1e-12 * abs(at)

    def _nodes(self) -> float:
        return self._free


def at_least(job: JobView) -> tuple[int, float]:
    """The fewest nodes that a job needs, and how long it takes with them, if the scheduler can resize it; else as
    ``at_preferred``."""
    if job.spec.job_class is JobClass.MALLEABLE:
        return job.bounds.min, job.spec.estimate(job.bounds.min)
    return at_preferred(job)


def at_preferred(job: JobView) -> tuple[int, float]:
    """The fewest nodes that a job needs, and how long it takes at its preferred size; no time, if it may be quicker
    with fewer nodes."""
    bounds, spec = job.bounds, job.spec
    return bounds.min, spec.walltime_s if bounds.min == bounds.max or falls(spec.model) else 0.0


@lru_cache(maxsize=INDEXES)
def at_one_size(rule: str, total: int) -> Measure:
    """What a job needs, and how long it takes, that waits for one size of ``total`` nodes."""

    def measure(job: JobView) -> tuple[int, float]:
        need = least_size(job, rule, total)
        return need, job.spec.estimate(need)

    return measure


def measure_of(rule: str, total: int) -> Measure:
    """What jobs need that start by ``rule``, and the least time that they may take; not where that is free."""
    if rule in ONE_SIZE:
        return at_one_size(rule, total)
    return at_least if rule == "min" else at_preferred


def _best_size(
    view: ClusterView, job: JobView, rule: str, free: int, started: list[tuple[float, int]]
) -> int:
    """The size at which ``job`` starts now if it keeps it: the preferred one; fewer nodes only if it ends no later with
    them than if it waits for those; more only if nobody else is there, and while they are not wasted. Else 0."""
    bounds, spec = job.bounds, job.spec
    wanted = need_of(job, rule, view.total)
    size = bounds.floor(min(wanted, free))
    if 0 < size < wanted:
        later = reserve(view, wanted, free, started)
        soon_enough = later is None or view.now + spec.estimate(size) <= later.at + spec.estimate(wanted)
        return size if soon_enough else 0
    if size and free == view.total and all(other is job for other in view.queue):
        most = WASTE * size * spec.estimate(size)
        while (
            0 < (more := bounds.above(size)) <= free
            and more * spec.estimate(more) <= most
            and spec.estimate(more) < spec.estimate(size)
        ):
            size = more
    return size


def _harmless(job: JobView, size: int, now: float, reservation: Reservation | None, least: int = 0) -> int:
    """The largest allowed size from ``least`` to ``size`` with which ``job`` does not delay the reservation, or 0.

    Where it outlasts the reservation, it uses up some of its spare nodes.
    """
    if reservation is None:
        return size
    bounds, spec = job.bounds, job.spec
    while size > reservation.spare:
        if now + spec.estimate(size) <= reservation.at:
            return size
        # Where fewer nodes take longer in any case, the next size that can do is one that is spare.
        below = reservation.spare if falls(spec.model) else size - 1
        size = bounds.floor(below) if least <= below else 0
    if size and now + spec.estimate(size) > reservation.at:
        reservation.spare -= size
    return size
