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
    half_life_s,
    rebalances,
)

UNUSED = Reason("unused")


class Whole(OtherQueue):
    """The cluster with all nodes that may come."""

    def __init__(self, view: ClusterView, most: int) -> None:
        super().__init__(view, view.queue, view.backlog)
        self.free += most - self.total
        self.total = most


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
        free, lacking, first = view.free, 0, 0
        resizes: list[Resize] = []
        for decision in self._policy.decide(Whole(view, max(pool.max, view.total))):
            if isinstance(decision, Resize):
                resizes.append(decision)
            elif isinstance(decision, Start) and decision.size > free:
                lacking += decision.size
                first = first or decision.job
            else:
                free -= decision.size if isinstance(decision, Start) else 0
                yield decision
        spare = free - lacking
        for resize in _within(resizes, view, spare):
            spare -= resize.grows
            yield resize.decision
        yield from _nodes(view, pool, spare, first)


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


def _nodes(view: ClusterView, pool: PoolView, spare: int, first: int) -> Iterator[Decision]:
    """``spare`` nodes are free beside those that jobs get; if that is below 0, job ``first`` and others lack some."""
    short = -spare - pool.awaited
    if short > 0 and (count := min(short, pool.max - view.total - pool.awaited)) > 0:
        yield Acquire(count, Reason("job_could_start", first))
    elif (count := min(spare, pool.unused, view.total - pool.min)) > 0:
        yield Return(count, UNUSED)
    if view.total > pool.min:
        yield Wake(pool.more_at)
