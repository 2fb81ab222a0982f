"""What happened, a sentence an event: a fold over records for the live display and plain logs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NamedTuple

from pliant.core import records as r
from pliant.core.losses import lost_groups
from pliant.model.jobs import JobState
from pliant.model.nodes import NodeSet, hostlist
from pliant.model.words import count
from pliant.report.words import awake, cause, plain, seconds, why
from pliant.terminal.glyphs import Glyphs

OFFERED = {
    "expand": "can grow",
    "shrink": "is asked to shrink",
    "migrate": "is asked to move",
    "slots": "is asked to go",
}
UNDER_WAY = {"expand": "growing", "shrink": "shrinking", "migrate": "moving", "slots": "going"}
DONE = {"expand": "grew", "shrink": "shrank", "migrate": "moved", "slots": "went"}


class Sentence(NamedTuple):
    """``plain_too``: worth a line even where nobody watches a display. ``kind`` names a glyph."""

    at: float
    kind: str
    text: str
    style: str = ""
    plain_too: bool = True

    def sign(self, glyphs: Glyphs) -> str:
        return str(getattr(glyphs, self.kind))


class EventTexts:
    """Tells records in words; remembers of each job only what a later sentence needs."""

    IGNORES: ClassVar[r.Ignores] = frozenset({
        r.JobPromised, r.JobLaunched, r.JobRunning, r.JobMalleable, r.JobPinned, r.JobWishes, r.JobProgressed,
        r.ResizeAccepted, r.JobEnding, r.PolicyRemembers, r.NodesClean, r.NodesExpire,
    })  # fmt: skip

    def __init__(self, names: Iterable[str]) -> None:
        self._names = dict(enumerate(names))
        self._begun = False
        self._jobs: dict[int, str] = {}
        self._since: dict[int, float] = {}
        self._groups: dict[int, dict[int, int]] = {}
        """By job: its groups, each with its node."""
        self._offers: dict[int, r.ResizeOffered] = {}
        self._recalled: set[int] = set()
        self._tell: dict[type[r.Record], Callable[[Any], Sentence | None]] = {
            r.JobSubmitted: self._submitted,
            r.JobStarted: self._started,
            r.ResizeOffered: self._offered,
            r.ResizeDeclined: self._declined,
            r.ResizeWithdrawn: self._withdrawn,
            r.ResizeDone: self._done,
            r.ResizeFailed: self._failed,
            r.GroupsLost: self._groups_lost,
            r.JobNoted: self._noted,
            r.JobEnded: self._ended,
            r.ControllerResumed: self._resumed,
            r.PolicyFailed: self._policy_failed,
            r.NodesLost: self._lost,
            r.NodesBack: self._back,
            r.NodesGranted: self._granted,
            r.NodesOrdered: self._nodes_ordered,
            r.NodesRefused: self._refused,
            r.NodesReclaimed: self._reclaimed,
            r.NodesReturned: self._returned,
            r.NodesWithdrawn: self._nodes_withdrawn,
        }

    def tell(self, record: r.Record) -> Sentence | None:
        tell = self._tell.get(type(record))
        return tell(record) if tell is not None else None

    def name(self, job: int) -> str:
        return self._jobs.get(job, f"job {job}")

    def hosts(self, nodes: NodeSet) -> str:
        names = self._names
        return hostlist(names.get(i, f"node{i}") for i in nodes)

    def _submitted(self, record: r.JobSubmitted) -> None:
        self._jobs[record.job] = plain(record.spec.name)

    def _started(self, record: r.JobStarted) -> Sentence:
        self._since[record.job] = record.at
        self._groups[record.job] = dict(enumerate(record.nodes))
        text = f"{self.name(record.job)} started on {count(len(record.nodes), 'node')}, {self.hosts(record.nodes)}"
        if record.reason.code != "fits":
            text += f": {why(record.reason, self.name)}"
        return Sentence(record.at, "started", text)

    def _offered(self, record: r.ResizeOffered) -> Sentence:
        self._offers[record.job] = record
        verb = OFFERED[record.kind]
        text = f"{self.name(record.job)} {verb} {self._change(record)}"
        return Sentence(
            record.at, record.kind, f"{text}: {why(record.reason, self.name)}", "dim", plain_too=False
        )

    def _done(self, record: r.ResizeDone) -> Sentence:
        offer = self._offers[record.job]
        self._forget_offer(record.job)
        verb = DONE[offer.kind]
        blocked = f"(stood still for {seconds(record.blocked_s)})"
        text = f"{self.name(record.job)} {verb} {self._change(offer, record)} {blocked}"
        groups = self._groups[record.job]
        groups |= {group.id: group.node for group in offer.arriving}
        for group in record.left:
            groups.pop(group, None)
        return Sentence(record.at, offer.kind, f"{text}: {why(offer.reason, self.name)}")

    def _declined(self, record: r.ResizeDeclined) -> Sentence:
        text = f"{self._resize(record.job)} was declined"
        return self._settled(record.job, record.at, text, record.reason, late=record.late)

    def _failed(self, record: r.ResizeFailed) -> Sentence:
        where = "" if record.phase is None else f" in its phase {record.phase}"
        what = "came too late" if record.late else f"failed{where}; it goes on as before"
        text = f"{self._resize(record.job)} {what}"
        return self._settled(record.job, record.at, text, record.error, late=record.late)

    def _groups_lost(self, record: r.GroupsLost) -> Sentence:
        text = f"{self.name(record.job)} goes on without {lost_groups(record.groups)}"
        hosts = self.hosts(record.nodes)
        text += f", lost with {hosts}" if record.node else f" on {hosts}: {plain(record.why)}"
        return Sentence(record.at, "lost", text, "bold yellow")

    def _withdrawn(self, record: r.ResizeWithdrawn) -> Sentence:
        self._recalled.add(record.job)
        text = f"{self._resize(record.job)} is called off"
        return Sentence(record.at, "other", f"{text}: {plain(record.reason)}", "dim")

    def _settled(self, job: int, at: float, text: str, reason: str, *, late: bool) -> Sentence:
        said = f"{text}: {plain(reason)}" if reason else text
        if self._forget_offer(job):
            return Sentence(at, "other", said, "dim", plain_too=False)  # why it was called off has been told
        return Sentence(at, "other", said, "dim") if late else Sentence(at, "failed", said, "yellow")

    def _forget_offer(self, job: int) -> bool:
        """Whether it had been called off."""
        self._offers.pop(job, None)
        recalled = job in self._recalled
        self._recalled.discard(job)
        return recalled

    def _resize(self, job: int) -> str:
        offer = self._offers.get(job)
        if offer is None:
            return f"{self.name(job)}: a resize"
        kind = UNDER_WAY[offer.kind]
        return f"{self.name(job)}: {kind} {self._change(offer)}"

    def _change(self, offer: r.ResizeOffered, done: r.ResizeDone | None = None) -> str:
        """From where to where a resize leads, or has led."""
        if offer.slots:
            return f"to {awake(offer.slots)} awake"
        if offer.kind == "migrate":
            groups = self._groups[offer.job]
            leave = NodeSet.of(groups[number] for number in offer.leaving if number in groups)
            left, gained = (leave, offer.nodes) if done is None else (done.released, done.gained)
            return f"from {self.hosts(left)} to {self.hosts(gained)}"
        after = offer.after
        if done is not None:
            after = offer.before + len(done.gained) - len(done.released)
        return f"from {offer.before} to {count(after, 'node')}"

    def _ended(self, record: r.JobEnded) -> Sentence:
        name = self._jobs.pop(record.job, f"job {record.job}")
        self._forget_offer(record.job)
        self._groups.pop(record.job, None)
        since = self._since.pop(record.job, None)
        ran = f" after {seconds(record.at - since)}" if since is not None else " before it started"
        if record.state is JobState.COMPLETED:
            return Sentence(record.at, "completed", f"{name} completed{ran}")
        # One that was ended from outside has the code of the signal, which tells nothing.
        failed = record.state is JobState.FAILED and record.exit_code
        code = f" (exit code {record.exit_code})" if failed else ""
        said = cause(record.error, record.exit_code)
        where = "" if record.phase is None else f", when a resize was in its phase {record.phase}"
        text = f"{name} ended as {record.state}{code}{ran}{where}" + (f": {said}" if said else "")
        text += "; it is queued again" if record.requeued else ""
        return Sentence(record.at, "failed", text, "bold yellow")

    def _noted(self, record: r.JobNoted) -> Sentence:
        return Sentence(record.at, "other", f"{self.name(record.job)}: {plain(record.text)}", "yellow")

    def _resumed(self, record: r.ControllerResumed) -> Sentence:
        return Sentence(
            record.at, "other", "another controller goes on with the jobs of one that has ended", "bold"
        )

    def _policy_failed(self, record: r.PolicyFailed) -> Sentence:
        text = f"{plain(record.error)}; the run goes on under {record.instead}"
        return Sentence(record.at, "failed", text, "bold yellow")

    def _lost(self, record: r.NodesLost) -> Sentence:
        why = f": {plain(record.why)}" if record.why else ""
        return Sentence(record.at, "lost", f"lost {self.hosts(record.nodes)}{why}", "bold yellow")

    def _back(self, record: r.NodesBack) -> Sentence:
        return Sentence(record.at, "other", f"{self.hosts(record.nodes)} back in use")

    def _granted(self, record: r.NodesGranted) -> Sentence | None:
        """Those that the run begins with are told elsewhere."""
        if not record.nodes:
            return None  # more time, or less
        self._names.update(zip(record.nodes, record.names, strict=False))
        began, self._begun = self._begun, True
        are = "is" if len(record.nodes) == 1 else "are"
        left = f", for {seconds(record.until - record.at)}" if record.until is not None else ""
        left += f", labelled {' and '.join(record.need.labels)}" if record.need and record.need.labels else ""
        return Sentence(record.at, "other", f"{self.hosts(record.nodes)} {are} new{left}") if began else None

    def _nodes_ordered(self, record: r.NodesOrdered) -> Sentence:
        what = f", {record.need}" if record.need is not None else ""
        return Sentence(record.at, "other", f"{count(record.count, 'more node')} asked for{what}", "dim")

    def _refused(self, record: r.NodesRefused) -> Sentence:
        come = "was asked for does" if record.count == 1 else "were asked for do"
        text = f"{count(record.count, 'node')} that {come} not come: {plain(record.why)}"
        return Sentence(record.at, "failed", text, "yellow")

    def _nodes_withdrawn(self, record: r.NodesWithdrawn) -> Sentence:
        are = "is" if record.count == 1 else "are"
        text = f"{count(record.count, 'node')} that {are} awaited {are} not wanted any more"
        return Sentence(record.at, "other", text, "dim")

    def _reclaimed(self, record: r.NodesReclaimed) -> Sentence:
        by = f", in {seconds(record.by - record.at)} at the latest" if record.by is not None else ""
        text = f"{self.hosts(record.nodes)} to be given back when free{by}"
        if record.reason is not None and record.reason.code == "expired":
            text = f"the time of {self.hosts(record.nodes)} is over"
        return Sentence(record.at, "other", text, "dim")

    def _returned(self, record: r.NodesReturned) -> Sentence:
        return Sentence(record.at, "other", f"{self.hosts(record.nodes)} given back")
