"""A process that starts others beside a job: the strategy Asynchronous of paper 1, section 2. Started by mpi4py, so
that an exception in it ends the job as well.

MPI_Comm_spawn returns when what it has started has initialised MPI, and nothing else can be done in MPI meanwhile: a
thread of MPICH that is in it keeps the lock that every other call of its process needs (measured: 217 to 351 ms of 272
to 404). So the job's root has a process of its own for it, which it has started when it began. No thread is needed.
"""

from __future__ import annotations

import sys
import time
from functools import partial

from mpi4py import MPI

from pliant.mpi.spawning import messages as m
from pliant.mpi.spawning.expansion import Arrivals, Clock, bring
from pliant.mpi.spawning.kin import Kin, end_job, end_with_launcher, host
from pliant.mpi.wait import Wait

COMMAND = ("-m", "mpi4py", "-c", "from pliant.mpi.spawning.starter import main; main()")
NAP_S = 0.005


class Starter:
    """The root's end of it: one order at a time."""

    def __init__(self, wait: Wait) -> None:
        """Start the process, on the node of this one; MPI.Exception if that cannot be."""
        self._wait = wait
        self._order = m.Order()
        info = MPI.Info.Create({"hosts": host()})
        with wait.watchdog("starting the process that starts others"):
            self._comm = MPI.COMM_SELF.Spawn(sys.executable, [*COMMAND, repr(wait.limit_s)], 1, info)
        info.Free()

    def begin(self, briefing: m.Briefing) -> None:
        """Have newcomers started; returns at once."""
        self._order = m.Order(briefing, MPI.Open_port())
        self._wait.requests(m.send(self._comm, 0, self._order), "an order to the process that starts others")

    def ready(self) -> bool:
        """Whether it is known what has come of the newcomers."""
        return self._comm.Iprobe(0, m.TAG)

    def arrivals(self) -> Arrivals:
        """What has come of them, when that is known."""
        outcome = m.receive(self._comm, 0, m.Outcome, self._wait, "the newcomers to join")
        briefing = self._order.briefing
        assert briefing is not None  # noqa: S101 - they were ordered
        return Arrivals(briefing.epoch, self._order.port, outcome, starter=self._comm)

    def end(self, *, last: bool = False) -> bool:
        """The process ends; no order is open. At the ``last`` end, that of the job: whether some of those that it has
        started stand still."""
        self._wait.requests(
            m.send(self._comm, 0, m.Order(last=last)), "the process that starts others to end"
        )
        late = False
        if last:
            # It waits for each of them as long as others wait for it.
            outcome = m.receive(
                self._comm, 0, m.Outcome, self._wait, "the process that starts others to end", limited=False
            )
            late = bool(outcome.error)
        with self._wait.watchdog("leaving the process that starts others"):
            self._comm.Disconnect()
        return late


def main() -> None:
    """The process itself."""
    root, wait, late = MPI.Comm.Get_parent(), Wait(float(sys.argv[1])), list[Kin]()
    wait.end = partial(end_job, 1)
    end_with_launcher()
    while (order := _next(root, wait)).briefing is not None:
        clock, plan = Clock(), order.briefing.plan()
        kin = Kin(MPI.COMM_SELF, order.briefing, None, wait)
        outcome = bring(kin, plan, order.briefing.epoch, order.port, wait, clock)
        wait.come(None)
        wait.requests(m.send(root, 0, outcome), "the job to hear of its newcomers")
        if not outcome.error:
            come = m.receive(root, 0, m.Come, wait, "the job to call its newcomers", limited=False)
            wait.requests(m.send(kin.children[0].comm, 0, come), "the newcomers to be called")
            kin.gone()
        else:
            late.append(kin)
    if order.last:
        remain = any([kin.late() for kin in late])  # noqa: C419 - all of them
        wait.requests(m.send(root, 0, m.Outcome("late" if remain else "")), "the job to hear who is late")
    root.Disconnect()


def _next(root: MPI.Intercomm, wait: Wait) -> m.Order:
    """It may be long until then, and the job needs the processors."""
    while not root.Iprobe(0, m.TAG):
        time.sleep(NAP_S)
    return m.receive(root, 0, m.Order, wait, "an order of the job")
