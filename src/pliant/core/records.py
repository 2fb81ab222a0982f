"""Outcomes, kept. State, metrics, Gantt chart and progress display are folds over them.

Every record has ``at``, seconds since the journal began. They tell all that the state is made of, with the settings
of the journal's header (``core/journal.py``): folding them needs nothing else.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pliant.model.groups import Group, kind_of
from pliant.model.jobs import Bounds, JobSpec, JobState
from pliant.model.need import Need
from pliant.model.nodes import NodeSet
from pliant.model.size_request import SizeRequest
from pliant.policy.view import Reason
from pliant.protocol.phases import Phase


class Record(msgspec.Struct, frozen=True, tag_field="record", gc=False, omit_defaults=True):
    """Base of all records."""

    at: float


class JobSubmitted(Record, frozen=True):
    """``requeue_of`` is the number that the same job had before its nodes ended it, 0 if it is new."""

    job: int
    spec: JobSpec
    requeue_of: int = 0


class JobPromised(Record, frozen=True):
    """The head of the queue was promised to start at ``start_by``, by the users' estimates."""

    job: int
    start_by: float


class JobStarted(Record, frozen=True):
    """The job got its nodes; its processes are being started: groups 0, 1, ... on them in ascending order, in one
    world (``one_world``) or each in a world of its own. Group 0 is the root, and the epoch 0."""

    job: int
    nodes: NodeSet
    reason: Reason
    one_world: bool = False


class JobLaunched(Record, frozen=True):
    """All processes of the job have been started: it runs, also if it never says hello."""

    job: int


class JobRunning(Record, frozen=True):
    """The job has said hello. ``bounds``: the sizes that both the submission and the program allow."""

    job: int
    bounds: Bounds


class JobMalleable(Record, frozen=True):
    """The job can be offered resizes from now on, or no more. To more than ``most`` nodes it cannot grow, if that is
    not 0."""

    job: int
    on: bool
    most: int = 0


class JobPinned(Record, frozen=True):
    """An operator has ordered the job's size: the policy leaves it alone until it is let go again."""

    job: int
    on: bool


class JobWishes(Record, frozen=True):
    """The job has this wish, which stays open until it has such a size or leaves its loop; None: none any more."""

    job: int
    wish: SizeRequest | None = None


class JobProgressed(Record, frozen=True):
    job: int
    fraction: float
    pace_s: float = 0.0
    paced_s: float = 0.0


class JobNoted(Record, frozen=True):
    """The job has found something that its user should know, and goes on."""

    job: int
    text: str


class ResizeOffered(Record, frozen=True):
    """From ``before`` to ``after`` nodes: ``arriving`` groups join, and of the present ones as many leave as it takes,
    those in ``leaving`` among them. ``nodes`` are reserved for the arriving ones. A drain, ``must``, cannot be
    declined. With ``slots``, nobody arrives or leaves: of these groups so many ranks are to be awake."""

    job: int
    resize: int
    before: int
    after: int
    nodes: NodeSet
    reason: Reason
    arriving: tuple[Group, ...] = ()
    leaving: tuple[int, ...] = ()
    must: bool = False
    slots: dict[int, int] = {}

    @property
    def kind(self) -> str:
        """The word for it: expand, shrink, migrate or slots."""
        return kind_of(self.before, self.after, self.slots)


class ResizeWithdrawn(Record, frozen=True):
    """``freed`` were reserved, and nothing had been started there: they are free again."""

    job: int
    resize: int
    reason: str
    freed: NodeSet = NodeSet()


class ResizeAccepted(Record, frozen=True):
    job: int
    resize: int


class ResizeDeclined(Record, frozen=True):
    """``late``: the job's loop was over or nearly so; nothing is wrong."""

    job: int
    resize: int
    reason: str
    late: bool = False


class ResizeDone(Record, frozen=True):
    """The commit point of a resize: arriving groups are the job's, those of ``left`` have left it, and group ``root``
    speaks for it in the epoch that begins. Nodes ``gained`` join the job; no group of it is left on those
    ``released``. ``phases``: seconds, by the names of ``protocol.phases``; none of a job that tells none."""

    job: int
    resize: int
    gained: NodeSet
    released: NodeSet
    blocked_s: float = 0.0
    phases: dict[str, float] = {}
    left: tuple[int, ...] = ()
    root: int = 0


class ResizeFailed(Record, frozen=True):
    """``dirty`` are the reserved nodes on which newcomers were already started; ``late`` as in ResizeDeclined.
    ``phase``: what it had come to; None where that is not known, as of one that was open when a controller began
    again."""

    job: int
    resize: int
    error: str
    dirty: NodeSet
    late: bool = False
    phase: Phase | None = None


class GroupsLost(Record, frozen=True):
    """The job goes on without these groups, and without ``nodes``, on which no other of it is left: those that
    are not lost are dirty. Group ``root`` speaks for it. ``node``: it was by the loss of a node; else their
    ranks had failed."""

    job: int
    groups: tuple[int, ...]
    nodes: NodeSet
    root: int
    why: str = ""
    node: bool = False


class JobEnding(Record, frozen=True):
    """The scheduler ends the job, which will be in ``state``. ``requeue``: the job is then submitted again. If somebody
    cancels it before, a second record says so, without ``requeue``."""

    job: int
    state: JobState
    error: str
    requeue: bool = False


