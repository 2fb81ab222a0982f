"""The agreed check: how all ranks learn, for next to nothing, what the root has decided.

At a check the root posts an 8-byte non-blocking broadcast that all ranks read ``lag`` steps later, when it
has long arrived. Step and lag are the same everywhere because both travel in the value.
"""

from __future__ import annotations

import time
from math import ceil

from mpi4py import MPI

from pliant.job.decisions import NEVER, Decision
from pliant.mpi.wait import Wait

MAX_LAG = 256
COST_SHARE = 0.00125
"""The share of run time that checking may take; as much again is for what is around it, and for the other steps."""
APART_S = 1.0
"""The longest time between two checks, unless one step takes longer. The scheduler waits for about two checks."""
FIRST_S = 100e-6
"""Upper limit of the first estimate of a check's cost."""


def better_lag(cost_s: float, step_s: float) -> int:
    """Steps between checks so that a check of ``cost_s`` takes under 0.125 % of steps of ``step_s``, unless they would
    be more than a second apart."""
    if step_s <= 0:
        return MAX_LAG
    return max(1, min(MAX_LAG, ceil(cost_s / (COST_SHARE * step_s)), int(APART_S / step_s)))


def likely_cost(before_s: float, measured_s: float) -> float:
    """The estimated cost of a check, in seconds, after one more was measured; ``before_s`` is 0 at the first.

    A check that other processes of the node interrupt measures milliseconds for microseconds. So a measurement raises
    the estimate by a quarter at most.
    """
    if not before_s:
        return min(measured_s, FIRST_S)
    return min(0.75 * before_s + 0.25 * measured_s, 1.25 * before_s)


class Checks:
    """The checks of one epoch, over the library's communicator ``comm``; rank 0 is the root."""

    def __init__(self, comm: MPI.Intracomm, wait: Wait, step: int, lag: int) -> None:
        self.due = step
        self.lag = lag
        self._comm = comm
        self._wait = wait
        self._buffer = bytearray(Decision().pack())
        self._request: MPI.Request | None = None
        self._cost_s = 0.0
        self._read_at = 0.0
        self._posted_at = 0.0
        self._better = lag

    def read(self) -> Decision:
        """What was decided at the last check; nothing was at the first.

        A peer may still be in user code, so there is no limit to this wait.
        """
        self._read_at = time.perf_counter()
        if self._request is None:
            return Decision(lag=self.lag)
        self._wait.request(self._request, "the root's decision", limited=False)
        self._request = None
        return Decision.unpack(self._buffer)

    def post(self, step: int, lag: int, decision: Decision) -> None:
        """Send (root) or expect what is to be read at ``step + lag``."""
        if self._comm.rank == 0:
            self._buffer[:] = decision._replace(lag=self._better).pack()
        if self._comm.size > 1:
            self._request = self._comm.Ibcast([self._buffer, len(self._buffer), MPI.BYTE], root=0)
        else:
            self._request = MPI.REQUEST_NULL
        self._account(time.perf_counter())
        self.due, self.lag = step + lag, lag

    def _account(self, now: float) -> None:
        """Measure a check, from reading to posting, and adapt the lag; only the root's counts."""
        if self._read_at and self._posted_at:
            self._cost_s = likely_cost(self._cost_s, now - self._read_at)
            self._better = better_lag(self._cost_s, (self._read_at - self._posted_at) / self.lag)
        self._posted_at = now

    def drain(self) -> None:
        """Complete the check that is under way when the loop is over; what it says is no longer wanted."""
        if self._request is not None:
            self._wait.request(self._request, "the root's last decision", limited=False)
            self._request = None


class Meanwhile(Checks):
    """Where nobody decides but a timetable: the checks while newcomers start beside the job. The root says when it is
    known what has come of them; at step ``last`` (NEVER: none) all wait for that."""

    def __init__(self, comm: MPI.Intracomm, wait: Wait, step: int, last: int, decision: Decision) -> None:
        super().__init__(comm, wait, step, 1)
        self._last, self._decision = last, decision

    def read(self) -> Decision:
        said, due = super().read(), self.due
        return self._decision._replace(lag=said.lag) if due == self._last else said

    def post(self, step: int, lag: int, decision: Decision) -> None:
        super().post(step, lag, decision)
        if self._last != NEVER:
            self.due = min(self.due, self._last)
