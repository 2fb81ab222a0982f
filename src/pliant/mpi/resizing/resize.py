"""Executes a resize once all ranks have agreed on it: connect or split, and redistribute."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from mpi4py import MPI

from pliant.job.decisions import Action, Decision
from pliant.job.negotiation import Situation
from pliant.mpi import join
from pliant.mpi.context import Context, Snapshot
from pliant.mpi.data.arrays import Array, filler
from pliant.mpi.data.transport import redistribute
from pliant.mpi.errors import Undone
from pliant.mpi.resizing.admission import FEW_DESCRIPTORS, admit, agreed, has_descriptors
from pliant.mpi.resizing.phases import Phases
from pliant.mpi.team import Member, Team, assemble, barrier, broadcast
from pliant.mpi.wait import Wait
from pliant.plan.join import source_key
from pliant.plan.places import successors
from pliant.protocol.messages import Done
from pliant.protocol.phases import Phase


class LastWord(NamedTuple):
    """The root's last word, when all have stopped: go or not, the groups that leave, and, where ranks are to sleep or
    wake, how many of a group are to be awake, by (group, ranks)."""

    go: bool
    leaving: tuple[int, ...] = ()
    slots: tuple[tuple[int, int], ...] = ()


def perform(context: Context, decision: Decision, now: Situation, snapshot: Snapshot) -> bool:
    """Do what was decided; collective over the job. False if the root called it off at the last moment.

    Afterwards ``context.team`` and ``context.epoch`` are those of the new size; on a rank that leaves the team
    is None and ``context.released`` is set.
    """
    with Phases(context, decision.resize) as phases:
        return _perform(context, decision, now, snapshot, phases)


def _perform(
    context: Context, decision: Decision, now: Situation, snapshot: Snapshot, phases: Phases
) -> bool:
    order = ordered(context, decision, now)
    if not order.go:
        return False
    snapshot = context.stop(snapshot)
    old = context.joined("the job")
    members = old.members
    try:
        if decision.action is Action.SHRINK:
            members = tuple(member for member in old.members if member.group not in order.leaving)
            part(context, set(old.ranks_of(order.leaving)), members, snapshot.step, phases)
        else:
            members = grow(context, decision.resize, order.leaving, snapshot, phases)
        context.released = context.team is None
    except Undone as undone:
        give_up(context, decision.resize, now, str(undone))
        return False
    blocked_s = phases.end()
    if context.negotiation is not None and context.negotiation.resize == decision.resize:
        done = Done(
            epoch=context.epoch,
            resize=decision.resize,
            root=members[0].group,
            released=order.leaving,
            phases=phases.seconds,
            blocked_s=blocked_s,
        )
        context.negotiation.done(done)
    context.epoch += 1
    return True


def give_up(context: Context, resize: int, now: Situation, why: str) -> None:
    """A resize has been undone: the root tells the scheduler, who ends newcomers if there are any."""
    if context.connection is not None:
        context.connection.poll()  # the scheduler may know why
    why = context.lost or why
    context.joining, context.lost = (), ""
    if context.negotiation is not None and context.negotiation.resize == resize:
        context.negotiation.confirm(resize, now, why)


def ordered(context: Context, decision: Decision, now: Situation) -> LastWord:
    """The root's last word, on all ranks, when all have stopped; collective over the job."""
    team, wait, negotiation = context.joined("the job"), context.wait, context.negotiation
    able = np.array([has_descriptors()], "i4")
    # Peers may still be in user code, so this one wait has no limit.
    stop = team.own.Iallreduce(MPI.IN_PLACE, able, MPI.MIN)
    wait.request(stop, "all ranks to stop for the resize", limited=False)
    order = LastWord(go=False)
    if context.speaks and context.connection is not None and negotiation is not None:
        context.connection.poll()
        slots, awake, objection = negotiation.slots, team.awake, ""
        if negotiation.newcomers or any(ranks > awake.get(group, 0) for group, ranks in slots.items()):
            objection = context.unsendable(slots) if able[0] else FEW_DESCRIPTORS
        if negotiation.confirm(decision.resize, now, objection):
            order = LastWord(True, negotiation.leaving(team.groups), (*slots.items(),))
            context.joining = negotiation.newcomers
    order = broadcast(team.own, order, 0, wait, "the root's order")
    return LastWord(*order)


