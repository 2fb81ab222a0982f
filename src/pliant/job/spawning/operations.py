"""What a process does in an expansion, as data. Whoever carries an operation out answers with its outcome, or has the
coroutine raise Stalled, where something did not come in time, or Failed, where MPI has refused it."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

from pliant.model.errors import PliantError
from pliant.protocol.phases import Phase

T = TypeVar("T")


class Failed(PliantError):  # noqa: N818 - what has become of an operation
    """MPI has refused an operation; the text is its own."""


class Comm(Protocol):
    """A communicator, of one world or between two: who carries out operations knows what it is."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...


Pending: TypeAlias = tuple[Any, ...]
"""What has begun, and will be complete: who carries out operations knows what it is."""


class Reach(NamedTuple):
    """This process comes to a phase of a resize; None: it is over."""

    phase: Phase | None


class Say(NamedTuple):
    """To the user."""

    text: str


class Alone(NamedTuple):
    """A communicator of this process alone; the outcome."""


class Duplicate(NamedTuple):
    """A communicator of all of this process' world; the outcome."""

    what: str


class Hosts(NamedTuple):
    """Of each rank of ``comm`` the node; the outcome, in the order of ranks."""

    comm: Comm
    what: str


class Look(NamedTuple):
    """Whether all ranks of ``comm`` find ``program``, and whether all have free file descriptors; the outcome."""

    comm: Comm
    program: str
    what: str


class Spawn(NamedTuple):
    """Start ``size`` processes on ``hosts``, by all of ``by`` together, or by this one alone. The outcome is the
    communicator to them. Blocks until all of them have begun with MPI."""

    command: tuple[str, ...]
    hosts: str
    size: int
    by: Comm | None
    what: str


class Send(NamedTuple):
    """To rank ``target`` of ``comm``, the other side's where it is between two; the outcome is Pending."""

    comm: Comm
    target: int
    message: msgspec.Struct


class Receive(NamedTuple):
    """A message of each of ``peers``, (communicator, rank), that all have one deadline: ``share`` of it, if it is
    ``limited``. The outcome is a list of ``kind``."""

    peers: tuple[tuple[Comm, int], ...]
    kind: type[msgspec.Struct]
    what: str
    limited: bool = True
    share: float = 1.0


class Tell(NamedTuple):
    """``message`` of rank 0 on every rank of ``comm``: the outcome. It has ``share`` times the deadline, if it is
    ``limited``."""

    comm: Comm
    message: msgspec.Struct | None
    kind: type[msgspec.Struct]
    what: str
    limited: bool = True
    share: float = 1.0


class Nap(NamedTuple):
    """Until rank 0 of the other side of ``comm`` has sent something, however long that takes."""

    comm: Comm


class Part(NamedTuple):
    """Begin a barrier over ``comm``; the outcome is Pending."""

    comm: Comm


class Await(NamedTuple):
    """Until all that is ``pending`` is complete."""

    pending: Pending
    what: str
    limited: bool = True


class Leave(NamedTuple):
    """Give them up; with a text for ``what`` it has the time that each blocking call has."""

    comms: tuple[Comm, ...]
    what: str = ""


class OpenPort(NamedTuple):
    """The outcome is its name."""


class ClosePort(NamedTuple):
    port: str


class Accept(NamedTuple):
    """By all of ``comm``: those who connect to rank 0's ``port``. The outcome is the communicator between both."""

    comm: Comm
    port: str
    what: str


class Connect(NamedTuple):
    """By all of ``comm``: to those that accept at ``port``. The outcome is the communicator between both."""

    comm: Comm
    port: str


class Unite(NamedTuple):
    """One communicator of both sides, those who are ``high`` behind; ``comm`` and ``between`` are left."""

    comm: Comm
    between: Comm
    high: bool


class Split(NamedTuple):
    """The same processes in the order of ``key``; ``comm`` is left."""

    comm: Comm
    key: int
    what: str


Operation: TypeAlias = (
    Reach | Say | Alone | Duplicate | Hosts | Look | Spawn | Send | Receive | Tell | Nap | Part | Await | Leave
    | OpenPort | ClosePort | Accept | Connect | Unite | Split
)  # fmt: skip
Steps: TypeAlias = Generator[Operation, Any, T]
"""A coroutine of operations, and what it comes to."""
