"""Resizes of a job that a bare mpiexec has started.

Its processes start others by MPI_Comm_spawn, as the plans of Martín-Álvarez et al. 2025 say (`spawning/`). All ranks
stop for that. A newcomer that fails before it is joined leaves the job as it is; a failure after that ends the job.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from mpi4py import MPI

from pliant.job.decisions import Decision
from pliant.job.timetable import TimetableHost
from pliant.model.errors import PliantError
from pliant.model.words import count
from pliant.mpi import join
from pliant.mpi.bare import spawning
from pliant.mpi.bare.state import Bare, Pending
from pliant.mpi.context import Context
from pliant.mpi.data.transport import redistribute
from pliant.mpi.errors import Released
from pliant.mpi.resizer import NOBODY, say
from pliant.mpi.resizing import resize
from pliant.mpi.snapshot import Snapshot
from pliant.mpi.team import Team, assemble, barrier, broadcast, gather_all
from pliant.mpi.wait import Wait, nothing, unseen
from pliant.plan.change import WorldChange
from pliant.plan.choose import Chosen
from pliant.plan.shrink import SpawnedWorld, awake_on
from pliant.plan.spawn import SpawnPlan
from pliant.protocol.phases import Phase


class News(NamedTuple):
    """What newcomers get: the job's state, its arrays and values, its worlds as they will be, which ranks go on, and on
    how many nodes the job was."""

    snapshot: Snapshot
    signature: str
    hosts: tuple[TimetableHost, ...]
    worlds: tuple[SpawnedWorld, ...]
    way: Chosen
    epoch: int
    targets: tuple[int, ...]
    before: int


def perform(context: Context, bare: Bare, decision: Decision, snapshot: Snapshot) -> bool:
    """Do what the timetable says; collective over the job. False if nothing has changed."""
    begin, team = time.perf_counter(), context.joined("the job")
    pending, bare.pending = bare.pending, None
    barrier(team.own, context.wait, "all ranks to stop for the resize", limited=False)
    pending = pending or _planned(bare, decision, team, snapshot.step)
    if pending is None:
        return False
    change = pending.change
    # Who goes on speaks; the first of the job where nobody does.
    speaks = team.own.rank == min(change.stays, default=0)
    try:
        with logged(context.wait, snapshot.step, speaks=speaks):
            if pending.step == snapshot.step and _begin_beside(context, bare, pending, begin):
                return False
            snapshot = context.stop(snapshot)
            carry_out(context, bare, change, snapshot, beside=pending.step < snapshot.step)
    except spawning.NotExpanded as error:
        if error.kin is not None:
            bare.late.append(error.kin)
        if team.own.rank == 0:
            say(f"at step {snapshot.step}: {error}")
        return False
    context.epoch += 1
    if speaks:
        seconds = time.perf_counter() - begin + pending.begin_s
        nodes = len(awake_on(change.after))
        how = pending.how
        if pending.step < snapshot.step:
            how += f"; newcomers were started beside the job at step {pending.step}"
        elif change.spawn is not None and change.spawn.one:
            how += "; one rank started newcomers, and told the rest"
        say(
            f"at step {snapshot.step} from {team.nodes} to {count(nodes, 'node')} in {seconds:.3f} s, by {how}"
        )
    return True


def _planned(bare: Bare, decision: Decision, team: Team, step: int) -> Pending | None:
    """What the timetable wants; None where it has come about already, as a resize before this one has failed."""
    if (nodes := bare.timetable.due(decision.resize).nodes) == team.nodes:
        return None
    change, how = bare.change(nodes)
    if change.is_nothing:
        return None
    return Pending(change, how, step, decision.resize, bare.last_step(step), 0.0)


def _begin_beside(context: Context, bare: Bare, pending: Pending, begin: float) -> bool:
    """Have newcomers started beside the job, if that is the way and there is something to start, and time for it."""
    plan, team = pending.change.spawn, context.joined("the job")
    if plan is None or pending.last == pending.step or not bare.have_starter(team.own, context.wait):
        return False
    command, hosts = bare.command(plan)
    spawning.check(team.own, plan, command, hosts, context.wait)
    if team.own.rank == 0:
        assert bare.starter is not None  # noqa: S101 - it is there
        bare.starter.begin(spawning.brief(plan, command, hosts, context.epoch + 1))
    bare.pending = pending._replace(begin_s=time.perf_counter() - begin)
    return True


def carry_out(context: Context, bare: Bare, change: WorldChange, snapshot: Snapshot, *, beside: bool) -> None:
    """The sources' part."""
    team, wait = context.joined("the job"), context.wait
    comm, between = team.own, None
    if (plan := change.spawn) is not None:
        began = _expand(context, bare, plan, beside=beside)
        comm, between = began.comm or comm, began.between
    if plan is not None:
        wait.come(Phase.REORDER)
    team.leave_users(wait)
    if between is not None:
        comm = join.unite(comm, between, wait, high=False)
    news = News(
        snapshot, context.signature(), bare.hosts, change.after, bare.way, context.epoch + 1, change.targets,
        team.nodes,
    )  # fmt: skip
    if plan is not None:
        broadcast(comm, news, 0, wait, "the job's state")
    _hand_over(context, bare, comm, change.sources, news)


