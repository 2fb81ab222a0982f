"""A job is resized as its scheduler decides: an agent has started it."""

from __future__ import annotations

from typing import NoReturn

from mpi4py import MPI

from pliant.job.decisions import Action, Decision, Known
from pliant.job.environment import Environment
from pliant.job.negotiation import Situation
from pliant.mpi import join
from pliant.mpi.checks import Checks
from pliant.mpi.context import Context
from pliant.mpi.resizer import abort
from pliant.mpi.resizing import resize, slots
from pliant.mpi.snapshot import Snapshot
from pliant.mpi.team import broadcast, count_members, gather_all
from pliant.plan.join import joined_key, source_key, star
from pliant.protocol.messages import Put, Ready


class AgentResizer:
    """The ``Resizer`` of a rank that an agent has started at ``place``."""

    resizes = asks = True
    loops_alone = is_spare = False

    def __init__(self, context: Context, place: Environment) -> None:
        self._context = context
        self._place = place

    def arrive(self) -> Snapshot:
        """Join the other newcomers, then the job."""
        context, place = self._context, self._place
        connection, wait = context.connection, context.wait
        if connection is not None:
            connection.send(Ready(place.resize, place.group))
        own = join.together(star(context.started, place.resize), place.group, place.epoch, connection, wait)
        places = gather_all(own, (place.group, place.node), wait, "the newcomers' names")
        port = ""
        if own.rank == 0 and connection is not None:
            connection.send(Put(place.epoch, joined_key(place.resize), context.signature()))
            # The sources come when their steps allow; if never, the scheduler ends this group.
            (port,) = connection.fetch(place.epoch, [source_key(place.resize)], "the job", limited=False)
        port = broadcast(own, port, 0, wait, "the job's port", limited=False)
        return resize.grow_newcomer(context, own, count_members(places), port)

    def checks(self, step: int, lag: int, open_step: int) -> Checks | Known:  # noqa: ARG002 - the scheduler decides
        return Checks(self._context.joined("the job").own, self._context.wait, step, lag)

    def checks_on(self, step: int, lag: int) -> Checks | Known:
        # For those of before it would be a check that has taken as long as this.
        return self.checks(step, lag, step)

    def ready(self) -> Decision | None:
        return None

    def perform(self, decision: Decision, now: Situation, snapshot: Snapshot, *, steps: bool) -> bool:
        if decision.action is Action.SLOTS:
            return slots.perform(self._context, decision, now, snapshot)
        return resize.perform(self._context, decision, now, snapshot, steps=steps)

    def woken(self) -> Snapshot | None:
        return None if self._context.bed is None else slots.sleep(self._context)

    def finish(self, own: MPI.Intracomm) -> None:
        """The agent ends what is left."""

    def abort(self, why: str, code: int) -> NoReturn:
        abort(f"{why}; ending its group", code)
