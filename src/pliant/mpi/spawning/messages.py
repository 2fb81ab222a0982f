"""What the worlds of an expansion tell each other, over the communicators between a parent and its children: JSON,
checked as it is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec
from mpi4py import MPI

from pliant.model.errors import PliantError
from pliant.mpi.team import broadcast
from pliant.mpi.wait import Wait
from pliant.plan.spawn import Method, SpawnPlan, Strategy, spawn_plan

M = TypeVar("M", bound=msgspec.Struct)

TAG = 7
LONGEST = 1 << 26
"""Bytes of a message: a longer one is none of ours."""
_HEAD = 8


class Started(msgspec.Struct, frozen=True):
    """A group as it has come up: ``host`` and ``size`` are its own words, ``step`` its parent's count."""

    group: int
    step: int
    parent_group: int
    parent_rank: int
    host: str
    size: int


class Briefing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a newcomer has to know: the plan, as what it is made of, and its own place in it."""

    cores: tuple[int, ...]
    running: tuple[int, ...]
    method: Method
    strategy: Strategy
    oversubscription: int
    one: bool
    command: tuple[str, ...]
    hosts: tuple[str, ...]
    epoch: int
    world: int
    step: int
    parent_group: int
    parent_rank: int

    def plan(self) -> SpawnPlan:
        return spawn_plan(
            self.cores, self.running, self.method, self.strategy,
            oversubscription=self.oversubscription, one=self.one,
        )  # fmt: skip


class Report(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Upside: of all that were started by the sender's world, or below it, and of the ports that they have opened."""

    error: str = ""
    started: tuple[Started, ...] = ()
    ports: dict[str, str] = {}

    def __add__(self, other: Report) -> Report:
        error = "; ".join(filter(None, (self.error, other.error)))
        return Report(error, self.started + other.started, self.ports | other.ports)


class Verdict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Downside: all are there, and these are their ports; or, with an error, the newcomers go again."""

    error: str = ""
    ports: dict[str, str] = {}


class Come(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """To newcomers that are one communicator: connect to the sources; or go again, as nobody waits for you."""

    go: bool


class Order(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """To the process that starts others beside the job: do so, or end. ``port`` is the sources'. ``last``: it says
    before its end whether some of those that it has started have never come."""

    briefing: Briefing | None = None
    port: str = ""
    last: bool = False


class Outcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What has come of newcomers: they are one communicator, or there is an error."""

    error: str = ""
    trace: tuple[Started, ...] = ()
    phases: dict[str, float] = {}


class Joined(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The newcomers are one communicator; ``reorder_s``: how long their ranks were put in order."""

    reorder_s: float


def send(comm: MPI.Comm, target: int, message: msgspec.Struct) -> list[MPI.Request]:
    """To rank ``target`` of ``comm``, the remote one between worlds. The requests keep the message."""
    data = msgspec.json.encode(message)
    length = len(data).to_bytes(_HEAD, "little")
    return [comm.Isend([length, MPI.BYTE], target, TAG), comm.Isend([data, MPI.BYTE], target, TAG)]


def receive(  # noqa: PLR0913 - what is awaited from whom, and how long
    comm: MPI.Comm, source: int, kind: type[M], wait: Wait, what: str, *, limited: bool = True
) -> M:
    """The next message of ``source``; Stalled if it does not come, PliantError if it is no ``kind``."""
    (message,) = receive_all([(comm, source)], kind, wait, what, limited=limited)
    return message


def receive_all(
    peers: Sequence[tuple[MPI.Comm, int]], kind: type[M], wait: Wait, what: str, *, limited: bool = True
) -> list[M]:
    """One message of each of ``peers``, (communicator, rank): all of them have one deadline."""
    heads = [bytearray(_HEAD) for _ in peers]
    asked = [
        comm.Irecv([head, MPI.BYTE], source, TAG) for (comm, source), head in zip(peers, heads, strict=True)
    ]
    wait.requests(asked, what, limited=limited)
    lengths = [int.from_bytes(head, "little") for head in heads]
    if max(lengths, default=0) > LONGEST:
        raise PliantError(f"{what}: a message of {max(lengths)} bytes, and {LONGEST} is the most")
    bodies = [bytearray(length) for length in lengths]
    asked = [
        comm.Irecv([body, MPI.BYTE], source, TAG) for (comm, source), body in zip(peers, bodies, strict=True)
    ]
    wait.requests(asked, what)
    try:
        return [msgspec.json.decode(body, type=kind) for body in bodies]
    except msgspec.MsgspecError as error:
        raise PliantError(f"{what}: not as expected: {error}") from None


def tell(  # noqa: PLR0913 - what is told to whom, and how long the wait for it may last
    comm: MPI.Intracomm, message: M | None, kind: type[M], wait: Wait, what: str, *, limited: bool = True
) -> M:
    """``message`` of rank 0 on every rank of ``comm``."""
    data = b"" if message is None else msgspec.json.encode(message)
    return msgspec.json.decode(broadcast(comm, data, 0, wait, what, limited=limited), type=kind)
