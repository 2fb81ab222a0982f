"""Links between the agents of a launch tree: TCP, on which both ends first prove that they know the launch's secret.

Each sends a number that nobody has used before, and the other answers with a keyed hash (HMAC-SHA-256) of both numbers
and of which end it is. The secret itself never travels. What follows is neither encrypted nor signed.
"""

from __future__ import annotations

import hmac
import os
import socket
import struct
from collections.abc import Callable
from hashlib import sha256

from pliant.launch.connection import Connection
from pliant.launch.loop import Loop
from pliant.model.deadlines import CONTROLLER_STOPPED_S, LINK_GREET_S, LINK_PROBE_S, LINK_PROBES
from pliant.model.errors import PliantError
from pliant.model.hosts import apart
from pliant.protocol import codec
from pliant.protocol.branches import LinkMessage

LONGEST = 1 << 26
"""Of a line: the names and contacts of a hundred thousand agents fit into it."""
FULL = 1 << 24
"""Bytes that wait to be sent, as the other end does not read."""
_NUMBER = 32
"""Letters of a number that was drawn; a hash has twice as many."""
_RANK = 8
_ANSWERED = _NUMBER + _RANK + 2 * _NUMBER
"""Letters that one sends who calls."""
_TCP_INFO = struct.Struct("=3xB4x16xI28xI")
"""Of struct tcp_info (<linux/tcp.h>): probes without an answer, segments without one, milliseconds since the last."""


class StrangerError(PliantError):
    """Who is at the other end does not know the secret."""


def _number() -> bytes:
    return os.urandom(_NUMBER // 2).hex().encode()


def _proof(secret: str, end: str, *words: bytes) -> bytes:
    return hmac.new(secret.encode(), b" ".join((end.encode(), *words)), sha256).hexdigest().encode()


def _expect(there: bytes, should: bytes, who: str) -> None:
    if not hmac.compare_digest(there, should):
        raise StrangerError(f"{who} does not belong to this launch")


def call(
    contact: str, rank: int, secret: str, within_s: float = LINK_GREET_S, *, patient: bool = False
) -> socket.socket:
    """A link to the agent that is reached at ``contact``, as ``rank``; OSError or StrangerError if there is none in
    time. ``patient``: it may be stopped; its machine is there."""
    link = socket.create_connection(apart(contact), within_s)
    try:
        if link.getsockname() == link.getpeername():
            raise ConnectionRefusedError(
                "nobody listens there"
            )  # the port was free, and was given to this end
        if patient:
            _be_patient(link)
        mine = _number()
        link.sendall(mine)
        answer = _exactly(link, _NUMBER + 2 * _NUMBER)
        theirs, proof = answer[:_NUMBER], answer[_NUMBER:]
        _expect(proof, _proof(secret, "called", mine, theirs), contact)
        who = b"%0*d" % (_RANK, rank)
        link.sendall(who + _proof(secret, "caller", mine, theirs, who))
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link.settimeout(None)
    except BaseException:
        link.close()
        raise
    return link


def _be_patient(link: socket.socket) -> None:
    """OSError not when nothing is said, but when the other machine is not there any more."""
    link.settimeout(CONTROLLER_STOPPED_S)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"):
        link.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), LINK_PROBE_S)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, LINK_PROBES)


def _exactly(link: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        if not (more := link.recv(count - len(data))):
            raise ConnectionError("the connection was closed at once")
        data += more
    return data


class Greeting:
    """Somebody has called: ``known`` gets the connection, its rank and what has come already, if that is one of ours;
    else ``failed`` is told why not."""

    def __init__(
        self,
        loop: Loop,
        sock: socket.socket,
        secret: str,
        known: Callable[[Connection, int, bytes], object],
        failed: Callable[[Exception], object],
    ) -> None:
        self._secret = secret
        self._known = known
        self._failed = failed
        self._heard = b""
        self._mine = b""
        self._connection = Connection(loop, sock, self._hear, lambda why: self._fail(ConnectionError(why)))
        self._timer = loop.call_later(LINK_GREET_S, self._fail, TimeoutError("it has not said who it is"))

    def _hear(self, data: bytes) -> None:
        self._heard += data
        theirs = self._heard[:_NUMBER]
        if len(theirs) == _NUMBER and not self._mine:
            self._mine = _number()
            self._connection.write(self._mine + _proof(self._secret, "called", theirs, self._mine))
        if len(self._heard) < _ANSWERED:
            return
        who, proof = self._heard[_NUMBER : _NUMBER + _RANK], self._heard[_NUMBER + _RANK : _ANSWERED]
        try:
            _expect(proof, _proof(self._secret, "caller", theirs, self._mine, who), "whoever has called")
            rank = int(who)
        except (StrangerError, ValueError) as error:
            self._fail(error)
            return
        self._timer.cancel()
        self._known(self._connection, rank, self._heard[_ANSWERED:])

    def _fail(self, error: Exception) -> None:
        self._timer.cancel()
        self._connection.close()
        self._failed(error)


class TreeLink:
    """One that stands, to the agent of ``rank``."""

    def __init__(self, rank: int, connection: Connection, now: float) -> None:
        self.rank = rank
        self.connection = connection
        self.lines = codec.Lines(LONGEST)
        self.heard_at = now
        """When it was last heard."""

    def tell(self, message: LinkMessage) -> None:
        self.connection.write(codec.encode(message))

    @property
    def is_full(self) -> bool:
        """Whether the other end has not read for long."""
        return len(self.connection.unsent) > FULL

    def answers(self, within_s: float) -> bool:
        """Whether the other machine has taken what it was sent, though the process there may be stopped and not read:
        then it takes no more, and says so as often as it is asked."""
        told = self.connection.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
        if len(told) < _TCP_INFO.size:
            return False
        probes, unacknowledged, answered_ms = _TCP_INFO.unpack(told)
        return answered_ms < 1000 * within_s or (not unacknowledged and probes <= 1)

    def close(self) -> None:
        self.connection.close()
