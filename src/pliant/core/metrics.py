"""What a run was like, in numbers: a fold over records. Definitions are in docs of ``RunMetrics``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from pliant.core import records as r
from pliant.core.distribution import SLOWDOWN_BOUND_S, ClassMetrics, EndedJobs
from pliant.core.unclean import Unclean
from pliant.model.jobs import JobClass, JobSpec, JobState
from pliant.model.nodes import NodeSet
from pliant.policy.view import Reason

Reference = Callable[[int, JobSpec], float | None]
"""A job's reference time in seconds by its number and specification, None where it is not known."""

THRASH_S = 60.0
"""A resize that is undone within this time was made in vain."""
LATE_S = 1e-3
"""A start no later than this after its promise is in time: times are rounded."""


class ResizeOutcome(msgspec.Struct, rename={"before": "from", "after": "to"}, kw_only=True):
    """One resize of one job; ``nodes`` are those gained or given back (while it is open: those reserved).

    ``outcome`` is done, declined, failed, ended (the job was over first) or open; ``done_s`` is when that
    was settled. Times in seconds since the journal began. ``error`` says why it came to nothing; ``late``: too
    little was left of the job's loop, and nothing was wrong.
    """

    id: int
    kind: str
    before: int
    after: int
    nodes: NodeSet
    offered_s: float
    done_s: float | None = None
    blocked_s: float = 0.0
    phases: dict[str, float] = {}
    outcome: str = "open"
    error: str = ""
    late: bool = False
    reason: Reason


class JobOutcome(msgspec.Struct, rename={"job_class": "class"}, kw_only=True):
    """One job, as report.json tells it. ``start_s`` is None for a job that never started, ``end_s`` and
    ``exit_code`` for one that has not ended. ``verified``, ``expected`` and ``unchecked`` (why the result could
    not be checked) are for whoever runs the job's verify command."""

    name: str
    job_class: JobClass
    state: JobState
    exit_code: int | None = None
    verified: bool | None = None
    submit_s: float
    start_s: float | None = None
    end_s: float | None = None
    resizes: list[ResizeOutcome] = []
    result: str | None = None
    expected: str | None = None
    unchecked: str = ""
    error: str = ""


class RunMetrics(msgspec.Struct, kw_only=True):
    """The metrics of one run; times in seconds, means over the jobs that started and ended.

    - makespan: last end minus first submission.
    - utilisation: node-seconds that running jobs held, over nodes times makespan. Nodes reserved for an
      expansion count from the moment they are the job's.
      Useful utilisation is without paused_node_s; resizing_node_s is in neither of the two.
    - goodput: reference time times preferred nodes of completed jobs, over nodes times makespan: work that was
      asked for and done, whatever size it was done at. Above 1 where small sizes are more efficient.
    - reference time: of a job at its preferred size all the way; what ``Metrics`` was told, else by the job's
      model, else its actual run time. Stretch is turnaround over reference time, of jobs where that is above 0.
    - wait: from submission to the start, of a job that was requeued to its last start; turnaround: from
      submission to the end, whatever was lost between. Percentiles interpolate linearly
      (``distribution.percentile``).
    - bounded slowdown: turnaround over run time, run times below 10 s taken as 10 s, and never below 1.
      bounded_slowdown_preferred: with the reference time in place of the run time, which malleability changes.
    - classes: the jobs of each class; malleable_to_rigid_turnaround: mean stretch of malleable jobs over
      that of rigid ones, None if either class has none.
    - users_jain: Jain's index, (sum x)^2 / (n sum x^2), of the users' mean stretches: 1 if all are alike,
      1 / users if one has it all; jobs without a user belong to one more. None if no job has a stretch.
    - promised: jobs that were promised a start; promises_broken: those of them that started later than they
      were promised first, promise_delay_max_s: by so much at most. Promises go by estimates of jobs: the
      time that nodes take to be clean after a job is not in them.
    - blocked: how long a job stood still in a resize that was done.
    - resizing_node_s: node-seconds a job held without computing on them: reserved for an expansion and not
      yet joined, or left and not yet proved clean.
    - paused_node_s: node-seconds of jobs that stood still: blocked times the size before the resize.
    - thrash: resizes done that undid the one before of the same job (grown then shrunk, or the reverse), at
      most 60 s after that was done.
    - expands, shrinks: resizes done; per malleable job: those of malleable jobs, over the malleable jobs that
      started, None if there are none.
    - pace_overrun: by how much paced jobs ran longer than their pace, as a share; None if none was paced.
    """

    makespan_s: float
    utilisation: float
    useful_utilisation: float
    goodput: float
    wait_mean_s: float
    wait_median_s: float
    wait_p95_s: float
    wait_p99_s: float
    wait_max_s: float
    turnaround_mean_s: float
    turnaround_median_s: float
    turnaround_p95_s: float
    turnaround_p99_s: float
    turnaround_max_s: float
    bounded_slowdown_mean: float
    bounded_slowdown_preferred_mean: float
    classes: dict[JobClass, ClassMetrics]
    malleable_to_rigid_turnaround: float | None
    users: int
    users_jain: float | None
    promised: int
    promises_broken: int
    promise_delay_max_s: float
    expands: int
    shrinks: int
    expands_per_malleable_job: float | None
    shrinks_per_malleable_job: float | None
    thrash: int
    blocked_mean_s: float
    blocked_max_s: float
    resizing_node_s: float
    paused_node_s: float
    pace_overrun: float | None
    ended: int
    """Jobs that have ended, in whatever state."""
    failed: int
    """Those of them that did not complete."""
    jobs: list[JobOutcome]
    """By job number; empty if they were not kept."""


