"""Ranks of a node that stays the job's go to sleep, or wake up: a resize of slots.

Those who sleep leave the communicator of the others, with nothing of the data, and wait without a processor
(``parking.py``). Who wakes up connects to the job as a newcomer does, and gets its rows and values like one.
"""

from __future__ import annotations

import errno

from mpi4py import MPI

from pliant.job.decisions import Decision
from pliant.job.negotiation import Situation
from pliant.mpi import join
from pliant.mpi.context import Context
from pliant.mpi.errors import Released, Undone
from pliant.mpi.resizer import abort
from pliant.mpi.resizing import resize
from pliant.mpi.resizing.admission import has_descriptors
from pliant.mpi.resizing.parking import ParkedRank, WakeOrder, WakerGone
from pliant.mpi.resizing.phases import PhaseFollower
from pliant.mpi.snapshot import Snapshot
from pliant.mpi.team import Team, assemble, barrier, broadcast, count_members, gather_all
from pliant.protocol.messages import Done
from pliant.protocol.phases import Phase

Slots = dict[int, int]
"""How many ranks of groups are to be awake."""


def perform(context: Context, decision: Decision, now: Situation, snapshot: Snapshot) -> bool:
    """Do what was decided; collective over the job. False if nothing has changed, on all ranks alike.

    On a rank that is to sleep the team is None afterwards, and ``context.bed`` is there: ``sleep`` is next.
    """
    with PhaseFollower(context, decision.resize) as phases:
        return _perform(context, decision, now, snapshot, phases)


def _perform(
    context: Context, decision: Decision, now: Situation, snapshot: Snapshot, phases: PhaseFollower
) -> bool:
    order = resize.ordered(context, decision, now)
    if not order.go:
        return False
    snapshot = context.stop(snapshot)
    slots, team = dict(order.slots), context.joined("the job")
    try:
        if leaving := _beds(context, team, slots):
            places = (place for rank, place in enumerate(_places(team)) if rank not in leaving)
            resize.part(context, leaving, count_members(places), snapshot.step, phases)
    except Undone as undone:
        _unmake(context, team, slots)
        resize.give_up(context, decision.resize, now, str(undone))
        return False
    if context.team is not None:
        _wake(context, slots, snapshot, phases)
    blocked_s = phases.end()
    if context.negotiation is not None and context.negotiation.resize == decision.resize:
        root = team.groups[0]
        context.negotiation.done(
            Done(context.epoch, decision.resize, root, phases=phases.seconds, blocked_s=blocked_s)
        )
    context.epoch += 1
    return True


def sleep(context: Context) -> Snapshot:
    """Until this rank is woken: where the job is then. Released if it is to end instead."""
    assert context.bed is not None  # noqa: S101 - a rank that sleeps has one
    try:
        word = context.bed.sleep(MPI.COMM_WORLD.Iprobe)
    except WakerGone:
        abort(
            f"rank {MPI.COMM_WORLD.rank} sleeps on {context.node}, and rank 0 there, which was to wake it, is gone"
        )
    context.bed = None
    if word.end:
        context.released = True
        raise Released
    return _join(context, word)


# ---- going to sleep ---------------------------------------------------------------------------------


def _places(team: Team) -> list[tuple[int, str]]:
    """Group and node of each rank."""
    return [(member.group, member.node) for member in team.members for _ in range(member.ranks)]


def _beds(context: Context, team: Team, slots: Slots) -> set[int]:
    """Each rank that is to sleep is connected to rank 0 of its group; the ranks of the job that are. Undone on all
    ranks, and nothing has changed, if one could not be. Collective over the job."""
    group, rank, wait = context.group, MPI.COMM_WORLD.rank, context.wait
    awake = team.awake[group]
    new = range(slots.get(group, awake), awake)
    sleeps, leads, address, why = rank in new, bool(new) and rank == 0, b"", ""
    if leads:
        try:
            address = context.sleepers.open()
        except OSError as error:
            why = _why(context, error)
    if sleeps and not has_descriptors():
        why = _why(context, OSError(errno.EMFILE, "too few descriptors are free for it to wake up again"))
    told = gather_all(team.own, (sleeps, address, why), wait, "who is to sleep")
    _agree([each for _, _, each in told])
    if sleeps:
        door = next(each for (_, each, _), (its, _) in zip(told, _places(team), strict=True) if its == group)
        try:
            context.bed = ParkedRank(door, rank, wait.limit_s)
        except OSError as error:
            why = _why(context, error)
    _agree(gather_all(team.own, why, wait, "all beds to be made"))
    # All are at the door, so that rank 0 need not wait for one that could not come.
    if leads:
        try:
            context.sleepers.admit(new, wait.limit_s, MPI.COMM_WORLD.Iprobe)
        except OSError as error:
            why = _why(context, error)
    _agree(gather_all(team.own, why, wait, "all who are to sleep to be let in"))
    return {number for number, (each, _, _) in enumerate(told) if each}


