"""What a run was like, in numbers: a fold over records. ``RunMetrics`` (core/outcomes.py) has the definitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from pliant.core import records as r
from pliant.core.capacity import Capacity
from pliant.core.distribution import SLOWDOWN_BOUND_S, ClassMetrics, EndedJobs
from pliant.core.outcomes import JobOutcome, ResizeOutcome, RunMetrics
from pliant.core.unclean import Unclean
from pliant.model.jobs import JobClass, JobSpec, JobState

__all__ = ["JobOutcome", "Metrics", "Reference", "ResizeOutcome", "RunMetrics", "measure"]

Reference = Callable[[int, JobSpec], float | None]
"""A job's reference time in seconds by its number and specification, None where it is not known."""

THRASH_S = 60.0
"""A resize that is undone within this time was made in vain."""
LATE_S = 1e-3
"""A start no later than this after its promise is in time: times are rounded."""


class _Open:
    """A job that has not ended."""

    __slots__ = (
        "again",
        "counted",
        "mask",
        "offer",
        "outcome",
        "pace",
        "promised",
        "resized",
        "spec",
        "start",
        "submit",
    )

    def __init__(self, submit: float, spec: JobSpec, outcome: JobOutcome | None) -> None:
        self.submit = submit
        self.spec = spec
        self.start: float | None = None
        self.promised: float | None = None
        self.again = False
        self.mask = 0
        self.counted = 0
        """Its nodes that are not lost."""
        self.offer: r.ResizeOffered | None = None
        self.pace: tuple[float, float] | None = None
        self.resized: tuple[str, float] | None = None
        """Kind and time of the last resize that was done."""
        self.outcome = outcome


