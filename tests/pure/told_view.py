"""The cluster as a client of docs/external.md can know it: rebuilt from the lines that it is told, for any policy."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from pliant.model.jobs import Bounds, JobSpec
from pliant.model.size_request import SizeRequest
from pliant.plan.cost import INSTANT
from pliant.policy.job_view import JobView
from pliant.policy.view import ClusterView, Decision, End, Policy, Promise


class ToldJob:
    offered_at = None

    def __init__(self, event: dict[str, Any]) -> None:
        self.id: int = event["job"]
        named = {key: value for key, value in event.items() if key not in ("type", "job", "class")}
        self.spec = msgspec.convert({**named, "job_class": event["class"]}, JobSpec)
        self.bounds: Bounds = self.spec.nodes
        self.size = self.target = 0
        self.expected_end = float("inf")
        self.wish: SizeRequest | None = None
        self.elastic = self.resizable = self.growable = False
        self.promised: float | None = None
        self.told_at = 0.0
        self.told_s: float | None = None

    def change(self, event: dict[str, Any], now: float) -> None:
        for key in ("size", "target", "expected_end", "elastic", "resizable", "growable"):
            setattr(self, key, event[key])
        self.wish = msgspec.convert(event["wish"], SizeRequest | None)
        self.told_at, self.told_s = now, event["remaining_s"]

    @property
    def fraction(self) -> float:
        """What jobs report themselves is not told."""
        return 0.0

    def remaining_s(self, now: float) -> float:
        assert self.told_s is not None
        return max(0.0, self.told_s - (now - self.told_at))

    def worked_s(self, now: float) -> float:
        raise NotImplementedError

    def done(self, now: float) -> float:
        raise NotImplementedError


class ToldView:
    cost = INSTANT
    backlog = None
    pool = None
    expiring = ()
    served = 0
    memory: dict[str, Any] = {}  # noqa: RUF012 - empty for ever
    news: Sequence[End] = ()

    def __init__(self) -> None:
        self.now = 0.0
        self.total = self.free = self.back = 0
        self.waiting: dict[int, ToldJob] = {}
        self.busy: dict[int, ToldJob] = {}
        self.can_resize: dict[int, ToldJob] = {}
        self.ended: list[int] = []

    def take(self, line: bytes) -> None:
        told = json.loads(line)
        self.now, self.total, self.free, self.back = (told[k] for k in ("now", "total", "free", "returning"))
        self.ended = []
        for event in told["events"]:
            number = event["job"]
            match event["type"]:
                case "submitted":
                    assert number not in self.waiting
                    self.waiting[number] = ToldJob(event)
                case "ended":
                    self.ended.append(number)
                    assert self.waiting.pop(number, None) or self.busy.pop(number)
                    self.can_resize.pop(number, None)
                case "started":
                    self.busy[number] = self.waiting.pop(number)
                    self._change(number, event)
                case _:
                    assert event["type"] == "changed"
                    self._change(number, event)

    def _change(self, number: int, event: dict[str, Any]) -> None:
        job = self.busy[number]
        job.change(event, self.now)
        if job.elastic:
            self.can_resize.setdefault(number, job)
        else:
            self.can_resize.pop(number, None)

    @property
    def queue(self) -> Iterable[ToldJob]:
        return self.waiting.values()

    @property
    def elastic(self) -> Iterable[ToldJob]:
        return self.can_resize.values()

    @property
    def running(self) -> Sequence[tuple[float, int, ToldJob]]:
        return sorted((job.expected_end, job.id, job) for job in self.busy.values())

    def lasting(self, at: float, job: int = 0) -> int:
        raise NotImplementedError

    def returning(self, job: int = 0) -> int:
        assert not job
        return self.back

    def usage(self, user: str) -> float:
        raise NotImplementedError

    def resizable(self, job: JobView, *, grow: bool = False) -> bool:
        told = self.busy[job.id]
        return told.growable if grow else told.resizable


def same(told: ToldView, view: ClusterView) -> None:
    """``told`` knows what ``view`` has."""
    assert (told.now, told.total, told.free, told.back) == (view.now, view.total, view.free, view.returning())
    assert [(job.id, job.spec.nodes) for job in told.queue] == [
        (job.id, job.spec.nodes) for job in view.queue
    ]
    assert [job.id for job in told.elastic] == [job.id for job in view.elastic]
    assert [(end, number) for end, number, _ in told.running] == [(end, n) for end, n, _ in view.running]
    assert told.ended == [end.job for end in view.news]
    for (_, _, known), (_, _, job) in zip(told.running, view.running, strict=True):
        assert (known.size, known.target, known.wish) == (job.size, job.target, job.wish)
    for known, job in zip(told.elastic, view.elastic, strict=True):
        left_s = job.remaining_s(view.now)
        assert abs(known.remaining_s(view.now) - left_s) <= 1e-6 * max(1.0, left_s)
        assert told.resizable(job) == view.resizable(job)
        assert told.resizable(job, grow=True) == view.resizable(job, grow=True)


class Deaf:
    """``policy`` sees only what a client would; ``encode`` makes the line of a view."""

    def __init__(self, policy: Policy, encode: Any) -> None:
        self.name = policy.name
        self._policy = policy
        self._encode = encode
        self._view = ToldView()

    def decide(self, view: ClusterView) -> list[Decision]:
        self._view.take(self._encode(view))
        same(self._view, view)
        decisions = list(self._policy.decide(self._view))
        for each in decisions:
            if isinstance(each, Promise):
                self._view.waiting[each.job].promised = each.at  # a client knows what it has said
        return decisions


class Watching(Deaf):
    """``policy`` sees all, and a client would know that."""

    def __init__(self, policy: Policy, encode: Any) -> None:
        super().__init__(policy, encode)
        self.rebalances = bool(getattr(policy, "rebalances", False))

    def decide(self, view: ClusterView) -> list[Decision]:
        self._view.take(self._encode(view))
        same(self._view, view)
        return list(self._policy.decide(view))
