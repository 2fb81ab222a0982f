"""Communicators and ports of a simulated MPI: who is in them, what is under way, and what is done together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from pliant_lab.injection.audit.violation import Violation

if TYPE_CHECKING:
    from pliant_lab.injection.spawning.processes import Proc


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