class JobEnded(Record, frozen=True):
    """``nodes`` were the job's, with those on which newcomers may have been started; they are dirty until proved clean.
    ``requeued``: it is not the end of the job. ``cpu_s`` is what its ranks took of the processors, ``places`` what each
    place of a program of places says that it has done: figures by their names.

    The first line of ``error`` is the reason, and all that tables and live lines show; the others are details.
    ``phase`` is what a resize that was open had come to.
    """

    job: int
    state: JobState
    exit_code: int
    nodes: NodeSet
    result: str | None = None
    error: str = ""
    requeued: bool = False
    cpu_s: float = 0.0
    places: dict[int, dict[str, float]] = {}
    phase: Phase | None = None


class ControllerResumed(Record, frozen=True):
    """A new controller goes on with the jobs of one that has ended. Jobs that have yet to answer have the time for it
    from now on: nobody could hear them before."""


class PolicyFailed(Record, frozen=True):
    """The policy raised, decided what cannot be, or did not decide in time; ``instead`` decides from now on."""

    policy: str
    error: str
    instead: str


class PolicyRemembers(Record, frozen=True):
    """What the policy wants to find as ``ClusterView.memory`` from its next pass on; changes to that with ``merge``."""

    memory: dict[str, Any]
    merge: bool = False


class NodesGranted(Record, frozen=True):
    """The provider hands over nodes, with their names, slots and labels in ascending order of ``nodes``. Without names
    they go by their numbers, without slots they have one each. ``until``: when these nodes expire; with no ``nodes``,
    when all expire that are there. ``source``: the driver that reaches them; "" where nobody said. They answer a
    request for nodes with this ``need``."""

    nodes: NodeSet
    names: tuple[str, ...] = ()
    slots: tuple[int, ...] = ()
    until: float | None = None
    labels: tuple[tuple[str, ...], ...] = ()
    source: str = ""
    need: Need | None = None


class NodesClean(Record, frozen=True):
    """All of these were dirty of the job, and nothing of it is left there: nobody has them now."""

    job: int
    nodes: NodeSet


class NodesLost(Record, frozen=True):
    """Nodes that were there are gone, with all that ran on them; ``why``, where that is known."""

    nodes: NodeSet
    why: str = ""


class NodesBack(Record, frozen=True):
    """Nodes that were lost can be used again."""

    nodes: NodeSet


class NodesOrdered(Record, frozen=True):
    """The provider is asked for so many nodes more: by the policy, which gives its reason, or by an operator, who may
    say what each of them has to have."""

    count: int
    reason: Reason | None = None
    need: Need | None = None


class NodesRefused(Record, frozen=True):
    """The provider does not hand over ``count`` of the nodes that it was asked for with this ``need``."""

    count: int
    why: str
    need: Need | None = None


class NodesReclaimed(Record, frozen=True):
    """These nodes are to be given back: nothing new starts on them, and they go when they are free and clean.
    A policy that gives them back says why. ``by``: what still runs there is ended in time before that."""

    nodes: NodeSet
    reason: Reason | None = None
    by: float | None = None


class NodesReturned(Record, frozen=True):
    """The provider has these nodes again: until they are granted anew they are the cluster's no more."""

    nodes: NodeSet


class NodesExpire(Record, frozen=True):
    """These nodes, which are there already, expire at ``until``."""

    nodes: NodeSet
    until: float


class NodesWithdrawn(Record, frozen=True):
    """So many nodes that were asked for are not wanted any more. They are awaited until the provider refuses them, and
    come after all where that crosses with a grant. A policy says why."""

    count: int
    reason: Reason | None = None


AnyRecord = (
    JobSubmitted
    | JobPromised
    | JobStarted
    | JobLaunched
    | JobRunning
    | JobMalleable
    | JobPinned
    | JobWishes
    | JobProgressed
    | JobNoted
    | ResizeOffered
    | ResizeWithdrawn
    | ResizeAccepted
    | ResizeDeclined
    | ResizeDone
    | ResizeFailed
    | GroupsLost
    | JobEnding
    | JobEnded
    | ControllerResumed
    | PolicyFailed
    | PolicyRemembers
    | NodesGranted
    | NodesClean
    | NodesLost
    | NodesBack
    | NodesOrdered
    | NodesRefused
    | NodesReclaimed
    | NodesReturned
    | NodesExpire
    | NodesWithdrawn
)

Ignores = frozenset[type[Record]]
"""The records that a fold leaves aside. Each states them beside those that it handles, so that a new record is
forgotten by none (tests/pure/test_folds.py)."""


def _encode_hook(value: Any) -> Any:
    if isinstance(value, NodeSet):
        return str(value)
    raise TypeError(f"a record cannot hold {type(value)}")


def _decode_hook(kind: type, value: Any) -> Any:
    if kind is NodeSet:
        return NodeSet.parse(value)
    raise TypeError(f"a record cannot hold {kind}")


_encoder = msgspec.json.Encoder(enc_hook=_encode_hook)
_decoder = msgspec.json.Decoder(AnyRecord, dec_hook=_decode_hook)


def to_line(record: Record) -> bytes:
    return _encoder.encode(record) + b"\n"


def from_line(line: bytes) -> AnyRecord:
    """One record; msgspec.DecodeError where the line is none."""
    record: AnyRecord = _decoder.decode(line)
    return record
