"""Every message of protocol version 1. Times are seconds from now; nodes go by their names, groups by their
numbers within the job.

A job's messages carry the epoch that the sender lives in, so that one that crosses a resize is recognised.
"""

from __future__ import annotations

import msgspec

from pliant.model.jobs import Bounds
from pliant.model.size_request import SizeRequest
from pliant.model.speedup import Model
from pliant.model.world import MpiWorld
from pliant.protocol import VERSION
from pliant.protocol.phases import Phase


class Message(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower, omit_defaults=True):
    """Base of all messages; on the wire one JSON object a line, its ``type`` the class name in lower case."""


# ---- job to scheduler -------------------------------------------------------------------------------


class Hello(Message, frozen=True, omit_defaults=False):
    """First on every session: rank 0 of a group says who it is.

    ``bounds`` is what the program itself allows; one that allows a single size cannot be resized. Another
    ``version`` than the scheduler's is refused.
    """

    job: int
    group: int
    epoch: int
    token: str
    ranks: int
    bounds: Bounds | None = None
    version: int = VERSION


class Ready(Message, frozen=True):
    """A newcomer group has reached the point where it can be joined."""

    resize: int
    group: int


class Malleable(Message, frozen=True):
    """The root turns offers on (its loop begins) or off (its loop is over). ``most``: to more nodes the program cannot
    grow, whatever its bounds; 0 if nothing but these limits it."""

    epoch: int
    on: bool
    most: int = 0


class Want(Message, frozen=True):
    """The root asks for a size within ``bounds``, with ``prefers`` for the preferred one: answered by Offer or Stay.

    ``open``: after Stay it is offered as soon as it can be. The next Want takes its place.
    """

    epoch: int
    bounds: Bounds
    open: bool = False
    prefers: bool = False

    @property
    def wish(self) -> SizeRequest:
        return SizeRequest(self.bounds, self.prefers)


class Accept(Message, frozen=True):
    epoch: int
    resize: int


class Decline(Message, frozen=True):
    """``late``: too little is left of the job's loop, as happens to every job once; nothing is wrong."""

    epoch: int
    resize: int
    reason: str
    late: bool = False


class Reached(Message, frozen=True):
    """The resize has come to a phase in which the job itself does something."""

    epoch: int
    resize: int
    phase: Phase


class Done(Message, frozen=True):
    """The resize has happened: data are redistributed, ``released`` groups are leaving.

    ``root`` is the group that speaks for the job from now on, in epoch ``epoch`` + 1.
    ``phases`` maps names of ``protocol.phases`` to seconds, others count for nothing; ``blocked_s`` is how long the
    application stood still.
    """

    epoch: int
    resize: int
    root: int
    released: tuple[int, ...] = ()
    phases: dict[str, float] = {}
    blocked_s: float = 0.0


class Failed(Message, frozen=True):
    """The resize did not happen; the job goes on at its old size, in its old epoch. ``late`` as in Decline."""

    epoch: int
    resize: int
    error: str
    late: bool = False


class Progress(Message, frozen=True):
    """``fraction`` of the work is done; ``pace_s`` and ``paced_s`` are what a paced application should have
    taken so far and what it took."""

    epoch: int
    fraction: float
    pace_s: float = 0.0
    paced_s: float = 0.0


class Note(Message, frozen=True):
    """The root has found something that its user should know, such as a variable that newcomers miss."""

    epoch: int
    text: str


class Put(Message, frozen=True):
    """Store a value for all groups of the job that live in, or lead to, ``epoch``."""

    epoch: int
    key: str
    value: str


class Get(Message, frozen=True):
    """Ask for a value; the answer comes when it is there."""

    epoch: int
    key: str


class Error(Message, frozen=True):
    """Something broke at the sender's side; ``text`` is for people. It needs no answer."""

    text: str


class Bye(Message, frozen=True):
    """The group leaves in good order; the root adds the job's result, and that of a program of places what each has
    done, figures by their names."""

    epoch: int
    result: str | None = None
    places: dict[int, dict[str, float]] = {}


# ---- scheduler to job -------------------------------------------------------------------------------


class Welcome(Message, frozen=True, omit_defaults=False):
    """The session stands. ``groups`` are the groups that were started together with this one, in order.

    ``bounds`` are the sizes the job may come to, by the submission and by the program's own bounds; none if
    the two have no size in common.
    """

    job: int
    name: str
    groups: tuple[int, ...]
    model: Model | None = None
    bounds: Bounds | None = None
    version: int = VERSION


