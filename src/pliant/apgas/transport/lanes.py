"""Large buffers between places of one machine. They lie in memory of their own, whose descriptor goes to the other
place over a Unix socket: so they are copied once, and need no encryption.

The sender puts the descriptor down before it sends the message, so that it is there when the message is taken in.
Memory that nobody has taken is freed with the socket, whichever place dies.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import mmap
import os
import socket
import struct
from collections.abc import Sequence

import msgspec

from pliant.apgas.place.messages import Buffer, Payload

LEAST = 1 << 18
"""Bytes from which on a buffer goes this way."""
MARK = b"M"
"""What the first frame of a message begins with whose buffers have gone this way; no message does."""
PAGE = mmap.PAGESIZE
_CREDENTIALS = struct.Struct("iII")
_PACKET = struct.Struct("!QQ")
"""Of which place, and the number of the message there."""


class _Put(msgspec.Struct, frozen=True, array_like=True):
    """The message's number, and which of its frames are in memory, with their lengths."""

    number: int
    parts: list[tuple[int, int]]


class Lanes:
    """Those of the place ``here``, which listens at ``address``; ``secret`` is the program's."""

    def __init__(self, here: int, address: str, secret: str) -> None:
        self._here, self._secret = here, secret
        self._listener = _socket()
        self._listener.bind(self._name(address))
        self._listener.listen(socket.SOMAXCONN)
        self._out: dict[int, socket.socket | None] = {}
        """By place where its descriptors go; None: it is on another machine."""
        self._in: list[socket.socket] = []
        self._came: dict[tuple[int, int], int] = {}
        self._numbers = itertools.count(1)

    def _name(self, address: str) -> bytes:
        return b"\0pliant " + hashlib.sha256(f"{self._secret} {address}".encode()).hexdigest().encode()

    # ---- sending -------------------------------------------------------------------------------------------

    def put(self, place: int, address: str, payload: Payload) -> tuple[bytes, list[Buffer]] | None:
        """The frame that goes before the message, and what is left of its payload; None if all of it has to be sent."""
        large = [(at, memoryview(part)) for at, part in enumerate(payload) if len(part) >= LEAST]
        lane = self._lane(place, address) if large else None
        if lane is None:
            return None
        number = next(self._numbers)
        try:
            memory = os.memfd_create("pliant", os.MFD_CLOEXEC)
            try:
                for _, part in large:
                    _write(memory, part)
                socket.send_fds(lane, [_PACKET.pack(self._here, number)], [memory])
            finally:
                os.close(memory)
        except OSError:  # there is no room for it
            return None
        put = _Put(number, [(at, len(part)) for at, part in large])
        there = dict(put.parts)
        return MARK + msgspec.msgpack.encode(put), [
            part for at, part in enumerate(payload) if at not in there
        ]

    def _lane(self, place: int, address: str) -> socket.socket | None:
        if place not in self._out:
            self._out[place] = lane = _socket()
            try:
                lane.connect(self._name(address))
                if not _is_ours(lane):
                    raise PermissionError
            except OSError:
                lane.close()
                self._out[place] = None
        return self._out[place]

    def forget(self, place: int) -> None:
        """Nothing more goes to ``place``."""
        lane = self._out.pop(place, None)
        if lane is not None:
            lane.close()

    # ---- taking in -----------------------------------------------------------------------------------------

    def take(self, place: int, mark: Buffer, rest: Sequence[Buffer]) -> list[Buffer]:
        """The payload as it was, of a message that began with ``mark`` and had the ``rest``. LookupError if what
        ``place`` has put down is not there."""
        put = msgspec.msgpack.decode(memoryview(mark)[len(MARK) :], type=_Put)
        if (place, put.number) not in self._came:
            self._listen()
        memory = self._came.pop((place, put.number))
        try:
            whole = memoryview(
                mmap.mmap(memory, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
            )
        finally:
            os.close(memory)
        payload, begin = list(rest), 0
        for at, length in put.parts:
            payload.insert(at, whole[begin : begin + length])
            begin += -(-length // PAGE) * PAGE
        return payload

    def _listen(self) -> None:
        """Take in all that has been put down by now."""
        with contextlib.suppress(BlockingIOError):
            while True:
                lane, _ = self._listener.accept()
                lane.setblocking(False)
                if _is_ours(lane):
                    self._in.append(lane)
                else:
                    lane.close()
        for lane in list(self._in):
            if not self._drain(lane):
                self._in.remove(lane)
                lane.close()

    def _drain(self, lane: socket.socket) -> bool:
        """Whether more may come."""
        with contextlib.suppress(BlockingIOError):
            while True:
                try:
                    data, memories, _, _ = socket.recv_fds(lane, _PACKET.size, 1)
                except ConnectionError:
                    return False
                if not data:
                    return False
                self._came[_PACKET.unpack(data)] = memories[0]
        return True

    # ---- the end -------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of all; also in a process that was forked."""
        for each in (self._listener, *self._in, *filter(None, self._out.values())):
            each.close()
        for memory in self._came.values():
            os.close(memory)
        self._came.clear()


def _socket() -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made.setblocking(False)
    return made


def _is_ours(lane: socket.socket) -> bool:
    """Whether the other end is a process of the same user."""
    said = lane.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(said)[1] == os.geteuid())


def _write(memory: int, part: memoryview) -> None:
    """Append, up to the end of a page."""
    left = part.cast("B")
    while left:
        left = left[os.write(memory, left) :]
    os.lseek(memory, -len(part) % PAGE, os.SEEK_CUR)
