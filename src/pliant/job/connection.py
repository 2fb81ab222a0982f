"""The socket of a session: rank 0 of a group and its agent, over a Unix socket, without a thread.

With PLIANT_RECORD=DIR what the session and its negotiation are given and answer is appended to
DIR/job-JOB-GROUP-PID.ndjson, which ``job/recording.py`` plays again; the token of the session is in it.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from collections.abc import Callable, Iterable

from pliant import recorder
from pliant.job.environment import Environment
from pliant.job.errors import AgentLost, Stalled
from pliant.job.recording import Tape, TapedSession
from pliant.job.session import Session
from pliant.model.errors import PliantError
from pliant.model.jobs import Bounds
from pliant.protocol.messages import Get, Hello, JobMessage, Welcome

POLL_S = 1e-3
"""A poll costs about 1 us, so one a millisecond costs 0.1 % of the time."""
IDLE_S = 1e-3
"""How often ``idle`` is called while a wait lasts."""
LOOK_S = 1.0
"""How often a wait looks whether it is done by other means than what comes in, where there is no ``idle``."""


class Connection:
    """Carries the bytes of ``session`` between this process and its agent.

    ``idle`` is called about every millisecond while a wait lasts: an MPI program makes its progress there.
    ``on_lost`` hears why the agent is gone; without one that is an AgentLost, raised where it is noticed. A wait
    ends with AgentLost in any case, as nothing will come any more.
    """

    def __init__(
        self,
        place: Environment,
        link: socket.socket,
        limit_s: float,
        idle: Callable[[], object] | None = None,
        on_lost: Callable[[str], object] | None = None,
    ) -> None:
        self.place = place
        tape = recorder.Recorder(recorder.directory(), f"job-{place.job}-{place.group}-{os.getpid()}")
        on_lost = on_lost or self._fail
        self.session = (
            TapedSession(Tape(tape.write), self._write, on_lost=on_lost)
            if tape.on
            else Session(self._write, on_lost=on_lost)
        )
        self._link = link
        # Asked before each recv: one that finds nothing raises, which takes 20 times as long.
        self._arrived = select.poll()
        self._arrived.register(link, select.POLLIN)
        self._limit_s = limit_s
        self._idle = idle
        self._polled = 0.0

    @classmethod
    def open(
        cls,
        place: Environment,
        limit_s: float,
        idle: Callable[[], object] | None = None,
        on_lost: Callable[[str], object] | None = None,
    ) -> Connection:
        """Connect to the agent; PliantError if it is not there."""
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        link.settimeout(limit_s)
        try:
            link.connect(place.socket)
        except OSError as error:
            link.close()
            raise PliantError(f"no agent answers at {place.socket}: {error}") from error
        # Python's own timeout would make recv wait in spite of MSG_DONTWAIT, so the kernel's bounds the sends.
        link.settimeout(None)
        seconds = max(1, int(limit_s))
        link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", seconds, 0))
        return cls(place, link, limit_s, idle, on_lost)

    def greet(self, ranks: int, bounds: Bounds) -> Welcome:
        """Say hello and wait for the welcome; PliantError if the scheduler refuses."""
        place = self.place
        self.send(
            Hello(
                job=place.job,
                group=place.group,
                epoch=place.epoch,
                token=place.token(),
                ranks=ranks,
                bounds=bounds,
            )
        )
        self.wait(lambda: bool(self.session.inbox), "the scheduler's welcome")
        return self.session.welcome()

    def fileno(self) -> int:
        """For ``select``: readable when something has come."""
        return self._link.fileno()

    def send(self, message: JobMessage) -> None:
        """Write one message; ProtocolError if it is out of place."""
        self.session.send(message)

    def poll(self) -> None:
        """Take in what has arrived, at most once a millisecond; never blocks."""
        now = time.perf_counter()
        if now - self._polled >= POLL_S:
            self._polled = now
            self._receive()

    def wait(self, done: Callable[[], bool], what: str, *, limited: bool = True, times: int = 1) -> None:
        """Read messages until ``done()``; Stalled after ``times`` the limit, AgentLost if nothing can come any more."""
        start, limit_s = time.perf_counter(), self._limit_s * times
        self._receive()
        while not done():
            if self.session.gone:
                self._fail(self.session.gone)
            pause = LOOK_S
            if self._idle is not None:
                self._idle()
                pause = IDLE_S
            # Wakes at once when something arrives.
            select.select([self._link], [], [], min(pause, self._limit_s) if limited else pause)
            self._receive()
            if limited and time.perf_counter() - start > limit_s:
                raise Stalled(what, limit_s, times)

    def fetch(
        self, epoch: int, keys: Iterable[str], what: str, *, limited: bool = True, times: int = 1
    ) -> list[str]:
        """Ask for values and wait until all are there, as ``wait`` does; they come in the order of the keys."""
        wanted, values = [(epoch, key) for key in keys], self.session.values
        for _, key in wanted:
            self.send(Get(epoch, key))
        self.wait(lambda: all(want in values for want in wanted), what, limited=limited, times=times)
        return [values[want] for want in wanted]

    def close(self) -> None:
        """Close the socket. The scheduler takes a session that has not said Bye for a group that may yet end."""
        self._link.close()

    def _write(self, data: bytes) -> None:
        try:
            self._link.sendall(data)
        except OSError as error:
            self.session.lose(str(error))

    def _receive(self) -> None:
        while not self.session.gone and self._arrived.poll(0):
            try:
                data = self._link.recv(65536, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError as error:
                self.session.lose(str(error))
                return
            if not data:
                self.session.lose("it closed the connection")
                return
            self.session.receive(data)

    def _fail(self, why: str) -> None:
        raise AgentLost(self.place.group, self.place.node, why)
