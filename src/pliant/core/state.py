"""The cluster as the records tell it: a fold, changed by ``apply`` alone. Ended jobs leave nothing behind,
so that the cost of an event does not grow with them."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence
from itertools import compress, count, repeat
from typing import Any

from pliant.core import records as r
from pliant.core.ended import EndedSinceLastPass
from pliant.core.job import OpenResize, ScheduledJob
from pliant.core.nodes import NodeStates
from pliant.core.settings import DOUBLINGS, NEVER, Settings, lease_s
from pliant.core.unused import FewestFree
from pliant.core.usage import both, followed
from pliant.model.errors import PolicyError
from pliant.model.groups import Group
from pliant.model.jobs import JobClass, JobState
from pliant.model.nodes import NodeSet, without
from pliant.model.size_request import SizeRequest
from pliant.plan.cost import ResizeCost
from pliant.policy.backlog import Backlog
from pliant.policy.view import End, Expiring, PoolView, remembered
from pliant.protocol import resizing
from pliant.protocol.resizing import Effect

LONG = 64
"""From so many waiting jobs on there is an index of them: fewer are looked at one by one as quickly."""


class State:
    """All nodes and all jobs that have not ended; a policy sees it as a ClusterView.

    ``limited`` counts the running jobs that have a walltime to keep; from ``resting`` on, every job may be
    offered a resize again, and what is due before ``wary`` may be that one may grow again.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self.now = 0.0
        self.jobs: dict[int, ScheduledJob] = {}
        self._queue: dict[int, ScheduledJob] = {}
        self._elastic: dict[int, ScheduledJob] = {}
        self.resizing: dict[int, ScheduledJob] = {}
        self.running: list[tuple[float, int, ScheduledJob]] = []
        self.limited = 0
        self.resting = 0.0
        self.wary = 0.0
        self.policy_failed = ""
        self.memory: dict[str, Any] = {}
        self.last_job = 0
        self.last_resize = 0
        self._first_resize = self._resize_step = 1
        self._leaving = 0
        self.nodes = NodeStates(self.running, self.settings)
        self._fold: dict[type[r.Record], Callable[[Any], None]] = {
            r.JobSubmitted: self._submitted,
            r.JobPromised: self._promised,
            r.JobStarted: self._started,
            r.JobLaunched: self._launched,
            r.JobRunning: self._running,
            r.JobMalleable: self._malleable,
            r.JobPinned: self._pinned,
            r.JobWishes: self._wishes,
            r.JobProgressed: self._progressed,
            r.JobNoted: self._noted,
            r.ResizeOffered: self._offered,
            r.ResizeWithdrawn: self._withdrawn,
            r.ResizeAccepted: self._accepted,
            r.ResizeDeclined: self._declined,
            r.ResizeDone: self._done,
            r.ResizeFailed: self._failed,
            r.GroupsLost: self._groups_lost,
            r.JobEnding: self._ending,
            r.JobEnded: self._ended,
            r.ControllerResumed: self._resumed,
            r.PolicyFailed: self._policy_failed,
            r.PolicyRemembers: self._remembers,
            r.NodesGranted: self.nodes.granted,
            r.NodesClean: self.nodes.clean,
            r.NodesLost: self.nodes.lost,
            r.NodesBack: self.nodes.there,
            r.NodesOrdered: self.nodes.ordered,
            r.NodesRefused: self.nodes.refused,
            r.NodesReclaimed: self.nodes.reclaimed,
            r.NodesReturned: self.nodes.returned,
            r.NodesExpire: self.nodes.expire,
            r.NodesWithdrawn: self.nodes.withdrawn,
        }
        self._backlog: Backlog | None = None
        self._indexes = False
        self.over = EndedSinceLastPass()
        self.requeued: dict[int, ScheduledJob] = {}
        """Jobs that have ended and have yet to be submitted again."""
        self.served = self._served_by = 0
        self.wishing: dict[int, ScheduledJob] = {}
        self.used = followed(self.settings.half_life_s, self._fold)
        self._fewest: FewestFree | None = None
        if self.settings.pool is not None:
            self._fewest = FewestFree(self.settings.pool.idle_s)
            for kind, fold in self._fold.items():
                self._fold[kind] = both(fold, self._watch_free)

    # ---- what a policy sees --------------------------------------------------------------------------

    @property
    def total(self) -> int:
        return self.nodes.total

    @property
    def free(self) -> int:
        return self.nodes.free

    @property
    def queue(self) -> Iterable[ScheduledJob]:
        return self._queue.values()

    @property
    def waiting(self) -> int:
        return len(self._queue)

    @property
    def elastic(self) -> Iterable[ScheduledJob]:
        return self._elastic.values()

    @property
    def news(self) -> Sequence[End]:
        return self.over.news()

    @property
    def backlog(self) -> Backlog | None:
        waiting = len(self._queue)
        if self._backlog is None and waiting >= LONG:
            self._backlog = Backlog(self._queue.values())
            if not self._indexes:
                self._index()
        elif waiting < LONG // 2:
            self._backlog = None
        return self._backlog

    def usage(self, user: str) -> float:
        if self.used is None:
            raise PolicyError("usage is not followed: a policy that goes by it states half_life_s, above 0 s")
        return self.used.of(user, self.now)

    @property
    def cost(self) -> ResizeCost:
        return self.settings.cost

    @property
    def pool(self) -> PoolView | None:
        if self._fewest is None or (pool := self.settings.pool) is None:
            return None
        now, fewest = self.now, self._fewest
        unused, more_at = fewest.of(now), fewest.more_at(now)
        leased_s = lease_s(self.settings)
        price = 1.0 if pool.price is None else pool.price
        return PoolView(
            pool.min, pool.max, price, pool.idle_s, self.nodes.coming, unused, more_at, pool.delay_s, leased_s
        )

    @property
    def expiring(self) -> Sequence[Expiring]:
        return self.nodes.expiring() if self.nodes.expiry else ()

    def lasting(self, at: float, job: int = 0) -> int:
        if job:
            return self.nodes.lasting(self.jobs[job].nodes, at)
        nodes = self.nodes.free_mask
        for mask in self.nodes.dirty.values():
            nodes |= mask
        return self.nodes.lasting(nodes, at)

    def _watch_free(self, record: r.Record) -> None:
        if self._fewest is not None:
            self._fewest.note(record.at, self.free)

    @property
    def next_resize(self) -> int:
        """The number of the next resize."""
        return self.last_resize + self._resize_step

    def number_resizes(self, index: int, count: int) -> None:
        """Of ``count`` states whose resizes are numbered, this is one: none gives a number that another gives."""
        self.last_resize, self._resize_step = index + 1 - count, count
        self._first_resize = index + 1

    @property
    def resizes(self) -> int:
        """How many have been offered."""
        return (self.last_resize - self._first_resize) // self._resize_step + 1

    def returning(self, job: int = 0) -> int:
        if not job:
            return self.nodes.returning + self._leaving
        count = (self.nodes.dirty.get(job, 0) & ~self.nodes.reclaimed_mask).bit_count()
        shrinking = self.resizing.get(job)
        if shrinking is not None and shrinking.resize is not None:
            count += shrinking.resize.giving
        return count

    def resizable(self, job: Any, *, grow: bool = False) -> bool:
        # Compiled, what is known to be of a class is asked in no time; a policy may have put something around it.
        mine = job if isinstance(job, ScheduledJob) else self.jobs[job.id]
        return (
            mine.accepts_offers
            and mine.resize is None
            and not mine.pinned
            and mine.ending is None
            and self.now >= mine.not_before
            and (not grow or self.now >= mine.grow_from)
        )

    # ---- groups --------------------------------------------------------------------------------------

    def groups(self, job: ScheduledJob) -> dict[int, int]:
        """The groups of a running job in the order in which they came, each with its node."""
        if job.groups is None:
            job.groups = dict(enumerate(NodeSet(job.nodes)))
        return job.groups

    def new_groups(self, mask: int, first: int) -> tuple[Group, ...]:
        """A group on each of these nodes, in their order, numbered from ``first``."""
        nodes = NodeSet(mask)
        slots = [self.nodes.slots.get(node, 1) for node in nodes] if self.nodes.slots else repeat(1)
        return tuple(map(Group, count(first), nodes, slots))

    def groups_on(self, job: ScheduledJob, mask: int) -> tuple[int, ...]:
        """The numbers of the job's groups on these nodes."""
        groups, nodes = self.groups(job), set(NodeSet(mask))
        return tuple(compress(groups, map(nodes.__contains__, groups.values())))

    def nodes_without(self, job: ScheduledJob, left: Iterable[int]) -> int:
        """The nodes of the job on which no group is when those of ``left`` have gone and arriving ones are not
        counted."""
        groups = self.groups(job)
        mask = NodeSet.of(map(groups.__getitem__, left)).mask
        if mask and len(groups) > job.size:  # several on one node
            gone = set(left)
            for number, node in groups.items():
                if number not in gone:
                    mask &= ~(1 << node)
        return mask

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
            "nodes": self.nodes.snapshot(),
            "policy_failed": self.policy_failed,
            "memory": self.memory,
            "fewest free": self._fewest.snapshot() if self._fewest is not None else None,
            "served": (self.served, self._served_by),
            "usage": self.used.snapshot() if self.used is not None else None,
            "requeued": {number: job.times for number, job in self.requeued.items()},
            "counts": (self.last_job, self.last_resize, self._leaving),
        }

    def _submitted(self, record: r.JobSubmitted) -> None:
        job = ScheduledJob(record.job, record.spec)
        if record.requeue_of in self.requeued:
            job.times = self.requeued.pop(record.requeue_of).times + 1
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
        job.size = job.target = size = len(record.nodes)
        job.last_group = size - 1
        job.one_world = record.one_world
        job.started = job.settled = job.fraction_at = job.not_before = now
        job.expected_end = end = now + job.spec.estimate(size)
        self.nodes.take(mask, size)
        if self.served == record.job:
            self.served = self._served_by = 0
        insort(self.running, (end, job.id, job))
        self.limited += job.limited

    def _launched(self, record: r.JobLaunched) -> None:
        self.jobs[record.job].state = JobState.RUNNING

    def _running(self, record: r.JobRunning) -> None:
        job = self.jobs[record.job]
        job.state = JobState.RUNNING
        job.greeted = True
        job.bounds = record.bounds
        job.fraction_at = record.at

    def _malleable(self, record: r.JobMalleable) -> None:
        job = self.jobs[record.job]
        job.accepts_offers, job.heard = record.on, record.at
        if record.on:
            job.growth_limit = record.most
            job.narrow()
        if record.on and job.spec.job_class is JobClass.MALLEABLE:
            self._elastic[job.id] = job
        else:
            self._elastic.pop(job.id, None)
            self.wish(job, job.wish if record.on else None)

    def _progressed(self, record: r.JobProgressed) -> None:
        job = self.jobs[record.job]
        job.fraction = record.fraction
        job.fraction_at = record.at
        job.hear(record.at)

    def _noted(self, record: r.JobNoted) -> None:
        self.jobs[record.job].noted += 1

    def _offered(self, record: r.ResizeOffered) -> None:
        job = self.jobs[record.job]
        patience = self.settings.offer_deadline_s + job.patience_s(record.at)
        job.resize = OpenResize(record, record.at + patience)
        job.target = record.after
        job.last_group += len(record.arriving)
        self.resizing[job.id] = job
        self.last_resize = record.resize
        self._leaving += job.resize.giving
        if mask := record.nodes.mask:
            self.nodes.take(mask, mask.bit_count())
        if record.reason.for_job:
            self.asked(record)

    def _withdrawn(self, record: r.ResizeWithdrawn) -> None:
        job, resize = self._move(record.job, "Withdraw")
        if resize.stage == resizing.RECALLED:
            resize.deadline = self._last_deadline(job, record.at)  # a job that has accepted has to follow
            return
        # One that has not even answered may be in a long step: it holds nothing, so it may.
        job.target = job.size
        resize.deadline = NEVER

    def _accepted(self, record: r.ResizeAccepted) -> None:
        job, resize = self._move(record.job, "Accept")
        job.state = JobState.RESIZING
        if resize.stage == resizing.CROSSED:
            resize.deadline = self._last_deadline(job, record.at)
        else:
            resize.deadline = record.at + self.settings.resize_deadline_s + job.patience_s(record.at)

    def _resumed(self, record: r.ControllerResumed) -> None:
        for job in self.resizing.values():
            if job.resize is not None:
                job.resize.deadline = max(job.resize.deadline, self._last_deadline(job, record.at))

    def _last_deadline(self, job: ScheduledJob, now: float) -> float:
        # It may be in a longer step than it ever was, and all that waiting costs are the nodes of its newcomers.
        return now + self.settings.resize_deadline_s + job.patience_s(now)

    def _declined(self, record: r.ResizeDeclined) -> None:
        job, resize = self._move(record.job, "Decline")
        job.stays_put |= bool(resize.arriving and resize.leaving) and not record.late
        self.in_vain(record.resize)
        self._rest(job, record.at + self.settings.decline_backoff_s)

    def _failed(self, record: r.ResizeFailed) -> None:
        job, resize = self._move(record.job, "Failed")
        self.in_vain(record.resize)
        if resize.slots:
            return  # it says nothing of newcomers, and the policy has not asked for it
        job.failures += not record.late
        backoff = self.settings.decline_backoff_s
        self._rest(job, record.at + backoff)
        # What keeps newcomers from coming says nothing of a shrink, for which others may be waiting.
        job.grow_from = record.at + backoff * 2 ** min(max(0, job.failures - 1), DOUBLINGS)
        self.wary = max(self.wary, job.grow_from)
        self.resting = max(self.resting, self.wary)
        self.nodes.soil(job.id, resize.nodes)

    def _done(self, record: r.ResizeDone) -> None:
        groups = self.groups(self.jobs[record.job])
        job, resize = self._move(record.job, "Done")
        released = record.released.mask
        self._resized(job, without(job.nodes | record.gained.mask, released), record.at, record.blocked_s)
        job.target = job.size
        groups |= {group.id: group.node for group in resize.arriving}
        for number in record.left:
            del groups[number]
        if resize.slots or job.awake:
            job.sleep(resize.slots, self.nodes.slots)
        job.root = record.root
        job.epoch += 1
        if not resize.slots:
            job.failures = 0
            self._rest(job, record.at + self.settings.cooldown_s)
        self.nodes.soil(job.id, released)

    def _groups_lost(self, record: r.GroupsLost) -> None:
        job = self.jobs[record.job]
        groups = self.groups(job)
        for number in record.groups:
            del groups[number]
        self._resized(job, job.nodes & ~record.nodes.mask, record.at, 0.0)
        if job.awake:
            job.sleep({}, self.nodes.slots)
        job.root = record.root
        job.losses = (*job.losses, record)
        job.lost_on = (*job.lost_on, *self.nodes.called(record.nodes))
        if (resize := job.resize) is not None:
            resize.lost += len(record.groups)
        if resize is None or resize.stage not in resizing.HOLDING:
            job.target = job.size
        self.nodes.soil(job.id, record.nodes.mask)

    def _ending(self, record: r.JobEnding) -> None:
        job = self.jobs[record.job]
        job.ending = record.state
        job.why = record.error
        job.requeues = record.requeue

    def _ended(self, record: r.JobEnded) -> None:
        job = self.jobs.pop(record.job)
        if record.requeued:
            self.requeued[record.job] = job
        if job.state is JobState.PENDING:
            del self._queue[record.job]
            if self.served == record.job:
                self.served = self._served_by = 0
            return
        if job.resize is not None:
            self._move(job.id, "End", job)
        self._drop_running(job)
        self.limited -= job.limited
        self._elastic.pop(job.id, None)
        self.wish(job, None)
        mask = record.nodes.mask
        self.nodes.soil(job.id, mask, job.size if mask == job.nodes else None)

    def _policy_failed(self, record: r.PolicyFailed) -> None:
        self.policy_failed = record.error
        self.memory = {}

    def _remembers(self, record: r.PolicyRemembers) -> None:
        self.memory = remembered(self.memory, record.memory, merge=record.merge)

    # ---- wishes, for whom others shrink, and the index of what waits -------------------------------

    def asked(self, record: r.ResizeOffered) -> None:
        """A job was offered a resize for another one."""
        if record.kind == "shrink":
            self.served, self._served_by = record.reason.for_job, record.resize

    def wish(self, job: ScheduledJob, wish: SizeRequest | None) -> None:
        """From now on this wish of the job is open, or none."""
        job.wish = wish
        if wish is None:
            self.wishing.pop(job.id, None)
        else:
            self.wishing[job.id] = job

    def meet(self, job: ScheduledJob) -> None:
        """Its wish is over if it has such a size."""
        if job.wish is not None and job.wish.met(job.bounds, job.size):
            self.wish(job, None)

    def _wishes(self, record: r.JobWishes) -> None:
        self.wish(self.jobs[record.job], record.wish)

    def _pinned(self, record: r.JobPinned) -> None:
        self.jobs[record.job].pinned = record.on

    def in_vain(self, resize: int) -> None:
        """This resize came to nothing."""
        if resize == self._served_by:
            self.served = self._served_by = 0

    def _index(self) -> None:
        """From now on the index follows the records, while there is one."""
        self._indexes = True
        books = self._fold
        books[r.JobSubmitted] = both(books[r.JobSubmitted], self._waits)
        books[r.JobStarted] = both(self._waits_no_more, books[r.JobStarted])
        books[r.JobEnded] = both(self._waits_no_more, books[r.JobEnded])

    def _waits(self, record: r.JobSubmitted) -> None:
        if self._backlog is not None:
            self._backlog.add(self._queue[record.job])

    def _waits_no_more(self, record: r.JobStarted | r.JobEnded) -> None:
        if self._backlog is not None and record.job in self._queue:
            self._backlog.discard(self._queue[record.job])

    # ---- parts of it ---------------------------------------------------------------------------------

    def _rest(self, job: ScheduledJob, until: float) -> None:
        job.not_before = until
        self.resting = max(self.resting, until)

    def _move(
        self, number: int, what: str, ended: ScheduledJob | None = None
    ) -> tuple[ScheduledJob, OpenResize]:
        """Let the outstanding resize of a job, which may have ended, go where the table leads it."""
        job = ended or self.jobs[number]
        resize = job.resize
        move = resizing.TABLE.get((resize.stage, what)) if resize is not None else None
        if resize is None or move is None:
            raise ValueError(f"job {number} has no resize for which {what} could count")
        resize.stage = move.state
        if what != "Accept":
            # Whatever comes of it now, nobody should wait for the nodes that it was to give back.
            self._leaving -= resize.giving
            resize.giving = 0
        if move.effect is Effect.FREE:
            self.nodes.give(resize.nodes & ~self.nodes.lost_mask)
            resize.nodes = 0
        if move.state == resizing.NONE:
            job.resize = None
            del self.resizing[number]
            job.target = job.size
            job.state = JobState.RUNNING
        return job, resize

    def _resized(self, job: ScheduledJob, mask: int, now: float, blocked_s: float) -> None:
        """The job has these nodes from now on, and stood still before for so long."""
        self._drop_running(job)
        job.settle(now, blocked_s)
        job.nodes = mask
        job.size = mask.bit_count()
        job.narrow()
        job.expected_end = now + max(0.0, 1.0 - job.used) * job.estimate_s()
        self.meet(job)
        insort(self.running, (job.expected_end, job.id, job))

    def _drop_running(self, job: ScheduledJob) -> None:
        i = bisect_left(self.running, (job.expected_end, job.id))
        if self.running[i][1] != job.id:
            raise ValueError(f"job {job.id} is not where its expected end puts it")
        del self.running[i]
