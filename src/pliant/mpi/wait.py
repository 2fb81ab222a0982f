"""How the library waits: never blocked in MPI where it can be helped, never idle without MPI progress.

A blocking collective whose peer has died cannot be left, so collectives are non-blocking and tested in a
loop. What MPI offers only blocking (Accept, Connect, Merge, Split, Disconnect) runs under a watchdog that can
only end the process.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from mpi4py import MPI

from pliant.job.errors import Stalled

SPIN_S = 50e-6
"""Testing without a pause: a message within one machine takes 2 to 20 us."""
YIELD_S = 200e-6
"""Testing with sched_yield: the peer may be waiting for this core."""
SLEEP_S = 100e-6
SLEEP_MAX_S = 500e-6


def nothing() -> None:
    pass


class Wait:
    """Waits of one rank.

    ``idle`` is called about every millisecond while a wait lasts (a session polls its socket there), and
    ``limit_s`` bounds those waits that no user code of a peer can prolong.
    """

    def __init__(self, limit_s: float, idle: Callable[[], None] = nothing) -> None:
        self.limit_s = limit_s
        self.idle = idle

    def requests(self, requests: Sequence[MPI.Request], what: str, *, limited: bool = True) -> None:
        """Complete all requests; Stalled after ``limit_s`` if ``limited``."""
        if not MPI.Request.Testall(requests):
            self._until(lambda: MPI.Request.Testall(requests), what, limited=limited)

    def request(self, request: MPI.Request, what: str, *, limited: bool = True) -> None:
        """Complete one request; Stalled after ``limit_s`` if ``limited``."""
        if not request.Test():
            self._until(request.Test, what, limited=limited)

    def _until(self, done: Callable[[], bool], what: str, *, limited: bool) -> None:
        start = time.perf_counter()
        while (waited := time.perf_counter() - start) < YIELD_S:
            if done():
                return
            if waited > SPIN_S:
                os.sched_yield()
        pause, polled = SLEEP_S, start
        while not done():
            time.sleep(pause)
            pause = min(pause * 1.2, SLEEP_MAX_S)
            now = time.perf_counter()
            if now - polled > 1e-3:
                polled = now
                self.idle()
            if limited and now - start > self.limit_s:
                raise Stalled(what, self.limit_s)

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
        faulthandler.dump_traceback_later(self.limit_s, exit=True, file=sys.__stderr__ or sys.stderr)
        try:
            yield
        except MPI.Exception as error:
            error.add_note(f"pliant: in {what}")
            raise
        finally:
            faulthandler.cancel_dump_traceback_later()
