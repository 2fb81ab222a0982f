"""Policies get a view, not the state: they touch what ClusterView and JobView name, and change nothing. mypy says so of
those that are typed against the view, the guard here of all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest
from drawing import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from workloads import in_order, records_of, rigid

from pliant.core.settings import Settings
from pliant.model.speedup import Table
from pliant.policy.job_view import JobView
from pliant.policy.order import ORDERS
from pliant.policy.registry import POLICIES
from pliant.policy.view import ClusterView, Decision, Policy, half_life_s, rebalances
from pliant.testing.policies.drawn import NODES, elastic_jobs, settings_
from pliant.workloads.job import SimJob

EXAMPLES = examples(15)
"""A policy: each is run twice."""


def _named(protocol: type) -> frozenset[str]:
    return frozenset(name for name in vars(protocol) if not name.startswith("_"))


CLUSTER, JOB = _named(ClusterView), _named(JobView)


class Guarded:
    """Hands out of ``real`` what ``names`` has, and nothing else; it can be neither changed nor extended."""

    __slots__ = ("_jobs", "_names", "_real")

    def __init__(self, real: Any, names: frozenset[str], jobs: _Jobs | None = None) -> None:
        for name, value in zip(("_real", "_names", "_jobs"), (real, names, jobs), strict=True):
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        if name not in self._names:
            raise AttributeError(
                f"a policy touches {name!r} of {type(self._real).__name__}: no view names it"
            )
        value = getattr(self._real, name)
        return value if self._jobs is None else self._jobs.shown(name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a policy sets {name!r} of {type(self._real).__name__}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a policy deletes {name!r} of {type(self._real).__name__}")


class Once:
    """What is declared as Iterable can be iterated over, and that is all."""

    def __init__(self, items: Iterable[Any]) -> None:
        self._items = tuple(items)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)


class _Jobs:
    """One guard a job and pass, so that jobs are the same wherever a policy meets them."""

    def __init__(self) -> None:
        self._guards: dict[int, Guarded] = {}

    def guard(self, job: JobView) -> Guarded:
        return self._guards.get(job.id) or self._guards.setdefault(job.id, Guarded(job, JOB))

    def shown(self, name: str, value: Any) -> Any:
        match name:
            case "queue" | "elastic":
                return Once(self.guard(job) for job in value)
            case "running":
                return tuple((end, number, self.guard(job)) for end, number, job in value)
            case "memory":
                return MappingProxyType(value)
            case "news":
                assert isinstance(value, Sequence)
                return tuple(value)
            case "resizable":
                return lambda job, *, grow=False: value(job._real, grow=grow)
            case _:
                return value


class Watched:
    """``policy``, which sees a guarded view only."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.name = policy.name
        self.rebalances = rebalances(policy)
        self.half_life_s = half_life_s(policy)

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        return list(self._policy.decide(Guarded(view, CLUSTER, _Jobs())))


@pytest.mark.parametrize("name", sorted(POLICIES))
@settings(max_examples=EXAMPLES)
@given(elastic_jobs, settings_, st.sampled_from(sorted(ORDERS)))
def test_a_policy_touches_only_what_the_view_names(
    name: str, jobs: list[SimJob], options: Settings, order: str
) -> None:
    """Any other name raises; and it decides as it does when it is handed the state itself."""
    watched = records_of(jobs, Watched(in_order(order, name)), nodes=NODES, settings=options)
    assert watched == records_of(jobs, in_order(order, name), nodes=NODES, settings=options)


if TYPE_CHECKING:
    # mypy refuses a policy that writes; where it no longer did, it would complain of an ignore without use.

    class Writing:
        name = "writing"

        def decide(self, view: ClusterView) -> list[Decision]:
            view.free = 1  # type: ignore[misc]
            view.now += 1.0  # type: ignore[misc]
            view.cost.blocked_s = 0.0  # type: ignore[misc]
            view.memory["seen"] = 1  # type: ignore[index]
            view.running.sort()  # type: ignore[attr-defined]
            view.news.clear()  # type: ignore[attr-defined]
            view.queue.popitem()  # type: ignore[attr-defined]
            view.apply(None)  # type: ignore[attr-defined]
            for job in view.queue:
                job.size = 2  # type: ignore[misc]
                job.bounds = job.spec.nodes  # type: ignore[misc]
                job.bounds.min = 1  # type: ignore[misc]
                job.spec.priority = 9  # type: ignore[misc]
                job.spec.env["A"] = "b"  # type: ignore[index]
                job.accepts_offers = True  # type: ignore[attr-defined]
                if isinstance(job.spec.model, Table):
                    job.spec.model.times[1] = 1.0  # type: ignore[index]
            return []


class Prying:
    """A policy that goes beyond the view at its first job."""

    name = "prying"

    def __init__(self, where: str, *, write: bool) -> None:
        self._where, self._write = where, write

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        for job in view.queue:
            target: Any = job if self._where in {"on", "promised"} else view
            if self._write:
                setattr(target, self._where, 0)
            else:
                getattr(target, self._where)
        return []


@pytest.mark.parametrize(
    ("where", "write"), [("jobs", False), ("apply", False), ("on", False), ("free", True), ("promised", True)]
)
def test_the_guard_sees_who_goes_beyond(where: str, *, write: bool) -> None:
    with pytest.raises(AttributeError, match=f"a policy .*{where!r}"):
        records_of([rigid("j", 1, 1.0)], Watched(Prying(where, write=write)))
