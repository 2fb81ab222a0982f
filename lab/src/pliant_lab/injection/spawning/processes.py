"""The processes of a simulated job, and what they do beside the operations of `job/spawning/`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from pliant.job.spawning import messages as m
from pliant.job.spawning import operations as o
from pliant.plan.spawn import SOURCES
from pliant.protocol.phases import Phase
from pliant_lab.injection.audit.violation import Violation
from pliant_lab.injection.clock import Timer
from pliant_lab.injection.spawning.faults import STARTER


class State(StrEnum):
    """Of a process. One that stands still, or has failed and waits for the others in MPI_Finalize, is still there."""

    RUNS = "runs"
    STANDS = "stands still"
    FAILED = "has failed"
    LINGERS = "has ended, and is still connected"
    GONE = "gone"


CPU_S = (1e-3, 0.3)
"""What a step of the program takes beside its own time."""


class Compute(NamedTuple):
    """What a program does between two calls of MPI, for so many seconds at least."""

    seconds: float = 0.0


class Probe(NamedTuple):
    """Whether rank 0 of the other side has sent something; the outcome."""

    comm: o.Comm


class Gather(NamedTuple):
    """``value`` of all ranks of ``comm``; the outcome. In a phase it has ``share`` times the deadline."""

    comm: o.Comm
    value: object
    share: float = 1.0


class EndAll(NamedTuple):
    """All that mpiexec has started is ended, and the job has not failed."""


Doing: TypeAlias = o.Operation | Compute | Probe | Gather | EndAll


class Ended(NamedTuple):
    """That of the whole job at once: by whom, in which phase, and what was said."""

    by: Proc
    phase: Phase | None
    text: str
    failed: bool = True


@dataclass(eq=False)
class Waiting:
    what: str
    poll: Callable[[], Any]
    timer: Timer | None = None
    links: tuple[Link, ...] = ()


@dataclass(eq=False)
class Proc:
    """``world``: the number of its start, -1 for those who were there; ``own``: its MPI_COMM_WORLD."""

    world: int
    rank: int
    host: str
    is_starter: bool = False
    own: Link | None = None
    parent: Link | None = None
    steps: o.Steps[None] | None = None
    state: State = State.RUNS
    phase: Phase | None = None
    reached: list[Phase | None] = field(default_factory=list)
    at: dict[Phase | None, float] = field(default_factory=dict)
    """When it has come to a phase last."""
    in_loop: bool = False
    """Whether this newcomer has come to its loop: if it fails from then on, it ends the job (`mpi/job.py`)."""
    joined: bool = False
    """Whether it has come to user code, which may stand still for ever."""
    there: bool = False
    """Whether it has said that it is there: what goes wrong with it from then on the job need not survive."""
    goes: bool = False
    """Whether it has begun to leave its parent: nobody hears of it behind that."""
    done: int = 0
    """Operations; of those that were there before the expansion, in its phases."""
    waiting: Waiting | None = None
    struck: float = 0.0
    """When something has happened to it."""

    @property
    def was_there(self) -> bool:
        """Before the expansion."""
        return self.world == SOURCES

    @property
    def unheard(self) -> bool:
        """Whether it stands still behind its last word, which nobody can notice."""
        return self.goes and self.state is State.STANDS

    @property
    def place(self) -> tuple[int, int]:
        return (STARTER if self.is_starter else self.world), self.rank

    def __str__(self) -> str:
        name = "starter" if self.is_starter else "source" if self.world < 0 else f"newcomer {self.world}."
        return f"{name}{'' if self.is_starter else self.rank}"


PHASES: dict[type, tuple[Phase, ...]] = {
    o.Look: (Phase.PREPARE,),
    o.Duplicate: (Phase.PREPARE,),
    o.Spawn: (Phase.START,),
    o.Hosts: (Phase.SYNCHRONISE,),
    o.Accept: (Phase.CONNECT,),
    o.Connect: (Phase.CONNECT,),
    o.Split: (Phase.REORDER,),
    o.Unite: (Phase.CONNECT, Phase.MERGE),
    m.Briefing: (Phase.PREPARE,),
    m.Report: (Phase.SYNCHRONISE,),
    m.Joined: (Phase.CONNECT,),
}
"""In which phase of a resize each operation is, and the wait for each message."""


def has_none_to_hear(proc: Proc, doing: Doing) -> bool:
    """Its rank 0 has spoken for it, which has heard of it with the hosts of the group."""
    return isinstance(doing, o.Receive) and doing.kind is m.Report and not doing.peers and proc.rank > 0


def told(doing: Doing) -> str:
    return type(doing).__name__ + (f" ({what})" if (what := getattr(doing, "what", "")) else "")


@dataclass(eq=False)
class Round:
    """Something that all of a communicator do together, as it comes to be done. ``came``: who has begun it, and with
    what; ``made``: what comes of it, if that is for another to say."""

    kind: str
    came: dict[Proc, Any] = field(default_factory=dict)
    made: Link | None = None


@dataclass(eq=False)
class Link:
    """A communicator, as all of it share it; between two worlds it has two ``sides``."""

    sides: tuple[tuple[Proc, ...], ...]
    rounds: list[Round] = field(default_factory=list)
    begun: dict[Proc, int] = field(default_factory=dict)
    boxes: dict[tuple[Proc, Proc], deque[bytes]] = field(default_factory=dict)
    arrives: dict[tuple[Proc, Proc], float] = field(default_factory=dict)
    left: list[Proc] = field(default_factory=list)
    abandoned: list[Proc] = field(default_factory=list)

    @property
    def procs(self) -> tuple[Proc, ...]:
        return tuple(proc for side in self.sides for proc in side)

    def box(self, source: Proc, target: Proc) -> deque[bytes]:
        return self.boxes.setdefault((source, target), deque())

    def begin(self, proc: Proc, kind: str, data: Any = None) -> Round:
        """The next thing that ``proc`` does together with the others; all must do the same things in one order."""
        number = self.begun.get(proc, 0)
        self.begun[proc] = number + 1
        if number == len(self.rounds):
            self.rounds.append(Round(kind))
        found = self.rounds[number]
        if found.kind != kind:
            raise Violation("wrong", f"{proc} does {kind} where others of its communicator do {found.kind}")
        found.came[proc] = data
        return found

    def complete(self, round_: Round) -> bool:
        return len(round_.came) == len(self.procs)


class Handle(NamedTuple):
    """A communicator, as one process has it."""

    link: Link
    side: int
    rank: int

    @property
    def size(self) -> int:
        return len(self.link.sides[self.side])

    @property
    def others(self) -> tuple[Proc, ...]:
        """Whose ranks are meant in messages."""
        return self.link.sides[1 - self.side] if len(self.link.sides) == 2 else self.link.sides[0]


def handle(link: Link, proc: Proc) -> Handle:
    side = next(number for number, side in enumerate(link.sides) if proc in side)
    return Handle(link, side, link.sides[side].index(proc))


class Request(NamedTuple):
    """Something that was begun and is not waited for yet."""

    done: Callable[[], bool]


@dataclass(eq=False)
class Port:
    """Sides that accept here, and those that connect, meet in the order in which they are complete."""

    owner: Proc
    is_open: bool = True
    accepting: deque[tuple[Link, Round]] = field(default_factory=deque)
    connecting: deque[tuple[Link, Round]] = field(default_factory=deque)
