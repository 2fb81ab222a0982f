"""Executes a resize once all ranks have agreed on it: connect or split, and redistribute."""

from __future__ import annotations

import sys
import time
from typing import NamedTuple

import numpy as np
from mpi4py import MPI

from pliant.job.decisions import Action, Decision
from pliant.job.negotiation import Situation
from pliant.mpi import join
from pliant.mpi.arrays import filler, redistribute
from pliant.mpi.context import Context, Snapshot
from pliant.mpi.team import Member, Team, assemble, barrier, broadcast
from pliant.plan.join import source_key
from pliant.protocol.messages import Done


class LastWord(NamedTuple):
    """The root's last word, when all have stopped: go or not, and for a shrink the groups that leave."""

    go: bool
    leaving: tuple[int, ...] = ()


def perform(context: Context, decision: Decision, now: Situation, snapshot: Snapshot) -> bool:
    """Do what was decided; collective over the job. False if the root called it off at the last moment.

    Afterwards ``context.team`` and ``context.epoch`` are those of the new size; on a rank that leaves the team
    is None and ``context.released`` is set.
    """
    begin = time.perf_counter()
    order = _order(context, decision, now)
    if not order.go:
        return False
    phases = {"stop": time.perf_counter() - begin}
    old = context.joined("the job")
    members = old.members
    if decision.action is Action.EXPAND:
        phases |= grow(context, decision.resize, snapshot)
    else:
        members = tuple(m for m in old.members if m.group not in order.leaving)
        phases |= _shrink(context, old, order.leaving, members, snapshot.step)
    if context.negotiation is not None and context.negotiation.resize == decision.resize:
        done = Done(
            epoch=context.epoch,
            resize=decision.resize,
            root=members[0].group,
            released=order.leaving,
            phases=phases,
            blocked_s=time.perf_counter() - begin,
        )
        context.negotiation.done(done)
    context.epoch += 1
    context.joining = ()
    return True


def _order(context: Context, decision: Decision, now: Situation) -> LastWord:
    team, wait, negotiation = context.joined("the job"), context.wait, context.negotiation
    # Peers may still be in user code, so this one wait has no limit.
    barrier(team.own, wait, "all ranks to stop for the resize", limited=False)
    order = LastWord(go=False)
    if context.speaks and context.connection is not None and negotiation is not None:
        context.connection.poll()
        shrink = decision.action is Action.SHRINK
        groups = tuple(member.group for member in team.members)
        if negotiation.confirm(decision.resize, now, "" if shrink else context.unsendable()):
            order = LastWord(go=True, leaving=negotiation.leaving(groups) if shrink else ())
            context.joining = negotiation.newcomers
    order = broadcast(team.own, order, 0, wait, "the root's order")
    return LastWord(*order)


def grow(context: Context, resize: int, snapshot: Snapshot) -> dict[str, float]:
    """The sources' part of an expansion; returns its phases in seconds."""
    begin = time.perf_counter()
    team, wait = context.joined("the job"), context.wait
    sources = team.own.size
    own = join.accept(team.own, context.epoch + 1, source_key(resize), context.connection, wait)
    newcomers = broadcast(own, None, sources, wait, "the newcomers' names")
    broadcast(own, (snapshot, team.members), 0, wait, "the job's state")
    with wait.watchdog("leaving the old communicator"):
        team.comm.Disconnect()
    context.team = assemble(own, team.members + tuple(newcomers), wait)
    connected = time.perf_counter()
    _name(context, _spread(context, sources), snapshot.step, team.nodes)
    return {"connect": connected - begin, "redistribute": time.perf_counter() - connected}


def grow_newcomer(context: Context, own: MPI.Intracomm, members: tuple[Member, ...], port: str) -> Snapshot:
    """The newcomers' part of an expansion; collective over the newcomers' communicator ``own``."""
    wait, count = context.wait, own.size
    own = join.connect(own, port, wait)
    sources = own.size - count
    broadcast(own, members, sources, wait, "the newcomers' names")
    snapshot, old = broadcast(own, None, 0, wait, "the job's state")
    context.team = assemble(own, (*old, *members), wait)
    context.restore(snapshot)
    _spread(context, sources)
    return Snapshot(*snapshot)


def _spread(context: Context, sources: int) -> list[int]:
    """Redistribute from the first ``sources`` ranks to all, and fill the halos; what ``_settle`` returns."""
    team, arrays = context.joined("the job"), list(context.arrays.values())
    redistribute(arrays, team.own, range(sources), range(team.own.size), context.wait)
    for array in arrays:
        array.exchange_halo()
    return _settle(context, team.own, "the end of the redistribution")


def _shrink(
    context: Context, old: Team, gone: tuple[int, ...], members: tuple[Member, ...], step: int
) -> dict[str, float]:
    """Groups ``gone`` leave and ``members`` stay; collective over the job. Returns the phases in seconds."""
    begin = time.perf_counter()
    own, wait, arrays = old.own, context.wait, list(context.arrays.values())
    leaving = set(old.ranks_of(gone))
    targets = [rank for rank in range(own.size) if rank not in leaving]
    redistribute(arrays, own, range(own.size), targets, wait)
    moved = time.perf_counter()
    stays = own.rank not in leaving
    with wait.watchdog("splitting the communicator"):
        rest = own.Split(0 if stays else MPI.UNDEFINED, own.rank)
    context.team = None
    if isinstance(rest, MPI.Intracomm) and stays:
        context.team = assemble(rest, members, wait)
        for array in arrays:
            array.exchange_halo()
    held = _settle(context, own, "the end of the shrink")
    old.leave(wait)
    context.released = not stays
    _name(context, held, step, old.nodes)
    return {"redistribute": moved - begin, "split": time.perf_counter() - moved}


def _settle(context: Context, comm: MPI.Intracomm, what: str) -> list[int]:
    """A barrier that tells, array by array, on how many ranks the program still holds an old block.

    Those blocks are retired; on ranks that leave, which compute nothing any more, they are let be.
    """
    stays = context.team is not None
    held = np.array([*(stays and array.retire() for array in context.arrays.values()), False], "i4")
    ranks = np.empty_like(held)
    context.wait.request(comm.Iallreduce(held, ranks), what)
    counts: list[int] = ranks[:-1].tolist()
    return counts


def _name(context: Context, held: list[int], step: int, before: int) -> None:
    """Rank 0 says in the job's log of which arrays the program holds an old block, at the first time only."""
    for array, ranks in zip(context.arrays.values(), held, strict=True):
        if not ranks or array.name in context.named:
            continue
        context.named.add(array.name)
        if context.team is not None and context.team.own.rank == 0:
            value = filler(array.dtype)
            filled = "" if value is None else f"it has been filled with {value}, and "
            sys.stderr.write(
                f"pliant: at step {step} the job went from {before} to {context.team.nodes} nodes, and on {ranks} of "
                f"its ranks the program still holds .local or .owned of array {array.name!r} from before, or a view "
                f"of it. That is no part of the array any more: {filled}it is read-only where it can be. Take .local "
                "and .owned anew in each step before they are used; where the program does so, nothing is wrong.\n"
            )
