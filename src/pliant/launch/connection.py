"""A connected socket on an event loop. It hands on data at once, and keeps what it cannot send yet."""

from __future__ import annotations

import socket
from collections.abc import Callable

from pliant.launch.loop import Loop

PIECE = 1 << 18
"""Bytes that are read at a time."""
AGAIN_S = 1.0
"""After a failed accept the listener waits so long."""
CLOSED = "the connection was closed"


class Connection:
    """``heard`` gets what comes; ``ended`` why nothing will come any more, once, unless this end has closed it. Both
    may be replaced."""

    def __init__(
        self,
        loop: Loop,
        sock: socket.socket,
        heard: Callable[[bytes], object],
        ended: Callable[[str], object],
    ) -> None:
        self.socket = sock
        self.heard = heard
        self.ended = ended
        self.unsent = bytearray()
        self._loop = loop
        self._reads = True
        self._is_closing = False
        sock.setblocking(False)
        loop.add_reader(sock, self._read)

    @property
    def is_closing(self) -> bool:
        """Whether nothing can be written any more."""
        return self._is_closing

    def write(self, data: bytes) -> None:
        """Send ``data``, now or when there is room; nothing where the other end has gone."""
        if self._is_closing:
            return
        waits = bool(self.unsent)
        self.unsent += data
        if not waits:
            self._send()

    def close(self) -> None:
        """When all that was written has been sent. Nothing is heard any more."""
        if not self._is_closing:
            self._stop_reading()
            self._is_closing = True
            self._leave_if_sent()

    def _read(self) -> None:
        why = CLOSED
        try:
            data = self.socket.recv(PIECE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            data, why = b"", str(error)
        if data:
            self.heard(data)
        elif not self._is_closing:
            self._stop_reading()
            self.ended(why)

    def _stop_reading(self) -> None:
        if self._reads:
            self._reads = False
            self._loop.remove_reader(self.socket)

    def _send(self) -> None:
        try:
            while self.unsent:
                del self.unsent[: self.socket.send(self.unsent)]
        except (BlockingIOError, InterruptedError):
            self._loop.add_writer(self.socket, self._send)
            return
        except OSError:  # the end of what comes tells
            self.unsent.clear()
        self._loop.remove_writer(self.socket)
        if self._is_closing:
            self._leave_if_sent()

    def _leave_if_sent(self) -> None:
        if not self.unsent and self.socket.fileno() >= 0:
            self._loop.remove_writer(self.socket)
            self.socket.close()


class Listener:
    """A socket that others connect to: ``called`` gets each connection."""

    def __init__(self, loop: Loop, server: socket.socket, called: Callable[[socket.socket], object]) -> None:
        self._loop = loop
        self._server = server
        self._called = called
        server.setblocking(False)
        loop.add_reader(server, self._accept)

    def close(self) -> None:
        if self._server.fileno() >= 0:
            self._loop.remove_reader(self._server)
            self._server.close()

    def _accept(self) -> None:
        while self._server.fileno() >= 0:
            try:
                sock, _ = self._server.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # too many files are open
                self._loop.remove_reader(self._server)
                self._loop.call_later(AGAIN_S, self._go_on)
                return
            self._called(sock)

    def _go_on(self) -> None:
        if self._server.fileno() >= 0:
            self._loop.add_reader(self._server, self._accept)
