"""What happens on a node, as its machine is told it, and what the machine asks of the shell around it.

Both are plain data with a ``type``, so that they can be recorded line by line and played again. Groups go by job
and number, sessions by a number that the shell gives them, timers and scans by a key of the machine's own.
"""

from __future__ import annotations

import msgspec

from pliant.protocol import messages as m


class Input(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower, omit_defaults=True):
    """Base of all that happens."""


class Output(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower, omit_defaults=True):
    """Base of all that is to be done. The shell does it in order, and at once."""


class Home(msgspec.Struct, frozen=True):
    """Where an agent lives: its node with ``slots`` ranks, the run, its own ``pid`` and user, and the paths of the
    run's directory, of the socket for sessions and of the node's directory in /dev/shm. ``orphan_grace`` is how many
    seconds it goes on without a controller; with 0 it ends everything when its link is lost. ``warm``: whether programs
    may be forked from a process that has imported already what they need. ``programs`` are commands of the agent's own,
    by the names that dialects have for them. The numbers of what the agent tells begin above ``base``."""

    node: str
    slots: int
    run: str
    pid: int
    uid: int
    runtime: str
    socket: str
    shm: str
    orphan_grace: float = 0.0
    warm: bool = True
    programs: dict[str, tuple[str, ...]] = {}
    base: int = 0


# ---- what happens -----------------------------------------------------------------------------------


class Began(Input, frozen=True):
    """The shell is ready: sessions can be opened."""


class LinkSaid(Input, frozen=True):
    """Bytes of the controller, cut anywhere."""

    data: bytes


class LinkLost(Input, frozen=True):
    """The controller is gone."""


class LinkMade(Input, frozen=True):
    """There is a link again: the answer to Connect."""


class StopAsked(Input, frozen=True):
    """A SIGTERM, or a defect, of which ``why`` tells."""

    why: str = ""


class TokenWritten(Input, frozen=True):
    job: int
    group: int


class Spawned(Input, frozen=True):
    """A rank runs. This comes before anything else of its process does, its end too. ``warm``: a helper has forked
    it."""

    job: int
    group: int
    rank: int
    pid: int
    warm: bool = False


class NotSpawned(Input, frozen=True):
    """A rank cannot be started, or before the first one the token cannot be written; ``code`` is a shell's."""

    job: int
    group: int
    error: str
    code: int


class HelperStarted(Input, frozen=True):
    """The agent has a child of its own: no rank, and no stray."""

    pid: int
    name: str


class HelperReady(Input, frozen=True):
    """It has imported what it was to, and forks when it is asked."""

    pid: int


class HelperFailed(Input, frozen=True):
    """A helper that was asked for cannot be started."""

    name: str


class Exited(Input, frozen=True):
    """A child has ended: a rank, a helper or an adopted orphan. A negative ``code`` is the signal that ended it."""

    pid: int
    code: int
    cpu_s: float = 0.0


class RankSaid(Input, frozen=True):
    """Bytes over the connection that a rank was started with."""

    job: int
    group: int
    rank: int
    data: bytes


class RankClosed(Input, frozen=True):
    job: int
    group: int
    rank: int


class SessionOpened(Input, frozen=True):
    """A process of user ``uid`` has connected."""

    session: int
    uid: int


class SessionSaid(Input, frozen=True):
    session: int
    data: bytes


class SessionClosed(Input, frozen=True):
    session: int


class Found(Input, frozen=True):
    """The answer to a scan: the processes that are there."""

    key: str
    pids: tuple[int, ...] = ()


class TimerFired(Input, frozen=True):
    key: str


# ---- what is to be done -----------------------------------------------------------------------------


class Tell(Output, frozen=True):
    """Send to the controller, in an envelope that says the same of ``number``, ``after`` and ``obeyed``."""

    message: m.AgentMessage
    number: int = 0
    after: int = 0
    obeyed: int = 0


class Connect(Output, frozen=True):
    """Open a new link to the controller, and try until that works; LinkMade answers."""


class Say(Output, frozen=True):
    """A line for people, on standard error."""

    text: str


class WriteToken(Output, frozen=True):
    """Write the group's secret where only its user reads it; TokenWritten or NotSpawned answers."""

    job: int
    group: int
    path: str
    token: str


class Spawn(Output, frozen=True):
    """Start a rank; Spawned or NotSpawned answers. Its environment is the agent's own, but for names that begin as
    in ``without``, with ``env`` over it and ``defaults`` for what is in neither. With ``connect`` it gets a connection
    to talk to its dialect's server. ``errors`` and ``stdin`` are paths of its own, where they are not ``output`` and
    nothing. ``modules`` are what its program will import, if that is known. The process ``helper``, if there is one,
    forks it; where it cannot, the rank is executed as any other."""

    job: int
    group: int
    rank: int
    argv: tuple[str, ...]
    env: dict[str, str]
    defaults: dict[str, str]
    without: tuple[str, ...]
    cwd: str
    output: str
    connect: bool
    errors: str = ""
    stdin: str = ""
    modules: tuple[str, ...] = ()
    helper: int = 0


class StartHelper(Output, frozen=True):
    """Have this ``interpreter`` import ``modules`` and wait for ranks to fork; HelperStarted or HelperFailed answers,
    and HelperReady when it has. Its environment is made as a rank's."""

    name: str
    interpreter: tuple[str, ...]
    modules: tuple[str, ...]
    env: dict[str, str]
    defaults: dict[str, str]
    without: tuple[str, ...]
    cwd: str


class Kill(Output, frozen=True):
    """Kill these. While ``patient``, Python's resource trackers among them are spared: they clean up and end."""

    pids: tuple[int, ...]
    patient: bool = False


class SignalGroup(Output, frozen=True):
    """Signal the process group that ``pid`` leads."""

    pid: int
    number: int


class SayToRank(Output, frozen=True):
    job: int
    group: int
    rank: int
    data: bytes


class SayToSession(Output, frozen=True):
    session: int
    data: bytes


class CloseSession(Output, frozen=True):
    """Close it, when what was said to it has been written."""

    session: int


class Scan(Output, frozen=True):
    """Look through the process table; Found answers, with the same key.

    Wanted are the processes of ``job`` (None: of the whole run) on this node by their cookie, and whatever else has
    come down from the agent; but not what belongs to a group, (job, number), in ``keep``, nor the processes
    ``known`` with all that comes from them.
    """

    key: str
    job: int | None = None
    keep: tuple[tuple[int, int], ...] = ()
    known: tuple[int, ...] = ()


class ClearFiles(Output, frozen=True):
    """Remove what a dead group has left, if it is there."""

    paths: tuple[str, ...]


class SetTimer(Output, frozen=True):
    """Instead of the one with this key, if there is one."""

    key: str
    seconds: float


class CancelTimer(Output, frozen=True):
    key: str


class Leave(Output, frozen=True):
    """All is done. ``orphaned``: the controller went away without a word."""

    orphaned: bool = False


AnyInput = (
    Began | LinkSaid | LinkLost | LinkMade | StopAsked | TokenWritten | Spawned | NotSpawned | HelperStarted
    | HelperReady | HelperFailed | Exited | RankSaid | RankClosed | SessionOpened | SessionSaid | SessionClosed | Found
    | TimerFired
)  # fmt: skip
AnyOutput = (
    Tell | Connect | Say | WriteToken | Spawn | StartHelper | Kill | SignalGroup | SayToRank | SayToSession
    | CloseSession | Scan | ClearFiles | SetTimer | CancelTimer | Leave
)  # fmt: skip