def grow(
    context: Context, resize: int, leaving: tuple[int, ...], snapshot: Snapshot, phases: Phases
) -> tuple[Member, ...]:
    """The sources' part of an expansion, or, where groups are ``leaving``, of a migration; whom the job consists of
    then. Undone if a newcomer is lost before the root's last word; the job is then what it was, on all of its ranks.

    A newcomer that dies while they are in Merge is the one loss that cannot be undone.
    """
    team, wait, arrays = context.joined("the job"), context.wait, list(context.arrays.values())
    phases.come(Phase.CONNECT)
    moving = False
    try:
        between = admit(team.own, context.epoch + 1, source_key(resize), context.connection, wait)
        with agreed(context, team.own):
            wait.request(between.Ibarrier(), "all newcomers to be connected")
        phases.come(Phase.MERGE)
        own = join.merge(between, wait, high=False)
        phases.come(Phase.REORDER)
        with agreed(context, team.own):
            newcomers = _introduced(context, own, team, leaving, snapshot)
            context.team, after = _joint(own, team.members, leaving, newcomers, wait)
            phases.come(Phase.REDISTRIBUTE)
            moving = True
            spread_over(context, team.own.size, after)
    except Undone:
        context.team = team
        for array in arrays if moving else ():
            array.undo()
        raise
    context.joining = ()
    held = _commit(context, after, phases)
    team.leave(wait)
    with wait.watchdog("leaving the newcomers' communicator"):
        between.Disconnect()
    name_held(context, held, snapshot.step, team.nodes)
    return after.members


class After(NamedTuple):
    """Who goes on behind a resize: ``targets`` are their ranks among all that are joined in it, in their new order,
    where some leave; None where all go on."""

    members: tuple[Member, ...]
    targets: list[int] | None = None


def _joint(
    own: MPI.Intracomm,
    old: tuple[Member, ...],
    leaving: tuple[int, ...],
    newcomers: tuple[Member, ...],
    wait: Wait,
) -> tuple[Team, After]:
    """The sources and the newcomers over ``own``, and who of them goes on."""
    every = (*old, *newcomers)
    if not leaving:
        return assemble(own, every, wait), After(every)
    order = successors([member.group not in leaving for member in old], len(newcomers))
    ends = [*accumulate(member.ranks for member in every)]
    targets = [rank for number in order for rank in range(ends[number] - every[number].ranks, ends[number])]
    # The program does not run on it.
    return Team(MPI.Intracomm(), own, every), After(tuple(every[number] for number in order), targets)


def _commit(context: Context, after: After, phases: Phases) -> list[int]:
    """The data is where it belongs, on all that are joined: who leaves parts, and blocks of before are retired. What
    ``settle`` counts. Complete only when the sources are in it: after the root's last word."""
    team = context.joined("the job")
    if after.targets is not None:
        barrier(team.own, context.wait, "the root's last word")
        return _divide(context, after.targets, after.members, phases)
    phases.come(Phase.COMMIT)
    return settle(context, team.own, "the end of the redistribution")


def _introduced(
    context: Context, own: MPI.Intracomm, team: Team, leaving: tuple[int, ...], snapshot: Snapshot
) -> tuple[Member, ...]:
    """The sources and the newcomers tell each other what they are."""
    wait = context.wait
    barrier(own, wait, "the merged groups")
    newcomers = broadcast(own, None, team.own.size, wait, "the newcomers' names")
    broadcast(own, (snapshot, team.members, leaving), 0, wait, "the job's state")
    return tuple(newcomers)


def grow_newcomer(context: Context, comm: MPI.Intracomm, members: tuple[Member, ...], port: str) -> Snapshot:
    """The newcomers' part of an expansion or a migration; collective over the newcomers' communicator ``comm``."""
    with Phases(context, 0) as phases:
        return _grow_newcomer(context, comm, members, port, phases)


def _grow_newcomer(
    context: Context, comm: MPI.Intracomm, members: tuple[Member, ...], port: str, phases: Phases
) -> Snapshot:
    wait = context.wait
    phases.come(Phase.CONNECT)
    between = join.connect(comm, port, wait)
    wait.request(between.Ibarrier(), "all newcomers to be connected")
    phases.come(Phase.MERGE)
    own = join.merge(between, wait, high=True)
    phases.come(Phase.REORDER)
    sources = own.size - comm.size
    barrier(own, wait, "the merged groups")
    broadcast(own, members, sources, wait, "the newcomers' names")
    snapshot, old, leaving = broadcast(own, None, 0, wait, "the job's state")
    context.team, after = _joint(own, old, leaving, members, wait)
    context.restore(snapshot)
    phases.come(Phase.REDISTRIBUTE)
    with suppress(Undone):  # the sources do not come to what follows, and the scheduler ends this group
        spread_over(context, sources, after)
    _commit(context, after, phases)
    join.drop(comm, between, wait)
    return Snapshot(*snapshot)


