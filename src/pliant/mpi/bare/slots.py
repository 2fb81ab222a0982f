"""A job that a bare mpiexec has started has other ranks awake on nodes that stay its: Martín-Álvarez et al. 2025,
sections 4.6 and 4.7.

Those that are to sleep leave as in any shrink, as zombies, or end where their world can. Those that are to wake up get
a word from one of their world, connect to the job and get its data as newcomers do.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from mpi4py import MPI

from pliant.job.decisions import Decision
from pliant.mpi import join
from pliant.mpi.bare import spawning
from pliant.mpi.bare.resizes import News, carry_out, logged
from pliant.mpi.bare.state import Bare
from pliant.mpi.context import Context
from pliant.mpi.data.transport import redistribute
from pliant.mpi.resizer import say
from pliant.mpi.resizing import resize
from pliant.mpi.snapshot import Snapshot
from pliant.mpi.team import assemble, barrier, broadcast, part_with
from pliant.mpi.wait import Wait
from pliant.plan.change import WorldChange
from pliant.plan.shrink import WorldRank, awake_on, awake_ranks, root_of, waking, woken
from pliant.protocol.phases import Phase


def perform(context: Context, bare: Bare, decision: Decision, snapshot: Snapshot) -> bool:
    """Do what the timetable says; collective over the job. False if nothing has changed."""
    begin, team, wait = time.perf_counter(), context.joined("the job"), context.wait
    barrier(team.own, wait, "all ranks to stop for the resize", limited=False)
    numbers = {host.name: number for number, host in enumerate(bare.hosts)}
    slots = {numbers[name]: count for name, count in bare.timetable.due(decision.resize).slots}
    awake = awake_on(bare.worlds)
    back = {node: awake[node] - count for node, count in slots.items() if count < awake[node]}
    more = {node: count - awake[node] for node, count in slots.items() if count > awake[node]}
    try:
        wakes = waking(bare.worlds, more)
    except ValueError as error:
        if team.own.rank == 0:
            names = ", ".join(bare.hosts[node].name for node in more)
            say(
                f"at step {snapshot.step}: the job stays as it is, as not so many ranks sleep on {names}: {error}"
            )
        return False
    if not back and not wakes:
        return False
    change, how = bare.shrinkage(back) if back else (None, "")
    speaks = team.own.rank == (min(change.stays, default=0) if change else 0)
    with logged(wait, snapshot.step, speaks=speaks):
        snapshot = context.stop(snapshot)
        if change is not None and not _shrunk(context, bare, change, snapshot):
            return False
        if context.team is None:
            return True
        wakes = _still(bare, more, snapshot.step, speaks=speaks)
        if wakes:
            _wake(context, bare, wakes, snapshot)
        else:
            context.epoch += 1
    if speaks:
        how = ", and ".join(filter(None, (how, _told(wakes))))
        say(f"at step {snapshot.step} to {_awake(bare)} in {time.perf_counter() - begin:.3f} s, by {how}")
    return True


def _shrunk(context: Context, bare: Bare, change: WorldChange, snapshot: Snapshot) -> bool:
    """Whether the ranks that are to leave or sleep have gone; with respawn others are started for that."""
    try:
        carry_out(context, bare, change, snapshot, beside=False)
    except spawning.NotExpanded as error:
        if error.kin is not None:
            bare.late.append(error.kin)
        if context.joined("the job").own.rank == 0:
            say(f"at step {snapshot.step}: {error}")
        return False
    return True


def _still(bare: Bare, more: Mapping[int, int], step: int, *, speaks: bool) -> dict[int, tuple[int, ...]]:
    """Who wakes up, when others have gone: worlds of which nobody is awake any more have ended."""
    try:
        return waking(bare.worlds, more)
    except ValueError as error:
        if speaks:
            names = ", ".join(bare.hosts[node].name for node in more)
            say(f"at step {step}: nobody wakes up on {names}: {error}")
        return {}


def _told(wakes: Mapping[int, tuple[int, ...]]) -> str:
    return f"{sum(map(len, wakes.values()))} that wake up" if wakes else ""


def _awake(bare: Bare) -> str:
    awake = awake_on(bare.worlds)
    return ",".join(f"{bare.hosts[node].name}={awake[node]}" for node in sorted(awake))


def _wake(context: Context, bare: Bare, wakes: Mapping[int, tuple[int, ...]], snapshot: Snapshot) -> None:
    """These ranks of worlds wake up and join the job; collective over it."""
    team, wait = context.joined("the job"), context.wait
    wait.come(Phase.CONNECT)
    mine = awake_ranks(bare.worlds)[team.own.rank]
    after = woken(bare.worlds, wakes)
    if root_of(after) != root_of(bare.worlds):
        bare.part()
    own, request = team.own.Idup()
    wait.request(request, "the duplicate of the job's communicator")
    ports = [MPI.Open_port() for _ in wakes] if own.rank == 0 else []
    ports = broadcast(own, ports, 0, wait, "the ports of the root")
    for number, (world, ranks) in enumerate(wakes.items()):
        port, more = ports[number], len(wakes) - number - 1
        if world == mine.world:
            asleep = next(each.asleep for each in after if each.id == world)
            bare.own.wake(spawning.ZombieOrder(world, ranks, tuple(asleep), port, more), wait)
        own = _take(own, port, wait)
        if own.rank == 0:
            MPI.Close_port(port)
    sources = tuple(
        rank for rank, each in enumerate(awake_ranks(after)) if each.rank not in wakes.get(each.world, ())
    )
    news = News(
        snapshot, context.signature(), bare.hosts, after, bare.way, context.epoch + 1, sources, team.nodes
    )
    _meet(context, bare, own, mine.world, news)
    team.leave(wait)


def woken_at(context: Context, bare: Bare) -> Snapshot | None:
    """A rank that has slept, and is woken, joins the job again: where that is. None on any other."""
    wait = context.wait
    if bare.word is None:
        return None
    word, bare.word = bare.word, None
    wait.come(Phase.CONNECT)
    comm = bare.own.meet(word, wait)
    comm = join.unite(comm, join.connect(comm, word.port, wait), wait, high=True)
    for _ in range(word.more):
        comm = _take(comm, "", wait)
    snapshot = _meet(context, bare, comm, word.world, None)
    wait.come(None)
    return snapshot


def _take(comm: MPI.Intracomm, port: str, wait: Wait) -> MPI.Intracomm:
    """Ranks that wake up come behind those of ``comm``, which is spent."""
    with wait.watchdog("accepting ranks that wake up"):
        between = comm.Accept(port, root=0)
    return join.unite(comm, between, wait, high=False)


def _meet(context: Context, bare: Bare, comm: MPI.Intracomm, world: int, news: News | None) -> Snapshot:
    """The job's ranks, the first of which has the ``news``, and behind them those who have been woken, of whom each
    brings the id of its ``world``: they are put in their order, and get the job's data."""
    wait, arrays = context.wait, list(context.arrays.values())
    wait.come(Phase.REORDER)
    news = News(*broadcast(comm, news, 0, wait, "the job's state"))
    ranks = awake_ranks(news.worlds)
    mine = WorldRank(world, MPI.COMM_WORLD.rank)
    with wait.watchdog("putting the ranks in order"):
        own = comm.Split(0, ranks.index(mine))
        part_with(comm)
    assert isinstance(own, MPI.Intracomm)  # noqa: S101 - what is split has no other side
    wait.come(Phase.REDISTRIBUTE)
    if context.team is None:
        context.restore(news.snapshot)
    redistribute(arrays, own, news.targets, range(own.size), wait, hooks=context.during)
    bare.worlds, bare.hosts, bare.way = news.worlds, news.hosts, news.way
    context.epoch = news.epoch
    context.team = assemble(own, bare.members, wait)
    for array in arrays:
        array.exchange_halo()
    wait.come(Phase.COMMIT)
    resize.go_on(context, news.snapshot.step, news.before)
    return news.snapshot