class _Open:
    """A job that has not ended."""

    __slots__ = (
        "again",
        "freed",
        "offer",
        "outcome",
        "pace",
        "promised",
        "resized",
        "size",
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
        self.size = 0
        self.offer: r.ResizeOffered | None = None
        self.freed = NodeSet()
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
        self._resizing = self._paused = 0.0
        self._unclean = Unclean()
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
            r.JobEnded: self._job_ended,
            r.NodesClean: self._clean,
            r.NodesLost: self._lost,
            r.NodesBack: self._back,
        }

    def add(self, record: r.Record) -> None:
        self._now = record.at
        fold = self._fold.get(type(record))
        if fold is not None:
            fold(record)

    def summary(self, total_nodes: int) -> RunMetrics:
        """The metrics so far, on ``total_nodes`` nodes; running jobs count up to the last record."""
        until = self._now if self._open else self._last_end
        makespan = until - self._first if self._first is not None else 0.0
        area = self._area + self._in_use * max(0.0, until - self._area_at)
        jobs, resizes = max(1, self._counted), max(1, sum(self._done.values()))
        # The whole machine's node-seconds; an empty run has none, and every share of it is 0.
        whole = total_nodes * makespan if makespan > 0 and total_nodes > 0 else float("inf")
        waits, turnarounds = self._over.waits(), self._over.turnarounds()
        classes, fairness = self._over.classes(), self._over.fairness()
        return RunMetrics(
            makespan_s=makespan,
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
            resizing_node_s=self._resizing + self._unclean.node_s,
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
        job.size = len(record.nodes)
        self._use(job.size)
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
        if job.offer is not None:
            job.freed = record.freed
            self._resizing += len(record.freed) * (record.at - job.offer.at)
        outcome = job.outcome
        if outcome is not None:
            outcome.resizes[-1].error = record.reason  # the job's answer says no more than "withdrawn"

    def _resized(self, record: r.ResizeDone) -> None:
        job = self._open[record.job]
        grown = len(record.gained) - len(record.released)
        before = job.size
        job.size += grown
        self._use(grown)
        offer = job.offer
        if offer is None:
            return
        self._count(job, offer.kind)
        self._paused += record.blocked_s * before
        self._blocked += record.blocked_s
        self._blocked_max = max(self._blocked_max, record.blocked_s)
        self._unclean.leave(record.job, record.released.mask, record.at)
        settled = self._settle(job, "done")
        if settled is not None:
            settled.nodes = record.released or record.gained
            settled.blocked_s = record.blocked_s
            settled.phases = record.phases

    def _declined(self, record: r.ResizeDeclined) -> None:
        self._settle(self._open[record.job], "declined", record.reason, late=record.late)

    def _failed_resize(self, record: r.ResizeFailed) -> None:
        self._settle(self._open[record.job], "failed", record.error, late=record.late)
        self._unclean.leave(record.job, record.dirty.mask, record.at)

    def _job_ended(self, record: r.JobEnded) -> None:
        job = self._open.pop(record.job)
        at = record.at
        self._last_end = at
        if job.offer is not None:
            self._settle(job, "ended")
        if job.start is not None:
            self._use(-job.size)
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
            outcome.end_s = at
            outcome.result = record.result
            outcome.error = record.error

    def _clean(self, record: r.NodesClean) -> None:
        self._unclean.clean(record.job, record.nodes.mask, record.at)

    def _back(self, record: r.NodesBack) -> None:
        self._unclean.back(record.nodes.mask)

    def _lost(self, record: r.NodesLost) -> None:
        self._unclean.lose(record.nodes.mask, record.at)

    # ---- parts of it ---------------------------------------------------------------------------------

    def _use(self, more: int) -> None:
        self._area += self._in_use * (self._now - self._area_at)
        self._area_at = self._now
        self._in_use += more

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
        self, job: _Open, outcome: str, error: str = "", *, late: bool = False
    ) -> ResizeOutcome | None:
        """Close the open resize; the nodes that were still reserved had been idle since the offer."""
        offer = job.offer
        if offer is None:
            return None
        self._resizing += len(offer.nodes - job.freed) * (self._now - offer.at)
        job.offer, job.freed = None, NodeSet()
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


def measure(records: Iterable[r.Record], total_nodes: int) -> RunMetrics:
    """The metrics of a whole run."""
    metrics = Metrics()
    for record in records:
        metrics.add(record)
    return metrics.summary(total_nodes)
