"""The port by which a job gets another size: by an agent, by spawns of its own, or never."""

from __future__ import annotations

import fcntl
import sys
import termios
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NoReturn, Protocol

from mpi4py import MPI

from pliant.job.decisions import Decision, Known, Nothing, Source
from pliant.job.negotiation import Situation
from pliant.mpi.checks import Checks
from pliant.mpi.snapshot import Snapshot

NAP_S = 1e-3
DRAIN_S = 5.0
"""mpiexec has so long to read the output of a process that ends: its own reader may be slow, or stand still."""
NOBODY = "this rank cannot join a job: neither an agent nor a job that resizes itself has started it"


class Resizer(Protocol):
    """The way of one rank's job to other sizes. What says that it is collective is called by all ranks of the job."""

    @property
    def resizes(self) -> bool:
        """Whether the job may ever have another size."""

    @property
    def asks(self) -> bool:
        """Whether a scheduler answers what the job asks for."""

    @property
    def loops_alone(self) -> bool:
        """Whether only a ``steps()`` loop can be resized, not the program's own."""

    @property
    def is_spare(self) -> bool:
        """Whether the job goes on without this rank, as it has not joined yet."""

    def arrive(self) -> Snapshot:
        """A newcomer reaches its loop: it joins the job. The state of the job."""

    def checks(self, step: int, lag: int, open_step: int) -> Checks | Known:
        """The checks of a new epoch from ``step`` on; where no agent is, something may be decided from ``open_step``
        on."""

    def checks_on(self, step: int, lag: int) -> Checks | Known:
        """The checks after a decision that has left the job as it is, which may be under way beside it."""

    def ready(self) -> Decision | None:
        """The root's: its next decision, where it takes no scheduler for that."""

    def perform(self, decision: Decision, now: Situation, snapshot: Snapshot, *, steps: bool) -> bool:
        """Carry the decision out; collective. False if nothing has changed, or if, with ``steps`` to follow, it goes
        on beside these."""

    def woken(self) -> Snapshot | None:
        """On a rank that was parked by ``perform``: the state of the job once it is awake again. None on all others.
        Released if it is to end instead."""

    def finish(self, own: MPI.Intracomm) -> None:
        """The job ends; collective over ``own``."""

    def abort(self, why: str, code: int) -> NoReturn:
        """Say why, and end all that may wait for this rank."""


@dataclass
class NoResizer:
    """A job that keeps its size. ``source`` names steps at which something is decided, and called off."""

    source: Source = field(default_factory=Nothing)
    resizes = asks = loops_alone = is_spare = False

    def arrive(self) -> Snapshot:
        raise RuntimeError(NOBODY)

    def checks(self, step: int, lag: int, open_step: int) -> Checks | Known:  # noqa: ARG002 - all know the source
        return Known(self.source, open_step)

    def checks_on(self, step: int, lag: int) -> Checks | Known:
        return self.checks(step, lag, step + 1)

    def ready(self) -> Decision | None:
        return Decision()

    def perform(self, decision: Decision, now: Situation, snapshot: Snapshot, *, steps: bool) -> bool:  # noqa: ARG002
        return False

    def woken(self) -> Snapshot | None:
        return None

    def finish(self, own: MPI.Intracomm) -> None:
        """Nothing is left."""

    def abort(self, why: str, code: int) -> NoReturn:
        abort(f"{why}; ending its group", code)


def abort(text: str, code: int = 1) -> NoReturn:
    """Say why and end all ranks of this group: its peers may sit in MPI, where an exception cannot reach."""
    say(text)
    drain()
    MPI.COMM_WORLD.Abort(code)
    raise SystemExit(code)  # never reached


def say(text: str) -> None:
    """A line in the log of the job, behind what this process has printed."""
    sys.stdout.flush()
    log(text)


def log(text: str) -> None:
    """A line in the log of the job, at once: printed text may come behind it."""
    sys.stderr.write(f"pliant: {text}\n")
    sys.stderr.flush()


def drain(limit_s: float = DRAIN_S) -> None:
    """Wait until mpiexec has read the output of this process, for at most ``limit_s``. mpiexec drops unread output when
    it is told to end the job."""
    until = time.perf_counter() + limit_s
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # it is closed, or no pipe
            stream.flush()
            while unread(stream.fileno()) and time.perf_counter() < until:
                time.sleep(NAP_S)


def unread(pipe: int) -> int:
    """Bytes in it; OSError if this cannot be told."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)
