"""How ranks of a group sleep, and who wakes them: without MPI.

A rank that sleeps blocks on a socket to rank 0 of its group, on the same node, and takes no processor time. Rank 0
sends one word when it is to wake up, or to end. If rank 0 is gone, so is the connection, and who slept ends as well;
rank 0 itself ends when its agent is gone.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import time
from collections.abc import Callable, Iterable

import msgspec

LOOK_S = 1.0
"""A rank that sleeps lets MPI make progress so seldom; more often at first, as others may wait for what it has sent."""
FIRST_S = 1e-3
_RANK = struct.Struct("<I")
_PEER = struct.Struct("3i")


class WakeOrder(msgspec.Struct, frozen=True, array_like=True):
    """To a rank that sleeps: its job is over, or lets go of its node; or it joins those who accept at ``port``, with
    its group's ranks from ``first`` to before ``last``, and ``more`` such parties come behind it."""

    end: bool
    port: str = ""
    first: int = 0
    last: int = 0
    more: int = 0


class WakerGone(Exception):  # noqa: N818 - what has happened
    """Rank 0 of the group has ended."""


class ParkedRanks:
    """Those of a group, on its rank 0."""

    def __init__(self) -> None:
        self._links: dict[int, socket.socket] = {}
        self._door: socket.socket | None = None

    def __len__(self) -> int:
        return len(self._links)

    def open(self) -> bytes:
        """Where who is to sleep makes its bed: an address that the kernel chooses, gone with this process. OSError if
        there can be none."""
        if self._door is None:
            door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            door.bind("")
            door.listen(socket.SOMAXCONN)
            door.setblocking(False)
            self._door = door
        name: bytes = self._door.getsockname()
        return name

    def admit(self, ranks: Iterable[int], limit_s: float, idle: Callable[[], object]) -> None:
        """Wait until these ranks of the group have made their beds; OSError if one does not. ``idle`` is called about
        every millisecond."""
        missing, until = set(ranks), time.perf_counter() + limit_s
        while missing:
            if self._door is None or time.perf_counter() > until:
                raise TimeoutError(f"ranks {sorted(missing)} of this node did not come")
            try:
                link, _ = self._door.accept()
            except BlockingIOError:
                idle()
                time.sleep(FIRST_S)
                continue
            if _stranger(link):
                link.close()
                continue
            link.settimeout(limit_s)
            (rank,) = _RANK.unpack(_exactly(link, _RANK.size))
            missing.discard(rank)
            self._links[rank] = link

    def forget(self, ranks: Iterable[int]) -> None:
        """These do not sleep after all. Who has come to the door, and was not let in, is not taken for one of those who
        come later."""
        self._close()
        for rank in ranks:
            if (link := self._links.pop(rank, None)) is not None:
                link.close()

    def wake(self, first: int, last: int, port: str, more: int) -> None:
        """Tell ranks ``first`` to before ``last`` where to come. OSError if one is gone."""
        for rank in range(first, last):
            link = self._links.pop(rank)
            link.sendall(_line(WakeOrder(False, port, first, last, more)))
            link.close()

    def release(self) -> None:
        """The group ends: all of them do."""
        for link in self._links.values():
            with contextlib.suppress(OSError):  # it has been ended from outside
                link.sendall(_line(WakeOrder(True)))
            link.close()
        self._links.clear()
        self._close()

    def _close(self) -> None:
        if self._door is not None:
            self._door.close()
            self._door = None


class ParkedRank:
    """Of a rank that sleeps."""

    def __init__(self, address: bytes, rank: int, limit_s: float) -> None:
        """OSError if rank 0 of the group cannot be reached at ``address``."""
        self._link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._link.settimeout(limit_s)
            self._link.connect(address)
            if _stranger(self._link):
                raise PermissionError("another user has taken its place")
            self._link.sendall(_RANK.pack(rank))
        except OSError:
            self._link.close()
            raise

    def sleep(self, idle: Callable[[], object]) -> WakeOrder:
        """Until rank 0 says what comes next; Gone if it never will. ``idle`` is called now and then."""
        data, pause = b"", FIRST_S
        try:
            while not data.endswith(b"\n"):
                idle()
                # It wakes at once when something arrives, and also when rank 0 has ended.
                if select.select([self._link], [], [], pause)[0]:
                    data += self._some()
                else:
                    pause = min(1.5 * pause, LOOK_S)
        finally:
            self.leave()
        return msgspec.json.decode(data, type=WakeOrder)

    def _some(self) -> bytes:
        try:
            data = self._link.recv(65536)
        except OSError:
            data = b""
        if not data:
            raise WakerGone
        return data

    def leave(self) -> None:
        self._link.close()


def _line(word: WakeOrder) -> bytes:
    return msgspec.json.encode(word) + b"\n"


def _exactly(link: socket.socket, size: int) -> bytes:
    data = link.recv(size, socket.MSG_WAITALL)
    if len(data) < size:
        raise ConnectionResetError("it closed the connection")
    return data


def _stranger(link: socket.socket) -> bool:
    """Whether another user is at the other end."""
    _, user, _ = _PEER.unpack(link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return bool(user != os.getuid())
