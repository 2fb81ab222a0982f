"""All ranks leave their loop in the same step: a rank that leaves alone waits for the others in vain, and they for it.

Each rank tells the next one in which step it has left. If some leave and others do not, or in another step, one of them
is next to one of the others.
"""

from __future__ import annotations

import time

import numpy as np
from mpi4py import MPI

from pliant.model.errors import PliantError
from pliant.mpi.resizer import say
from pliant.mpi.wait import Wait

TAG = 32765
PATIENCE = 4
"""So many times PLIANT_DEADLINE a rank is waited for: it may save a file in its last step."""
STEPS = 10
"""So many times the mean step a rank is waited for if that is longer than the limit: it may still be in the step."""
REMEDY = "all ranks leave the loop in the same step: let them decide that by what job.comm.allreduce gives all of them"
ALONE = "if one rank only took that long in this step, as to save a file, it does so after the loop"


class LeavingRanks:
    """This rank has left its loop in ``step``; a step took ``step_s`` seconds in the mean. ``total``: how many steps
    the loop has, if that is known."""

    def __init__(self, own: MPI.Intracomm, step: int, total: int | None, step_s: float) -> None:
        self._own, self._step, self._total, self._step_s = own, step, total, step_s
        self._early = total is None or step < total
        self._since = time.perf_counter()
        self._told = False
        self._mine, self._before = np.array([step], "i8"), np.empty(1, "i8")
        self._requests = [
            own.Isend(self._mine, (own.rank + 1) % own.size, TAG),
            own.Irecv(self._before, (own.rank - 1) % own.size, TAG),
        ]

    def check(self, wait: Wait) -> None:
        """PliantError if the rank before has left in another step, or not at all when this rank has left early."""
        limit_s = max(PATIENCE * wait.limit_s, STEPS * self._step_s)

        def look() -> None:
            waited_s = time.perf_counter() - self._since if self._early else 0.0
            if waited_s > limit_s:
                why = f"has not within {limit_s:.3g} s ({PATIENCE} times PLIANT_DEADLINE, or {STEPS} steps)"
                raise PliantError(f"{self._error(why)}; {ALONE}")
            if waited_s > wait.limit_s and not self._told:
                self._told = True
                say(str(self._error(f"has not yet; waiting for up to {limit_s:.3g} s")))

        with wait.looking(look):
            wait.requests(self._requests, "all ranks to leave their loop", limited=False)
        if self._before[0] != self._step:
            raise self._error(self._left(int(self._before[0])))

    def _left(self, step: int) -> str:
        return "has done all of them" if step == self._total else f"has in step {step}"

    def _error(self, other: str) -> PliantError:
        own, before = self._own, (self._own.rank - 1) % self._own.size
        of = "" if self._total is None else f" of {self._total}"
        mine = (
            f"has left its loop in step {self._step}{of}"
            if self._early
            else f"has done all {self._total} steps of its loop"
        )
        return PliantError(f"rank {own.rank} {mine}, and rank {before} {other}: {REMEDY}")