class NewGroup(msgspec.Struct, frozen=True):
    """A group that will be started on ``node`` with ``slots`` ranks when the resize is accepted."""

    id: int
    node: str
    slots: int


class Offer(Message, frozen=True):
    """Go to ``size`` groups: ``arriving`` ones are started and joined, and of the present ones as many leave as it
    takes, those in ``leaving`` among them.

    An expansion has only arriving groups, a shrink none, a migration both. With ``slots`` nobody arrives or leaves: of
    these groups so many ranks are to be awake, the others sleep and hold their slots.
    """

    resize: int
    epoch: int
    size: int
    deadline_s: float
    arriving: tuple[NewGroup, ...] = ()
    leaving: tuple[int, ...] = ()
    slots: dict[int, int] = {}


class Drain(Message, frozen=True):
    """A shrink that cannot be declined: groups ``leaving``, and as many more as it takes, must be gone within the
    deadline."""

    resize: int
    epoch: int
    size: int
    deadline_s: float
    leaving: tuple[int, ...] = ()


class Stay(Message, frozen=True):
    """The answer to Want when nothing changes."""


class Withdraw(Message, frozen=True):
    """Take back an offer: a job that has not answered declines, one that has not begun to move fails it."""

    resize: int


class GroupLost(Message, frozen=True):
    """``why`` is for people: what its session said before, how its ranks ended, or that it was never started."""

    group: int
    why: str = ""


class Value(Message, frozen=True):
    """The answer to Get."""

    epoch: int
    key: str
    value: str


# ---- controller to agent ----------------------------------------------------------------------------


class StartGroup(Message, frozen=True):
    """Start the processes of one group, its part of ``world``; ``output`` is the file that their output is
    appended to. ``dialect`` is how they are launched: by which MPI's rules, or by none. ``modules`` are what a Python
    program of this kind of job imports: with them, its processes may be forked from one that has done that. ``stdin``:
    the file that the first of them reads; the others, or all, have nothing to read.

    With ``streams`` each process has files of its own: ``output`` and its rank, then ``.out``, ``.err`` and ``.in``.
    Of a world that was spawned PMI-1 knows the ``values`` from the start, and which of its programs this is."""

    job: int
    group: int
    world: MpiWorld
    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: str
    output: str
    token: str
    dialect: str = "pmi1"
    modules: tuple[str, ...] = ()
    streams: bool = False
    stdin: str = ""
    values: dict[str, str] = {}
    appnum: int = 0


class Signal(Message, frozen=True):
    """Signal the ranks of the job on this node, or of one group, and what they run in the foreground. 9 is for the
    ranks alone: the proof that follows ends what they have started."""

    job: int
    number: int
    group: int | None = None


class Prove(Message, frozen=True):
    """Ask for the proof that nothing of the job is left on this node, except the groups named in ``keep``.

    The agent waits ``patience_s`` for what is leaving by itself, then ends the rest by force.
    """

    job: int
    keep: tuple[int, ...] = ()
    patience_s: float = 5.0


class Deliver(Message, frozen=True):
    """A message for one session of a group; it is dropped if that has closed. One that names what it says ``once`` is
    dropped too if the session has been told that already."""

    job: int
    group: int
    session: int
    message: msgspec.Raw
    once: str = ""


class Fenced(Message, frozen=True):
    """A piece of what all groups of a world have put at fence ``round``; after the last, without ``more``, ranks that
    wait there go on."""

    job: int
    group: int
    round: int
    entries: dict[str, str]
    more: bool = False


class Answered(Message, frozen=True):
    """What the server of a group is told: the answer to what it has Asked, or what others want to know. ``over``: ask
    ``number`` need not be said again, to nobody. ``answer`` may be empty."""

    job: int
    group: int
    number: int = 0
    answer: msgspec.Raw = msgspec.Raw(b"null")
    over: bool = False


class Ack(Message, frozen=True):
    """Of what the agent has told all up to ``heard`` has come, and all up to ``number`` has been taken: it is recorded
    where that was due."""

    number: int
    heard: int


class Shutdown(Message, frozen=True):
    """End all processes, clean up, leave."""


class Adrift(Message, frozen=True):
    """Through a launch tree, ``on``: the controller is gone, and the agents call it again until the grace is over. Not
    ``on``: it is there again, or another one in its place."""

    on: bool


# ---- agent to controller ----------------------------------------------------------------------------


class Held(msgspec.Struct, frozen=True, omit_defaults=True):
    """A group that is on a node: its ``ranks`` that live or whose end has yet to be told, whether it is still
    ``starting``, and the number of its open session, 0 if there is none."""

    job: int
    group: int
    ranks: tuple[int, ...] = ()
    starting: bool = False
    session: int = 0


