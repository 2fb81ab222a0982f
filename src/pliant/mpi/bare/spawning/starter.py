"""A process that starts others beside a job, by MPI. Started by mpi4py, so that an exception in it ends the job as
well."""

from __future__ import annotations

import sys
import time
from functools import partial

from mpi4py import MPI

from pliant.job.spawning import messages as m
from pliant.job.spawning import starter
from pliant.job.spawning.sources import Arrivals
from pliant.mpi.bare.spawning.driver import run
from pliant.mpi.bare.spawning.process import end_job, end_with_launcher, host
from pliant.mpi.bare.spawning.words import TAG
from pliant.mpi.wait import Wait

COMMAND = ("-m", "mpi4py", "-c", "from pliant.mpi.bare.spawning.starter import main; main()")


class SpawnStarter:
    """The root's end of it: one order at a time."""

    def __init__(self, wait: Wait) -> None:
        """Start the process, on the node of this one; MPI.Exception if that cannot be."""
        self._wait = wait
        self._ordered: starter.Ordered | None = None
        self._failed = 0
        self.lost = False
        """It has said nothing in time, and is given up: nothing is asked of it any more."""
        info = MPI.Info.Create({"hosts": host()})
        with wait.watchdog("starting the process that starts others"):
            self._comm = MPI.COMM_SELF.Spawn(sys.executable, [*COMMAND, repr(wait.limit_s)], 1, info)
        info.Free()

    def begin(self, briefing: m.Briefing) -> None:
        """Have newcomers started; returns at once."""
        self._ordered = run(starter.order(self._comm, briefing), self._wait)

    def ready(self) -> bool:
        """Whether it is known what has come of the newcomers."""
        return self._comm.Iprobe(0, TAG)

    def arrivals(self) -> Arrivals:
        """What has come of them, when that is known."""
        assert self._ordered is not None  # noqa: S101 - they were
        return self._heard(run(starter.arrivals(self._comm, self._ordered), self._wait))

    def give_up(self) -> None:
        """Nobody waits any more for the newcomers that were ordered: they go again."""
        assert self._ordered is not None  # noqa: S101 - they were
        self._heard(run(starter.give_up(self._comm, self._ordered), self._wait))

    def _heard(self, there: Arrivals) -> Arrivals:
        self.lost = there.lost
        self._failed += there.outcome is not None and bool(there.outcome.error)
        return there

    def end(self, *, last: bool = False) -> bool:
        """The process ends; no order is open. Whether it stands still; at the ``last`` end, that of the job, or some of
        those that it has started."""
        return self.lost or run(starter.end(self._comm, last=last, failed=self._failed), self._wait)


def main() -> None:
    """The process itself."""
    root, wait = MPI.Comm.Get_parent(), Wait(float(sys.argv[1]))
    wait.end = partial(end_job, 1)
    end_with_launcher()
    run(starter.serve(root, time.perf_counter), wait)
