"""How a process enters its job: what started it, the session of its group, and the groups that start with it."""

from __future__ import annotations

import os
import select
import traceback
from collections.abc import Callable

import mpi4py
from mpi4py import MPI

from pliant.job import environment
from pliant.job.connection import Connection
from pliant.job.errors import AgentLost
from pliant.job.recording import negotiation
from pliant.model.jobs import Bounds
from pliant.model.speedup import Model
from pliant.mpi.bare import resizer as bare
from pliant.mpi.context import Context
from pliant.mpi.join import together
from pliant.mpi.resizer import abort, say
from pliant.mpi.resizing.scheduled import AgentResizer
from pliant.mpi.team import Member, assemble, broadcast, count_members, gather_all
from pliant.mpi.wait import Wait
from pliant.plan.join import star
from pliant.protocol.messages import GroupLost, SchedulerMessage


def enter(bounds: Bounds, limit_s: float) -> Context:
    """What this process knows of its job when it has entered it; a newcomer is joined later."""
    place = environment.read()
    wait = Wait(limit_s)
    if place is None:
        return bare.enter(bounds, wait) or _alone(bounds, wait)
    context = Context(bounds, wait, place.group, place.node, epoch=place.epoch, fresh=place.resize == 0)
    context.resizer = AgentResizer(context, place)
    try:
        _register(context, place)
        if context.fresh:
            _join_start(context, place)
    except BaseException as error:  # noqa: BLE001 - the peers in MPI have to go as well
        traceback.print_exception(error)
        abort(f"group {place.group} on {place.node} could not start")
    return context


def _alone(bounds: Bounds, wait: Wait) -> Context:
    """A job that keeps its size: without an agent and without a timetable."""
    own = MPI.COMM_WORLD.Dup()
    team = assemble(own, (Member(0, MPI.Get_processor_name(), own.size),), wait)
    return Context(bounds, wait, team=team)


def _register(context: Context, place: environment.Environment) -> None:
    """Open the session on rank 0 of the group, and tell its other ranks what came with the welcome."""
    world, wait = MPI.COMM_WORLD, context.wait
    news: tuple[tuple[int, ...], Model | None, Bounds | None] = ((), None, None)
    if world.rank == 0:
        connection = Connection.open(place, wait.limit_s, idle=world.Iprobe, on_lost=_orphaned(place))
        welcome = connection.greet(world.size, context.bounds)
        wait.idle = connection.poll
        context.started = welcome.groups
        connection.session.listen(_watch(context))
        context.connection = connection
        context.negotiation = negotiation(connection.session, context.bounds, _pass_on, migrates=True)
        news = (welcome.groups, welcome.model, welcome.bounds)
    news = broadcast(world, news, 0, wait, "the scheduler's welcome", limited=False)
    context.started, context.model, context.agreed = news


def say_through(limit_s: float) -> None:
    """This rank is at the end of its block. Where nothing will call MPI_Finalize, tell the launcher in its place, which
    takes a rank that ends before for one that has left the others."""
    pmi = os.environ.get("PMI_FD", "")
    if mpi4py.rc.finalize is False and pmi.isdecimal():
        os.write(int(pmi), b"cmd=finalize\n")
        if select.select([int(pmi)], [], [], limit_s)[0]:
            os.read(int(pmi), 4096)


def _pass_on(text: str) -> None:
    say(f"the scheduler says: {text}")


def _orphaned(place: environment.Environment) -> Callable[[str], None]:
    """Ends this group when its agent is gone: nothing would end it later."""
    return lambda why: abort(str(AgentLost(place.group, place.node, why)))


def _watch(context: Context) -> Callable[[SchedulerMessage], None]:
    """Ends this group at the loss of one that it cannot do without, even in the midst of a wait: one that is
    joined, or was started together with this group while that is not joined. One that is being joined can be given
    up."""

    def take(message: SchedulerMessage) -> None:
        if isinstance(message, GroupLost) and not context.released:
            if context.negotiation is not None and message.group in context.negotiation.joining:
                context.negotiation.overhear(message.group, message.why)
                return
            team = context.team
            needed = context.started if team is None else tuple(member.group for member in team.members)
            if message.group in needed:
                abort(
                    f"group {message.group} of this job was lost, and its data with it; the job cannot go on"
                )

    return take


def _join_start(context: Context, place: environment.Environment) -> None:
    """Make one communicator of the groups of the job's start: they may have one world already."""
    own = MPI.COMM_WORLD.Dup()
    places = gather_all(own, (place.group, place.node), context.wait, "the names of the groups")
    if {group for group, _ in places} != set(context.started):
        own.Free()
        own = together(star(context.started, 0), place.group, place.epoch, context.connection, context.wait)
        places = gather_all(own, (place.group, place.node), context.wait, "the names of the groups")
    context.team = assemble(own, count_members(places), context.wait)
