"""Executes a resize once all ranks have agreed on it: connect or split, and redistribute."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from mpi4py import MPI

from pliant.job.decisions import Action, Decision
from pliant.job.errors import FEW_DESCRIPTORS
from pliant.job.negotiation import Situation
from pliant.model.words import count
from pliant.mpi import join
from pliant.mpi.context import Context
from pliant.mpi.data.ahead import Ahead, worthwhile
from pliant.mpi.data.arrays import Array, filler
from pliant.mpi.data.transport import redistribute
from pliant.mpi.errors import Undone
from pliant.mpi.resizer import say
from pliant.mpi.resizing.admission import admit, agreed, has_descriptors, united
from pliant.mpi.resizing.begun import After, Begun, Met
from pliant.mpi.resizing.phases import PhaseFollower
from pliant.mpi.snapshot import Snapshot
from pliant.mpi.team import Member, Team, assemble, barrier, broadcast, gather_all, part_with
from pliant.mpi.wait import Wait
from pliant.plan.join import source_key
from pliant.plan.places import successors
from pliant.protocol.messages import Done
from pliant.protocol.phases import Phase

FEW_CHECKS = 8
"""With fewer left all data move at once."""


class LastWord(NamedTuple):
    """The root's last word, when all have stopped: go or not, the groups that leave, and, where ranks are to sleep or
    wake, how many of a group are to be awake, by (group, ranks). ``ahead``: constant data move beside steps, and after
    them there is another last word."""

    go: bool
    leaving: tuple[int, ...] = ()
    slots: tuple[tuple[int, int], ...] = ()
    ahead: bool = False


def perform(
    context: Context, decision: Decision, now: Situation, snapshot: Snapshot, *, steps: bool = False
) -> bool:
    """Do what was decided; collective over the job. False if the root called it off at the last moment, or if, with
    ``steps`` to follow, it has begun and goes on beside these: ``context.begun`` is there then.

    Afterwards ``context.team`` and ``context.epoch`` are those of the new size; on a rank that leaves the team
    is None and ``context.released`` is set.
    """
    with PhaseFollower(context, decision.resize) as phases:
        return _perform(context, decision, now, snapshot, phases, steps=steps)


def _perform(  # noqa: PLR0913 - as perform, in its phases
    context: Context,
    decision: Decision,
    now: Situation,
    snapshot: Snapshot,
    phases: PhaseFollower,
    *,
    steps: bool,
) -> bool:
    order = ordered(context, decision, now, steps=steps)
    if not order.go:
        context.abandon()
        return False
    if order.ahead:
        _begin(context, decision.resize, now, snapshot, phases)
        return False
    begun = context.begun
    snapshot = context.stop(snapshot)
    old = context.joined("the job")
    members = old.members
    try:
        if decision.action is Action.SHRINK:
            members = tuple(member for member in old.members if member.group not in order.leaving)
            part(context, set(old.ranks_of(order.leaving)), members, snapshot.step, phases)
        elif begun is not None:
            phases.add(begun.seconds, phases.began - begun.at)
            members = _finish(context, begun, snapshot, phases)
        else:
            members = grow(context, decision.resize, order.leaving, snapshot, phases)
        context.released = context.team is None
    except Undone as undone:
        context.begun = None
        give_up(context, decision.resize, now, str(undone))
        return False
    blocked_s = phases.end() + (begun.blocked_s if begun is not None else 0.0)
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
    if context.negotiation is not None and context.negotiation.resize == resize:
        context.negotiation.confirm(resize, now, why)


def ordered(context: Context, decision: Decision, now: Situation, *, steps: bool = False) -> LastWord:
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
            ahead = steps and decision.action is Action.EXPAND and now.left > FEW_CHECKS * now.lag
            ahead = ahead and worthwhile(context.arrays.values())
            order = LastWord(True, negotiation.leaving(team.groups), (*slots.items(),), ahead)
    order = broadcast(team.own, order, 0, wait, "the root's order")
    return LastWord(*order)


def grow(
    context: Context, resize: int, leaving: tuple[int, ...], snapshot: Snapshot, phases: PhaseFollower
) -> tuple[Member, ...]:
    """The sources' part of an expansion, or, where groups are ``leaving``, of a migration; whom the job consists of
    then. Undone if a newcomer is lost before the root's last word; the job is then what it was, on all of its ranks.

    A newcomer that dies while they are in Merge is the one loss that cannot be undone.
    """
    team = context.joined("the job")
    try:
        between, own = _merged(context, resize, phases)
        with agreed(context, team.own):
            met = _introduced(context, own, between, leaving, snapshot)
            _spread(context, met, phases)
    except Undone:
        _take_back(context, team)
        raise
    return _close(context, met, snapshot, phases)


def _merged(context: Context, resize: int, phases: PhaseFollower) -> tuple[MPI.Intercomm, MPI.Intracomm]:
    """The sources and the newcomers, connected and in one communicator."""
    team, wait = context.joined("the job"), context.wait
    phases.come(Phase.CONNECT)
    between = admit(context, team.own, source_key(resize))
    with agreed(context, team.own):
        wait.request(between.Ibarrier(), "all newcomers to be connected")
    phases.come(Phase.MERGE)
    own = united(context, team.own, between)
    phases.come(Phase.REORDER)
    return between, own


def _begin(context: Context, resize: int, now: Situation, snapshot: Snapshot, phases: PhaseFollower) -> None:
    """The first part of an expansion: constant data begin to move, and the job computes on with what it has."""
    team, ahead = context.joined("the job"), None
    try:
        between, own = _merged(context, resize, phases)
        with agreed(context, team.own):
            met = _introduced(context, own, between, (), snapshot, ahead=True)
            phases.come(Phase.REDISTRIBUTE)
            ahead = _off(context, own, team.own.size)
    except Undone as undone:
        context.wait.keep(ahead)  # what others have sent by then is still received
        give_up(context, resize, now, str(undone))
        return
    assert ahead is not None  # noqa: S101 - the block has come to its end
    context.begun = Begun(met, ahead, phases.seconds, phases.end(), time.perf_counter())
    if context.speaks and context.negotiation is not None:
        context.negotiation.go_ahead()


def _off(context: Context, own: MPI.Intracomm, sources: int) -> Ahead:
    """The constant data are on their way, from the first ``sources`` ranks of ``own`` to all; Undone on all of them if
    they cannot be moved on one."""
    ahead = Ahead(own, sources, list(context.arrays.values()))
    said = gather_all(own, ahead.objection(), context.wait, "what is to move on all ranks")
    if any(said):
        raise Undone("; ".join(f"rank {rank}: {text}" for rank, text in enumerate(said) if text))
    ahead.begin()
    return ahead


def _finish(context: Context, begun: Begun, snapshot: Snapshot, phases: PhaseFollower) -> tuple[Member, ...]:
    """The rest of an expansion that has begun: all that is constant has arrived, and what is not follows."""
    met, ahead, context.begun = begun.met, begun.ahead, None
    phases.come(Phase.REDISTRIBUTE)
    try:
        with agreed(context, met.old.own):
            ahead.finish(context.wait)
            broadcast(met.joint.own, snapshot, 0, context.wait, "the job's state as it is now")
            _spread(context, met, phases, ahead)
    except Undone:
        context.wait.keep(begun)
        _take_back(context, met.old)
        raise
    return _close(context, met, snapshot, phases)


def _spread(context: Context, met: Met, phases: PhaseFollower, ahead: Ahead | None = None) -> None:
    context.team = met.joint
    phases.come(Phase.REDISTRIBUTE)
    spread_over(context, met.old.own.size, met.after, ahead)


def _take_back(context: Context, team: Team) -> None:
    """The job is what it was."""
    if context.team is not team:
        for array in context.arrays.values():
            array.undo()
    context.team = team


def _close(context: Context, met: Met, snapshot: Snapshot, phases: PhaseFollower) -> tuple[Member, ...]:
    """The root's last word is said: what was before is left."""
    if context.negotiation is not None:
        context.negotiation.joined()
    held = _commit(context, met.after, phases)
    met.old.leave(context.wait)
    with context.wait.watchdog("leaving the newcomers' communicator"):
        part_with(met.between)
    name_held(context, held, snapshot.step, met.old.nodes)
    return met.after.members


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
    return Team(MPI.Intracomm(), own, every, {}), After(tuple(every[number] for number in order), targets)


