"""A job that a bare mpiexec has started is resized at the steps that its environment names (`job/timetable.py`)."""

from __future__ import annotations

from functools import partial
from typing import NoReturn

from mpi4py import MPI

from pliant.job.decisions import Action, Decision, Known
from pliant.job.negotiation import Situation
from pliant.model.jobs import Bounds
from pliant.mpi.bare import resizes, slots, spawning, state
from pliant.mpi.bare.state import Bare
from pliant.mpi.checks import Checks, Meanwhile
from pliant.mpi.context import Context
from pliant.mpi.resizer import say
from pliant.mpi.snapshot import Snapshot
from pliant.mpi.wait import Wait


class SpawnResizer:
    """The ``Resizer`` of a rank that mpiexec has started, or a rank of its job."""

    resizes = loops_alone = True
    asks = False

    def __init__(self, context: Context, bare: Bare) -> None:
        self._context = context
        self._bare = bare

    @property
    def is_spare(self) -> bool:
        return self._bare.arrival is not None

    def arrive(self) -> Snapshot:
        return resizes.arrive(self._context, self._bare)

    def checks(self, step: int, lag: int, open_step: int) -> Checks | Known:  # noqa: ARG002 - all know the timetable
        return Known(self._bare.timetable, open_step)

    def checks_on(self, step: int, lag: int) -> Checks | Known:
        bare, own = self._bare, self._context.joined("the job").own
        if bare.pending is None:
            return self.checks(step, lag, step + 1)
        return Meanwhile(own, self._context.wait, step, bare.pending.last, bare.decision)

    def ready(self) -> Decision | None:
        return self._bare.ready()

    def perform(self, decision: Decision, now: Situation, snapshot: Snapshot, *, steps: bool) -> bool:  # noqa: ARG002
        perform = slots.perform if decision.action is Action.SLOTS else resizes.perform
        return perform(self._context, self._bare, decision, snapshot)

    def woken(self) -> Snapshot | None:
        return slots.woken_at(self._context, self._bare)

    def finish(self, own: MPI.Intracomm) -> None:
        self._bare.finish(own, self._context.wait)

    def abort(self, why: str, code: int) -> NoReturn:
        """All that the job has started ends: after MPI_Abort mpiexec waits for what stands still."""
        say(f"{why}; ending the job")
        spawning.end_job(code)
        raise SystemExit(code)  # never reached


def enter(bounds: Bounds, wait: Wait) -> Context | None:
    """The job of this process, if its environment names resizes; a newcomer is joined later."""
    if (bare := state.of()) is None:
        return None
    wait.end = partial(spawning.end_job, 1)
    spawning.end_with_launcher()
    if MPI.Comm.Get_parent() != MPI.COMM_NULL:
        bare.arrival = spawning.begin(wait)
        context = Context(bounds, wait, fresh=False)
    else:
        context = Context(bounds, wait, team=bare.begin(MPI.COMM_WORLD.Dup(), bounds, wait))
    context.resizer = SpawnResizer(context, bare)
    return context