def _why(context: Context, error: OSError) -> str:
    return f"no rank can be put to sleep on {context.node}: {error}"


def _agree(problems: list[str]) -> None:
    """Undone if one rank has a problem: all know of it."""
    if said := next(filter(None, problems), ""):
        raise Undone(said)


def _unmake(context: Context, team: Team, slots: Slots) -> None:
    """Nobody goes to sleep after all."""
    if context.bed is not None:
        context.bed.leave()
        context.bed = None
    awake = team.awake[context.group]
    context.sleepers.forget(range(slots.get(context.group, awake), awake))


# ---- waking up --------------------------------------------------------------------------------------


def _wake(context: Context, slots: Slots, snapshot: Snapshot, phases: PhaseFollower) -> None:
    """Those who are to wake up join the others; collective over the job."""
    team, wait = context.joined("the job"), context.wait
    awake = team.awake
    waking = [group for group, count in slots.items() if count > awake[group]]
    if not waking:
        return
    phases.come(Phase.CONNECT)
    own, request = team.own.Idup()
    wait.request(request, "the duplicate of the job's communicator")
    ports = [MPI.Open_port() for _ in waking] if own.rank == 0 else []
    ports = broadcast(own, ports, 0, wait, "the ports of the root")
    for number, (group, port) in enumerate(zip(waking, ports, strict=True)):
        if group == context.group and MPI.COMM_WORLD.rank == 0:
            context.sleepers.wake(awake[group], slots[group], port, len(waking) - number - 1)
        own = _accept(context, own, port)
    if own.rank == 0:
        for port in ports:
            MPI.Close_port(port)
    phases.come(Phase.REDISTRIBUTE)
    _take_in(context, own, team.own.size, snapshot)
    phases.come(Phase.COMMIT)
    held = resize.settle(context, own, "the end of the redistribution")
    team.leave(wait)
    resize.name_held(context, held, snapshot.step, team.nodes)


def _accept(context: Context, own: MPI.Intracomm, port: str) -> MPI.Intracomm:
    """Take in those who connect at ``port``; ``own`` is spent."""
    with context.wait.watchdog("accepting ranks that wake up"):
        between = own.Accept(port, root=0)
    return join.unite(own, between, context.wait, high=False)


def _join(context: Context, word: WakeOrder) -> Snapshot:
    """The part of those who wake up."""
    wait, world = context.wait, MPI.COMM_WORLD
    group = world.Get_group()
    woken = group.Incl(range(word.first, word.last))
    with wait.watchdog("meeting the others of this node that wake up"):
        comm = world.Create_group(woken, word.first)
    woken.Free()
    group.Free()
    barrier(comm, wait, "the others of this node that wake up")
    between = join.connect(comm, word.port, wait)
    own = join.unite(comm, between, wait, high=True)
    for _ in range(word.more):
        own = _accept(context, own, "")
    with wait.during(Phase.REDISTRIBUTE):
        snapshot = _take_in(context, own, 0, None)
        resize.settle(context, own, "the end of the redistribution")
    return snapshot


def _take_in(context: Context, own: MPI.Intracomm, sources: int, snapshot: Snapshot | None) -> Snapshot:
    """Collective over those of before, the first ``sources`` ranks, and those who wake up: the new team."""
    wait = context.wait
    places = gather_all(own, (context.group, context.node), wait, "the names of the groups")
    told, sources, epoch = broadcast(own, (snapshot, sources, context.epoch), 0, wait, "the job's state")
    context.team = assemble(own, count_members(places), wait)
    if snapshot is None:
        context.restore(Snapshot(*told))
        context.epoch = epoch + 1
    resize.spread_over(context, sources)
    return Snapshot(*told)