def _commit(context: Context, after: After, phases: PhaseFollower) -> list[int]:
    """The data is where it belongs, on all that are joined: who leaves parts, and blocks of before are retired. What
    ``settle`` counts. Complete only when the sources are in it: after the root's last word."""
    team = context.joined("the job")
    if after.targets is not None:
        barrier(team.own, context.wait, "the root's last word")
        return _divide(context, after.targets, after.members, phases)
    phases.come(Phase.COMMIT)
    return settle(context, team.own, "the end of the redistribution")


def _introduced(  # noqa: PLR0913 - what the job tells newcomers
    context: Context,
    own: MPI.Intracomm,
    between: MPI.Intercomm,
    leaving: tuple[int, ...],
    snapshot: Snapshot,
    *,
    ahead: bool = False,
) -> Met:
    """The sources and the newcomers tell each other what they are."""
    team, wait = context.joined("the job"), context.wait
    barrier(own, wait, "the merged groups")
    newcomers = broadcast(own, None, team.own.size, wait, "the newcomers' names")
    broadcast(own, (snapshot, team.members, leaving, ahead), 0, wait, "the job's state")
    joint, after = _joint(own, team.members, leaving, tuple(newcomers), wait)
    return Met(team, joint, between, after)


def grow_newcomer(context: Context, comm: MPI.Intracomm, members: tuple[Member, ...], port: str) -> Snapshot:
    """The newcomers' part of an expansion or a migration; collective over the newcomers' communicator ``comm``."""
    with PhaseFollower(context, 0) as phases:
        return _grow_newcomer(context, comm, members, port, phases)


