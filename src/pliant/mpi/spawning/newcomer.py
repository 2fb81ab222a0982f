"""A newcomer's part in an expansion: it starts others if it is to, joins those that were started with it, and then all
of them join the sources."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from mpi4py import MPI

from pliant.job.errors import Stalled
from pliant.mpi import join
from pliant.mpi.errors import Released
from pliant.mpi.spawning import messages as m
from pliant.mpi.spawning.expansion import Clock, Expansion, finish
from pliant.mpi.spawning.kin import Kin
from pliant.mpi.wait import Wait
from pliant.plan.connect import ConnectionPlan, connection_plan, new_rank
from pliant.plan.spawn import SpawnPlan
from pliant.protocol.phases import Phase


class Arrival(NamedTuple):
    """A newcomer that has started those that it is to. ``ports``: those that it has opened, by their keys."""

    kin: Kin
    own: MPI.Intracomm
    parent: MPI.Intercomm
    briefing: m.Briefing
    plan: SpawnPlan
    connections: ConnectionPlan
    ports: dict[str, str]
    clock: Clock


def arrive(wait: Wait) -> Expansion | None:
    """To be called first of all; None in a process that nobody has spawned.

    Released where the expansion was called off: the process ends.
    """
    arrival = begin(wait)
    return None if arrival is None else join_job(arrival, wait)


def begin(wait: Wait) -> Arrival | None:
    """Start others, if this newcomer is to: they come up while it does what it has to do before it can be joined."""
    parent = MPI.Comm.Get_parent()
    if parent == MPI.COMM_NULL:
        return None
    clock = Clock()
    wait.come(Phase.PREPARE)
    own, request = MPI.COMM_WORLD.Idup()
    # The others may still be importing; a blocking call would take the processor that they need for it.
    wait.request(request, "the other ranks of the group")
    briefing = None
    with _unneeded():
        if own.rank == 0:
            briefing = m.receive(
                parent, 0, m.Briefing, wait, "word from the parent of what this process is for"
            )
        briefing = m.tell(own, briefing, m.Briefing, wait, "word of what this process is for")
    plan = briefing.plan()
    connections = connection_plan(len(plan.calls), briefing.epoch)
    ports = {key: MPI.Open_port() for key in connections.opened_by(briefing.world)} if own.rank == 0 else {}
    clock.end(Phase.PREPARE)
    kin = Kin(own, briefing, parent, wait)
    wait.come(Phase.START)
    kin.start()
    clock.end(Phase.START)
    wait.come(None)
    return Arrival(kin, own, parent, briefing, plan, connections, ports, clock)


def join_job(arrival: Arrival, wait: Wait) -> Expansion:
    """Join those that were started with it, and with them the sources."""
    kin, own, parent, briefing, plan, connections, ports, clock = arrival
    wait.come(Phase.SYNCHRONISE)
    with _unneeded():
        kin.upside(ports)
        verdict = kin.downside(None)
    clock.end(Phase.SYNCHRONISE)
    joins = plan.by_port
    if verdict.error:
        kin.go()
        raise Released
    if joins:
        kin.part()
    comm, between = own, parent
    if joins:
        wait.come(Phase.CONNECT)
        comm = _connect(own, briefing.world, connections, verdict.ports, wait)
        for port in ports.values():
            MPI.Close_port(port)
        clock.end(Phase.CONNECT)
        wait.come(Phase.REORDER)
        if connections.order != tuple(sorted(connections.order)):
            comm = _reorder(comm, new_rank(plan, briefing.world, MPI.COMM_WORLD.rank), wait)
        clock.end(Phase.REORDER)
        if comm.rank == 0:
            told = m.send(parent, 0, m.Joined(clock.phases[Phase.REORDER]))
            wait.requests(told, "the sources to hear that the newcomers have joined")
        wait.come(Phase.SYNCHRONISE)
        if not _called(comm, parent, wait):
            with wait.watchdog("leaving the other newcomers"):
                comm.Disconnect()
            kin.gone()
            raise Released
        wait.come(Phase.CONNECT)
        with wait.watchdog("connecting to the sources"):
            between = comm.Connect(verdict.ports[connections.source_key], root=0)
    expansion = finish(comm, between, plan, epoch=briefing.epoch, clock=clock, wait=wait, high=True)
    kin.gone()
    clock.end(Phase.COMMIT)
    return expansion


@contextmanager
def _unneeded() -> Iterator[None]:
    """A newcomer to which others do not come ends, by Released, and so not as a failure: that would take the job with
    it, which can go on as it is."""
    try:
        yield
    except Stalled as error:
        sys.stderr.write(f"pliant: a newcomer ends, as it does not come to join the job: {error}\n")
        sys.stderr.flush()
        raise Released from error


def _called(comm: MPI.Intracomm, parent: MPI.Intercomm, wait: Wait) -> bool:
    """Whether the sources want to be joined. They may compute for long before; who waited in Connect would take a
    processor from them."""
    word = None
    what = "the sources to come"
    if comm.rank == 0:
        word = m.receive(parent, 0, m.Come, wait, what, limited=False)
    return m.tell(comm, word, m.Come, wait, what, limited=False).go


def _connect(
    comm: MPI.Intracomm, world: int, connections: ConnectionPlan, ports: dict[str, str], wait: Wait
) -> MPI.Intracomm:
    """The binary connection: one communicator of all new worlds."""
    for round_ in connections.rounds:
        for each in round_.connections:
            if world == each.accepting:
                with wait.watchdog(f"accepting at {each.key}"):
                    between = comm.Accept(ports[each.key], root=0)
                comm = join.unite(comm, between, wait, high=False)
            elif world == each.connecting:
                comm = join.unite(comm, join.connect(comm, ports[each.key], wait), wait, high=True)
                world = each.accepting
                break  # the next round goes by the new number
    return comm


def _reorder(comm: MPI.Intracomm, key: int, wait: Wait) -> MPI.Intracomm:
    with wait.watchdog("putting the ranks in order"):
        ordered = comm.Split(0, key)
        comm.Disconnect()
    assert isinstance(ordered, MPI.Intracomm)  # noqa: S101 - what is split has no other side
    return ordered