def _expand(context: Context, bare: Bare, plan: SpawnPlan, *, beside: bool) -> spawning.Expansion:
    """Start newcomers and join them, or join those that have been started ``beside`` the job."""
    comm, epoch, wait = context.joined("the job").own, context.epoch + 1, context.wait
    if not beside:
        return spawning.expand(comm, plan, *bare.command(plan), wait, epoch=epoch)
    arrivals = spawning.Arrivals(epoch, "", None)
    wait.come(Phase.SYNCHRONISE)
    if comm.rank == 0:
        assert bare.starter is not None  # noqa: S101 - which has started them
        arrivals = bare.starter.arrivals()
        if bare.starter.lost:
            bare.starter, bare.remain = None, True
    return spawning.accept(comm, plan, arrivals, wait, spawning.clock())


def arrive(context: Context, bare: Bare) -> Snapshot:
    """A newcomer reaches its loop: it joins the job; returns the job's state."""
    wait = context.wait
    if bare.arrival is None:
        raise RuntimeError(NOBODY)
    try:
        joined = spawning.join_job(bare.arrival, wait)
    except Released:
        context.released = True
        raise
    assert joined.comm is not None  # noqa: S101 - newcomers are targets
    comm = joined.comm
    wait.come(Phase.REORDER)
    if joined.between is not None:
        comm = join.unite(comm, joined.between, wait, high=True)
    news = News(*broadcast(comm, None, 0, wait, "the job's state"))
    snapshot = news.snapshot
    if news.signature != (mine := context.signature()):
        raise PliantError(f"the job has {news.signature}, and a newcomer has registered {mine}")
    bare.hosts, bare.way, context.epoch = news.hosts, news.way, news.epoch
    context.restore(snapshot)
    _hand_over(context, bare, comm, joined.plan.sources, news)
    wait.come(None)
    return snapshot


def _hand_over(context: Context, bare: Bare, comm: MPI.Intracomm, sources: int, news: News) -> None:
    """The first ``sources`` ranks of ``comm``, which is spent, have the job's data: the targets get it, and those who
    are none leave."""
    wait, arrays = context.wait, list(context.arrays.values())
    wait.come(Phase.REDISTRIBUTE)
    redistribute(arrays, comm, range(sources), news.targets, wait, hooks=context.during)
    context.team, bare.worlds = None, news.worlds
    if leaving := set(range(comm.size)).difference(news.targets):
        for array in arrays if comm.rank in leaving else ():
            array.settle()
        remain = comm.rank in leaving and bare.part()
        # Who goes on looks after what stands still, at the end of the job; who leaves may have waited for it.
        with wait.looking(nothing, 2):
            bare.remain |= any(gather_all(comm, remain, wait, "the end of the redistribution"))
        left = bare.own.shrink(comm, leaving, wait)
        if left.comm is None:
            bare.word = left.word
            context.released = left.word is None
            return
        comm = left.comm
    with wait.during(Phase.REDISTRIBUTE):
        context.team = assemble(comm, bare.members, wait)
        for array in arrays:
            array.exchange_halo()
    wait.come(Phase.COMMIT)
    resize.go_on(context, news.snapshot.step, news.before)


@contextmanager
def logged(wait: Wait, step: int, *, speaks: bool) -> Iterator[None]:
    """The rank that speaks for the job logs each phase of a resize in the block, a line each. mpiexec ends all
    processes of a program when one fails: then only these lines tell in which phase that was."""

    def come(phase: Phase | None) -> None:
        if phase is not None:
            say(f"resizing at step {step}: {phase}")

    if speaks:
        wait.on_phase = come
    try:
        yield
    finally:
        wait.on_phase = unseen
        wait.come(None)