def _grow_newcomer(
    context: Context, comm: MPI.Intracomm, members: tuple[Member, ...], port: str, phases: PhaseFollower
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
    snapshot, old, leaving, early = broadcast(own, None, 0, wait, "the job's state")
    team, after = _joint(own, old, leaving, members, wait)
    phases.come(Phase.REDISTRIBUTE)
    with suppress(Undone):  # the sources do not come to what follows, and the scheduler ends this group
        context.team, ahead = team, None
        if early:
            ahead = _off(context, own, sources)
            with wait.during(Phase.SYNCHRONISE):  # the sources compute, and stop when they come to it
                ahead.finish(wait, limited=False)
                snapshot = broadcast(own, None, 0, wait, "the job's state as it is now", limited=False)
        context.restore(snapshot)
        spread_over(context, sources, after, ahead)
    _commit(context, after, phases)
    join.drop(comm, between, wait)
    return Snapshot(*snapshot)


def spread_over(
    context: Context, sources: int, after: After | None = None, ahead: Ahead | None = None
) -> None:
    """Redistribute from the first ``sources`` ranks to those that go on, by default all, and where these are all fill
    the halos, on all ranks. What ``ahead`` has moved is there already."""
    team, arrays = context.joined("the job"), list(context.arrays.values())
    targets = after.targets if after is not None else None
    everyone = range(team.own.size)
    to = everyone if targets is None else targets
    redistribute(arrays, team.own, range(sources), to, context.wait, ahead=ahead, hooks=context.during)
    if ahead is not None:
        ahead.close()
    for array in arrays if targets is None else ():
        array.exchange_halo()
    barrier(team.own, context.wait, "the end of the redistribution")


def go_on(context: Context, step: int, before: int) -> None:
    """The data is where it belongs: blocks of before are retired; collective over the new team."""
    held = settle(context, context.joined("the job").own, "the end of the redistribution")
    name_held(context, held, step, before)


def part(
    context: Context, leaving: set[int], members: tuple[Member, ...], step: int, phases: PhaseFollower
) -> None:
    """Ranks ``leaving`` leave the others' communicators, with nothing of the data, and ``members`` stay; collective
    over the job."""
    phases.come(Phase.REDISTRIBUTE)
    old = context.joined("the job")
    own, wait, arrays = old.own, context.wait, list(context.arrays.values())
    targets = [rank for rank in range(own.size) if rank not in leaving]
    try:
        redistribute(arrays, own, range(own.size), targets, wait, hooks=context.during)
    except Undone:
        for array in arrays:
            array.undo()
        raise
    held = _divide(context, targets, members, phases)
    name_held(context, held, step, old.nodes)


def _divide(
    context: Context, targets: Sequence[int], members: tuple[Member, ...], phases: PhaseFollower
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
            say(
                f"at step {step} the job went from {before} to {count(context.team.nodes, 'node')}, and on "
                f"{ranks} of its ranks the program still holds .local or .owned of array {array.name!r} from "
                "before, or a view of it. That is no part of the array any more: "
                f"{filled}it is read-only where it can be. Take .local "
                "and .owned anew in each step before they are used; where the program does so, nothing is wrong."
            )
