"""What a run was like, as data: its figures, its jobs and their resizes. ``core/metrics.py`` makes them of records."""

from __future__ import annotations

import msgspec

from pliant.core.distribution import ClassMetrics
from pliant.model.jobs import JobClass, JobState
from pliant.model.nodes import NodeSet
from pliant.policy.view import Reason


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
    not be checked) are for whoever runs the job's verify command. ``cpu_s``: what its ranks took of the processors; 0 in
    a simulation. ``lost_groups`` were lost, and it went on without them."""

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
    result: str | None = None
    expected: str | None = None
    unchecked: str = ""
    error: str = ""


class RunMetrics(msgspec.Struct, kw_only=True):
    """The metrics of one run; times in seconds, means over the jobs that started and ended.

    - makespan: last end minus first submission.
    - capacity_node_s: node-seconds that there were within the makespan: a node counts from when it is granted
      until it is lost, and again once it is back. While jobs are left, up to the last record.
    - utilisation: node-seconds that running jobs held, over the capacity. Nodes reserved for an expansion count
      from the moment they are the job's; a lost node counts no more, also if its job ends only later.
      Useful utilisation is without paused_node_s; resizing_node_s is in neither of the two.
    - goodput: reference time times preferred nodes of completed jobs, over the capacity: work that was
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
    capacity_node_s: float
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
