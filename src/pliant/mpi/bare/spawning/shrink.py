"""Ranks leave a job that a bare mpiexec has started: Martín-Álvarez et al. 2025, sections 4.6 and 4.7.

A world whose ranks all leave ends, and its nodes are free: termination (TS). Where others of a world stay, MPI lets no
rank end; those that leave then sleep as zombies (ZS), which take no processor time, until all of their world do, or
until they are woken.
What a world that ends still needs is started anew before, by the Baseline method, and joined (SS).
"""

from __future__ import annotations

import time
from collections.abc import Collection
from enum import StrEnum
from typing import NamedTuple

from mpi4py import MPI

from pliant.mpi.team import barrier, part_with
from pliant.mpi.wait import Wait
from pliant.protocol.phases import Phase

NAP_S = 0.001
TAG = 8
NAP_MAX_S = 0.1
"""A zombie looks so seldom whether it is to end; at first it may still be needed for messages of the job."""


class RankFate(StrEnum):
    """Of a rank in a shrink."""

    STAYS = "stays"
    SLEEPS = "sleeps"
    ENDS = "ends"


class ZombieOrder(NamedTuple):
    """To those who sleep: ``ranks`` of this MPI_COMM_WORLD, which is ``world`` in the job, wake up and connect to
    ``port``. ``zombies`` sleep on, and ``more`` worlds connect behind this one. None in its place: the world ends."""

    world: int
    ranks: tuple[int, ...]
    zombies: tuple[int, ...]
    port: str
    more: int


class Left(NamedTuple):
    """What has come of a shrink on one rank. ``comm``: of those that stay, None on a rank that has left, whose process
    has nothing more to do unless there is a ``word``: then it is woken. ``phases``: seconds until those that stay go
    on. ``slept_s``: how long it has been a zombie, and ``slept_cpu_s`` what that took of a processor."""

    fate: RankFate
    comm: MPI.Intracomm | None
    phases: dict[str, float]
    slept_s: float = 0.0
    slept_cpu_s: float = 0.0
    word: ZombieOrder | None = None


class OwnWorld:
    """This process' MPI_COMM_WORLD, and which of its ranks are zombies: one object a process, made before a shrink."""

    def __init__(self) -> None:
        self.zombies: set[int] = set()
        self._rest: MPI.Intracomm | None = None

    def shrink(self, comm: MPI.Intracomm, leaving: Collection[int], wait: Wait) -> Left:
        """Ranks ``leaving`` of ``comm`` leave; collective over ``comm``, which is spent and must not be COMM_WORLD.

        On a rank that becomes a zombie this returns when it is woken, or when its world ends. ValueError if there is no
        such rank, or if nobody would stay.
        """
        begin = time.perf_counter()
        gone = set(leaving)
        if not gone < set(range(comm.size)):
            raise ValueError(f"ranks {sorted(gone)} are to leave of {comm.size}: one at least has to stay")
        world = MPI.COMM_WORLD
        awake = self._awake()
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
            part_with(comm)
        phases: dict[str, float] = {Phase.REORDER: split - begin, Phase.COMMIT: time.perf_counter() - split}
        if going == awake and not stays:
            self.end(wait)
            return Left(RankFate.ENDS, None, phases)
        self.zombies |= going
        if stays:
            assert isinstance(rest, MPI.Intracomm)  # noqa: S101 - it has a colour
            return Left(RankFate.STAYS, rest, phases)
        return self._sleep(phases)

    def _awake(self) -> set[int]:
        return set(range(MPI.COMM_WORLD.size)) - self.zombies

    def end(self, wait: Wait) -> None:
        """The zombies of this world end, if it has any: the job has come to its end. By all ranks that are awake."""
        self._tell(self.zombies, None, wait)

    def wake(self, word: ZombieOrder, wait: Wait) -> None:
        """Some of the zombies wake up. By all ranks that are awake."""
        self._tell(word.ranks, word, wait)
        self.zombies -= set(word.ranks)

    def _tell(self, zombies: Collection[int], word: ZombieOrder | None, wait: Wait) -> None:
        """By the first of those that are awake."""
        if self._rest is not None and self._rest.rank == min(self._awake()):
            wait.requests([self._rest.isend(word, rank, TAG) for rank in zombies], "the zombies to be told")

    def _sleep(self, phases: dict[str, float]) -> Left:
        assert self._rest is not None  # noqa: S101 - there is one before anybody sleeps
        began, began_cpu, nap_s = time.perf_counter(), time.process_time(), NAP_S
        while not self._rest.Iprobe(MPI.ANY_SOURCE, TAG):
            time.sleep(nap_s)
            nap_s = min(nap_s * 1.5, NAP_MAX_S)
        word: ZombieOrder | None = self._rest.recv(None, MPI.ANY_SOURCE, TAG)
        if word is not None:
            self.zombies = set(word.zombies)
        slept_s, cpu_s = time.perf_counter() - began, time.process_time() - began_cpu
        return Left(RankFate.SLEEPS, None, phases, slept_s, cpu_s, word)

    def meet(self, word: ZombieOrder, wait: Wait) -> MPI.Intracomm:
        """The communicator of those who wake up; collective over them."""
        group = MPI.COMM_WORLD.Get_group()
        ranks = group.Incl(word.ranks)
        with wait.watchdog("meeting the others of this world that wake up"):
            comm = MPI.COMM_WORLD.Create_group(ranks, TAG)
        ranks.Free()
        group.Free()
        barrier(comm, wait, "the others of this world that wake up")
        return comm


def _ranks_in(comm: MPI.Intracomm) -> list[int]:
    """Of each rank of this process' MPI_COMM_WORLD: the one that it has in ``comm``, MPI.UNDEFINED if none."""
    world, group = MPI.COMM_WORLD.Get_group(), comm.Get_group()
    ranks = MPI.Group.Translate_ranks(world, range(world.size), group)
    world.Free()
    group.Free()
    return ranks
