"""A second opinion on the records: a fold of its own, node by node, that trusts nothing in ``state``.

Used by the tests, and on a journal that someone doubts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from pliant.core import records as r
from pliant.model.jobs import Bounds, JobSpec
from pliant.model.nodes import NodeSet

FREE = ("free", 0)
GOING = ("going", 0)
LOST = ("lost", 0)


class AuditError(Exception):
    """The records contradict themselves."""


class _Seen:
    """What the records have said of a job that has not ended. ``lost`` groups since the offer, so many may be
    missing when it is done; ``shrunk``: its size is what losses have left, whatever it allows. ``awake``: the ranks of
    groups of which some sleep."""

    def __init__(self, spec: JobSpec) -> None:
        self.bounds: Bounds = spec.nodes
        self.started = False
        self.nodes: set[int] = set()
        self.offer: r.ResizeOffered | None = None
        self.accepted = False
        self.withdrawn = False
        self.lost = 0
        self.shrunk = False
        self.groups: dict[int, int] = {}
        self.awake: dict[int, int] = {}
        self.root = 0
        self.most = 0

    def narrow(self) -> None:
        """Its program can grow to ``most`` nodes, if that is not 0: more it may only keep."""
        if self.most > 0:
            self.bounds = self.bounds.up_to(max(self.most, len(self.nodes)))


class Audit:
    """Add every record in order; AuditError if a node is held twice or given away before it is clean, a size
    is not allowed, a job has two resizes outstanding or ends twice, or time runs backwards.

    ``use`` maps each node to (use, job): free, held, reserved, dirty, lost, or going (back to its provider, and free).
    """

    IGNORES: ClassVar[r.Ignores] = frozenset({
        r.JobPromised, r.JobLaunched, r.JobPinned, r.JobWishes, r.JobProgressed, r.JobEnding,
        r.ControllerResumed, r.PolicyFailed, r.PolicyRemembers, r.NodesOrdered, r.NodesRefused,
    })  # fmt: skip

    def __init__(self) -> None:
        self.use: dict[int, tuple[str, int]] = {}
        self.jobs: dict[int, _Seen] = {}
        self.ended: dict[int, r.JobEnded] = {}
        self._reclaimed: set[int] = set()
        self._slots: dict[int, int] = {}
        self._now = 0.0
        self._fold: dict[type[r.Record], Callable[[Any], None]] = {
            r.JobSubmitted: self._submitted,
            r.JobStarted: self._started,
            r.JobRunning: self._running,
            r.JobMalleable: self._malleable,
            r.ResizeOffered: self._offered,
            r.ResizeAccepted: self._accepted,
            r.ResizeWithdrawn: self._withdrawn,
            r.ResizeDone: self._done,
            r.ResizeDeclined: self._declined,
            r.ResizeFailed: self._failed,
            r.GroupsLost: self._groups_lost,
            r.JobEnded: self._job_ended,
            r.NodesGranted: self._granted,
            r.NodesClean: self._clean,
            r.NodesLost: self._lost,
            r.NodesBack: self._back,
            r.NodesReclaimed: self._to_go,
            r.NodesReturned: self._returned,
        }

    def add(self, record: r.Record) -> None:
        if record.at < self._now:
            raise AuditError(f"time runs backwards, from {self._now} to {record.at}: {record}")
        self._now = record.at
        fold = self._fold.get(type(record))
        if fold is not None:
            fold(record)

    def awake(self, number: int) -> dict[int, int]:
        """How many ranks are awake of each group of the job of which some sleep."""
        job = self.jobs[number]
        return {group: n for group, n in job.awake.items() if n < self._slots.get(job.groups[group], 1)}

    def nodes(self, use: str) -> NodeSet:
        """All nodes in this use."""
        return NodeSet.of(node for node, (now, _) in self.use.items() if now == use)

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
        if record.job in self.jobs or record.job in self.ended:
            raise AuditError(f"job {record.job} is submitted twice")
        self.jobs[record.job] = _Seen(record.spec)

    def _started(self, record: r.JobStarted) -> None:
        job = self._job(record)
        if job.started:
            raise AuditError(f"job {record.job} starts twice")
        job.started = True
        self._turn(record.nodes, FREE, ("held", record.job))
        job.nodes = set(record.nodes)
        job.groups = dict(enumerate(record.nodes))
        self._sized(record.job, job)

    def _running(self, record: r.JobRunning) -> None:
        job = self._job(record)
        job.bounds = record.bounds
        self._sized(record.job, job)

    def _malleable(self, record: r.JobMalleable) -> None:
        job = self._job(record)
        if record.on:
            job.most = record.most
            job.narrow()

    def _job_ended(self, record: r.JobEnded) -> None:
        job = self._job(record)
        reserved = self._reserved(job)
        started = reserved if job.accepted else set()
        self._turn_back(reserved - started, record.job)
        if set(record.nodes) != job.nodes | started:
            raise AuditError(f"job {record.job} ended on {record.nodes}, but holds {NodeSet.of(job.nodes)}")
        self._abandon(record.nodes, record.job)
        self.ended[record.job] = record
        del self.jobs[record.job]

    # ---- resizes -------------------------------------------------------------------------------------

    def _offered(self, record: r.ResizeOffered) -> None:
        job = self._job(record)
        if job.offer is not None:
            raise AuditError(f"job {record.job} has resize {job.offer.resize} outstanding: {record}")
        if record.before != len(job.nodes) or not job.bounds.allows(record.after):
            raise AuditError(f"job {record.job} on {len(job.nodes)} nodes cannot be offered {record}")
        self._turn(record.nodes, FREE, ("reserved", record.job))
        if [group.node for group in record.arriving if group.node not in job.nodes] != list(record.nodes):
            raise AuditError(f"the arriving groups are not on the nodes reserved for them: {record}")
        if not set(record.leaving) <= set(job.groups):
            raise AuditError(f"groups are to leave that the job does not have: {record}")
        if record.after > record.before + len(record.nodes):
            raise AuditError(f"{len(record.nodes)} more nodes cannot make {record.after}: {record}")
        self._slots_offered(record, job)
        job.offer, job.accepted, job.withdrawn, job.lost = record, False, False, 0

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
        if job.accepted:
            raise AuditError(f"a resize is accepted twice: {record}")
        job.accepted = not job.withdrawn

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
        if offer.arriving and not job.accepted:
            raise AuditError(f"groups have joined the job that were never started: {record}")
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

    def _groups_lost(self, record: r.GroupsLost) -> None:
        job, gone = self._job(record), set(record.groups)
        if not gone or not gone <= set(job.groups) or record.root not in job.groups.keys() - gone:
            raise AuditError(f"groups are lost or speak for the job that it does not have: {record}")
        job.groups = {number: node for number, node in job.groups.items() if number not in gone}
        job.awake = {number: count for number, count in job.awake.items() if number not in gone}
        if job.nodes - set(record.nodes) != set(job.groups.values()) or not set(record.nodes) <= job.nodes:
            raise AuditError(f"job {record.job} keeps or leaves other nodes than it has groups on: {record}")
        job.nodes -= set(record.nodes)
        job.narrow()
        self._abandon(record.nodes, record.job)
        job.lost += len(gone)
        job.shrunk = True

    def _declined(self, record: r.ResizeDeclined) -> None:
        self._drop(record, NodeSet())

    def _failed(self, record: r.ResizeFailed) -> None:
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
        if unknown := record.nodes - NodeSet.of(self.use):
            raise AuditError(f"nodes {unknown} are back that the cluster does not have: {record}")
        self._granted(record)

    def _to_go(self, record: r.NodesReclaimed) -> None:
        for node in record.nodes:
            if node not in self.use or node in self._reclaimed:
                raise AuditError(f"node {node} cannot be asked back, it is {self.use.get(node)}: {record}")
            self._reclaimed.add(node)
            if self.use[node] == FREE:
                self.use[node] = GOING

    def _returned(self, record: r.NodesReturned) -> None:
        held = {node for job in self.jobs.values() for node in job.nodes | self._reserved(job)}
        for node in record.nodes:
            if node not in self._reclaimed or self.use.get(node) not in (GOING, LOST) or node in held:
                raise AuditError(f"node {node} is given back, but it is {self.use.get(node)}: {record}")
            self._reclaimed.discard(node)
            del self.use[node]

    def _nobodys(self, node: int) -> tuple[str, int]:
        return GOING if node in self._reclaimed else FREE

    def _granted(self, record: r.NodesGranted | r.NodesBack) -> None:
        """New or back: free, unless a job that lost it has not ended, which then has it still."""
        if isinstance(record, r.NodesGranted):
            self._slots |= zip(record.nodes, record.slots, strict=False)
        holder = {node: ("held", number) for number, job in self.jobs.items() for node in job.nodes}
        for number, job in self.jobs.items():
            holder |= dict.fromkeys(self._reserved(job), ("reserved", number))
        for node in record.nodes:
            if self.use.get(node, LOST) == LOST:
                self.use[node] = holder.get(node, self._nobodys(node))

    def _clean(self, record: r.NodesClean) -> None:
        for node in record.nodes:
            if self.use.get(node) == ("dirty", record.job):
                self.use[node] = self._nobodys(node)

    def _lost(self, record: r.NodesLost) -> None:
        for node in record.nodes:
            if node in self.use:
                self.use[node] = LOST

    # ---- parts of it ---------------------------------------------------------------------------------

    def _job(self, record: Any) -> _Seen:
        job = self.jobs.get(record.job)
        if job is None:
            raise AuditError(f"job {record.job} is not there: {record}")
        return job

    def _offer(self, record: Any) -> r.ResizeOffered:
        offer = self._job(record).offer
        if offer is None or offer.resize != record.resize:
            raise AuditError(f"job {record.job} has no such resize outstanding: {record}")
        return offer

    def _sized(self, number: int, job: _Seen) -> None:
        if not job.shrunk and not job.bounds.allows(len(job.nodes)):
            raise AuditError(f"job {number} has {len(job.nodes)} nodes; allowed are {job.bounds.describe()}")
