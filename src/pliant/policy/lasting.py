"""Which of the free nodes last long enough for a job, where nodes expire.

A job gets those of its nodes that expire soonest but late enough for its estimate. Who may outlast them, as its user
says so or has stated no estimate, gets those that last longest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.policy.job_view import JobView
from pliant.policy.view import ClusterView, Expiring, PoolView

EVER = float("inf")
ROUNDING_S = 1e-3
ONE_SIZE = ("exact", "max")
"""By these start rules a job waits for one size, which the machine says with it."""


def shortest_s(spec: JobSpec, nodes: int) -> float:
    """The least estimate of its sizes on so many nodes; 0 if nobody has stated one."""
    if spec.unestimated is True:
        return 0.0
    least = spec.nodes.min
    sizes = spec.nodes.up_to(nodes).sizes() if nodes > least else [least]
    return min(map(spec.estimate, sizes))


class LastingNodes(Protocol):
    """What is to be known of the nodes of a machine: a ``ClusterView`` says it."""

    @property
    def now(self) -> float: ...
    @property
    def total(self) -> int: ...
    @property
    def free(self) -> int: ...
    @property
    def expiring(self) -> Sequence[Expiring]: ...
    @property
    def pool(self) -> PoolView | None: ...


class _Coming(NamedTuple):
    now: float
    total: int
    free: int
    expiring: Sequence[Expiring]
    pool: PoolView | None


def all_that_may_come(view: ClusterView, pool: PoolView) -> LastingNodes:
    """The machine with all nodes of the pool, free, those that come by request with a whole lease."""
    stay = view.total - sum(each.nodes for each in view.expiring)
    window_s = view.expiring[0].at - view.expiring[0].empty_at if view.expiring else 0.0
    at, coming = view.now + pool.lease_s, max(0, pool.max - stay)
    leased = Expiring(at, at - window_s, coming, coming)
    return _Coming(view.now, stay + coming, stay + coming, (leased,), pool)


class Lasting:
    """The free nodes of a pass, by when they expire: the soonest first, and last those that stay.

    ``held`` are free ones that nobody may have. Nodes that a job would have to leave again are worth it until a while
    before it is asked to: as long as it gets for that.
    """

    __slots__ = ("_at", "_free", "_grows", "_now", "_there", "_worth")

    def __init__(self, view: LastingNodes, held: tuple[int, ...] = ()) -> None:
        self._now = view.now
        self._grows = view.pool is None  # else nodes come for what waits alone
        expiring = view.expiring
        self._at = [each.at for each in expiring] + [EVER]
        windows = (each.at - each.empty_at if each.at < EVER else 0.0 for each in expiring)
        self._worth = [each.empty_at - window for each, window in zip(expiring, windows, strict=True)] + [
            EVER
        ]
        self._free = [each.free for each in expiring]
        staying = view.free - sum(self._free)
        self._free.append(max(0, staying))
        for i in range(len(expiring) if staying < 0 else 0):  # a view that keeps some of them back
            kept = min(self._free[i], -staying)
            self._free[i] -= kept
            staying += kept
        self._there = [each.nodes for each in expiring]
        self._there.append(view.total - sum(self._there))
        for i, count in enumerate(held):
            self._free[i] -= count

    def fits(self, job: JobView, size: int) -> bool:
        """Whether the job could start with so many nodes."""
        return sum(self.of(job, size)) == size

    def largest(self, job: JobView, size: int) -> int:
        """The largest allowed size up to ``size`` with which the job could start; 0 if there is none."""
        while size:
            could = sum(self.of(job, size))
            if could == size:
                return size
            size = job.bounds.floor(min(could, size - 1))
        return 0

    def start(self, job: JobView, size: int, rule: str, *, keep: bool = True) -> int:
        """The size, at most ``size``, with which the job starts by this rule, and takes its nodes; 0 if it has to wait.
        With ``keep`` those that would do, if there were more, are kept for it then."""
        if not size:
            return 0
        one = rule in ONE_SIZE or job.bounds.min == job.bounds.max
        fitting = (size if self.fits(job, size) else 0) if one else self.largest(job, size)
        if fitting or keep:
            self.take(job, fitting or size)
        return fitting

    def take(self, job: JobView, size: int) -> list[int]:
        """What the job gets of each: as many as it needs, or all that would do for it, which are kept for it."""
        taken = self.of(job, size)
        for i, count in enumerate(taken):
            self._free[i] -= count
        return taken

    def take_in(self, delay_s: float, job: JobView, size: int) -> list[int]:
        """The same, if the job starts so much later."""
        self._now += delay_s
        taken = self.take(job, size)
        self._now -= delay_s
        return taken

    def of(self, job: JobView, size: int) -> list[int]:
        """How many of each a job would start on; fewer than ``size`` where they would not do."""
        spec, now = job.spec, self._now
        if spec.may_outlast:
            return self._latest(size, now)
        enough = self._soonest(size, now + spec.estimate(size))
        if spec.job_class is not JobClass.MALLEABLE or sum(enough) == size:
            return enough
        shrinking = self._shrinking(spec, job.bounds, size)
        if sum(shrinking) == size:
            return shrinking
        growing = self._latest(size, now)
        if (
            self._grows
            and sum(growing) == size
            and now + shortest_s(spec, self._lasting(growing)) <= self._least(growing)
        ):
            return growing
        return max(enough, shrinking, key=sum)

    def growth(self, job: JobView, size: int, more: int, slow_s: float = 0.0) -> list[int]:
        """How many of each a running job would grow onto by ``more`` to ``size`` nodes; fewer where they would not do:
        they last until its end, or so long that it can leave them again, for which it needs ``slow_s`` more."""
        now, spec = self._now, job.spec
        left_s = max(0.0, job.expected_end - now)
        if job.size and spec.walltime_s > 0:
            left_s *= spec.estimate_ratio(size, job.size)
        unknown = spec.may_outlast or job.expected_end <= now
        grown = [0] * len(self._free) if unknown else self._soonest(more, now + left_s + ROUNDING_S)
        lacking = more - sum(grown)
        for i in range(len(self._free) - 1, -1, -1):
            if lacking and self._worth[i] - 2.0 * slow_s > now:
                count = min(lacking, self._free[i] - grown[i])
                grown[i] += count
                lacking -= count
        return grown

    def beyond(self, at: float, most: int) -> list[int]:
        """Up to ``most`` of those that last longer than to ``at`` and are not being emptied: the latest first."""
        taken = [0] * len(self._free)
        for i in range(len(taken) - 1, -1, -1):
            if most and self._at[i] > at and self._worth[i] > self._now:
                taken[i] = min(most, self._free[i])
                most -= taken[i]
        return taken

    def any(self, most: int) -> list[int]:
        """Up to ``most`` of them: the latest first."""
        return self._latest(most, self._now)

    def _soonest(self, size: int, since: float) -> list[int]:
        """Up to ``size`` of those that last until ``since``."""
        taken = [0] * len(self._free)
        for i, at in enumerate(self._at):
            if at >= since and size:
                taken[i] = min(size, self._free[i])
                size -= taken[i]
        return taken

    def _latest(self, size: int, after: float) -> list[int]:
        taken = [0] * len(self._free)
        for i in range(len(taken) - 1, -1, -1):
            if self._at[i] > after and size:
                taken[i] = min(size, self._free[i])
                size -= taken[i]
        return taken

    def _shrinking(self, spec: JobSpec, bounds: Bounds, size: int) -> list[int]:
        """As few as the job can have, which last for its end with these alone, and others that it can leave again."""
        taken = self._soonest(bounds.min, self._now + spec.estimate(bounds.min))
        lacking = size - bounds.min if sum(taken) == bounds.min else 0
        for i in range(len(taken) - 1, -1, -1):
            if lacking and self._worth[i] > self._now:
                count = min(lacking, self._free[i] - taken[i])
                taken[i] += count
                lacking -= count
        return taken

    def _least(self, taken: list[int]) -> float:
        """When the first of these expires."""
        return next((at for at, count in zip(self._at, taken, strict=True) if count), EVER)

    def _lasting(self, taken: list[int]) -> int:
        """How many nodes there are that last as long as these do."""
        least = self._least(taken)
        return sum(count for at, count in zip(self._at, self._there, strict=True) if at >= least)
