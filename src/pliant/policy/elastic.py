"""Nodes by request, around any policy: it decides about jobs, and this about nodes alone.

The policy within decides as if all nodes that may come were there. Jobs that it starts, start on the nodes that are
there; for the others nodes are asked for, so no node comes that no job could start on. Nodes go back when nobody has
needed them for the pool's ``idle_s``, whether jobs wait or not: a job that waits for others to end needs none until
then.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pliant.model.errors import PolicyError
from pliant.policy.job_view import JobView
from pliant.policy.lasting import EVER, ROUNDING_S, Lasting, all_that_may_come
from pliant.policy.order import OtherQueue
from pliant.policy.view import (
    Acquire,
    ClusterView,
    Decision,
    Policy,
    PoolView,
    Reason,
    Resize,
    Return,
    Start,
    Wake,
    Withdraw,
    half_life_s,
    rebalances,
)

UNUSED = Reason("unused")
UNNEEDED = Reason("nobody_waits")
EXPIRES = Reason("expires_too_soon")
"""Before those who wait could have ended on them."""


class Whole(OtherQueue):
    """The cluster with all nodes that may come."""

    def __init__(self, view: ClusterView, most: int) -> None:
        super().__init__(view, view.queue, view.backlog)
        self.free += most - self.total
        self.total = most
        self.expiring = ()  # others come in their place


class Elastic:
    """``policy``, with nodes that come when jobs could start on them and go when they are unused."""

    def __init__(self, policy: Policy) -> None:
        self.name = f"{policy.name} elastic"
        self.rebalances = rebalances(policy)
        self.half_life_s = half_life_s(policy)
        self._policy = policy

    def decide(self, view: ClusterView) -> Iterator[Decision]:
        pool = view.pool
        if pool is None:
            raise PolicyError(
                f"policy {self.name!r}: no nodes come and go here; say between which limits they may"
            )
        there = _There(view, pool)
        resizes: list[Resize] = []
        for decision in self._policy.decide(Whole(view, max(pool.max, view.total))):
            if isinstance(decision, Resize):
                resizes.append(decision)
            elif not isinstance(decision, Start):
                yield decision
            elif (start := there.lasting(decision)) and there.starts(start):
                yield start
        for resize in _within(resizes, view, there.free - there.lacking):
            there.free -= resize.grows
            yield resize.decision
        yield from _nodes(view, pool, there)


class _There:
    """The nodes that are there: ``free`` ones are left, and jobs lack ``lacking``, ``first`` the first of them."""

    def __init__(self, view: ClusterView, pool: PoolView) -> None:
        self.free = view.free
        self.lacking = self.first = 0
        self.expiring = bool(view.expiring) or pool.lease_s < EVER
        self._pool = pool
        self._awaited = pool.awaited
        self._lasting = Lasting(view)
        self._coming = Lasting(all_that_may_come(view, pool))
        self._jobs = {job.id: job for job in view.queue} if self.expiring else {}

    def lasting(self, start: Start) -> Start:
        """The same, on so many nodes that the job ends while those last that come: more, or else fewer."""
        if not self.expiring:
            return start
        job, size = self._jobs[start.job], start.size
        if self._lasting.fits(job, size) or self._coming.fits(job, size):
            return start
        while (size := job.bounds.above(size)) and size <= self._pool.max:
            if self._coming.fits(job, size):
                return Start(start.job, size, start.reason)
        return Start(start.job, self._coming.largest(job, start.size) or start.size, start.reason)

    def starts(self, start: Start) -> bool:
        """Whether there are the nodes that it takes."""
        fits = start.size <= self.free
        has, most = start.size if fits else 0, start.size
        if self.expiring:
            job = self._jobs[start.job]
            fits = self._lasting.fits(job, start.size)
            has = sum(self._lasting.take_in(0.0 if fits else self._delay_s(job, start.size), job, start.size))
            most = self._coming.of(job, start.size)[0]  # the others are to be nodes that stay
        self.free -= has
        if not fits and start.size - has <= most:
            self.lacking += start.size - has
            self.first = self.first or start.job
        return fits

    def _delay_s(self, job: JobView, size: int) -> float:
        """How long those have to last beside the job's own time that are kept for it: until others have come."""
        lacking = size - sum(self._lasting.of(job, size))
        if lacking > self._awaited:
            return self._pool.delay_s + ROUNDING_S
        self._awaited -= lacking
        return 0.0


class _Within(NamedTuple):
    """A resize that ``grows`` its job by so many nodes, or 0."""

    decision: Resize
    grows: int


def _within(resizes: list[Resize], view: ClusterView, spare: int) -> Iterator[_Within]:
    """The resizes, with growth cut to the nodes that are there: no node is asked for to grow onto."""
    jobs = {job.id: job for job in view.elastic} if resizes else {}
    for each in resizes:
        job = jobs[each.job]
        if each.size <= job.size:
            yield _Within(each, 0)
        elif (size := min(each.size, job.bounds.floor(job.size + max(spare, 0)))) > job.size:
            spare -= size - job.size
            yield _Within(Resize(each.job, size, each.reason), size - job.size)


def _nobody_waits(view: ClusterView) -> bool:
    """Whether none is left to start, as those that waited have started elsewhere or were cancelled."""
    return next(iter(view.queue), None) is None


def _nodes(view: ClusterView, pool: PoolView, there: _There) -> Iterator[Decision]:
    """Ask for those that jobs lack and are not free, or give back those that nobody needs."""
    expiring, spare = there.expiring, there.free - there.lacking
    short = (there.lacking if expiring else -spare) - pool.awaited
    room = pool.max - view.total - pool.awaited
    # Those that expire are not counted among the least: they go before the others.
    stay = view.total - sum(each.nodes for each in view.expiring)
    most = sum(each.free for each in view.expiring) + max(0, stay - pool.min)
    unused = min(there.free if expiring else spare, pool.unused, most)
    if short > 0 and (count := min(short, room)) > 0:
        yield Acquire(count, Reason("job_could_start", there.first))
    elif (count := min(pool.awaited, pool.max - room - pool.min)) > 0 and _nobody_waits(view):
        yield Withdraw(count, UNNEEDED)
    if expiring and short > room and (count := min(there.free, short - room, most)) > 0:
        yield Return(count, EXPIRES)  # they are in the way of others
    elif short <= 0 < unused:
        yield Return(unused, UNUSED)
    if view.total > pool.min:
        yield Wake(pool.more_at)