def spread_over(context: Context, sources: int, after: After | None = None) -> None:
    """Redistribute from the first ``sources`` ranks to those that go on, by default all, and where these are all fill
    the halos, on all ranks."""
    team, arrays = context.joined("the job"), list(context.arrays.values())
    targets = after.targets if after is not None else None
    everyone = range(team.own.size)
    redistribute(arrays, team.own, range(sources), everyone if targets is None else targets, context.wait)
    for array in arrays if targets is None else ():
        array.exchange_halo()
    barrier(team.own, context.wait, "the end of the redistribution")


def go_on(context: Context, step: int, before: int) -> None:
    """The data is where it belongs: blocks of before are retired; collective over the new team."""
    held = settle(context, context.joined("the job").own, "the end of the redistribution")
    name_held(context, held, step, before)


def part(context: Context, leaving: set[int], members: tuple[Member, ...], step: int, phases: Phases) -> None:
    """Ranks ``leaving`` leave the others' communicators, with nothing of the data, and ``members`` stay; collective
    over the job."""
    phases.come(Phase.REDISTRIBUTE)
    old = context.joined("the job")
    own, wait, arrays = old.own, context.wait, list(context.arrays.values())
    targets = [rank for rank in range(own.size) if rank not in leaving]
    try:
        redistribute(arrays, own, range(own.size), targets, wait)
    except Undone:
        for array in arrays:
            array.undo()
        raise
    held = _divide(context, targets, members, phases)
    name_held(context, held, step, old.nodes)


def _divide(
    context: Context, targets: Sequence[int], members: tuple[Member, ...], phases: Phases
) -> list[int]:
    """Those of ``targets``, ranks of the team, go on in this order, as ``members``; the others have no team any more.
    Their data is where it belongs. What ``settle`` counts; collective over the team."""
    phases.come(Phase.REORDER)
    joint, wait = context.joined("the job"), context.wait
    own = joint.own
    stays = own.rank in targets
    with wait.watchdog("splitting the communicator"):
        rest = own.Split(0 if stays else MPI.UNDEFINED, targets.index(own.rank) if stays else 0)
    context.team = None
    if isinstance(rest, MPI.Intracomm) and stays:
        context.team = assemble(rest, members, wait)
        for array in context.arrays.values():
            array.exchange_halo()
    phases.come(Phase.COMMIT)
    held = settle(context, own, "the end of the resize")
    joint.leave(wait)
    return held


def settle(context: Context, comm: MPI.Intracomm, what: str) -> list[int]:
    """A barrier that tells, array by array, on how many ranks the program still holds an old block.

    Those blocks are spoilt; on ranks that leave, which compute nothing any more, they are let be.
    """
    stays = context.team is not None or context.bed is not None
    held = np.array([*(stays and array.settle() for array in context.arrays.values()), False], "i4")
    ranks = np.empty_like(held)
    context.wait.request(comm.Iallreduce(held, ranks), what)
    counts: list[int] = ranks[:-1].tolist()
    return counts


def name_held(context: Context, held: list[int], step: int, before: int) -> None:
    """Rank 0 says in the job's log of which arrays the program holds an old block, at the first time only."""
    for array, ranks in zip(context.arrays.values(), held, strict=True):
        if not ranks or array.name in context.named:
            continue
        context.named.add(array.name)
        if context.team is not None and context.team.own.rank == 0:
            value = filler(array.dtype) if isinstance(array, Array) else None
            filled = "" if value is None else f"it has been filled with {value}, and "
            sys.stderr.write(
                f"pliant: at step {step} the job went from {before} to {context.team.nodes} nodes, and on {ranks} of "
                f"its ranks the program still holds .local or .owned of array {array.name!r} from before, or a view "
                f"of it. That is no part of the array any more: {filled}it is read-only where it can be. Take .local "
                "and .owned anew in each step before they are used; where the program does so, nothing is wrong.\n"
            )
