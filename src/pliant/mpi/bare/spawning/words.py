"""Messages of an expansion over MPI, between a parent and its children: JSON, checked as it is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec
from mpi4py import MPI

from pliant.model.errors import PliantError
from pliant.mpi.team import broadcast
from pliant.mpi.wait import Wait

M = TypeVar("M", bound=msgspec.Struct)

TAG = 7
LONGEST = 1 << 26
"""Bytes of a message: a longer one is none of ours."""
_HEAD = 8


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
