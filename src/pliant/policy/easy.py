"""EASY backfilling: the head of the queue holds a reservation; others may pass it only where that does no
harm to it, by the users' estimates."""

from __future__ import annotations

from collections.abc import Iterable

from pliant.model.jobs import JobClass
from pliant.model.speedup import falls
from pliant.policy.backlog import Backlog
from pliant.policy.fcfs import FITS, least_size, start_size
from pliant.policy.view import ClusterView, Decision, JobView, Promise, Reason, Start

BACKFILLED = Reason("backfilled")
NEVER = float("inf")
WASTE = 2.0
"""On an idle machine a job gets more nodes than it prefers up to so many times the node-seconds."""


class Reservation:
    """When the head can start at the latest, and how many nodes are left over then."""

    __slots__ = ("at", "spare")

    def __init__(self, at: float, spare: int) -> None:
        self.at = at
        self.spare = spare


def reserve(view: ClusterView, need: int, free: int, started: list[tuple[float, int]]) -> Reservation | None:
    """The first time at which ``need`` nodes are free, counting all releases up to then.

    ``started`` are (expected end, nodes) of this pass' own starts. A job that has outrun its estimate is
    taken to end any moment. None if the nodes that exist cannot be enough.
    """
    entries: Iterable[tuple[float, int]] = ((end, job.target) for end, _, job in view.running)
    if started:
        entries = sorted([*entries, *started])
    return earliest(view.now, free + view.returning(), need, entries)


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

    Jobs with a choice start by rule ``start`` (min, preferred, free or max).
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


def easy_pass(
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
    queue = iter(view.queue)
    for job in queue:
        best = resizes and starts_best(job, rule)
        size = _best_size(view, job, rule, free, started) if best else start_size(job, rule, free, total)
        if not size:
            head = job
            need = need_of(job, rule, total) if best else least_size(job, rule, total)
            reservation = reserve(view, need, free, started)
            if reservation is not None:
                decisions.append(Promise(job.id, reservation.at))
            break
        decisions.append(Start(job.id, size, FITS))
        free -= size
        started.append((now + job.spec.estimate(size), size))
    if head is None or free == 0:
        return decisions, head, reservation, free
    backlog = view.backlog
    behind = None if backlog is None else _Behind(backlog, now, head.id, rule, resizes=resizes)
    while found := next(queue, None) if behind is None else behind.next(free, reservation):
        best = resizes and starts_best(found, rule)
        size = _best_size(view, found, rule, free, started) if best else start_size(found, rule, free, total)
        if size and (size := _harmless(found, size, now, reservation, size if rule == "max" or best else 0)):
            decisions.append(Start(found.id, size, BACKFILLED))
            free -= size
            if free == 0:
                break
    return decisions, head, reservation, free


class _Behind:
    """The jobs behind the head that may start, one after the other."""

    __slots__ = ("_backlog", "_last", "_least_s", "_now", "_resizes")

    def __init__(self, backlog: Backlog, now: float, head: int, rule: str, *, resizes: bool) -> None:
        self._backlog = backlog
        self._now = now
        self._last = head
        # The limit is for the least size: who may start with more may be quicker.
        self._least_s = rule == "min"
        self._resizes = resizes

    def next(self, free: int, reservation: Reservation | None) -> JobView | None:
        if reservation is None:
            spare, limit = NEVER, NEVER
        else:
            spare, limit = float(reservation.spare), reservation.at - self._now
            limit += 1e-9 + 1e-12 * abs(reservation.at)  # rounding is for who looks closely
        malleable = limit if self._least_s else NEVER
        others = NEVER if self._resizes else malleable
        job = self._backlog.behind(self._last, free, spare, (limit, malleable, others))
        if job is not None:
            self._last = job.id
        return job


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
