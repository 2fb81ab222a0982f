"""The agent's half of a PMIx server, without I/O.

The library that Open MPI brings is the server, in a process of the group's own (`launch/pmix/`), so that what goes
wrong in it concerns that group alone. It is started before the group's ranks, is one of its processes by the cookie in
its environment, and ends with it. What it cannot answer itself comes here: fences of a world over several nodes, and
asks of other groups, which are passed on unread, as what they answer is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from pliant.live.node.attendance import Attendance
from pliant.live.node.pmi import Asking, AtFence, PmiError, Reply
from pliant.live.node.spawning import refusal
from pliant.model.world import MpiWorld
from pliant.protocol import codec, pmix
from pliant.protocol.fence import Entries

SEGMENTS = "OMPI_MCA_btl_sm_backing_directory"
"""Where ranks share memory: in the directory of their group, which goes with it."""
SERVER = -1
"""The server's number among the processes of its group, whose ranks are numbered from 0."""
CHUNK = 1 << 16
"""Characters of a blob in one entry of a fence."""


class Begin(NamedTuple):
    """The group's server is up: its ranks can be started, each with this environment."""

    env: dict[int, dict[str, str]]


class PmixGroup:
    """The namespace of one group's ranks."""

    def __init__(self, world: MpiWorld, nspace: str) -> None:
        self._world = world
        self._nspace = nspace
        self.attendance = Attendance()
        self._decoder: codec.Decoder[pmix.ServerMessage] = codec.Decoder(pmix.ServerMessage)
        self._round = 0
        self._asked: int | None = None
        """The number of the fence's request, while the ranks here are at it."""
        self._entries: Entries = {}

    def command(self, program: tuple[str, ...], folder: str) -> tuple[str, ...]:
        """What starts the server, which may use this directory."""
        sizes = ",".join(map(str, self._world.sizes))
        return (*program, folder, self._nspace, sizes, str(self._world.part))

    def receive(self, _rank: int, line: str) -> list[AtFence | Begin | Asking]:
        """What follows because the server sent ``line``; PmiError if the group cannot go on."""
        match self._decoder.decode(line.encode()):
            case pmix.Opened() as opened:
                if len(opened.env) != len(self._world.ranks):
                    raise PmiError("the PMIx server has another number of ranks")
                return [Begin(dict(zip(self._world.ranks, opened.env, strict=True)))]
            case pmix.Failed() as failed:
                raise PmiError(failed.error)
            case pmix.Aborted() as aborted:
                raise PmiError(f"rank {aborted.rank} called MPI_Abort", aborted.code % 256 or 1)
            case pmix.Spawning() as spawning:
                raise PmiError(refusal(spawning.rank))
            case pmix.Initialized() as came:
                self.attendance.initialized(came.rank)
                self._check_ended()
                return []
            case pmix.Finalized() as through:
                self.attendance.finalized(through.rank)
                return []
            case pmix.Fence() as fence:
                return self._fence(fence)
            case pmix.Ask() as ask:
                return [Asking(ask.id, msgspec.Raw(bytes(ask.ask)))]

    def fenced(self, number: int, entries: Mapping[str, str], *, more: bool) -> list[Reply]:
        """Take a piece of what all groups have put at fence ``number``; after the last one the ranks go on.

        One that comes again, when they have gone on or are not all there yet, lets nobody pass.
        """
        if number != self._round or self._asked is None:
            return []
        self._entries.update(entries)
        if more:
            return []
        done = pmix.Done(self._asked, blobs=tuple(_joined(self._entries)))
        self._round += 1
        self._asked, self._entries = None, {}
        return [Reply(SERVER, codec.encode(done))]

    @staticmethod
    def answered(answer: msgspec.Raw) -> list[Reply]:
        """What the server is told by others; it may be nothing."""
        return [Reply(SERVER, bytes(answer) + b"\n")] if bytes(answer) != b"null" else []

    def left(self, rank: int) -> None:
        """``rank`` has ended well; PmiError if others wait for it, who would do so for ever."""
        self.attendance.ended(rank)
        self._check_ended()

    def _check_ended(self) -> None:
        if why := self.attendance.missing():
            raise PmiError(why)

    def _fence(self, fence: pmix.Fence) -> list[AtFence | Begin | Asking]:
        if self._asked is not None:
            raise PmiError("the PMIx server came to a fence in which it was already")
        self._asked = fence.id
        pieces = range(0, max(1, len(fence.blob)), CHUNK)
        part = self._world.part
        return [
            AtFence(
                self._round,
                {_Key(part, i).text: fence.blob[start : start + CHUNK] for i, start in enumerate(pieces)},
            )
        ]


class _Key(NamedTuple):
    """Of a piece of a blob: whose it is, and which piece."""

    part: int
    piece: int

    @property
    def text(self) -> str:
        return f"{self.part}.{self.piece}"


def _joined(entries: Mapping[str, str]) -> list[str]:
    """The blobs of all parts, in order."""
    blobs: dict[int, list[str]] = {}
    for part, piece in sorted(tuple(map(int, key.split("."))) for key in entries):
        blobs.setdefault(part, []).append(entries[_Key(part, piece).text])
    return ["".join(pieces) for pieces in blobs.values()]