class Metrics:
    """Add every record of a run, in order; ``summary`` may be asked at any time.

    With ``keep_jobs=False`` the memory needed is bounded by the jobs that have not ended, but for 29 bytes
    of each that has: percentiles are exact. ``reference`` gives a job's reference time in seconds by its
    number and what was submitted; where that is None, ``RunMetrics`` says what counts instead.
    """

    IGNORES: ClassVar[r.Ignores] = frozenset({
        r.JobMalleable, r.JobPinned, r.JobEnding, r.ControllerResumed, r.PolicyFailed, r.PolicyRemembers,
        r.NodesOrdered, r.NodesRefused, r.NodesReclaimed,
    })  # fmt: skip

    def __init__(
        self,
        *,
        keep_jobs: bool = True,
        reference: Reference = lambda _number, _spec: None,
    ) -> None:
        self._keep = keep_jobs
        self._reference = reference
        self._open: dict[int, _Open] = {}
        self._requeued: dict[int, _Open] = {}
        self._outcomes: list[JobOutcome] = []
        self._now = 0.0
        self._first: float | None = None
        self._last_end = 0.0
        self._capacity = Capacity()
        self._in_use = 0
        self._area = 0.0
        self._area_at = 0.0
        self._counted = self._ended = self._failed = 0
        self._wait = self._turnaround = self._slowdown = 0.0
        self._over = EndedJobs()
        self._asked = 0.0
        self._promised = self._broken = 0
        self._delay_max = 0.0
        self._done = {"expand": 0, "shrink": 0, "migrate": 0}
        self._malleable = {"expand": 0, "shrink": 0, "migrate": 0}
        self._malleable_jobs = self._thrash = 0
        self._blocked = self._blocked_max = 0.0
        self._paused = 0.0
        self._reserved, self._unclean = Unclean(), Unclean()
        self._pace = self._paced = 0.0
        self._fold: dict[type[r.Record], Callable[[Any], None]] = {
            r.JobSubmitted: self._submitted,
            r.JobPromised: self._promise,
            r.JobStarted: self._started,
            r.JobLaunched: self._running,
            r.JobRunning: self._running,
            r.JobProgressed: self._progressed,
            r.ResizeOffered: self._offered,
            r.ResizeAccepted: self._accepted,
            r.ResizeWithdrawn: self._withdrawn,
            r.ResizeDone: self._resized,
            r.ResizeDeclined: self._declined,
            r.ResizeFailed: self._failed_resize,
            r.GroupsLost: self._groups_lost,
            r.JobEnded: self._job_ended,
            r.NodesGranted: self._there,
            r.NodesClean: self._clean,
            r.NodesLost: self._lost,
            r.NodesBack: self._there,
            r.NodesReturned: self._returned,
        }

    def add(self, record: r.Record) -> None:
        self._now = record.at
        fold = self._fold.get(type(record))
        if fold is not None:
            fold(record)

    def summary(self) -> RunMetrics:
        """The metrics so far; running jobs count up to the last record."""
        until = self._now if self._open else self._last_end
        makespan = until - self._first if self._first is not None else 0.0
        area = self._area + self._in_use * max(0.0, until - self._area_at)
        jobs, resizes = max(1, self._counted), max(1, sum(self._done.values()))
        capacity = self._capacity.until(until) if self._first is not None else 0.0
        whole = capacity or float("inf")  # an empty run has none, and every share of it is 0
        waits, turnarounds = self._over.waits(), self._over.turnarounds()
        classes, fairness = self._over.classes(), self._over.fairness()
        return RunMetrics(
            makespan_s=makespan,
            capacity_node_s=capacity,
            utilisation=area / whole,
            useful_utilisation=(area - self._paused) / whole,
            goodput=self._asked / whole,
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
            blocked_mean_s=self._blocked / resizes,
            blocked_max_s=self._blocked_max,
            resizing_node_s=self._reserved.node_s + self._unclean.node_s,
            paused_node_s=self._paused,
            pace_overrun=self._pace_overrun(),
            ended=self._ended,
            failed=self._failed,
            jobs=list(self._outcomes),
        )

    # ---- the fold ------------------------------------------------------------------------------------

    def _submitted(self, record: r.JobSubmitted) -> None:
        if record.requeue_of in self._requeued:
            job = self._open[record.job] = self._requeued.pop(record.requeue_of)
            if job.outcome is not None:
                job.outcome.state = JobState.PENDING
            return
        outcome = _outcome(record.spec, record.at) if self._keep else None
        if outcome is not None:
            self._outcomes.append(outcome)
        self._open[record.job] = _Open(record.at, record.spec, outcome)
        if self._first is None:
            self._first = record.at
            self._capacity.begin(record.at)

    def _promise(self, record: r.JobPromised) -> None:
        job = self._open[record.job]
        if job.promised is None:
            job.promised = record.start_by

    def _started(self, record: r.JobStarted) -> None:
        job = self._open[record.job]
        job.start = record.at
        if job.promised is not None:
            self._promised += 1
            delay = record.at - job.promised
            if delay > LATE_S:
                self._broken += 1
                self._delay_max = max(self._delay_max, delay)
        self._hold(job, record.nodes.mask)
        if job.spec.job_class is JobClass.MALLEABLE and not job.again:
            self._malleable_jobs += 1
        if job.outcome is not None:
            job.outcome.start_s = record.at
            job.outcome.state = JobState.CONFIGURING

    def _running(self, record: r.JobLaunched | r.JobRunning) -> None:
        outcome = self._open[record.job].outcome
        if outcome is not None:
            outcome.state = JobState.RUNNING

    def _progressed(self, record: r.JobProgressed) -> None:
        if record.pace_s > 0:
            self._open[record.job].pace = (record.pace_s, record.paced_s)

    def _offered(self, record: r.ResizeOffered) -> None:
        job = self._open[record.job]
        job.offer = record
        if record.nodes:
            self._reserved.leave(record.job, record.nodes.mask, record.at)
        if job.outcome is not None:
            job.outcome.resizes.append(
                ResizeOutcome(
                    id=record.resize,
                    kind=record.kind,
                    before=record.before,
                    after=record.after,
                    nodes=record.nodes,
                    offered_s=record.at,
                    reason=record.reason,
                )
            )

    def _accepted(self, record: r.ResizeAccepted) -> None:
        outcome = self._open[record.job].outcome
        if outcome is not None:
            outcome.state = JobState.RESIZING

    def _withdrawn(self, record: r.ResizeWithdrawn) -> None:
        job = self._open[record.job]
        self._reserved.clean(record.job, record.freed.mask, record.at)
        outcome = job.outcome
        if outcome is not None:
            outcome.resizes[-1].error = record.reason  # the job's answer says no more than "withdrawn"

    def _resized(self, record: r.ResizeDone) -> None:
        job = self._open[record.job]
        before = job.mask.bit_count()
        self._hold(job, (job.mask | record.gained.mask) & ~record.released.mask)
        offer = job.offer
        if offer is None:
            return
        self._count(job, offer.kind)
        self._paused += record.blocked_s * before
        self._blocked += record.blocked_s
        self._blocked_max = max(self._blocked_max, record.blocked_s)
        self._unclean.leave(record.job, record.released.mask, record.at)
        settled = self._settle(record.job, job, "done")
        if settled is not None:
            settled.nodes = record.released or record.gained
            settled.blocked_s = record.blocked_s
            settled.phases = record.phases

    def _declined(self, record: r.ResizeDeclined) -> None:
        self._settle(record.job, self._open[record.job], "declined", record.reason, late=record.late)

    def _failed_resize(self, record: r.ResizeFailed) -> None:
        self._settle(record.job, self._open[record.job], "failed", record.error, late=record.late)
        self._unclean.leave(record.job, record.dirty.mask, record.at)

    def _groups_lost(self, record: r.GroupsLost) -> None:
        job = self._open[record.job]
        self._hold(job, job.mask & ~record.nodes.mask)
        self._unclean.leave(record.job, record.nodes.mask, record.at)
        if job.outcome is not None:
            job.outcome.lost_groups += len(record.groups)

    def _job_ended(self, record: r.JobEnded) -> None:
        job = self._open.pop(record.job)
        at = record.at
        self._last_end = at
        if job.offer is not None:
            self._settle(record.job, job, "ended")
        if job.start is not None:
            self._hold(job, 0)
        if record.requeued:
            job.promised = job.start = None
            job.again = True
            self._requeued[record.job] = job
            return
        self._ended += 1
        self._failed += record.state is not JobState.COMPLETED
        if job.start is not None:
            wait, turnaround = job.start - job.submit, at - job.submit
            self._counted += 1
            self._wait += wait
            self._turnaround += turnaround
            run = at - job.start
            self._slowdown += max(1.0, turnaround / max(SLOWDOWN_BOUND_S, run))
            spec = job.spec
            reference = self._reference(record.job, spec)
            if reference is None:
                reference = spec.model.time(spec.nodes.preferred) if spec.model is not None else run
            self._over.add(spec, wait, turnaround, reference)
            if record.state is JobState.COMPLETED:
                self._asked += reference * spec.nodes.preferred
        if job.pace is not None:
            self._pace += job.pace[0]
            self._paced += job.pace[1]
        outcome = job.outcome
        if outcome is not None:
            outcome.state = record.state
            outcome.exit_code = record.exit_code
            outcome.cpu_s = record.cpu_s
            outcome.end_s = at
            outcome.result = record.result
            outcome.error = record.error

    def _clean(self, record: r.NodesClean) -> None:
        self._unclean.clean(record.job, record.nodes.mask, record.at)

    def _there(self, record: r.NodesGranted | r.NodesBack) -> None:
        mask = record.nodes.mask
        self._reserved.back(mask)
        self._unclean.back(mask)
        self._capacity.grant(mask, record.at, self._last_end)
        self._count_again(mask)

    def _lost(self, record: r.NodesLost) -> None:
        mask = record.nodes.mask
        self._reserved.lose(mask, record.at)
        self._unclean.lose(mask, record.at)
        self._capacity.lose(mask, record.at, self._last_end)
        self._count_again(mask)

    def _returned(self, record: r.NodesReturned) -> None:
        self._capacity.give_back(record.nodes.mask, record.at, self._last_end)

    # ---- parts of it ---------------------------------------------------------------------------------

    def _hold(self, job: _Open, mask: int) -> None:
        """From now on the job holds ``mask``; of lost nodes there is nothing to hold."""
        counted = (mask & ~self._capacity.lost).bit_count()
        self._area += self._in_use * (self._now - self._area_at)
        self._area_at = self._now
        self._in_use += counted - job.counted
        job.mask, job.counted = mask, counted

    def _count_again(self, mask: int) -> None:
        """These nodes are lost or there again: perhaps some that a job holds."""
        for job in self._open.values():
            if job.mask & mask:
                self._hold(job, job.mask)

    def _count(self, job: _Open, kind: str) -> None:
        """A resize was done."""
        self._done[kind] += 1
        if job.spec.job_class is JobClass.MALLEABLE:
            self._malleable[kind] += 1
        if job.resized is not None:
            last, at = job.resized
            self._thrash += last != kind and self._now - at <= THRASH_S
        job.resized = (kind, self._now)

    def _per_malleable_job(self, kind: str) -> float | None:
        return self._malleable[kind] / self._malleable_jobs if self._malleable_jobs else None

    def _pace_overrun(self) -> float | None:
        pace, paced = self._pace, self._paced
        for job in self._open.values():
            if job.pace is not None:
                pace, paced = pace + job.pace[0], paced + job.pace[1]
        return paced / pace - 1.0 if pace > 0 else None

    def _settle(
        self, number: int, job: _Open, outcome: str, error: str = "", *, late: bool = False
    ) -> ResizeOutcome | None:
        """Close the open resize; the nodes that were still reserved had been idle since the offer."""
        offer = job.offer
        if offer is None:
            return None
        job.offer = None
        self._reserved.clean(number, offer.nodes.mask, self._now)
        if job.outcome is None:
            return None
        job.outcome.state = JobState.RUNNING
        settled = job.outcome.resizes[-1]
        settled.outcome, settled.late = outcome, late
        settled.error = "" if outcome == "done" else settled.error or error
        settled.done_s = self._now
        return settled


def _to_rigid(classes: Mapping[JobClass, ClassMetrics]) -> float | None:
    malleable, rigid = classes.get(JobClass.MALLEABLE), classes.get(JobClass.RIGID)
    if malleable is None or rigid is None or malleable.stretch_mean is None or not rigid.stretch_mean:
        return None
    return malleable.stretch_mean / rigid.stretch_mean


def _outcome(spec: JobSpec, at: float) -> JobOutcome:
    return JobOutcome(
        name=spec.name, job_class=spec.job_class, state=JobState.PENDING, submit_s=at, resizes=[]
    )


def measure(records: Iterable[r.Record]) -> RunMetrics:
    """The metrics of a whole run."""
    metrics = Metrics()
    for record in records:
        metrics.add(record)
    return metrics.summary()
