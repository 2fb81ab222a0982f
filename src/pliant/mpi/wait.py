"""How the library waits: never blocked in MPI where it can be helped, never idle without MPI progress.

A blocking collective whose peer has died cannot be left, so collectives are non-blocking and tested in a
loop. What MPI offers only blocking (Spawn, Accept, Connect, Merge, Split, Disconnect) runs under a watchdog that can
only end the process, and says in which call and which phase of a resize.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Timer

from mpi4py import MPI

from pliant.job.errors import Stalled
from pliant.model.errors import PliantError
from pliant.protocol.phases import Phase

SPIN_S = 50e-6
"""Testing without a pause: a message within one machine takes 2 to 20 us."""
YIELD_S = 200e-6
"""Testing with sched_yield: the peer may be waiting for this core."""
BUSY_SHARE = 0.2
"""Of the time that data may take to move: then a peer is late, and this core is somebody else's."""
SLEEP_S = 100e-6
SLEEP_MAX_S = 500e-6
NAP_S = 50e-6
BRIEF_S = 5e-3
TESTS = 4
"""A collective that all have come to takes several to be over."""
END_S = 30.0
"""What the end of a process may take when its watchdog can speak."""
GRACE_S = 2.0
"""What a watchdog has to say why it ends the process. It needs Python for that; then the process is ended without."""

Look = Callable[[], None]


def nothing() -> None:
    pass


def unseen(_: Phase | None) -> None:
    pass


def end_process() -> None:
    os._exit(1)


