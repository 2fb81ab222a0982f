"""In which order a policy takes the waiting jobs. ``Ordered`` gives any policy another order than that of
submission; whatever it promises to the head of the queue, it promises to the first in this order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from pliant.plan.cost import ResizeCost
from pliant.policy.view import ClusterView, Decision, JobView, Policy, Start, rebalances

DAY_S = 86400.0
HALF_LIFE_S = 7 * DAY_S
"""Slurm's default (PriorityDecayHalfLife)."""


class Order(Protocol):
    """``sort`` is asked once a pass; ``started`` hears what came of it."""

    def sort(self, view: ClusterView) -> list[JobView]: ...
    def started(self, view: ClusterView, starts: Iterable[tuple[JobView, int]]) -> None: ...


class ByKey:
    """Ascending by ``key``; equal ones stay in order of submission."""

    def __init__(self, key: Callable[[JobView], float]) -> None:
        self._key = key

    def sort(self, view: ClusterView) -> list[JobView]:
        return sorted(view.queue, key=self._key)

    def started(self, view: ClusterView, starts: Iterable[tuple[JobView, int]]) -> None:
        """A key of the job alone needs no past."""


class FairShare:
    """Users who have used less in relation to their weight go first.

    Usage is node-seconds, halved every ``half_life_s``; running jobs count up to now. It is added up from
    pass to pass: since a pass follows every start, end and resize, what it misses is only what happens
    while nobody waits and no node is free, where a size counts until the next pass.
    """

    def __init__(self, weights: Mapping[str, float], half_life_s: float = HALF_LIFE_S) -> None:
        self._weights = weights
        self._half_life_s = half_life_s
        self._usage: dict[str, float] = {}
        self._held: dict[int, tuple[str, int]] = {}
        self._at = 0.0

    def sort(self, view: ClusterView) -> list[JobView]:
        self._settle(view)
        usage, weights = self._usage, self._weights
        return sorted(
            view.queue, key=lambda job: usage.get(job.spec.user, 0.0) / weights.get(job.spec.user, 1.0)
        )

    def started(self, view: ClusterView, starts: Iterable[tuple[JobView, int]]) -> None:
        self._held = {number: (job.spec.user, job.size) for _, number, job in view.running}
        self._held.update((job.id, (job.spec.user, size)) for job, size in starts)

    def _settle(self, view: ClusterView) -> None:
        """Let past usage decay and add what has been held since the last pass."""
        elapsed = view.now - self._at
        if elapsed <= 0:
            return
        self._at = view.now
        left = 0.5 ** (elapsed / self._half_life_s)
        # What was used in between has decayed as well: the integral of 2 ** (-t / half life).
        charged = (1.0 - left) * self._half_life_s / math.log(2.0)
        usage = {user: used * left for user, used in self._usage.items()}
        for user, size in self._held.values():
            usage[user] = usage.get(user, 0.0) + size * charged
        self._usage = usage


class Reordered:
    """The cluster with its queue in another order."""

    def __init__(self, view: ClusterView, queue: list[JobView]) -> None:
        self.now: float = view.now
        self.total: int = view.total
        self.free: int = view.free
        self.queue: Iterable[JobView] = queue
        self.running: Sequence[tuple[float, int, JobView]] = view.running
        self.cost: ResizeCost = view.cost
        self.returning = view.returning
        self.resizable = view.resizable
        self._view = view

    @property
    def elastic(self) -> Iterable[JobView]:
        return self._view.elastic


class Ordered:
    """``policy`` with the waiting jobs in ``order``."""

    def __init__(self, policy: Policy, order: Order, name: str) -> None:
        self.name = f"{policy.name} by {name}"
        self.rebalances = rebalances(policy)
        self._policy = policy
        self._order = order

    def decide(self, view: ClusterView) -> list[Decision]:
        queue = self._order.sort(view)
        decisions = list(self._policy.decide(Reordered(view, queue)))
        sizes = {decision.job: decision.size for decision in decisions if type(decision) is Start}
        self._order.started(view, [(job, sizes[job.id]) for job in queue if job.id in sizes])
        return decisions


ORDERS: dict[str, str] = {
    "submission": "first come, first served",
    "shortest": "the shortest estimate first",
    "priority": "the highest priority of the job first",
    "fairshare": "users first who have used less in relation to their weight; past usage decays",
    "weight": "users of the highest weight first",
}


def ordered(
    policy: Policy,
    order: str,
    weights: Mapping[str, float] | None = None,
    half_life_s: float = HALF_LIFE_S,
) -> Policy:
    """``policy`` in one of ``ORDERS``; a user without a weight has weight 1."""
    known = weights or {}
    by: Order
    match order:
        case "submission":
            return policy
        case "shortest":
            by = ByKey(_estimate)
        case "priority":
            by = ByKey(lambda job: -job.spec.priority)
        case "weight":
            by = ByKey(lambda job: -known.get(job.spec.user, 1.0))
        case _:
            by = FairShare(known, half_life_s)
    return Ordered(policy, by, order)


def _estimate(job: JobView) -> float:
    return job.spec.estimate(job.bounds.preferred)
