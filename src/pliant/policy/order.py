"""In which order a policy takes the waiting jobs. ``OrderedPolicy`` gives any policy another order than that of
submission; whatever it promises to the head of the queue, it promises to the first in this order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from pliant.model.errors import PolicyError
from pliant.model.words import nearest
from pliant.plan.cost import ResizeCost
from pliant.policy.backlog import Backlog
from pliant.policy.job_view import JobView
from pliant.policy.view import (
    ClusterView,
    Decision,
    End,
    Expiring,
    Policy,
    PoolView,
    half_life_s,
    provisions,
    rebalances,
)

DAY_S = 86400.0
HALF_LIFE_S = 7 * DAY_S
"""Slurm's default (PriorityDecayHalfLife)."""


class QueueOrder(Protocol):
    """``sort`` is asked once a pass; it remembers nothing: what it goes by is in the view."""

    def sort(self, view: ClusterView) -> list[JobView]: ...


class ByKey:
    """Ascending by ``key``; equal ones stay in order of submission."""

    def __init__(self, key: Callable[[JobView], float]) -> None:
        self._key = key

    def sort(self, view: ClusterView) -> list[JobView]:
        return sorted(view.queue, key=self._key)


class FairShare:
    """Users who have used less in relation to their weight go first.

    Usage is node-seconds, halved every ``half_life_s``; running jobs count up to now (``ClusterView.usage``).
    """

    def __init__(self, weights: Mapping[str, float], half_life_s: float = HALF_LIFE_S) -> None:
        self._weights = weights
        self.half_life_s = half_life_s

    def sort(self, view: ClusterView) -> list[JobView]:
        users = {job.spec.user for job in view.queue}
        share = {user: view.usage(user) / self._weights.get(user, 1.0) for user in users}
        return sorted(view.queue, key=lambda job: share[job.spec.user])


class OtherQueue:
    """The cluster with another queue: its own in another order, or a part of it, of which there may be an index."""

    def __init__(self, view: ClusterView, queue: Iterable[JobView], backlog: Backlog | None = None) -> None:
        self.now: float = view.now
        self.total: int = view.total
        self.free: int = view.free
        self.queue = queue
        self.backlog = backlog
        self.running: Sequence[tuple[float, int, JobView]] = view.running
        self.cost: ResizeCost = view.cost
        self.returning = view.returning
        self.lasting = view.lasting
        self.usage = view.usage
        self.pool: PoolView | None = view.pool
        self.expiring: Sequence[Expiring] = view.expiring
        self.served: int = view.served
        self.resizable = view.resizable
        self._view = view

    @property
    def elastic(self) -> Iterable[JobView]:
        return self._view.elastic

    @property
    def news(self) -> Sequence[End]:
        return self._view.news

    @property
    def memory(self) -> Mapping[str, Any]:
        return self._view.memory


class OrderedPolicy:
    """``policy`` with the waiting jobs in ``order``."""

    def __init__(self, policy: Policy, order: QueueOrder, name: str) -> None:
        self.name = f"{policy.name} by {name}"
        self.rebalances = rebalances(policy)
        self.half_life_s = order.half_life_s if isinstance(order, FairShare) else half_life_s(policy)
        self.provisions = provisions(policy)
        self._policy = policy
        self._order = order

    def decide(self, view: ClusterView) -> list[Decision]:
        return list(self._policy.decide(OtherQueue(view, self._order.sort(view))))


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
    """``policy`` in one of ``ORDERS``; a user without a weight has weight 1. PolicyError for another order, and for a
    policy that takes none."""
    if order not in ORDERS:
        raise PolicyError(f"there is no order {order!r}{nearest(order, ORDERS)}")
    if order != "submission" and (why := getattr(policy, "own_order", "")):
        raise PolicyError(f"policy {policy.name!r} takes no order ({order}): {why}; say --order submission")
    known = weights or {}
    by: QueueOrder
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
    return OrderedPolicy(policy, by, order)


def _estimate(job: JobView) -> float:
    return job.spec.estimate(job.bounds.preferred)
