"""How the sources leave Accept when the newcomers will not come any more: somebody else connects in their place.

Not every MPI library can be told for how long to wait in Accept, and who waits there hears nothing of what becomes of
the newcomers. So a thread of the root listens for it, and starts a process that connects, and disconnects with all that
were in Accept: a singleton, which every library that was tried lets do that.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from threading import Event, Thread
from typing import Self

from pliant.model.deadlines import RELEASE_LEAVE_S

LOOK_S = 0.02
PROGRAM = (
    "import sys; from mpi4py import MPI; between = MPI.COMM_SELF.Connect(sys.argv[1]); "
    "print('connected', flush=True); between.Disconnect()"
)
LAUNCHER = ("PMI_", "PMIX_")
"""It is none of the launcher's."""


class AcceptRelease:
    """Around the root's Accept at ``port``: that returns soon after ``lost``, which another thread asks, says that
    newcomers are, and after ``after_s`` seconds in any case."""

    def __init__(self, port: str, lost: Callable[[], bool], after_s: float) -> None:
        self._port = port
        self._lost = lost
        self._after_s = after_s
        self._over = Event()
        self._thread = Thread(target=self._watch, daemon=True)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def came(self) -> bool:
        """Whether it was started, so that the port is not to be used again."""
        return self._process is not None

    def _watch(self) -> None:
        began = time.monotonic()
        while not self._over.wait(LOOK_S):
            if self._lost() or time.monotonic() - began > self._after_s:
                env = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHER)}
                self._process = subprocess.Popen(
                    (sys.executable, "-c", PROGRAM, self._port), env=env, stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                )  # fmt: skip
                return

    def connected(self) -> bool:
        """Behind the block: whether Accept has returned with it, who now waits for all to disconnect."""
        said = self._process.stdout if self._process is not None else None
        return (
            said is not None
            and bool(select.select([said], [], [], RELEASE_LEAVE_S)[0])
            and bool(said.read(1))
        )

    def end(self) -> None:
        """It has left, or goes now."""
        if self._process is None:
            return
        try:
            self._process.wait(RELEASE_LEAVE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