class Wait:
    """Waits of one rank.

    ``idle`` is called about every millisecond while a wait lasts (a session polls its socket there), and
    ``limit_s`` bounds those waits that no user code of a peer can prolong.
    """

    def __init__(self, limit_s: float, idle: Callable[[], None] = nothing) -> None:
        self.limit_s = limit_s
        self.idle = idle
        self.phase: Phase | None = None
        """That of the resize that goes on. When all ranks have stopped for it no wait is for user code, and each has a
        limit."""
        self.on_phase: Callable[[Phase | None], None] = unseen
        """Is told of each phase when this rank comes to it, by :meth:`come`."""
        self.end = end_process
        """Ends this process, from a thread of its own, when a call that blocks in MPI has taken too long."""
        self._look = nothing
        self._share = 1.0
        self._abandoned: list[object] = []

    def come(self, phase: Phase | None) -> None:
        """The resize has come to this phase; None: it is over."""
        if phase is not self.phase:
            self.phase = phase
            self.on_phase(phase)

    @contextmanager
    def during(self, phase: Phase) -> Iterator[None]:
        """The block is this phase of a resize."""
        before, self.phase = self.phase, phase
        try:
            yield
        finally:
            self.phase = before

    @contextmanager
    def looking(self, look: Callable[[], None], share: float = 1.0) -> Iterator[None]:
        """Waits in the block are left by what ``look`` raises; it is called after each ``idle``. With ``share``
        that part of the limit is theirs."""
        self._look, self._share = look, share
        try:
            yield
        finally:
            self._look, self._share = nothing, 1.0

    def keep(self, what: object) -> None:
        """Until the end of the process: MPI may yet write there."""
        self._abandoned.append(what)

    def requests(
        self, requests: Sequence[MPI.Request], what: str, *, limited: bool = True, look: Look | None = None
    ) -> None:
        """Complete all requests; Stalled after ``limit_s`` if ``limited``. ``look`` is called as that of a block."""
        if not MPI.Request.Testall(requests):
            with self._kept(requests):
                self._until(lambda: MPI.Request.Testall(requests), what, limited=limited, look=look)

    def request(self, request: MPI.Request, what: str, *, limited: bool = True, brief_s: float = 0.0) -> None:
        """Complete one request; Stalled after ``limit_s`` if ``limited``. ``brief_s``: it comes in a millisecond, not
        before these seconds, from a peer that needs the cores meanwhile."""
        if not request.Test():
            with self._kept([request]):
                if brief_s and not any(request.Test() for _ in range(TESTS)):
                    time.sleep(brief_s)
                    self._nap(request.Test)
                self._until(request.Test, what, limited=limited)

    @staticmethod
    def _nap(done: Callable[[], bool]) -> None:
        """Sleep as shortly as it goes, for as long as something brief may take."""
        end = time.perf_counter() + BRIEF_S
        while not done() and time.perf_counter() < end:
            time.sleep(NAP_S)

    def work(  # noqa: PLR0913 - what is waited for, and how
        self,
        poll: Callable[[], bool],
        kept: object,
        what: str,
        *,
        work_s: float,
        limited: bool = True,
        look: Look | None = None,
    ) -> None:
        """Go on until ``poll`` says that all is done, which may take ``work_s`` without being late. If this is left,
        ``kept`` is kept: it has the requests and their buffers. ``look`` is called as that of a block."""
        if not poll():
            with self._kept(kept):
                self._until(poll, what, limited=limited, work_s=work_s, look=look)

    @contextmanager
    def _kept(self, requests: object) -> Iterator[None]:
        """A wait for these. If it is left, they are kept, and their buffers with them: MPI may yet write there."""
        try:
            yield
        except PliantError:
            self._abandoned.append(requests)
            raise

    def _until(
        self,
        done: Callable[[], bool],
        what: str,
        *,
        limited: bool,
        work_s: float = 0.0,
        look: Look | None = None,
    ) -> None:
        limited = limited or self.phase not in (None, Phase.SYNCHRONISE)
        limit_s = self.limit_s * self._share + work_s
        start = polled = now = time.perf_counter()
        while (waited := now - start) < YIELD_S + BUSY_SHARE * work_s:
            if done():
                return
            if waited > SPIN_S:
                os.sched_yield()
            polled = self._look_around(polled, now, look)
            now = time.perf_counter()
        pause = SLEEP_S
        while not done():
            time.sleep(pause)
            pause = min(pause * 1.2, SLEEP_MAX_S)
            now = time.perf_counter()
            polled = self._look_around(polled, now, look)
            if limited and now - start > limit_s:
                raise Stalled(what, limit_s, self._share, phase=self.phase)

    def _look_around(self, polled: float, now: float, look: Look | None) -> float:
        """Call ``idle`` and ``look`` if it is time to; when that was done last."""
        if now - polled <= 1e-3:
            return polled
        self.idle()
        self._look()
        if look is not None:
            look()
        return now

    def sleep_until(self, moment: float, clock: Callable[[], float] = time.perf_counter) -> None:
        """Sleep, but keep MPI and the session alive: peers may need this rank's progress."""
        while (left := moment - clock()) > 0:
            MPI.COMM_WORLD.Iprobe()
            self.idle()
            time.sleep(min(left, 2e-3))

    @contextmanager
    def watchdog(self, what: str) -> Iterator[None]:
        """For calls that block inside MPI: after ``limit_s`` the process ends with its traceback."""
        sys.stderr.flush()
        timer = Timer(self.limit_s, self._overdue, (what,))
        timer.daemon = True
        timer.start()
        # Should the call keep the interpreter to itself.
        faulthandler.dump_traceback_later(
            self.limit_s + GRACE_S, exit=True, file=sys.__stderr__ or sys.stderr
        )
        try:
            yield
        except MPI.Exception as error:
            error.add_note(f"pliant: in {what}")
            raise
        finally:
            timer.cancel()
            faulthandler.cancel_dump_traceback_later()

    def _overdue(self, what: str) -> None:
        # Python runs, so that it may take the time to have all read what it says.
        faulthandler.dump_traceback_later(END_S, exit=True, file=sys.__stderr__ or sys.stderr)
        sys.stderr.write(f"pliant: {Stalled(what, self.limit_s, phase=self.phase)}\n")
        faulthandler.dump_traceback(file=sys.__stderr__ or sys.stderr)
        sys.stderr.flush()
        self.end()
