"""The client end of a session: rank 0 of a group and its agent, over a Unix socket, without a thread."""

from __future__ import annotations

import select
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable

from mpi4py import MPI

from pliant.model.errors import PliantError, ProtocolError
from pliant.model.jobs import Bounds
from pliant.mpi.environment import Environment
from pliant.mpi.errors import Stalled
from pliant.protocol.codec import Lines, from_scheduler
from pliant.protocol.job_side import JobSide
from pliant.protocol.messages import (
    Error,
    Get,
    Hello,
    JobMessage,
    SchedulerMessage,
    Value,
    Welcome,
)

POLL_S = 1e-3
"""A poll costs about 1 us, so one a millisecond costs 0.1 % of the time."""


def abort(text: str, code: int = 1) -> None:
    """Say why and end all ranks of this group: its peers may sit in MPI, where an exception cannot reach."""
    sys.stdout.flush()
    sys.stderr.write(f"pliant: {text}\n")
    sys.stderr.flush()
    MPI.COMM_WORLD.Abort(code)


class Session:
    """Sends messages, and collects what comes in: values by key, everything else in ``inbox``."""

    def __init__(self, place: Environment, connection: socket.socket, limit_s: float) -> None:
        self.place = place
        self.inbox: deque[SchedulerMessage] = deque()
        self.values: dict[tuple[int, str], str] = {}
        self.side = JobSide()
        self.on_message: Callable[[SchedulerMessage], None] = self.inbox.append
        self._connection = connection
        self._limit_s = limit_s
        self._lines = Lines()
        self._decoder = from_scheduler()
        self._polled = 0.0

    @classmethod
    def open(cls, place: Environment, limit_s: float) -> Session:
        """Connect to the agent; PliantError if it is not there."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(limit_s)
        try:
            connection.connect(place.socket)
        except OSError as error:
            raise PliantError(f"no agent answers at {place.socket}: {error}") from error
        # Python's own timeout would make recv wait in spite of MSG_DONTWAIT, so the kernel's bounds the sends.
        connection.settimeout(None)
        seconds = max(1, int(limit_s))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", seconds, 0))
        return cls(place, connection, limit_s)

    def greet(self, ranks: int, bounds: Bounds) -> Welcome:
        """Say hello and wait for the welcome."""
        place = self.place
        self.send(
            Hello(
                job=place.job,
                group=place.group,
                epoch=place.epoch,
                token=place.token(),
                ranks=ranks,
                bounds=bounds,
                elastic=bounds.max > bounds.min,
            )
        )
        self.wait(lambda: bool(self.inbox), "the scheduler's welcome")
        first = self.take()
        if isinstance(first, Welcome):
            return first
        raise PliantError(f"the scheduler refused group {place.group}: {first}")

    def send(self, message: JobMessage) -> None:
        """Write one message; a closed socket ends the group."""
        data = self.side.send(message)
        try:
            self._connection.sendall(data)
        except OSError as error:
            if self.side.state != "closed":
                self._lost(str(error))

    def poll(self) -> None:
        """Take in what has arrived, at most once a millisecond; never blocks."""
        now = time.perf_counter()
        if now - self._polled >= POLL_S:
            self._polled = now
            self._receive()

    def _receive(self) -> None:
        while True:
            try:
                data = self._connection.recv(65536, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError as error:
                self._lost(str(error))
                return
            if not data:
                self._lost("it closed the connection")
                return
            for line in self._lines.feed(data):
                self._sort(line)

    def _sort(self, line: bytes) -> None:
        try:
            message = self._decoder.decode(line)
        except ProtocolError as error:
            # The scheduler may be newer: what is unknown is answered, and changes nothing.
            self.send(Error(text=str(error)))
            return
        if isinstance(message, Value):
            self.values[message.epoch, message.key] = message.value
        else:
            self.on_message(message)

    def take(self) -> SchedulerMessage | None:
        """The next message of the inbox, or None.

        It counts as received only now: the session's state follows what was dealt with, so that an offer and
        its withdrawal that arrive together are answered one after the other.
        """
        while self.inbox:
            message = self.inbox.popleft()
            try:
                self.side.receive(message)
            except ProtocolError as error:
                self.send(Error(text=str(error)))
            else:
                return message
        return None

    def _lost(self, why: str) -> None:
        if self.side.state != "closed":
            abort(f"group {self.place.group} on {self.place.node} lost its agent: {why}")

    def wait(self, done: Callable[[], bool], what: str, *, limited: bool = True) -> None:
        """Read messages until ``done()``, keeping MPI's progress going; Stalled after the limit."""
        start = time.perf_counter()
        self._receive()
        while not done():
            MPI.COMM_WORLD.Iprobe()
            # Wakes at once when something arrives; the timeout is for MPI's progress.
            select.select([self._connection], [], [], 1e-3)
            self._receive()
            if limited and time.perf_counter() - start > self._limit_s:
                raise Stalled(what, self._limit_s)

    def fetch(self, epoch: int, keys: Iterable[str], what: str, *, limited: bool = True) -> list[str]:
        """Ask for values and wait until all are there; they come in the order of the keys."""
        wanted = [(epoch, key) for key in keys]
        for _, key in wanted:
            self.send(Get(epoch, key))
        self.wait(lambda: all(want in self.values for want in wanted), what, limited=limited)
        return [self.values[want] for want in wanted]

    def close(self) -> None:
        self._connection.close()
