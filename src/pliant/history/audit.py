"""A second opinion on the records: a fold of its own, node by node, that trusts nothing in ``state``.

Used by the tests, and on a journal that someone doubts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import msgspec

from pliant.core import records as r
from pliant.model.jobs import ENDED, Bounds, JobClass, JobSpec, JobState
from pliant.model.kinds import JobKind
from pliant.model.need import Need
from pliant.model.nodes import NodeSet
from pliant.model.size_request import SizeRequest
from pliant.protocol.phases import Phase

FREE = ("free", 0)
GOING = ("going", 0)
LOST = ("lost", 0)
BY_FORCE = ENDED - {JobState.COMPLETED}
"""The states of jobs that the scheduler ends."""
BY_ITSELF = (JobState.COMPLETED, JobState.FAILED, JobState.NODE_FAIL)
"""The states of jobs that it does not end."""
OWN = ("ordered", "wanted")
"""The reasons of resizes that a policy has no part in."""


class AuditError(Exception):
    """The records contradict themselves."""


class _Seen:
    """What the records have said of a job that has not ended. ``lost`` groups since the offer, so many may be
    missing when it is done; ``shrunk``: its size is what losses have left, whatever it allows. ``awake``: the ranks of
    groups of which some sleep. ``answered``: it has accepted its offer, in time or not. ``last``: the highest number
    that a group of it was given."""

    def __init__(self, spec: JobSpec) -> None:
        self.spec = spec
        self.bounds: Bounds = spec.nodes
        self.started = False
        self.requeues = False
        self.launched = False
        self.greeted = False
        self.accepts_offers = False
        self.pinned = False
        self.wish: SizeRequest | None = None
        self.ending: JobState | None = None
        self.node_failed = False
        self.answered = False
        self.last = -1
        self.nodes: set[int] = set()
        self.offer: r.ResizeOffered | None = None
        self.accepted = False
        self.withdrawn = False
        self.lost = 0
        self.shrunk = False
        self.groups: dict[int, int] = {}
        self.awake: dict[int, int] = {}
        self.root = 0
        self.growth_limit = 0

    def narrow(self) -> None:
        """Its program can grow to ``most`` nodes, if that is not 0: more it may only keep."""
        if self.growth_limit > 0:
            self.bounds = self.bounds.up_to(max(self.growth_limit, len(self.nodes)))

    def meet(self) -> None:
        """Its wish is over if it has such a size."""
        if self.wish is not None and self.wish.met(self.bounds, len(self.nodes)):
            self.wish = None


class Audit:
    """Add every record in order; AuditError where one says what is not so, by those before it: a node held twice or
    given away before it is clean, a size that is not allowed, two resizes of a job outstanding, a node lost that was
    lost already, time that runs backwards.

    ``use`` maps each node to (use, job): free, held, reserved, dirty, lost, or going (back to its provider, and free).
    """

    IGNORES: ClassVar[r.Ignores] = frozenset()

    def __init__(self) -> None:
        self.use: dict[int, tuple[str, int]] = {}
        self.jobs: dict[int, _Seen] = {}
        self.ended: dict[int, r.JobEnded] = {}
        self._reclaimed: set[int] = set()
        self._slots: dict[int, int] = {}
        self._names: dict[int, str] = {}
        self._resizes: set[int] = set()
        self._requeued: set[int] = set()
        self._until: dict[int, float] = {}
        """When nodes expire."""
        self._awaited = self._unwanted = 0
        self._needs: Counter[Need] = Counter()
        self._failed_policy = ""
        self._now = 0.0
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
            r.ResizeAccepted: self._accepted,
            r.ResizeWithdrawn: self._withdrawn,
            r.ResizeDone: self._done,
            r.ResizeDeclined: self._declined,
            r.ResizeFailed: self._failed,
            r.GroupsLost: self._groups_lost,
            r.JobEnding: self._ending,
            r.JobEnded: self._job_ended,
            r.ControllerResumed: self._resumed,
            r.PolicyFailed: self._policy_failed,
            r.PolicyRemembers: self._remembers,
            r.NodesGranted: self._granted,
            r.NodesClean: self._clean,
            r.NodesLost: self._lost,
            r.NodesBack: self._back,
            r.NodesOrdered: self._ordered,
            r.NodesRefused: self._refused,
            r.NodesReclaimed: self._to_go,
            r.NodesReturned: self._returned,
            r.NodesExpire: self._expire,
            r.NodesWithdrawn: self._not_wanted,
        }

    def add(self, record: r.Record) -> None:
        if not record.at >= self._now:
            raise AuditError(f"time runs backwards, from {self._now} to {record.at}: {record}")
        self._now = record.at
        self._fold[type(record)](record)

    def awake(self, number: int) -> dict[int, int]:
        """How many ranks are awake of each group of the job of which some sleep."""
        job = self.jobs[number]
        return {group: n for group, n in job.awake.items() if n < self._slots.get(job.groups[group], 1)}

    def nodes(self, use: str) -> NodeSet:
        """All nodes in this use."""
        return NodeSet.of(node for node, (now, _) in self.use.items() if now == use)

    def free_past(self, now: float) -> NodeSet:
        """The free nodes that had expired by then."""
        return NodeSet.of(node for node in self.nodes("free") if self._until.get(node, math.inf) < now)

    def _turn(self, nodes: Iterable[int], before: tuple[str, int], after: tuple[str, int]) -> None:
        for node in nodes:
            if self.use.get(node) != before:
                raise AuditError(
                    f"at {self._now} node {node} goes from {before} to {after}, but it is {self.use.get(node)}"
                )
            self.use[node] = after

    def _abandon(self, nodes: Iterable[int], number: int) -> None:
        """Whatever the job did there: dirty now, unless lost or already somebody else's again."""
        for node in nodes:
            if self.use.get(node) in (("held", number), ("reserved", number)):
                self.use[node] = ("dirty", number)

    # ---- jobs ----------------------------------------------------------------------------------------

    def _submitted(self, record: r.JobSubmitted) -> None:
        if record.job in self.jobs or record.job in self.ended or record.job < 1:
            raise AuditError(f"job {record.job} is submitted twice, or has no number")
        if before := record.requeue_of:
            ended = self.ended.get(before)
            if ended is None or not ended.requeued or before in self._requeued:
                raise AuditError(f"job {before} does not wait to be submitted again: {record}")
            self._requeued.add(before)
        self.jobs[record.job] = _Seen(record.spec)

    def _promised(self, record: r.JobPromised) -> None:
        if self._job(record).started or not record.start_by >= record.at:
            raise AuditError(f"only a job that waits can be promised a start, in the future: {record}")

    def _started(self, record: r.JobStarted) -> None:
        job = self._job(record)
        if job.started:
            raise AuditError(f"job {record.job} starts twice")
        if record.one_world != job.spec.one_world:
            raise AuditError(
                f"a {job.spec.job_class} job of kind {job.spec.kind} has no such world: {record}"
            )
        job.started = True
        self._lasts(record.nodes, record)
        self._turn(record.nodes, FREE, ("held", record.job))
        job.nodes = set(record.nodes)
        job.groups = dict(enumerate(record.nodes))
        job.last = len(job.groups) - 1
        self._sized(record.job, job)

    def _launched(self, record: r.JobLaunched) -> None:
        job = self._live(record)
        if job.launched:
            raise AuditError(f"job {record.job} runs already: {record}")
        job.launched = True

    def _running(self, record: r.JobRunning) -> None:
        job = self._live(record)
        both = record.bounds.intersect(job.bounds)
        if both is None or msgspec.structs.replace(record.bounds, preferred=both.preferred) != both:
            raise AuditError(f"the submission allows {job.bounds.in_nodes()} alone: {record}")
        if job.greeted:
            raise AuditError(f"job {record.job} says hello twice: {record}")
        job.launched = job.greeted = True
        job.bounds = record.bounds
        self._sized(record.job, job)

    def _malleable(self, record: r.JobMalleable) -> None:
        job = self._live(record)
        if not job.greeted or job.accepts_offers == record.on:
            raise AuditError(f"job {record.job} has said no hello, or that already: {record}")
        job.accepts_offers = record.on
        if record.on:
            job.growth_limit = record.most
            job.narrow()
        else:
            job.wish = None

    def _pinned(self, record: r.JobPinned) -> None:
        job = self._live(record)
        if not record.on and not job.pinned:
            raise AuditError(f"nobody has ordered the size of job {record.job}: {record}")
        job.pinned = record.on

    def _wishes(self, record: r.JobWishes) -> None:
        job, wish = self._live(record), record.wish
        if wish == job.wish:
            raise AuditError(f"job {record.job} has that wish already: {record}")
        able = job.accepts_offers and job.spec.job_class is not JobClass.RIGID
        if wish is not None and (not able or wish.met(job.bounds, len(job.nodes))):
            raise AuditError(f"job {record.job} cannot have what it wishes, or has it: {record}")
        job.wish = wish

    def _progressed(self, record: r.JobProgressed) -> None:
        self._live(record)
        if not (0.0 <= record.fraction <= 1.0 and record.pace_s >= 0.0 and record.paced_s >= 0.0):
            raise AuditError(f"no job can have got so far: {record}")

    def _noted(self, record: r.JobNoted) -> None:
        self._live(record)

    def _ending(self, record: r.JobEnding) -> None:
        job = self._job(record)
        if not job.requeues or record.requeue:
            job = self._live(record)
        if record.requeue and (record.state is not JobState.TIMEOUT or job.spec.requeue is not True):
            raise AuditError(f"that job is not to be submitted again: {record}")
        job.requeues = record.requeue
        if record.state not in BY_FORCE or not record.error:
            raise AuditError(f"no job is ended so, or without a reason: {record}")
        self._node_fail(record, job)
        job.ending = record.state

    def _node_fail(self, record: r.JobEnding | r.JobEnded, job: _Seen) -> None:
        gone = job.node_failed or any(self.use.get(node) == LOST for node in job.nodes)
        if record.state is JobState.NODE_FAIL and not gone:
            raise AuditError(f"job {record.job} has lost no node: {record}")

    def _job_ended(self, record: r.JobEnded) -> None:
        job = self._job(record)
        reserved = self._reserved(job)
        started = reserved if job.accepted else set()
        self._turn_back(reserved - started, record.job)
        if set(record.nodes) != job.nodes | started:
            raise AuditError(f"job {record.job} ended on {record.nodes}, but holds {NodeSet.of(job.nodes)}")
        if not job.started:
            self._never_started(record)
        else:
            self._ended_so(record, job)
        self._abandon(record.nodes, record.job)
        self.ended[record.job] = record
        del self.jobs[record.job]

    def _never_started(self, record: r.JobEnded) -> None:
        nothing = r.JobEnded(record.at, record.job, JobState.CANCELLED, 0, NodeSet(), None, record.error)
        if record != nothing or not record.error:
            raise AuditError(f"a job that never started is cancelled, for a reason: {record}")

    def _ended_so(self, record: r.JobEnded, job: _Seen) -> None:
        """It got the state that was said before, and what is said of it is possible for its kind."""
        state = record.state
        if state is not job.ending and (job.ending is not None or state not in BY_ITSELF):
            raise AuditError(f"job {record.job} was being ended as {job.ending}: {record}")
        if job.ending is None:
            self._node_fail(record, job)
        if (record.exit_code != 0 and state is JobState.COMPLETED) or (
            not record.exit_code and not record.error and state is not JobState.COMPLETED
        ):
            raise AuditError(f"that is no {state}: {record}")
        if record.requeued and state is JobState.COMPLETED:
            raise AuditError(f"a job that has completed is not submitted again: {record}")
        # Whoever reported its end has said so.
        by_itself = record.requeued and state in BY_ITSELF and job.ending is None
        if record.requeued != job.requeues and not by_itself and state is not JobState.NODE_FAIL:
            raise AuditError(f"its JobEnding has said otherwise of whether it is submitted again: {record}")
        if record.places and job.spec.kind is not JobKind.PLACES:
            raise AuditError(f"a job of kind {job.spec.kind} has no places: {record}")
        if not record.cpu_s >= 0.0 or (record.phase is not None and not job.answered):
            raise AuditError(f"it took less than no time, or was in no resize: {record}")

    # ---- who decides ---------------------------------------------------------------------------------

    def _resumed(self, record: r.ControllerResumed) -> None:
        if not self.use:
            raise AuditError(f"there was no controller that another one could follow: {record}")

    def _policy_failed(self, record: r.PolicyFailed) -> None:
        if self._failed_policy or not record.error:
            raise AuditError(f"policy {self._failed_policy!r} has failed, or no reason is given: {record}")
        self._failed_policy = record.policy

    def _remembers(self, record: r.PolicyRemembers) -> None:
        """A journal gives back the same memory."""
        try:
            read = msgspec.json.decode(msgspec.json.encode(record.memory))
        except (TypeError, ValueError, msgspec.MsgspecError):
            read = None
        if read != record.memory:
            raise AuditError(f"a journal cannot keep what the policy remembers: {record}")

    # ---- resizes -------------------------------------------------------------------------------------

    def _offered(self, record: r.ResizeOffered) -> None:
        job = self._live(record)
        if job.offer is not None:
            raise AuditError(f"job {record.job} has resize {job.offer.resize} outstanding: {record}")
        if record.before != len(job.nodes) or not job.bounds.allows(record.after):
            raise AuditError(f"job {record.job} on {len(job.nodes)} nodes cannot be offered {record}")
        self._offerable(record, job)
        self._lasts(record.nodes, record)
        self._turn(record.nodes, FREE, ("reserved", record.job))
        if [group.node for group in record.arriving if group.node not in job.nodes] != list(record.nodes):
            raise AuditError(f"the arriving groups are not on the nodes reserved for them: {record}")
        if not set(record.leaving) <= set(job.groups):
            raise AuditError(f"groups are to leave that the job does not have: {record}")
        if record.after > record.before + len(record.nodes):
            raise AuditError(f"{len(record.nodes)} more nodes cannot make {record.after}: {record}")
        self._slots_offered(record, job)
        self._groups_offered(record, job)
        job.offer, job.accepted, job.withdrawn, job.lost = record, False, False, 0
        job.answered = False

    def _offerable(self, record: r.ResizeOffered, job: _Seen) -> None:
        """The job takes offers, and this is a new one by somebody who may make it."""
        if not job.accepts_offers or job.spec.job_class is JobClass.RIGID or record.resize in self._resizes:
            raise AuditError(f"job {record.job} takes no offers, or this resize was offered before: {record}")
        self._resizes.add(record.resize)
        own = record.reason.code in OWN
        if job.pinned and not own and record.after != record.before:
            raise AuditError(f"an operator has ordered the size of job {record.job}: {record}")
        if record.must and (record.reason.code != OWN[0] or record.after >= record.before):
            raise AuditError(f"only an ordered shrink cannot be declined: {record}")

    def _groups_offered(self, record: r.ResizeOffered, job: _Seen) -> None:
        """Groups that arrive have new numbers and all slots of their nodes; no more have to leave than may."""
        for group in record.arriving:
            if group.id <= job.last or group.slots != self._slots.get(group.node, 1):
                raise AuditError(f"group {group.id} is not new, or has other slots than its node: {record}")
            job.last = group.id
        left = {job.groups[number] for number in record.leaving}
        if len(left) > record.before + len(record.nodes) - record.after:
            raise AuditError(f"more nodes are to be left than the size allows: {record}")

    def _slots_offered(self, record: r.ResizeOffered, job: _Seen) -> None:
        """So many ranks are to be awake: no more than there are, and all groups and nodes stay."""
        for group, count in record.slots.items():
            if group not in job.groups or not 1 <= count <= self._slots.get(job.groups[group], 1):
                raise AuditError(f"so many ranks cannot be awake: {record}")
        moves = (
            record.arriving or record.leaving or record.nodes or record.before != record.after or record.must
        )
        if record.slots and moves:
            raise AuditError(f"groups come or go with what changes slots alone: {record}")

    def _accepted(self, record: r.ResizeAccepted) -> None:
        self._offer(record)
        job = self._job(record)
        if job.answered:
            raise AuditError(f"a resize is accepted twice: {record}")
        job.answered, job.accepted = True, not job.withdrawn

    def _withdrawn(self, record: r.ResizeWithdrawn) -> None:
        job, offer = self._job(record), self._offer(record)
        if job.withdrawn:
            raise AuditError(f"a resize is withdrawn twice: {record}")
        job.withdrawn = True
        if record.freed != (NodeSet() if job.accepted else offer.nodes):
            raise AuditError(f"what was not accepted, and no more, is free when it is withdrawn: {record}")
        self._turn_back(record.freed, record.job)

    def _done(self, record: r.ResizeDone) -> None:
        job, offer = self._job(record), self._offer(record)
        gained = NodeSet.of(self._reserved(job))
        groups = job.groups | {group.id: group.node for group in offer.arriving}
        if not set(record.left) <= set(job.groups) or record.root not in groups.keys() - set(record.left):
            raise AuditError(f"groups left the job or speak for it that it does not have: {record}")
        if not job.answered or (offer.arriving and not job.accepted):
            raise AuditError(f"the job has not accepted that, or its groups were never started: {record}")
        self._timed(record)
        job.groups = {number: node for number, node in groups.items() if number not in record.left}
        if (job.nodes | set(gained)) - set(record.released) != set(job.groups.values()):
            raise AuditError(f"job {record.job} has groups on other nodes than it holds: {record}")
        if record.gained != gained or not set(record.released) <= job.nodes:
            raise AuditError(f"job {record.job} gained or released other nodes than it could: {record}")
        for node in gained:
            if self.use[node] == ("reserved", record.job):
                self.use[node] = ("held", record.job)
        job.nodes = (job.nodes | set(gained)) - set(record.released)
        job.narrow()
        self._abandon(record.released, record.job)
        job.awake = {group: n for group, n in (job.awake | offer.slots).items() if group in job.groups}
        job.offer = None
        if not offer.after - job.lost <= len(job.nodes) <= offer.after:
            raise AuditError(
                f"resize {offer.resize} leads to {len(job.nodes)} instead of {offer.after} nodes"
            )
        job.shrunk = job.lost > 0
        self._sized(record.job, job)
        job.meet()

    def _timed(self, record: r.ResizeDone) -> None:
        times = (record.blocked_s, *record.phases.values())
        if not all(0.0 <= took < math.inf for took in times) or not set(record.phases) <= set(Phase):
            raise AuditError(f"no resize has such phases: {record}")

    def _groups_lost(self, record: r.GroupsLost) -> None:
        job, gone = self._live(record), set(record.groups)
        if not gone or not gone <= set(job.groups) or record.root not in job.groups.keys() - gone:
            raise AuditError(f"groups are lost or speak for the job that it does not have: {record}")
        if record.node and all(self.use[job.groups[number]] != LOST for number in gone):
            raise AuditError(f"none of these groups has lost its node: {record}")
        job.node_failed |= record.node
        job.groups = {number: node for number, node in job.groups.items() if number not in gone}
        job.awake = {number: count for number, count in job.awake.items() if number not in gone}
        if job.nodes - set(record.nodes) != set(job.groups.values()) or not set(record.nodes) <= job.nodes:
            raise AuditError(f"job {record.job} keeps or leaves other nodes than it has groups on: {record}")
        job.nodes -= set(record.nodes)
        job.narrow()
        self._abandon(record.nodes, record.job)
        job.lost += len(gone)
        job.shrunk = True
        job.meet()

    def _declined(self, record: r.ResizeDeclined) -> None:
        job, offer = self._job(record), self._offer(record)
        if job.answered or (offer.must and not job.withdrawn):
            raise AuditError(f"the job has accepted that, or cannot decline it: {record}")
        self._drop(record, NodeSet())

    def _failed(self, record: r.ResizeFailed) -> None:
        self._offer(record)
        if not self._job(record).answered:
            raise AuditError(f"the job has not accepted what has failed: {record}")
        self._drop(record, record.dirty)

    def _drop(self, record: r.ResizeDeclined | r.ResizeFailed, dirty: NodeSet) -> None:
        job, _ = self._job(record), self._offer(record)
        reserved = self._reserved(job)
        if set(dirty) != (reserved if job.accepted else set()):
            raise AuditError(f"what was started, and no more, has to be proved clean: {record}")
        self._abandon(dirty, record.job)
        self._turn_back(reserved - set(dirty), record.job)
        job.offer = None

    def _reserved(self, job: _Seen) -> set[int]:
        """The nodes that are still reserved for the job."""
        return set() if job.offer is None or (job.withdrawn and not job.accepted) else set(job.offer.nodes)

    def _turn_back(self, nodes: Iterable[int], number: int) -> None:
        """Nothing was started there: free, unless lost."""
        for node in nodes:
            if self.use[node] == ("reserved", number):
                self.use[node] = self._nobodys(node)

    # ---- nodes ---------------------------------------------------------------------------------------

    def _back(self, record: r.NodesBack) -> None:
        if not record.nodes or record.nodes - self.nodes("lost"):
            raise AuditError(f"nodes are back that were not lost: {record}")
        self._there(record.nodes)

    def _ordered(self, record: r.NodesOrdered) -> None:
        if record.count < 1:
            raise AuditError(f"no node is asked for: {record}")
        self._awaited += record.count
        if record.need is not None:
            self._needs[record.need] += record.count

    def _refused(self, record: r.NodesRefused) -> None:
        if not 0 < record.count <= self._awaited:
            raise AuditError(f"{self._awaited} nodes were asked for and have not come: {record}")
        self._awaited -= record.count
        self._unwanted = min(self._awaited, max(0, self._unwanted - record.count))
        self._answered(record, record.count)

    def _answered(self, record: r.NodesGranted | r.NodesRefused, count: int) -> None:
        """So many nodes that were asked for have come with what they have to have, or will not."""
        if record.need is None:
            return
        self._needs[record.need] -= count
        if self._needs[record.need] < 0:
            raise AuditError(f"nobody has asked for so many nodes {record.need}: {record}")

    def _not_wanted(self, record: r.NodesWithdrawn) -> None:
        self._unwanted += record.count
        if not 0 < record.count <= self._unwanted <= self._awaited:
            raise AuditError(f"no more nodes can be withdrawn than are awaited, {self._awaited}: {record}")

    def _expire(self, record: r.NodesExpire) -> None:
        if not record.nodes or any(self.use.get(node, LOST) == LOST for node in record.nodes):
            raise AuditError(f"nodes expire that are not there: {record}")
        self._until |= dict.fromkeys(record.nodes, record.until)

    def _lasts(self, nodes: Iterable[int], record: r.Record) -> None:
        """Nothing is started on nodes that have expired."""
        if expired := [node for node in nodes if self._until.get(node, math.inf) <= record.at]:
            raise AuditError(f"nodes {expired} have expired before: {record}")

    def _to_go(self, record: r.NodesReclaimed) -> None:
        for node in record.nodes:
            if node not in self.use or (node in self._reclaimed and record.by is None):
                raise AuditError(f"node {node} cannot be asked back, it is {self.use.get(node)}: {record}")
            self._reclaimed.add(node)
            if self.use[node] == FREE:
                self.use[node] = GOING
        if record.by is not None:
            self._until |= dict.fromkeys(record.nodes, record.by)

    def _returned(self, record: r.NodesReturned) -> None:
        held = {node for job in self.jobs.values() for node in job.nodes | self._reserved(job)}
        for node in record.nodes:
            if node not in self._reclaimed or self.use.get(node) not in (GOING, LOST) or node in held:
                raise AuditError(f"node {node} is given back, but it is {self.use.get(node)}: {record}")
            self._reclaimed.discard(node)
            self._until.pop(node, None)
            del self.use[node]

    def _nobodys(self, node: int) -> tuple[str, int]:
        return GOING if node in self._reclaimed else FREE

    def _granted(self, record: r.NodesGranted) -> None:
        nodes = list(record.nodes)
        if not nodes and record.until is None:
            raise AuditError(f"neither nodes are handed over nor their end is told: {record}")
        if any(self.use.get(node, LOST) != LOST for node in nodes):
            raise AuditError(f"nodes are handed over that are there already: {record}")
        if any(each and len(each) != len(nodes) for each in (record.names, record.slots, record.labels)):
            raise AuditError(f"each of the nodes has a name, slots and labels, or none has: {record}")
        for slots, labels in zip(record.slots, record.labels or [()] * len(nodes), strict=False):
            if record.need is not None and not record.need.met(slots, labels):
                raise AuditError(f"nodes were asked for {record.need}, and not all of these are: {record}")
        names = {node: name for node, name in self._names.items() if node in self.use}
        self._names = names | dict(zip(nodes, record.names, strict=False))
        self._slots |= dict.fromkeys(nodes, 1) | dict(zip(nodes, record.slots, strict=False))
        if len(set(self._names.values())) < len(self._names) or min(record.slots, default=1) < 1:
            raise AuditError(f"two nodes have one name, or one has no slot: {record}")
        new = sum(node not in self.use for node in nodes)
        self._awaited = max(0, self._awaited - new)
        self._answered(record, new)
        self._unwanted = min(self._unwanted, self._awaited)
        self._there(record.nodes)
        for node in nodes:
            self._until.pop(node, None)
        if record.until is not None:
            sooner = {node for node in self._reclaimed if self._until.get(node, math.inf) < record.until}
            self._until |= dict.fromkeys(nodes or self.use.keys() - sooner, record.until)

    def _there(self, nodes: NodeSet) -> None:
        """New or back: free, unless a job that lost it has not ended, which then has it still."""
        holder = {node: ("held", number) for number, job in self.jobs.items() for node in job.nodes}
        for number, job in self.jobs.items():
            holder |= dict.fromkeys(self._reserved(job), ("reserved", number))
        for node in nodes:
            self.use[node] = holder.get(node, self._nobodys(node))

    def _clean(self, record: r.NodesClean) -> None:
        if not record.nodes:
            raise AuditError(f"no node is clean: {record}")
        for node in record.nodes:
            self._turn([node], ("dirty", record.job), self._nobodys(node))

    def _lost(self, record: r.NodesLost) -> None:
        if not record.nodes or any(self.use.get(node, LOST) == LOST for node in record.nodes):
            raise AuditError(f"nodes are lost that the cluster does not have: {record}")
        for node in record.nodes:
            self.use[node] = LOST

    # ---- parts of it ---------------------------------------------------------------------------------

    def _job(self, record: Any) -> _Seen:
        job = self.jobs.get(record.job)
        if job is None:
            raise AuditError(f"job {record.job} is not there: {record}")
        return job

    def _live(self, record: Any) -> _Seen:
        """A job that runs, and is not being ended: nothing is told of it then but its end."""
        job = self._job(record)
        if not job.started or job.ending is not None:
            raise AuditError(f"job {record.job} does not run, or is being ended: {record}")
        return job

    def _offer(self, record: Any) -> r.ResizeOffered:
        offer = self._live(record).offer
        if offer is None or offer.resize != record.resize:
            raise AuditError(f"job {record.job} has no such resize outstanding: {record}")
        return offer

    def _sized(self, number: int, job: _Seen) -> None:
        if not job.shrunk and not job.bounds.allows(len(job.nodes)):
            raise AuditError(f"job {number} has {len(job.nodes)} nodes; allowed are {job.bounds.describe()}")
