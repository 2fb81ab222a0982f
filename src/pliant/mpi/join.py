"""Executes join plans: groups with an MPI_COMM_WORLD each become one communicator."""

from __future__ import annotations

from mpi4py import MPI

from pliant.job.connection import Connection
from pliant.job.exchange import gather, port_of
from pliant.mpi.team import barrier, part_with
from pliant.mpi.wait import Wait
from pliant.plan.join import JoinPlan
from pliant.protocol.messages import Put


def together(
    plan: JoinPlan, group: int, epoch: int, connection: Connection | None, wait: Wait
) -> MPI.Intracomm:
    """The communicator of all groups of the plan, in its order; collective over each group.

    ``connection`` is there on rank 0 of each group. The other ranks of a group wait in a barrier, not in Connect,
    which would burn a core until its turn.
    """
    comm = MPI.COMM_WORLD.Dup()
    if connection is not None:
        gather(connection, plan, group, epoch)
    barrier(comm, wait, "the other groups to start")
    for step in plan.steps:
        if group in step.accepting:
            comm = _accept(comm, epoch, step.key, connection, wait)
        elif group == step.connecting:
            port = ""
            if connection is not None:
                port = port_of(connection, step, epoch)
            # Rank 0 has a limit, and ends its group.
            barrier(comm, wait, "the port of the leader", limited=False)
            between = connect(comm, port, wait)
            comm = unite(comm, between, wait, high=True)
    return comm


def _accept(
    comm: MPI.Intracomm, epoch: int, key: str, connection: Connection | None, wait: Wait
) -> MPI.Intracomm:
    """Take in the group that connects to the port stored at ``key``; its ranks come after those of ``comm``.

    ``comm`` is spent. The port is told before Accept blocks; the peer's Connect comes a socket's way later.
    """
    port = ""
    if comm.rank == 0 and connection is not None:
        port = MPI.Open_port()
        connection.send(Put(epoch, key, port))
    with wait.watchdog(f"accepting at {key}"):
        between = comm.Accept(port, root=0)
    joint = unite(comm, between, wait, high=False)
    if port:
        MPI.Close_port(port)
    return joint


def connect(comm: MPI.Intracomm, port: str, wait: Wait) -> MPI.Intercomm:
    """Meet those that accept on ``port``."""
    with wait.watchdog("connecting"):
        return comm.Connect(port, root=0)


def merge(between: MPI.Intercomm, wait: Wait, *, high: bool) -> MPI.Intracomm:
    """One communicator of both sides; those who are ``high`` get the higher ranks."""
    with wait.watchdog("merging two groups"):
        return between.Merge(high)


def unite(comm: MPI.Intracomm, between: MPI.Intercomm, wait: Wait, *, high: bool) -> MPI.Intracomm:
    """As :func:`merge`, and what was merged is dropped."""
    joint = merge(between, wait, high=high)
    barrier(joint, wait, "the merged groups")
    drop(comm, between, wait)
    return joint


def drop(comm: MPI.Intracomm, between: MPI.Intercomm, wait: Wait) -> None:
    """Leave what was merged. The caller has put a barrier before."""
    with wait.watchdog("dropping the communicators of before the merge"):
        part_with(comm)
        part_with(between)
