"""Ranks leave a job that a bare mpiexec has started: paper 1, sections 4.6 and 4.7.

A world whose ranks all leave ends, and its nodes are free: termination (TS). Where others of a world stay, MPI lets no
rank end; those that leave then sleep as zombies (ZS), which take no processor time, until all of their world do.
What a world that ends still needs is started anew before, by the Baseline method, and joined (SS).
"""

from __future__ import annotations

import time
from collections.abc import Collection
from enum import StrEnum
from typing import NamedTuple

from mpi4py import MPI

from pliant.mpi.team import barrier
from pliant.mpi.wait import Wait
from pliant.protocol.phases import Phase

NAP_S = 0.001
NAP_MAX_S = 0.1
"""A zombie looks so seldom whether it is to end; at first it may still be needed for messages of the job."""


class Fate(StrEnum):
    """Of a rank in a shrink."""

    STAYS = "stays"
    SLEEPS = "sleeps"
    ENDS = "ends"


class Left(NamedTuple):
    """What has come of a shrink on one rank. ``comm``: of those that stay, None on a rank that has left, whose process
    has nothing more to do. ``phases``: seconds until those that stay go on. ``slept_s``: how long it has been a zombie,
    and ``slept_cpu_s`` what that took of a processor."""

    fate: Fate
    comm: MPI.Intracomm | None
    phases: dict[str, float]
    slept_s: float = 0.0
    slept_cpu_s: float = 0.0


class OwnWorld:
    """This process' MPI_COMM_WORLD, and which of its ranks are zombies: one object a process, made before a shrink."""

    def __init__(self) -> None:
        self.zombies: set[int] = set()
        self._rest: MPI.Intracomm | None = None

    def shrink(self, comm: MPI.Intracomm, leaving: Collection[int], wait: Wait) -> Left:
        """Ranks ``leaving`` of ``comm`` leave; collective over ``comm``, which is spent and must not be COMM_WORLD.

        On a rank that becomes a zombie this returns when its world ends. ValueError if there is no such rank, or if
        nobody would stay.
        """
        begin = time.perf_counter()
        gone = set(leaving)
        if not gone < set(range(comm.size)):
            raise ValueError(f"ranks {sorted(gone)} are to leave of {comm.size}: one at least has to stay")
        world = MPI.COMM_WORLD
        awake = set(range(world.size)) - self.zombies
        going = {own for own, rank in enumerate(_ranks_in(comm)) if own in awake and rank in gone}
        if going and going != awake and self._rest is None:
            self._rest, request = world.Idup()
            wait.request(request, "the others of a world in which some are to sleep")
        stays = comm.rank not in gone
        wait.come(Phase.REORDER)
        with wait.watchdog("splitting the communicator"):
            rest = comm.Split(0 if stays else MPI.UNDEFINED, comm.rank)
        split = time.perf_counter()
        wait.come(Phase.COMMIT)
        barrier(comm, wait, "the end of the shrink")
        with wait.watchdog("leaving the old communicator"):
            comm.Disconnect()
        phases: dict[str, float] = {Phase.REORDER: split - begin, Phase.COMMIT: time.perf_counter() - split}
        self.zombies |= going
        if stays:
            assert isinstance(rest, MPI.Intracomm)  # noqa: S101 - it has a colour
            return Left(Fate.STAYS, rest, phases)
        if going == awake:
            self.end(wait)
            return Left(Fate.ENDS, None, phases)
        return self._sleep(phases)

    def end(self, wait: Wait) -> None:
        """The zombies of this world end, if it has any: the job has come to its end. By all ranks that are awake."""
        if self._rest is not None:
            wait.request(self._rest.Ibarrier(), "the zombies to wake up")

    def _sleep(self, phases: dict[str, float]) -> Left:
        """Until all of the world want to end: each has come to the barrier then."""
        assert self._rest is not None  # noqa: S101 - there is one before anybody sleeps
        request = self._rest.Ibarrier()
        began, began_cpu, nap_s = time.perf_counter(), time.process_time(), NAP_S
        while not request.Test():
            time.sleep(nap_s)
            nap_s = min(nap_s * 1.5, NAP_MAX_S)
        return Left(Fate.SLEEPS, None, phases, time.perf_counter() - began, time.process_time() - began_cpu)


def _ranks_in(comm: MPI.Intracomm) -> list[int]:
    """Of each rank of this process' MPI_COMM_WORLD: the one that it has in ``comm``, MPI.UNDEFINED if none."""
    world, group = MPI.COMM_WORLD.Get_group(), comm.Get_group()
    ranks = MPI.Group.Translate_ranks(world, range(world.size), group)
    world.Free()
    group.Free()
    return ranks
