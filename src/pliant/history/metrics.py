"""What a run was like, in numbers, by the rows of its jobs' lives. ``RunMetrics`` (history/outcomes.py) has the
definitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

from pliant.core import records as r
from pliant.history.capacity import Capacity
from pliant.history.distribution import ClassMetrics, EndedJobs, bounded_slowdown
from pliant.history.outcomes import JobOutcome, Outcomes, ResizeOutcome, RunMetrics
from pliant.history.timeline import RESERVED, Life, Listener, told
from pliant.model.jobs import JobClass, JobSpec, JobState
from pliant.protocol.phases import Phase

__all__ = ["JobOutcome", "Metrics", "Reference", "ResizeOutcome", "RunMetrics", "measure"]

Reference = Callable[[int, JobSpec], float | None]
"""A job's reference time in seconds by its number and specification, None where it is not known."""

THRASH_S = 60.0
"""A resize that is undone within this time was made in vain."""
LATE_S = 1e-3
"""A start no later than this after its promise is in time: times are rounded."""


class Metrics(Listener):
    """Listens to the life of every job; ``summary`` may be asked at any time.

    With ``keep_jobs=False`` the memory needed is bounded by the jobs that have not ended, but for 29 bytes
    of each that has: percentiles are exact. ``reference`` gives a job's reference time in seconds by its
    number and what was submitted; where that is None, ``RunMetrics`` says what counts instead.
    """

    IGNORES: ClassVar[frozenset[str]] = frozenset({
        "submitted", "launched", "offered", "accepted", "groups_lost", "noted", "held", "idle",
    })  # fmt: skip

    def __init__(
        self,
        *,
        keep_jobs: bool = True,
        reference: Reference = lambda _number, _spec: None,
    ) -> None:
        self._outcomes = Outcomes() if keep_jobs else None
        self._reference = reference
        self._first: float | None = None
        self._last_end = 0.0
        self._capacity = Capacity()
        self._area = 0.0
        self._counted = self._ended = self._failed = 0
        self._wait = self._turnaround = self._slowdown = 0.0
        self._over = EndedJobs()
        self._good = 0.0
        self._promised = self._broken = 0
        self._delay_max = 0.0
        self._done = {"expand": 0, "shrink": 0, "migrate": 0, "slots": 0}
        self._malleable = {"expand": 0, "shrink": 0, "migrate": 0, "slots": 0}
        self._malleable_jobs = self._thrash = 0
        self._called_off: set[int] = set()
        self._in_vain = {"withdrawn": 0, "declined": 0, "failed": 0, "ended": 0}
        self._blocked = self._blocked_max = 0.0
        self._paused = 0.0
        self._reserved = self._unclean = 0.0
        self._pace = self._paced = 0.0

    def parts(self) -> Iterable[Listener]:
        return (self,) if self._outcomes is None else (self, self._outcomes)

    def summary(self) -> RunMetrics:
        """The metrics so far; running jobs count up to the last record."""
        makespan, area, capacity = self.spans()
        jobs, resizes = max(1, self._counted), max(1, sum(self._done.values()))
        whole = capacity or float("inf")  # an empty run has none, and every share of it is 0
        waits, turnarounds = self._over.waits(), self._over.turnarounds()
        classes, fairness = self._over.classes(), self._over.fairness()
        return RunMetrics(
            makespan_s=makespan,
            capacity_node_s=capacity,
            utilisation=area / whole,
            useful_utilisation=(area - self._paused) / whole,
            goodput=self._good / whole,
            wait_mean_s=self._wait / jobs,
            wait_median_s=waits.median,
            wait_p95_s=waits.p95,
            wait_p99_s=waits.p99,
            wait_max_s=waits.max,
            turnaround_mean_s=self._turnaround / jobs,
            turnaround_median_s=turnarounds.median,
            turnaround_p95_s=turnarounds.p95,
            turnaround_p99_s=turnarounds.p99,
            turnaround_max_s=turnarounds.max,
            bounded_slowdown_mean=self._slowdown / jobs,
            bounded_slowdown_preferred_mean=self._over.bounded_slowdown_preferred(),
            classes=classes,
            malleable_to_rigid_turnaround=_to_rigid(classes),
            users=fairness.users,
            users_jain=fairness.jain,
            promised=self._promised,
            promises_broken=self._broken,
            promise_delay_max_s=self._delay_max,
            expands=self._done["expand"],
            shrinks=self._done["shrink"],
            expands_per_malleable_job=self._per_malleable_job("expand"),
            shrinks_per_malleable_job=self._per_malleable_job("shrink"),
            thrash=self._thrash,
            resizes_withdrawn=self._in_vain["withdrawn"],
            resizes_declined=self._in_vain["declined"],
            resizes_failed=self._in_vain["failed"],
            blocked_mean_s=self._blocked / resizes,
            blocked_max_s=self._blocked_max,
            resizing_node_s=self._reserved + self._unclean,
            paused_node_s=self._paused,
            pace_overrun=self._pace_overrun(),
            ended=self._ended,
            failed=self._failed,
            jobs=list(self._outcomes.jobs) if self._outcomes is not None else [],
        )

    def spans(self) -> tuple[float, float, float]:
        """The makespan in seconds, the node-seconds that jobs held in it, and those that there were."""
        if self._first is None:
            return 0.0, self._area, 0.0
        lives = self.lives
        until = lives.now if lives.jobs else self._last_end
        area = self._area + lives.in_use * max(0.0, until - lives.since)
        return until - self._first, area, self._capacity.until(until)

    # ---- rows ----------------------------------------------------------------------------------------

    def began(self, at: float) -> None:
        self._first = at
        self._capacity.begin(at)

    def started(self, life: Life) -> None:
        if life.promised is not None and life.start is not None:
            self._promised += 1
            delay = life.start - life.promised
            if delay > LATE_S:
                self._broken += 1
                self._delay_max = max(self._delay_max, delay)
        if life.spec.job_class is JobClass.MALLEABLE and not life.again:
            self._malleable_jobs += 1

    def used(self, _held: int, in_use: int, from_s: float, to_s: float) -> None:
        self._area += in_use * (to_s - from_s)

    def withdrawn(self, life: Life, _why: str) -> None:
        self._called_off.add(life.job)

    def settled(self, life: Life, outcome: str, _error: str, *, late: bool, phase: Phase | None) -> None:  # noqa: ARG002
        withdrawn = life.job in self._called_off
        self._called_off.discard(life.job)
        self._in_vain["withdrawn" if withdrawn else outcome] += 1

    def resized(self, life: Life, done: r.ResizeDone, kind: str, before: int) -> None:
        self._called_off.discard(life.job)
        if not kind:
            return
        self._done[kind] += 1
        if life.spec.job_class is JobClass.MALLEABLE:
            self._malleable[kind] += 1
        if life.resized is not None and kind in {"expand", "shrink"}:
            last, at = life.resized
            self._thrash += last != kind and done.at - at <= THRASH_S
        self._paused += done.blocked_s * before
        self._blocked += done.blocked_s
        self._blocked_max = max(self._blocked_max, done.blocked_s)

    def wasted(self, _job: int, kind: str, mask: int, since: float) -> None:
        node_s = mask.bit_count() * (self.lives.now - since)
        if kind == RESERVED:
            self._reserved += node_s
        else:
            self._unclean += node_s

    def ended(self, life: Life, end: r.JobEnded, _size: int) -> None:
        at = self._last_end = end.at
        if end.requeued:
            return
        self._ended += 1
        self._failed += end.state is not JobState.COMPLETED
        if life.start is not None:
            wait, turnaround = life.start - life.submit, at - life.submit
            self._counted += 1
            self._wait += wait
            self._turnaround += turnaround
            run = at - life.start
            self._slowdown += bounded_slowdown(turnaround, run)
            spec = life.spec
            reference = self._reference(life.job, spec)
            if reference is None:
                reference = spec.model.time(spec.nodes.preferred) if spec.model is not None else run
            self._over.add(spec, wait, turnaround, reference)
            if end.state is JobState.COMPLETED:
                self._good += min(reference * spec.nodes.preferred, life.node_s)
        if life.pace is not None:
            self._pace += life.pace[0]
            self._paced += life.pace[1]

    def nodes_there(self, mask: int) -> None:
        self._capacity.grant(mask, self.lives.now, self._last_end)

    def nodes_lost(self, mask: int) -> None:
        self._capacity.lose(mask, self.lives.now, self._last_end)

    def nodes_returned(self, mask: int) -> None:
        self._capacity.give_back(mask, self.lives.now, self._last_end)

    # ---- parts of it ---------------------------------------------------------------------------------

    def _per_malleable_job(self, kind: str) -> float | None:
        return self._malleable[kind] / self._malleable_jobs if self._malleable_jobs else None

    def _pace_overrun(self) -> float | None:
        pace, paced = self._pace, self._paced
        for life in self.lives.jobs.values():
            if life.pace is not None:
                pace, paced = pace + life.pace[0], paced + life.pace[1]
        return paced / pace - 1.0 if pace > 0 else None


def _to_rigid(classes: Mapping[JobClass, ClassMetrics]) -> float | None:
    malleable, rigid = classes.get(JobClass.MALLEABLE), classes.get(JobClass.RIGID)
    if malleable is None or rigid is None or malleable.stretch_mean is None or not rigid.stretch_mean:
        return None
    return malleable.stretch_mean / rigid.stretch_mean


def measure(records: Iterable[r.Record]) -> RunMetrics:
    """The metrics of a whole run."""
    metrics = Metrics()
    told(records, metrics)
    return metrics.summary()
