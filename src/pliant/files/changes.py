"""What a policy in another process is told: in each pass what is new since the last, so that a pass does not cost
more the more jobs wait. docs/external.md describes every field."""

from __future__ import annotations

from collections.abc import Iterator, Reversible
from typing import Any

import msgspec

from pliant.model.jobs import Bounds, JobSpec
from pliant.model.size_request import SizeRequest
from pliant.model.speedup import Model
from pliant.policy.job_view import JobView
from pliant.policy.view import ClusterView


class Submitted(msgspec.Struct, tag_field="type", tag="submitted", frozen=True, gc=False):
    """A job waits."""

    job: int
    nodes: Bounds
    job_class: str = msgspec.field(name="class")
    walltime_s: float
    kill: bool
    submit_s: float
    name: str
    user: str
    priority: int
    data_mb: float
    model: Model | None


class _Running(msgspec.Struct, tag_field="type", frozen=True, gc=False):
    """What is known of a running job. ``remaining_s`` is of elastic ones, and as of now."""

    job: int
    size: int
    target: int
    expected_end: float
    remaining_s: float | None
    elastic: bool
    resizable: bool
    growable: bool
    wish: SizeRequest | None


class Started(_Running, tag="started", frozen=True, gc=False):
    """A job runs."""


class Changed(_Running, tag="changed", frozen=True, gc=False):
    """Something of it is not as it was told last."""


class Ended(msgspec.Struct, tag_field="type", tag="ended", frozen=True, gc=False):
    """A job has ended, or was cancelled while it waited."""

    job: int
    state: str
    done: float
    worked_s: float
    requeued: int


Event = Submitted | Started | Changed | Ended

Facts = tuple[int, int, float, SizeRequest | None, bool, bool, bool]
"""What is told of a running job when it changes: its size, target and expected end, its wish, and whether it is
elastic, resizable and growable."""


class Changes:
    """Follows a cluster from one pass to the next; ``since`` goes by what it has told itself, so that whatever a policy
    in this process would see is told, by whatever it was changed."""

    def __init__(self) -> None:
        self._last = 0
        self._running: dict[int, Facts] = {}

    def since(self, view: ClusterView) -> list[Event]:
        """What is new: jobs submitted, in this order, ended, started and changed. Jobs that have become elastic are
        told in the order in which they did."""
        events: list[Event] = [_submitted(number, spec) for number, spec in sorted(self._new(view))]
        if events:
            self._last = max(self._last, *(event.job for event in events))
        for end in view.news:
            events.append(Ended(end.job, end.state, end.done, end.worked_s, end.requeued))
            self._running.pop(end.job, None)
        events += self._changed(view)
        return events

    def _new(self, view: ClusterView) -> Iterator[tuple[int, JobSpec]]:
        """Jobs that were not told of, those included that have ended meanwhile."""
        last = self._last
        queue = view.queue
        for job in reversed(queue if isinstance(queue, Reversible) else list(queue)):
            if job.id <= last:
                break  # the queue is in order of submission, and so of numbers
            yield job.id, job.spec
        for end in view.news:
            if end.job > last:
                yield end.job, end.spec

    def _changed(self, view: ClusterView) -> Iterator[Event]:
        elastic: dict[int, JobView] = {job.id: job for job in view.elastic}
        for job in elastic.values():
            able = view.resizable(job)
            facts = (
                job.size, job.target, job.expected_end, job.wish,
                True, able, able and view.resizable(job, grow=True),
            )  # fmt: skip
            if self._running.get(job.id) != facts:
                yield self._tell(job, facts, view.now)
        for _, number, job in view.running:
            if number in elastic:
                continue
            facts = job.size, job.target, job.expected_end, job.wish, False, False, False
            if self._running.get(number) != facts:
                yield self._tell(job, facts, view.now)

    def _tell(self, job: JobView, facts: Facts, now: float) -> Event:
        kind = Changed if job.id in self._running else Started
        self._running[job.id] = facts
        size, target, end, wish, elastic, resizable, growable = facts
        left_s = job.remaining_s(now) if elastic else None
        return kind(job.id, size, target, end, left_s, elastic, resizable, growable, wish)


def _submitted(number: int, spec: JobSpec) -> Submitted:
    values: dict[str, Any] = {
        key: getattr(spec, key)
        for key in ("nodes", "walltime_s", "kill", "submit_s", "name", "user", "priority", "data_mb", "model")
    }
    return Submitted(job=number, job_class=spec.job_class, **values)
