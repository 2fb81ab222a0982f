"""The life of each job and the time of each node: the one fold over records that figures, charts and tables share.

``Timeline`` takes the records of a run and tells rows to its listeners: jobs at their turning points, and stretches of
node-time. A listener keeps its own sums and nothing of what the fold knows already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NamedTuple

from pliant.core import records as r
from pliant.model.jobs import JobSpec
from pliant.model.nodes import NodeSet
from pliant.protocol.phases import Phase

RESERVED = "reserved"
CLEANING = "cleaning"
LOST = "lost"
AWAY = "away"


class Stretch(NamedTuple):
    """Nobody computed on ``nodes`` from ``from_s`` to ``to_s``, for the reason ``kind``: reserved for an offer
    to ``job``, left by it and not proved clean, lost, or away, which is given back or not there yet. Job 0 if
    lost or away."""

    job: int
    kind: str
    nodes: NodeSet
    from_s: float
    to_s: float


class Life:
    """A job that has not ended, through all its requeues: then it is waiting again, and has another number.

    It was submitted at ``submit``, under its present number at ``queued``, and started at ``start`` on ``first`` nodes.
    It has held ``size`` nodes, ``mask``, since ``since``, and ``node_s`` node-seconds of nodes that were not lost up to
    ``counted``. ``promised`` is what it was promised first; ``resized`` is
    kind and time of the last resize that was done, ``pace`` what it has said of its pace (planned, taken).
    ``again``: it was requeued. Times in seconds.
    """

    __slots__ = (
        "again", "counted", "first", "job", "mask", "node_s", "offer", "pace", "promised", "queued", "requeue_of",
        "resized", "since", "size", "spec", "start", "submit",
    )  # fmt: skip

    def __init__(self, record: r.JobSubmitted) -> None:
        self.job = record.job
        self.requeue_of = record.requeue_of
        self.spec: JobSpec = record.spec
        self.submit = self.queued = self.since = self.counted = record.at
        self.node_s = 0.0
        self.start: float | None = None
        self.promised: float | None = None
        self.again = False
        self.mask = self.size = self.first = 0
        self.offer: r.ResizeOffered | None = None
        self.pace: tuple[float, float] | None = None
        self.resized: tuple[str, float] | None = None


class _Own:
    """The fold of a listener that was given to no other, which sets it. It is no cached property: one that is
    used makes all attributes of its object slower."""

    def __get__(self, listener: Listener, _kind: type) -> Timeline:
        return Timeline(listener)


class Listener:
    """Who is told rows: a method each. ``IGNORES`` names those that a listener leaves aside, and is not told;
    the others it has (tests/pure/test_folds.py). ``lives`` is who tells it: the time, and what is the case now.

    One that listens alone may be given the records itself, by ``add``.
    """

    IGNORES: ClassVar[frozenset[str]] = frozenset()

    lives: Timeline = _Own()  # type: ignore[assignment]

    @property
    def add(self) -> Callable[[r.Record], None]:
        """Takes every record of a run, in order."""
        return self.lives.add

    def parts(self) -> Iterable[Listener]:
        """This one, and those that it listens by."""
        return (self,)

    # ---- rows about a job ----------------------------------------------------------------------------

    def began(self, at: float) -> None:
        """The first job of all is about to be submitted."""

    def submitted(self, life: Life) -> None:
        """It waits, for the first time or ``again``."""

    def started(self, life: Life) -> None:
        """It has its nodes."""

    def launched(self, life: Life) -> None:
        """Its processes have been started, or have said hello."""

    def offered(self, life: Life, offer: r.ResizeOffered) -> None:
        """It was offered a resize, which is ``life.offer`` until it is settled."""

    def accepted(self, life: Life) -> None:
        """It has accepted the offer."""

    def withdrawn(self, life: Life, why: str) -> None:
        """The offer was taken back; the job has yet to answer."""

    def resized(self, life: Life, done: r.ResizeDone, kind: str, before: int) -> None:
        """It had ``before`` nodes and has ``life.size``. ``kind`` is that of the offer, empty if there was none;
        ``life.resized`` is still that of the resize before."""

    def settled(self, life: Life, outcome: str, error: str, *, late: bool, phase: Phase | None) -> None:
        """The offer, there for the last time, has come to nothing: declined, failed, or ended, as its job did.
        ``phase`` is what it had come to, if that is known."""

    def groups_lost(self, life: Life, loss: r.GroupsLost) -> None:
        """It goes on without them."""

    def noted(self, life: Life, text: str) -> None:
        """It has found something that its user should know."""

    def ended(self, life: Life, end: r.JobEnded, size: int) -> None:
        """It has ended, if it is not requeued, and had ``size`` nodes until then."""

    # ---- rows about nodes ----------------------------------------------------------------------------

    def held(self, life: Life) -> None:
        """A stretch is over, which was longer than no time: the job had ``life.mask`` since ``life.since``."""

    def wasted(self, job: int, kind: str, mask: int, since: float) -> None:
        """A stretch is over, which was longer than no time, of nodes reserved for a job or left by one that went on."""

    def idle(self, job: int, kind: str, mask: int, since: float) -> None:
        """As ``wasted``, but of nodes that no job waited for: left by one that had ended, lost or away."""

    def used(self, held: int, in_use: int, from_s: float, to_s: float) -> None:
        """So many nodes jobs held, and of them so many were not lost, from ``from_s`` to ``to_s``, which is later."""

    def nodes_there(self, mask: int) -> None:
        """They were granted or are back."""

    def nodes_lost(self, mask: int) -> None: ...

    def nodes_returned(self, mask: int) -> None: ...


ROWS = (
    "began", "submitted", "started", "launched", "offered", "accepted", "withdrawn", "resized", "settled",
    "groups_lost", "noted", "ended", "held", "wasted", "idle", "used", "nodes_there", "nodes_lost", "nodes_returned",
)  # fmt: skip
"""What a listener may be told."""


Open = list[tuple[int, float]]
"""Stretches that are not over: a mask, and since when."""


class Timeline:
    """Add every record of a run, in order; ``listeners`` are told what follows.

    ``jobs`` are those that have not ended, by number; ``waiting`` of them have yet to start. Jobs hold ``held``
    nodes, of which ``in_use`` are not lost, since ``since``. What has ended leaves nothing behind.
    """

    IGNORES: ClassVar[r.Ignores] = frozenset({
        r.JobMalleable, r.JobPinned, r.JobWishes, r.JobEnding, r.ControllerResumed, r.PolicyFailed, r.PolicyRemembers,
        r.NodesOrdered, r.NodesRefused, r.NodesReclaimed, r.NodesExpire, r.NodesWithdrawn,
    })  # fmt: skip

    def __init__(self, *listeners: Listener) -> None:
        self.now = self.since = 0.0
        self.jobs: dict[int, Life] = {}
        self.waiting = self.held = self.in_use = 0
        self._requeued: dict[int, Life] = {}
        self._reserved: dict[int, tuple[int, float]] = {}
        self._dirty: dict[int, list[tuple[int, float, bool]]] = {}
        self._lost: Open = []
        self._away: Open = []
        self._gone = 0
        """The lost nodes."""
        self._granted = 0
        self._first: float | None = None
        """When nodes were granted first: those that were granted later were not there until then."""
        parts = [part for each in listeners for part in each.parts()]
        for part in parts:
            part.lives = self
        self._tell = _together(parts)
        self._begun = False
        self._fold: dict[type[r.Record], Callable[[Any], None]] = {
            r.JobSubmitted: self._submitted,
            r.JobPromised: self._promised,
            r.JobStarted: self._started,
            r.JobLaunched: self._running,
            r.JobRunning: self._running,
            r.JobProgressed: self._progressed,
            r.JobNoted: self._noted,
            r.ResizeOffered: self._offered,
            r.ResizeWithdrawn: self._withdrawn,
            r.ResizeAccepted: self._accepted,
            r.ResizeDeclined: self._declined,
            r.ResizeDone: self._done,
            r.ResizeFailed: self._failed,
            r.GroupsLost: self._groups_lost,
            r.JobEnded: self._ended,
            r.NodesGranted: self._nodes_granted,
            r.NodesClean: self._nodes_clean,
            r.NodesLost: self._nodes_lost,
            r.NodesBack: self._nodes_back,
            r.NodesReturned: self._nodes_returned,
        }
        # There are as many of these as jobs, or more: where nobody listens they are not even counted.
        rows = {row for part in parts for row in ROWS if row not in part.IGNORES}
        self._is_held, self._is_idle = "held" in rows, "idle" in rows
        if "launched" not in rows:
            del self._fold[r.JobLaunched], self._fold[r.JobRunning]
        if "accepted" not in rows:
            del self._fold[r.ResizeAccepted]

    def add(self, record: r.Record) -> None:
        self.now = record.at
        fold = self._fold.get(type(record))
        if fold is not None:
            fold(record)

    def idle(self) -> list[Stretch]:
        """The stretches that are not over, as if they were by the last record; for who listens to those that are."""
        open_ = [(job, RESERVED, mask, since) for job, (mask, since) in self._reserved.items()]
        for job, left in self._dirty.items():
            open_ += [(job, CLEANING, mask, since) for mask, since, _ in left]
        for kind, nodes in ((LOST, self._lost), (AWAY, self._away)):
            open_ += [(0, kind, mask, since) for mask, since in nodes]
        return [
            Stretch(job, kind, NodeSet(mask), since, self.now)
            for job, kind, mask, since in open_
            if mask and self.now > since
        ]

    # ---- jobs ----------------------------------------------------------------------------------------

    def _submitted(self, record: r.JobSubmitted) -> None:
        if not self._begun:
            self._begun = True
            self._tell.began(record.at)
        life = self._requeued.pop(record.requeue_of, None) if record.requeue_of else None
        if life is None:
            life = Life(record)
        else:
            life.job, life.requeue_of, life.queued = record.job, record.requeue_of, record.at
        self.jobs[record.job] = life
        self.waiting += 1
        self._tell.submitted(life)

    def _promised(self, record: r.JobPromised) -> None:
        life = self.jobs[record.job]
        if life.promised is None:
            life.promised = record.start_by

    def _started(self, record: r.JobStarted) -> None:
        life = self.jobs[record.job]
        life.start = record.at
        self.waiting -= 1
        self._hold(life, record.nodes.mask)
        life.first = life.size
        self._tell.started(life)

    def _running(self, record: r.JobLaunched | r.JobRunning) -> None:
        self._tell.launched(self.jobs[record.job])

    def _progressed(self, record: r.JobProgressed) -> None:
        if record.pace_s > 0:
            self.jobs[record.job].pace = (record.pace_s, record.paced_s)

    def _noted(self, record: r.JobNoted) -> None:
        self._tell.noted(self.jobs[record.job], record.text)

    def _groups_lost(self, record: r.GroupsLost) -> None:
        life = self.jobs[record.job]
        self._hold(life, life.mask & ~record.nodes.mask)
        self._leave(record.job, record.nodes.mask)
        self._tell.groups_lost(life, record)

    def _ended(self, record: r.JobEnded) -> None:
        life = self.jobs.pop(record.job)
        if life.offer is not None:
            self._settle(life, "ended", phase=record.phase)
        size = life.size
        if life.start is None:
            self.waiting -= 1
        else:
            self._hold(life, 0)
            if self._is_idle:
                self._leave(record.job, record.nodes.mask, ended=True)
        self._tell.ended(life, record, size)
        if record.requeued:
            life.promised = life.start = None
            life.again = True
            self._requeued[record.job] = life

    # ---- their resizes -------------------------------------------------------------------------------

    def _offered(self, record: r.ResizeOffered) -> None:
        life = self.jobs[record.job]
        life.offer = record
        if reserved := record.nodes.mask & ~self._gone:
            self._reserved[record.job] = reserved, record.at
        self._tell.offered(life, record)

    def _accepted(self, record: r.ResizeAccepted) -> None:
        self._tell.accepted(self.jobs[record.job])

    def _withdrawn(self, record: r.ResizeWithdrawn) -> None:
        self._unreserve(record.job, record.freed.mask)
        self._tell.withdrawn(self.jobs[record.job], record.reason)

    def _done(self, record: r.ResizeDone) -> None:
        life = self.jobs[record.job]
        before = life.size
        kind = life.offer.kind if life.offer is not None else ""
        self._hold(life, (life.mask | record.gained.mask) & ~record.released.mask)
        self._unreserve(record.job, -1)
        self._leave(record.job, record.released.mask)
        self._tell.resized(life, record, kind, before)
        if kind in {"expand", "shrink"}:
            life.resized = kind, record.at
        life.offer = None

    def _declined(self, record: r.ResizeDeclined) -> None:
        self._settle(self.jobs[record.job], "declined", record.reason, late=record.late)

    def _failed(self, record: r.ResizeFailed) -> None:
        self._settle(self.jobs[record.job], "failed", record.error, late=record.late, phase=record.phase)
        self._leave(record.job, record.dirty.mask)

    def _settle(
        self, life: Life, outcome: str, error: str = "", *, late: bool = False, phase: Phase | None = None
    ) -> None:
        """The open resize comes to nothing; the nodes that were still reserved had been idle since the offer."""
        self._unreserve(life.job, -1)
        if life.offer is not None:
            self._tell.settled(life, outcome, error, late=late, phase=phase)
            life.offer = None

    # ---- nodes ---------------------------------------------------------------------------------------

    def _nodes_clean(self, record: r.NodesClean) -> None:
        if record.job in self._dirty:
            self._clean(record.job, record.nodes.mask)

    def _nodes_lost(self, record: r.NodesLost) -> None:
        mask = record.nodes.mask
        for job in list(self._dirty):  # what is lost is not waited for
            self._clean(job, mask)
        for job in list(self._reserved):
            self._unreserve(job, mask)
        self._tell.nodes_lost(mask)
        if new := mask & ~self._gone:
            self._lost.append((new, record.at))
            self._recount(new, -1)
            self._gone |= new

    def _nodes_back(self, record: r.NodesBack) -> None:
        self._there(record.nodes.mask)

    def _nodes_granted(self, record: r.NodesGranted) -> None:
        mask = record.nodes.mask
        self._there(mask)
        self._away = self._over(self._away, AWAY, mask)
        if self._first is None:
            self._first = record.at
        self._idle(0, AWAY, mask & ~self._granted, self._first)
        self._granted |= mask

    def _there(self, mask: int) -> None:
        self._tell.nodes_there(mask)
        self._found(mask)

    def _found(self, mask: int) -> None:
        """What of it was lost is so no more."""
        if found := mask & self._gone:
            self._lost = self._over(self._lost, LOST, found)
            self._recount(found, 1)
            self._gone &= ~found

    def _nodes_returned(self, record: r.NodesReturned) -> None:
        mask = record.nodes.mask
        self._tell.nodes_returned(mask)
        self._found(mask)
        self._away.append((mask, record.at))

    # ---- parts of it ---------------------------------------------------------------------------------

    def _hold(self, life: Life, mask: int) -> None:
        """From now on the job holds ``mask``."""
        now = self.now
        if now > self.since:
            self._tell.used(self.held, self.in_use, self.since, now)
            self.since = now
        if self._is_held and life.mask and now > life.since:
            self._tell.held(life)
        size = mask.bit_count()
        grown = size - life.size
        self.held += grown
        self._count(life)
        if gone := self._gone:
            grown -= (mask & gone).bit_count() - (life.mask & gone).bit_count()
        self.in_use += grown
        life.mask, life.size, life.since = mask, size, now

    def _recount(self, mask: int, sign: int) -> None:
        """These are about to be lost or there again: perhaps some that a job holds."""
        holders = [life for life in self.jobs.values() if life.mask & mask]
        for life in holders:
            self._count(life)
        count = sum((life.mask & mask).bit_count() for life in holders)
        if count and self.now > self.since:
            self._tell.used(self.held, self.in_use, self.since, self.now)
            self.since = self.now
        self.in_use += sign * count

    def _count(self, life: Life) -> None:
        """Add the node-seconds that the job has held up to now."""
        size = life.size if not self._gone else (life.mask & ~self._gone).bit_count()
        life.node_s += size * (self.now - life.counted)
        life.counted = self.now

    def _unreserve(self, job: int, mask: int) -> None:
        """Of what is reserved for the job, these nodes are so no more."""
        if job in self._reserved:
            reserved, since = self._reserved[job]
            self._idle(job, RESERVED, reserved & mask, since)
            if reserved & ~mask:
                self._reserved[job] = reserved & ~mask, since
            else:
                del self._reserved[job]

    def _leave(self, job: int, mask: int, *, ended: bool = False) -> None:
        """A job has left these nodes; those that are lost are not waited for."""
        if left := mask & ~self._gone:
            self._dirty.setdefault(job, []).append((left, self.now, ended))

    def _clean(self, job: int, mask: int) -> None:
        """These nodes are waited for no more."""
        rest: list[tuple[int, float, bool]] = []
        for left, since, ended in self._dirty.pop(job):
            if self.now > since:
                self._idle(job, CLEANING, left & mask, since, ended=ended)
            if left & ~mask:
                rest.append((left & ~mask, since, ended))
        if rest:
            self._dirty[job] = rest

    def _over(self, open_: Open, kind: str, mask: int) -> Open:
        """``open_``, without what ``mask`` has of it."""
        for nodes, since in open_:
            self._idle(0, kind, nodes & mask, since)
        return [(nodes & ~mask, since) for nodes, since in open_ if nodes & ~mask]

    def _idle(self, job: int, kind: str, mask: int, since: float, *, ended: bool = False) -> None:
        """This stretch is over."""
        if mask and self.now > since:
            tell = self._tell.wasted if job and not ended else self._tell.idle
            tell(job, kind, mask, since)


def told(records: Iterable[r.Record], *listeners: Listener) -> None:
    """Tell them the rows of a whole run."""
    add = Timeline(*listeners).add
    for record in records:
        add(record)


def _together(parts: Iterable[Listener]) -> Listener:
    """One listener in place of several: it passes on to each what that does not ignore."""
    one = Listener()
    for row in ROWS:
        methods = [getattr(part, row) for part in parts if row not in part.IGNORES]
        if methods:
            setattr(one, row, methods[0] if len(methods) == 1 else _each(methods))
    return one


def _each(methods: list[Callable[..., None]]) -> Callable[..., None]:
    def tell(*row: Any, **more: Any) -> None:
        for method in methods:
            method(*row, **more)

    return tell
