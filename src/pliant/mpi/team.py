"""The ranks that are joined now: their two communicators, and which group and node each belongs to."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from mpi4py import MPI

from pliant.mpi.cart import Cart
from pliant.mpi.wait import Wait


class Member(NamedTuple):
    """A group: the ranks on one node, consecutive in the job's communicator."""

    group: int
    node: str
    ranks: int


class Team(NamedTuple):
    """``comm`` is the user's communicator; ``own`` the library's, so that messages never meet the user's. ``carts`` are
    those that were made of the user's, by their dimensions."""

    comm: MPI.Intracomm
    own: MPI.Intracomm
    members: tuple[Member, ...]
    carts: dict[tuple[tuple[int, ...], tuple[bool, ...]], Cart]

    @property
    def nodes(self) -> int:
        return len({member.node for member in self.members})

    @property
    def awake(self) -> dict[int, int]:
        """How many ranks there are of each group. These are all groups that the job has, as one rank of each is awake.
        Ranks that were woken are behind all others, so that a group may be a member twice."""
        awake: dict[int, int] = {}
        for member in self.members:
            awake[member.group] = awake.get(member.group, 0) + member.ranks
        return awake

    @property
    def groups(self) -> tuple[int, ...]:
        return tuple(self.awake)

    def ranks_of(self, groups: Iterable[int]) -> list[int]:
        """The ranks of these groups, ascending."""
        wanted, start = set(groups), 0
        ranks: list[int] = []
        for member in self.members:
            if member.group in wanted:
                ranks += range(start, start + member.ranks)
            start += member.ranks
        return ranks

    def cart(self, dims: tuple[int, ...], periods: tuple[bool, ...], wait: Wait) -> Cart:
        """The ranks in such a grid, made once; collective over the team."""
        found = self.carts.get((dims, periods))
        if found is None:
            # MPI makes it in blocking calls: all ranks are here then, however long a peer is in user code.
            barrier(self.own, wait, "all ranks to ask for their grid (job.cart)", limited=False)
            with wait.watchdog("making a Cartesian communicator"):
                comm = self.comm.Create_cart(dims, periods, reorder=False)
                axes = range(len(dims))
                lines = tuple(comm.Sub([axis == other for other in axes]) for axis in axes)
            comm.Set_name("pliant.cart")
            found = self.carts[dims, periods] = Cart(comm, lines)
        return found

    def leave(self, wait: Wait) -> None:
        """Give up all communicators. The caller has put a barrier before."""
        self.leave_users(wait)
        with wait.watchdog("leaving the old communicator"):
            part_with(self.own)

    def leave_users(self, wait: Wait) -> None:
        """Give up the user's communicator, and what was made of it. The caller has put a barrier before."""
        with wait.watchdog("leaving the old communicators of the program"):
            for cart in self.carts.values():
                for comm in (*cart.lines, cart.comm):
                    comm.Free()
            self.carts.clear()
            if self.comm != MPI.COMM_NULL:
                part_with(self.comm)


def part_with(comm: MPI.Comm) -> None:
    """Have this communicator no more. The caller has put a barrier before: this is none.

    Only what is between two groups is disconnected. What was merged of them is freed, and before: Open MPI would wait
    for ever to disconnect it, and others do the same for both.
    """
    if comm.Is_inter():
        comm.Disconnect()
    else:
        comm.Free()


def assemble(own: MPI.Intracomm, members: tuple[Member, ...], wait: Wait) -> Team:
    """A team over ``own``, with a duplicate for the user."""
    comm, request = own.Idup()
    wait.request(request, "the duplicate of the job's communicator")
    comm.Set_name("pliant")
    return Team(comm, own, members, {})


def barrier(comm: MPI.Intracomm, wait: Wait, what: str, *, limited: bool = True) -> None:
    wait.request(comm.Ibarrier(), what, limited=limited)


def broadcast(  # noqa: PLR0913 - what goes from where to whom, and how long the wait for it may last
    comm: MPI.Intracomm, value: Any, root: int, wait: Wait, what: str, *, limited: bool = True
) -> Any:
    """``value`` of ``root`` on every rank, pickled."""
    data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL) if comm.rank == root else b""
    length = np.array([len(data)], "i8")
    wait.request(comm.Ibcast(length, root), what, limited=limited)
    buffer = np.frombuffer(data, "u1").copy() if comm.rank == root else np.empty(length[0], "u1")
    wait.request(comm.Ibcast([buffer, MPI.BYTE], root), what, limited=limited)
    return value if comm.rank == root else pickle.loads(buffer.tobytes())  # noqa: S301 - from our own rank


def gather_all(comm: MPI.Intracomm, value: Any, wait: Wait, what: str, *, limited: bool = True) -> list[Any]:
    """Every rank's ``value`` on every rank, pickled, in rank order."""
    data = np.frombuffer(pickle.dumps(value, pickle.HIGHEST_PROTOCOL), "u1")
    lengths = np.empty(comm.size, "i8")
    wait.request(comm.Iallgather(np.array([data.size], "i8"), lengths), what, limited=limited)
    buffer = np.empty(int(lengths.sum()), "u1")
    wait.request(comm.Iallgatherv(data, [buffer, lengths.tolist(), MPI.BYTE]), what)
    parts = np.split(buffer, np.cumsum(lengths)[:-1])
    return [pickle.loads(part.tobytes()) for part in parts]  # noqa: S301 - from our own ranks


def count_members(places: Iterable[tuple[int, str]]) -> tuple[Member, ...]:
    """The members from every rank's (group, node), in rank order."""
    return tuple(Member(group, node, len(list(ranks))) for (group, node), ranks in groupby(places))
