"""What a run was like, as data: its figures, which ``history/metrics.py`` makes, its jobs and their resizes."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from pliant.core import records as r
from pliant.history.distribution import ClassMetrics
from pliant.history.timeline import Life, Listener
from pliant.model.jobs import JobClass, JobState
from pliant.model.nodes import NodeSet
from pliant.policy.view import Reason
from pliant.protocol.phases import Phase


class ResizeOutcome(msgspec.Struct, rename={"before": "from", "after": "to"}, kw_only=True):
    """One resize of one job; ``nodes`` are those gained or given back (while it is open: those reserved), and
    ``moved_to`` those gained for them in a migration.

    ``outcome`` is done, declined, failed, ended (the job was over first) or open; ``done_s`` is when that
    was settled. Times in seconds since the journal began. ``phases`` are seconds, by the names of
    ``protocol.phases``. ``error`` says why it came to nothing, and ``phase`` what it had come to; ``late``: too
    little was left of the job's loop, and nothing was wrong. ``slots``, of one of kind slots: how many ranks of
    groups are to be awake.
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
    phase: Phase | None = None
    late: bool = False
    reason: Reason
    slots: dict[int, int] = {}
    moved_to: NodeSet = NodeSet()


class JobOutcome(msgspec.Struct, rename={"job_class": "class"}, kw_only=True):
    """One job, as report.json tells it. ``start_s`` is None for a job that never started, ``end_s`` and
    ``exit_code`` for one that has not ended. ``verified``, ``expected`` and ``unchecked`` (why the result could
    not be checked) are for whoever runs the job's verify command. ``cpu_s``: what its ranks took of the
    processors; 0 in a simulation. ``lost_groups`` were lost, and it went on without them. ``places``: what each
    place of a program of places says that it has done. ``notes``: what it has found that its user should know."""

    name: str
    job_class: JobClass
    state: JobState
    exit_code: int | None = None
    cpu_s: float = 0.0
    verified: bool | None = None
    submit_s: float
    start_s: float | None = None
    end_s: float | None = None
    resizes: list[ResizeOutcome] = []
    lost_groups: int = 0
    places: dict[int, dict[str, float]] = {}
    result: str | None = None
    expected: str | None = None
    unchecked: str = ""
    error: str = ""
    notes: list[str] = []


class RunMetrics(msgspec.Struct, kw_only=True):
    """The metrics of one run; times in seconds, means over the jobs that started and ended.

    - makespan: last end minus first submission.
    - capacity_node_s: node-seconds that there were within the makespan: a node counts from when it is granted
      until it is lost, and again once it is back. While jobs are left, up to the last record.
    - utilisation: node-seconds that running jobs held, over the capacity. Nodes reserved for an expansion count
      from the moment they are the job's; a lost node counts no more, also if its job ends only later.
      Useful utilisation is without paused_node_s, and None of a window; resizing_node_s is in neither of the two.
    - goodput: node-seconds that completed jobs held, of each no more than its reference time times its preferred
      nodes, over the capacity: work that was asked for and done, without what losses and larger sizes cost more.
      A job that is more efficient on fewer nodes counts with what it held. Never above utilisation. None of a
      window of a longer run (``history/within.py``), which ends amid their work.
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
    - resizes_withdrawn, resizes_declined, resizes_failed: resizes that came to nothing. Withdrawn are those that
      the scheduler called off, since they were not answered or not done in time or nobody needed them any more,
      and that were not done all the same.
    - expands, shrinks: resizes done; per malleable job: those of malleable jobs, over the malleable jobs that
      started, None if there are none.
    - pace_overrun: by how much paced jobs ran longer than their pace, as a share; None if none was paced.
    """

    makespan_s: float
    capacity_node_s: float
    utilisation: float
    useful_utilisation: float | None
    goodput: float | None
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
    resizes_withdrawn: int
    resizes_declined: int
    resizes_failed: int
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


class Outcomes(Listener):
    """What becomes of each job: ``jobs``, in order of submission. A job that is requeued is the same job."""

    IGNORES: ClassVar[frozenset[str]] = frozenset({
        "began", "held", "wasted", "idle", "used", "nodes_there", "nodes_lost", "nodes_returned",
    })  # fmt: skip

    def __init__(self) -> None:
        self.jobs: list[JobOutcome] = []
        self._open: dict[Life, JobOutcome] = {}

    def submitted(self, life: Life) -> None:
        if life.again:
            self._open[life].state = JobState.PENDING
            return
        spec = life.spec
        job = JobOutcome(
            name=spec.name,
            job_class=spec.job_class,
            state=JobState.PENDING,
            submit_s=life.submit,
            resizes=[],
        )
        self._open[life] = job
        self.jobs.append(job)

    def started(self, life: Life) -> None:
        job = self._open[life]
        job.start_s = life.start
        job.state = JobState.CONFIGURING

    def launched(self, life: Life) -> None:
        self._open[life].state = JobState.RUNNING

    def offered(self, life: Life, offer: r.ResizeOffered) -> None:
        resize = ResizeOutcome(
            id=offer.resize,
            kind=offer.kind,
            before=offer.before,
            after=offer.after,
            nodes=offer.nodes,
            offered_s=offer.at,
            reason=offer.reason,
            slots=offer.slots,
        )
        self._open[life].resizes.append(resize)

    def accepted(self, life: Life) -> None:
        self._open[life].state = JobState.RESIZING

    def withdrawn(self, life: Life, why: str) -> None:
        self._open[life].resizes[-1].error = why  # the job's answer says no more than "withdrawn"

    def resized(self, life: Life, done: r.ResizeDone, kind: str, _before: int) -> None:
        if kind:
            resize = self._settle(life, "done")
            resize.error = ""
            resize.nodes = done.released or done.gained
            resize.moved_to = done.gained if done.released else NodeSet()
            resize.blocked_s = done.blocked_s
            resize.phases = done.phases

    def settled(self, life: Life, outcome: str, error: str, *, late: bool, phase: Phase | None) -> None:
        resize = self._settle(life, outcome)
        resize.phase = phase
        resize.error = resize.error or error
        resize.late = late

    def noted(self, life: Life, text: str) -> None:
        job = self._open[life]
        job.notes = [*job.notes, text]

    def groups_lost(self, life: Life, loss: r.GroupsLost) -> None:
        self._open[life].lost_groups += len(loss.groups)

    def ended(self, life: Life, end: r.JobEnded, _size: int) -> None:
        if end.requeued:
            return
        job = self._open.pop(life)
        job.state = end.state
        job.exit_code = end.exit_code
        job.cpu_s = end.cpu_s
        job.end_s = end.at
        job.result = end.result
        job.places = end.places
        job.error = end.error

    def _settle(self, life: Life, outcome: str) -> ResizeOutcome:
        job = self._open[life]
        job.state = JobState.RUNNING
        resize = job.resizes[-1]
        resize.outcome = outcome
        resize.done_s = self.lives.now
        return resize