class AgentHello(Message, frozen=True, omit_defaults=False):
    """First on every link. On one that is not the agent's first: the ``groups`` that are there, the jobs whose
    ``proofs`` are under way, the id of the last order that was ``obeyed``, and the number of the last message that the
    agent ``repeats`` now, 0 if it repeats none. ``used``, by job: what ranks took of the processors, in seconds, whose
    ends it has told and does not repeat any more. The numbers of what it tells begin above ``base``."""

    node: str
    slots: int
    pid: int
    groups: tuple[Held, ...] = ()
    proofs: tuple[int, ...] = ()
    obeyed: int = 0
    repeats: int = 0
    base: int = 0
    used: dict[int, float] = {}
    version: int = VERSION


class Started(Message, frozen=True):
    job: int
    group: int
    pids: tuple[int, ...]


class StartFailed(Message, frozen=True):
    """The group could not be started; ``code`` is what a shell would answer (126, 127)."""

    job: int
    group: int
    error: str
    code: int


class Exited(Message, frozen=True):
    """A rank has ended, by its number in its world; a negative code is the signal that ended it. ``early``: with 0, but
    it had called MPI_Init and not MPI_Finalize."""

    job: int
    group: int
    rank: int
    code: int
    cpu_s: float = 0.0
    early: bool = False

    @property
    def how(self) -> str:
        """For people."""
        if self.early:
            return "ended with exit code 0 before MPI_Finalize"
        return f"was ended by signal {-self.code}" if self.code < 0 else f"exited with {self.code}"


class Proof(Message, frozen=True):
    """The answer to Prove: clean, or the processes that are left."""

    job: int
    clean: bool
    pids: tuple[int, ...] = ()


class Leaving(Message, frozen=True):
    """The agent ends all ranks on its node and leaves, though nobody has asked for that: the node is about to be lost,
    and so are the jobs whose ranks end from now on."""

    why: str


class Relay(Message, frozen=True):
    """A message of one session of a group. Sessions of an agent have different numbers; 0 is the agent itself."""

    job: int
    group: int
    session: int
    message: msgspec.Raw


class Fence(Message, frozen=True):
    """A piece of what a group has put since the last fence; without ``more``, all its ranks are at this one."""

    job: int
    group: int
    round: int
    entries: dict[str, str]
    more: bool = False


class Asked(Message, frozen=True):
    """What the server of a group asks of the job's other groups, numbered by it from 1 on (``protocol/pmix.py``)."""

    job: int
    group: int
    number: int
    ask: msgspec.Raw


class Heartbeat(Message, frozen=True):
    pass


class Heard(Message, frozen=True):
    """The answer to orders after which there is nothing else to tell: its envelope says which were obeyed. One that
    ``asks`` wants to know what has been taken."""

    asks: bool = False


# ---- envelopes: every line between controller and agent ----------------------------------------------


class To(Message, frozen=True):
    """``message`` for the agents of ``nodes``; an agent in between passes it on unread. An order has an ``id``, and is
    obeyed behind the one whose id is ``after`` (``live/fleet/channel.py``); 0 is none."""

    nodes: tuple[str, ...]
    message: msgspec.Raw
    id: int = 0
    after: int = 0


class From(Message, frozen=True):
    """``message`` of the agent of ``node``; an agent in between passes it on unread. One that has a ``number`` is told
    again until it was acknowledged, and is to be taken behind the one whose number is ``after``. ``obeyed``: the agent
    has had all orders up to this id."""

    node: str
    message: msgspec.Raw
    number: int = 0
    after: int = 0
    obeyed: int = 0


JobMessage = (
    Hello
    | Ready
    | Malleable
    | Want
    | Accept
    | Decline
    | Reached
    | Done
    | Failed
    | Progress
    | Note
    | Put
    | Get
    | Error
    | Bye
)
CoreMessage = Malleable | Want | Accept | Decline | Reached | Done | Failed | Progress | Note
"""What the scheduler's core hears of a job that runs."""
RootMessage = CoreMessage | Bye
"""What only the group that speaks for the job may say."""
SchedulerMessage = Welcome | Offer | Drain | Stay | Withdraw | GroupLost | Value | Error
ControllerMessage = (
    StartGroup | Signal | Prove | Deliver | Fenced | Answered | Ack | Shutdown | Adrift | Error
)
AgentMessage = (
    AgentHello | Started | StartFailed | Exited | Proof | Leaving | Relay | Fence | Asked | Heartbeat | Heard
    | Error
)  # fmt: skip
