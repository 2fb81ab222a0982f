"""The cluster as the records tell it: a fold, changed by ``apply`` alone. Ended jobs leave nothing behind,
so that the cost of an event does not grow with them."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from pliant.core import records as r
from pliant.model.jobs import Bounds, JobClass, JobSpec, JobState
from pliant.model.nodes import NodeSet
from pliant.plan.cost import ResizeCost

NEVER = float("inf")
DOUBLINGS = 6
"""A job whose resizes keep failing waits up to 2 ** DOUBLINGS times as long before it may grow."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The core's patience, in seconds.

    ``cooldown_s`` is the least time between two resizes of a job, ``decline_backoff_s`` the least time
    between a refusal or a failure and the next offer; with each further failure in a row the next growth waits
    twice as long, up to 64 times as long, until a resize is done. An offer not answered within ``offer_deadline_s`` is withdrawn,
    an accepted resize not done within ``resize_deadline_s`` called off; a job that does not follow within
    ``kill_grace_s`` is ended. All three allow three steps more, as long as the job's longest so far.
    Scheduling passes are made at multiples of ``pass_interval_s`` only; 0 makes one whenever one may matter.
    """

    cooldown_s: float = 2.0
    decline_backoff_s: float = 5.0
    offer_deadline_s: float = 20.0
    resize_deadline_s: float = 30.0
    kill_grace_s: float = 5.0
    pass_interval_s: float = 0.0
    cost: ResizeCost = ResizeCost()


class Resize:
    """The one outstanding resize of a job. Its stage is offered, accepted or withdrawn."""

    __slots__ = ("after", "before", "deadline", "id", "kind", "nodes", "stage")

    def __init__(self, record: r.ResizeOffered, deadline: float) -> None:
        self.id = record.resize
        self.kind = record.kind
        self.before = record.before
        self.after = record.after
        self.nodes = record.nodes.mask
        self.stage = "offered"
        self.deadline = deadline


class Job:
    """A pending or running job. ``used`` is the share of its estimate that was used up at ``settled``;
    ``limited`` jobs are ended when their walltime is over; to all others it is an estimate. ``greeted`` ones have
    said hello. ``failures`` are the resizes that failed in a row, which let it grow again only at ``grow_from``."""

    __slots__ = (
        "bounds", "elastic", "ending", "expected_end", "failures", "fraction", "fraction_at", "gap", "greeted", "grow_from", "heard", "id", "limited",
        "nodes", "not_before", "on", "pinned", "promised", "resize", "settled", "size", "spec", "started", "state", "target", "used", "why",
    )  # fmt: skip

    def __init__(self, number: int, spec: JobSpec) -> None:
        self.id = number
        self.spec = spec
        self.bounds: Bounds = spec.nodes
        # A walltime of 0 is no limit, as in Slurm: a trace's job that took no time must not be ended for it.
        self.limited = spec.kill and spec.walltime_s > 0
        self.state = JobState.PENDING
        self.nodes = 0
        self.size = 0
        self.target = 0
        self.started = 0.0
        self.expected_end = NEVER
        self.settled = 0.0
        self.used = 0.0
        self.fraction = 0.0
        self.fraction_at = 0.0
        self.heard = 0.0
        self.gap = 0.0
        self.greeted = False
        self.elastic = False
        self.on = False
        self.pinned = False
        self.not_before = 0.0
        self.failures = 0
        self.grow_from = 0.0
        self.resize: Resize | None = None
        self.promised: float | None = None
        self.ending: JobState | None = None
        self.why = ""

    def remaining_s(self, now: float) -> float:
        """Seconds to the end at the present size: from progress, else the model, else the estimate."""
        model = self.spec.model
        if model is not None:
            rate = 1.0 / model.time(self.size)
            return max(0.0, (1.0 - self.fraction) / rate - (now - self.fraction_at))
        if self.fraction > 0.0:
            # Without a model the past is the best guide: the same speed as on average so far.
            took = self.fraction_at - self.started
            return max(0.0, took * (1.0 - self.fraction) / self.fraction - (now - self.fraction_at))
        return max(0.0, self.expected_end - now)

    def hear(self, now: float) -> None:
        """The job has reported from its loop: the longest gap between reports tells how long its steps are."""
        self.gap = max(self.gap, now - self.heard)
        self.heard = now

    def patience_s(self, now: float) -> float:
        """How long a job may well stay silent because it is inside a step: it answers between steps only."""
        return 3.0 * max(self.gap, now - self.heard)

    def settle(self, now: float, paused_s: float) -> None:
        """Book the share of work done at the present size up to ``now``, before the size changes; in
        ``paused_s`` of the time nothing was done."""
        elapsed = max(0.0, now - self.settled - paused_s)
        self.used += elapsed / self.spec.estimate(self.size)
        self.settled = now
        if self.spec.model is not None:
            computed = max(0.0, now - self.fraction_at - paused_s)
            self.fraction = min(1.0, self.fraction + computed / self.spec.model.time(self.size))
            self.fraction_at = now

    def snapshot(self) -> dict[str, Any]:
        """Everything that is known of the job, comparable."""
        values = {name: getattr(self, name) for name in self.__slots__ if name != "resize"}
        if self.resize is not None:
            values["resize"] = {name: getattr(self.resize, name) for name in self.resize.__slots__}
        return values


class State:
    """All nodes and all jobs that have not ended; a policy sees it as a ClusterView.

    ``limited`` counts the running jobs that have a walltime to keep; from ``resting`` on, every job may be
    offered a resize again.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self.now = 0.0
        self.jobs: dict[int, Job] = {}
        self._queue: dict[int, Job] = {}
        self._elastic: dict[int, Job] = {}
        self.resizing: dict[int, Job] = {}
        self.running: list[tuple[float, int, Job]] = []
        self.limited = 0
        self.resting = 0.0
        self.free_mask = 0
        self.all_mask = 0
        self.lost_mask = 0
        self.dirty: dict[int, int] = {}
        self.free = 0
        self.total = 0
        self.last_job = 0
        self.last_resize = 0
        self._leaving = 0
        self._dirty = 0
        self._fold: dict[type[r.Record], Callable[[Any], None]] = {
            r.JobSubmitted: self._submitted,
            r.JobPromised: self._promised,
            r.JobStarted: self._started,
            r.JobLaunched: self._launched,
            r.JobRunning: self._running,
            r.JobMalleable: self._malleable,
            r.JobPinned: self._pinned,
            r.JobProgressed: self._progressed,
            r.ResizeOffered: self._offered,
            r.ResizeWithdrawn: self._withdrawn,
            r.ResizeAccepted: self._accepted,
            r.ResizeDeclined: self._declined,
            r.ResizeDone: self._done,
            r.ResizeFailed: self._failed,
            r.JobEnding: self._ending,
            r.JobEnded: self._ended,
            r.NodesGranted: self._granted,
            r.NodesClean: self._clean,
            r.NodesLost: self._lost,
            r.NodesBack: self._granted,
        }

    # ---- what a policy sees --------------------------------------------------------------------------

    @property
    def queue(self) -> Iterable[Job]:
        return self._queue.values()

    @property
    def waiting(self) -> int:
        return len(self._queue)

    @property
    def elastic(self) -> Iterable[Job]:
        return self._elastic.values()

    @property
    def cost(self) -> ResizeCost:
        return self.settings.cost

    def returning(self, job: int = 0) -> int:
        if not job:
            return self._dirty + self._leaving
        count = self.dirty.get(job, 0).bit_count()
        shrinking = self.resizing.get(job)
        resize = shrinking.resize if shrinking is not None else None
        if resize is not None and resize.kind == "shrink":
            count += resize.before - resize.after
        return count

    def resizable(self, job: Any, *, grow: bool = False) -> bool:
        return (
            job.on
            and job.resize is None
            and not job.pinned
            and job.ending is None
            and self.now >= job.not_before
            and (not grow or self.now >= job.grow_from)
        )

    # ---- the fold ------------------------------------------------------------------------------------

    def apply(self, record: r.Record) -> None:
        """The only way in which the state changes."""
        self.now = record.at
        self._fold[type(record)](record)

    def snapshot(self) -> dict[str, Any]:
        """Everything the state knows, comparable: replaying the records must give the same."""
        return {
            "jobs": {number: job.snapshot() for number, job in self.jobs.items()},
            "queue": list(self._queue),
            "running": [(end, number) for end, number, _ in self.running],
            "elastic": sorted(self._elastic),
            "free": self.free_mask,
            "all": self.all_mask,
            "lost": self.lost_mask,
            "dirty": dict(self.dirty),
            "counts": (self.free, self.total, self.last_job, self.last_resize, self._leaving, self._dirty),
        }

    def _submitted(self, record: r.JobSubmitted) -> None:
        job = Job(record.job, record.spec)
        self.jobs[record.job] = job
        self._queue[record.job] = job
        self.last_job = record.job

    def _promised(self, record: r.JobPromised) -> None:
        self.jobs[record.job].promised = record.start_by

    def _started(self, record: r.JobStarted) -> None:
        job = self._queue.pop(record.job)
        mask = record.nodes.mask
        now = record.at
        job.state = JobState.CONFIGURING
        job.nodes = mask
        job.size = job.target = size = mask.bit_count()
        job.started = job.settled = job.fraction_at = job.not_before = now
        job.expected_end = end = now + job.spec.estimate(size)
        self._take(mask, size)
        insort(self.running, (end, job.id, job))
        self.limited += job.limited

    def _launched(self, record: r.JobLaunched) -> None:
        self.jobs[record.job].state = JobState.RUNNING

    def _running(self, record: r.JobRunning) -> None:
        job = self.jobs[record.job]
        job.state = JobState.RUNNING
        job.greeted = True
        job.bounds = record.bounds
        job.elastic = record.elastic
        job.fraction_at = record.at

    def _malleable(self, record: r.JobMalleable) -> None:
        job = self.jobs[record.job]
        job.on = record.on
        job.heard = record.at
        if record.on and job.spec.job_class is JobClass.MALLEABLE:
            self._elastic[job.id] = job
        else:
            self._elastic.pop(job.id, None)

    def _pinned(self, record: r.JobPinned) -> None:
        self.jobs[record.job].pinned = record.on

    def _progressed(self, record: r.JobProgressed) -> None:
        job = self.jobs[record.job]
        job.fraction = record.fraction
        job.fraction_at = record.at
        job.hear(record.at)

    def _offered(self, record: r.ResizeOffered) -> None:
        job = self.jobs[record.job]
        patience = self.settings.offer_deadline_s + job.patience_s(record.at)
        job.resize = Resize(record, record.at + patience)
        job.target = record.after
        self.resizing[job.id] = job
        self.last_resize = record.resize
        if record.kind == "expand":
            self._take(record.nodes.mask, len(record.nodes))
        else:
            self._leaving += record.before - record.after

    def _withdrawn(self, record: r.ResizeWithdrawn) -> None:
        job = self.jobs[record.job]
        resize = self._outstanding(record.job)
        accepted = resize.stage == "accepted"
        resize.stage = "withdrawn"
        # A job that has accepted has to follow; one that has not even answered may be in a long step.
        resize.deadline = self._last_deadline(job, record.at) if accepted else NEVER

    def _accepted(self, record: r.ResizeAccepted) -> None:
        job = self.jobs[record.job]
        job.state = JobState.RESIZING
        resize = self._outstanding(record.job)
        if resize.stage == "offered":
            resize.stage = "accepted"
            resize.deadline = record.at + self.settings.resize_deadline_s + job.patience_s(record.at)
        else:
            resize.deadline = self._last_deadline(job, record.at)

    def _last_deadline(self, job: Job, now: float) -> float:
        return now + self.settings.kill_grace_s + job.patience_s(now)

    def _declined(self, record: r.ResizeDeclined) -> None:
        job = self._close(record.job)
        self._rest(job, record.at + self.settings.decline_backoff_s)

    def _failed(self, record: r.ResizeFailed) -> None:
        job = self._close(record.job)
        dirty = record.dirty.mask
        job.failures += not record.late
        backoff = self.settings.decline_backoff_s
        self._rest(job, record.at + backoff)
        # What keeps newcomers from coming says nothing of a shrink, for which others may be waiting.
        job.grow_from = record.at + backoff * 2 ** min(max(0, job.failures - 1), DOUBLINGS)
        self.resting = max(self.resting, job.grow_from)
        if dirty:
            self._take(dirty & self.free_mask, (dirty & self.free_mask).bit_count())
            self._soil(job.id, dirty)

    def _done(self, record: r.ResizeDone) -> None:
        job = self.jobs[record.job]
        resize = self._outstanding(record.job)
        released = record.released.mask
        if resize.kind == "shrink":
            self._leaving -= resize.before - resize.after
        self._drop_running(job)
        job.settle(record.at, record.blocked_s)
        job.nodes = (job.nodes | record.gained.mask) & ~released
        job.size = job.target = job.nodes.bit_count()
        job.expected_end = record.at + max(0.0, 1.0 - job.used) * job.spec.estimate(job.size)
        insort(self.running, (job.expected_end, job.id, job))
        job.resize = None
        job.failures = 0
        del self.resizing[job.id]
        job.state = JobState.RUNNING
        self._rest(job, record.at + self.settings.cooldown_s)
        self._soil(job.id, released)

    def _ending(self, record: r.JobEnding) -> None:
        job = self.jobs[record.job]
        job.ending = record.state
        job.why = record.error

    def _ended(self, record: r.JobEnded) -> None:
        job = self.jobs.pop(record.job)
        if job.state is JobState.PENDING:
            del self._queue[record.job]
            return
        if job.resize is not None and job.resize.kind == "shrink":
            self._leaving -= job.resize.before - job.resize.after
        self._drop_running(job)
        self.limited -= job.limited
        self._elastic.pop(job.id, None)
        self.resizing.pop(job.id, None)
        self._soil(job.id, record.nodes.mask)

    def _granted(self, record: r.NodesGranted | r.NodesBack) -> None:
        mask = record.nodes.mask
        new = mask & ~(self.all_mask & ~self.lost_mask)
        self.all_mask |= mask
        self.lost_mask &= ~mask
        self.total = (self.all_mask & ~self.lost_mask).bit_count()
        # A node may be back before the job that lost it has ended: it is free when it is proved clean.
        for _, _, job in self.running:
            new &= ~job.nodes
            if job.resize is not None and job.resize.kind == "expand":
                new &= ~job.resize.nodes
        self._give(new)

    def _clean(self, record: r.NodesClean) -> None:
        mask = record.nodes.mask & self.dirty.get(record.job, 0)
        left = self.dirty.get(record.job, 0) & ~mask
        self._dirty -= mask.bit_count()
        if left:
            self.dirty[record.job] = left
        else:
            self.dirty.pop(record.job, None)
        self._give(mask & ~self.lost_mask)

    def _lost(self, record: r.NodesLost) -> None:
        mask = record.nodes.mask & self.all_mask
        self._take(mask & self.free_mask, (mask & self.free_mask).bit_count())
        self.lost_mask |= mask
        self.total = (self.all_mask & ~self.lost_mask).bit_count()
        for number in list(self.dirty):
            self._dirty -= (self.dirty[number] & mask).bit_count()
            if left := self.dirty[number] & ~mask:
                self.dirty[number] = left
            else:
                del self.dirty[number]

    # ---- parts of it ---------------------------------------------------------------------------------

    def _outstanding(self, number: int) -> Resize:
        resize = self.jobs[number].resize
        if resize is None:
            raise ValueError(f"job {number} has no resize outstanding")
        return resize

    def _rest(self, job: Job, until: float) -> None:
        job.not_before = until
        self.resting = max(self.resting, until)

    def _close(self, number: int) -> Job:
        """The outstanding resize has come to nothing: its nodes are free again."""
        job = self.jobs[number]
        resize = self._outstanding(number)
        if resize.kind == "expand":
            self._give(resize.nodes & ~self.lost_mask)
        else:
            self._leaving -= resize.before - resize.after
        job.resize = None
        del self.resizing[job.id]
        job.target = job.size
        job.state = JobState.RUNNING
        return job

    def _take(self, mask: int, count: int) -> None:
        self.free_mask &= ~mask
        self.free -= count

    def _give(self, mask: int) -> None:
        self.free_mask |= mask
        self.free += mask.bit_count()

    def _soil(self, number: int, mask: int) -> None:
        if mask := mask & ~self.lost_mask:
            before = self.dirty.get(number, 0)
            self.dirty[number] = before | mask
            self._dirty += (mask & ~before).bit_count()

    def _drop_running(self, job: Job) -> None:
        i = bisect_left(self.running, (job.expected_end, job.id))
        if self.running[i][1] != job.id:
            raise ValueError(f"job {job.id} is not where its expected end puts it")
        del self.running[i]

    def nodes_of(self, job: Job) -> NodeSet:
        return NodeSet(job.nodes)
