"""The program whose resizes ``pliant bench resize`` measures: ``mpiexec ... python -m pliant_lab.measure.resized
TRIAL``, the trial as JSON. Newcomers are the same program. What was found is printed, a line of JSON each."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from mpi4py import MPI

from pliant.mpi import join
from pliant.mpi.bare.spawning import (
    Arrivals,
    Expansion,
    NotExpanded,
    OwnWorld,
    SpawnStarter,
    accept,
    arrive,
    brief,
    clock,
    expand,
    host,
)  # fmt: skip
from pliant.mpi.team import barrier, broadcast, gather_all, part_with
from pliant.mpi.wait import Wait
from pliant.plan.change import WorldChange, shrunk
from pliant_lab.measure.trials import Trial

STEP_S = 0.005
"""What sources compute between two looks for newcomers."""


class Process(NamedTuple):
    """``world``: the process id of rank 0 of its MPI_COMM_WORLD."""

    machine: str
    pid: int
    world: int


def say(**figures: Any) -> None:
    """A whole line at once: others print as well."""
    os.write(1, msgspec.json.encode(figures) + b"\n")


def main() -> None:
    trial = msgspec.json.decode(sys.argv[1], type=Trial)
    wait = Wait(trial.limit_s)
    expansion = arrive(wait)
    comm: MPI.Intracomm | None
    if expansion is not None and expansion.between is not None and trial.gives:
        Gives(trial, wait).arrive(expansion)
        return
    if expansion is None:
        comm = MPI.COMM_WORLD.Dup()
        if trial.expands:
            comm = grow(comm, trial, wait)
    else:
        comm = expansion.comm
        if expansion.between is not None:
            expansion.hand_over(wait)
        elif comm is not None:
            barrier(comm, wait, "all to go on")
    if comm is not None:
        check(comm, wait)
        if trial.gives:
            Gives(trial, wait).run(comm)
        else:
            Shrinks(comm, wait).run(trial)


def grow(comm: MPI.Intracomm, trial: Trial, wait: Wait) -> MPI.Intracomm | None:
    """As its plan says. It is over when all targets have heard of each other, or of the sources' leaving."""
    root = comm.rank == 0
    starter = SpawnStarter(wait) if trial.beside and root else None
    barrier(comm, wait, "the sources to begin")
    began, computed_s = time.perf_counter(), 0.0
    try:
        if trial.beside:
            arrivals, computed_s = beside(comm, trial, starter, wait)
            expansion = accept(comm, trial.plan, arrivals, wait, clock())
        else:
            expansion = expand(comm, trial.plan, trial.newcomers or trial.command, trial.hosts, wait)
    except NotExpanded as error:
        if root:
            say(kind="refused", error=str(error))
        return comm
    if expansion.comm is None:
        expansion.hand_over(wait)
    else:
        barrier(expansion.comm, wait, "all to go on")
    seconds = time.perf_counter() - began
    if root:
        figures = {"phases": expansion.phases, "trace": expansion.trace}
        say(kind="expansion", total_s=seconds, blocked_s=seconds - computed_s, **figures)
    if starter is not None:
        starter.end()
    return expansion.comm


def beside(
    comm: MPI.Intracomm, trial: Trial, starter: SpawnStarter | None, wait: Wait
) -> tuple[Arrivals, float]:
    """Compute until newcomers are there, of which ``starter``, on rank 0, knows; and for how long that was."""
    if starter is not None:
        starter.begin(brief(trial.plan, trial.newcomers or trial.command, trial.hosts, 1))
    computed_s, ready = 0.0, False
    while not ready:
        until = (begin := time.perf_counter()) + STEP_S
        while time.perf_counter() < until:
            pass
        computed_s += time.perf_counter() - begin
        ready = broadcast(comm, starter is not None and starter.ready(), 0, wait, "the root's word")
    return starter.arrivals() if starter is not None else Arrivals(1, "", None), computed_s


def check(comm: MPI.Intracomm, wait: Wait) -> None:
    """Who is where, and whether they can compute together."""
    ranks = gather_all(comm, (host(), MPI.COMM_WORLD.rank), wait, "the hosts of all")
    total = comm.allreduce(comm.rank)
    if comm.rank == 0:
        say(kind="ranks", ranks=ranks, sum=total)


class Shrinks:
    """Ranks that leave, time and again, and which processes are still there then."""

    def __init__(self, comm: MPI.Intracomm, wait: Wait) -> None:
        self._comm, self._wait, self._world = comm, wait, OwnWorld()
        self._gone: set[Process] = set()

    def run(self, trial: Trial) -> None:
        world = broadcast(MPI.COMM_WORLD, os.getpid(), 0, self._wait, "the name of the world")
        own = Process(socket.gethostname(), os.getpid(), world)
        for leaving in trial.leaves:
            if not self._shrink(own, leaving):
                return
            check(self._comm, self._wait)
        # Ranks that sleep are to have time for it.
        self._wait.sleep_until(time.perf_counter() + trial.pause_s)
        self._world.end(self._wait)
        barrier(self._comm, self._wait, "the end")
        part_with(self._comm)

    def _shrink(self, own: Process, leaving: Iterable[int]) -> bool:
        """Whether this rank stays."""
        gathered = gather_all(self._comm, own, self._wait, "the processes of all")
        processes = [Process(*each) for each in gathered]
        gone = set(leaving)
        barrier(self._comm, self._wait, "all to begin")
        began = time.perf_counter()
        left = self._world.shrink(self._comm, gone, self._wait)
        blocked_s = time.perf_counter() - began
        if left.slept_s:
            say(kind="zombie", slept_s=left.slept_s, slept_cpu_s=left.slept_cpu_s)
        if left.comm is None:
            return False
        self._comm = left.comm
        self._gone |= {each for rank, each in enumerate(processes) if rank in gone}
        worlds = {each.world for rank, each in enumerate(processes) if rank not in gone}
        ending = {each for each in self._gone if each.world not in worlds}
        self._gone -= ending
        if left.comm.rank == 0:
            here = all(each.machine == own.machine for each in ending)
            freed_s = freed_after(began, ending, self._wait.limit_s) if here and ending else None
            asleep = sum(alive(each.pid) for each in self._gone if each.machine == own.machine)
            figures = {"ended": len(ending), "asleep": asleep, "phases": left.phases}
            say(kind="shrink", total_s=blocked_s, blocked_s=blocked_s, freed_s=freed_s, **figures)
        return True


class Gives:
    """What the job gives back as it is planned; each rank says what becomes of it."""

    def __init__(self, trial: Trial, wait: Wait) -> None:
        self._trial, self._wait, self._world = trial, wait, OwnWorld()
        self._worlds = trial.worlds

    def arrive(self, expansion: Expansion) -> None:
        """A newcomer that was started for one of them."""
        assert expansion.comm is not None  # noqa: S101
        assert expansion.between is not None  # noqa: S101
        joint = join.unite(expansion.comm, expansion.between, self._wait, high=True)
        number, self._worlds = broadcast(joint, None, 0, self._wait, "the worlds of the job")
        plan = self._trial.gives[number].plan(self._worlds)
        self._leave(joint, shrunk(self._worlds, plan), number)

    def run(self, comm: MPI.Intracomm, first: int = 0) -> None:
        """All that are left from number ``first`` on, one by one."""
        if first == len(self._trial.gives):
            self._world.end(self._wait)
            barrier(comm, self._wait, "the end")
            part_with(comm)
            return
        trial = self._trial
        change = shrunk(self._worlds, trial.gives[first].plan(self._worlds))
        if change.spawn is not None:
            hosts = trial.hosts[: len(change.spawn.cores)]
            began = expand(comm, change.spawn, trial.command, hosts, self._wait, epoch=first + 2)
            assert began.between is not None  # noqa: S101 - a respawn is by Baseline
            root = comm.rank == 0
            comm = join.unite(comm, began.between, self._wait, high=False)
            broadcast(comm, (first, self._worlds), 0, self._wait, "the worlds of the job")
            if root:
                say(kind="respawn", trace=began.trace)
        self._leave(comm, change, first)

    def _leave(self, comm: MPI.Intracomm, change: WorldChange, number: int) -> None:
        """Who is not to go on leaves ``comm``; the others go on to the next."""
        mine, wait = comm.rank, self._wait
        awake = [(world.id, rank) for world in self._worlds for rank in world.awake]
        left = self._world.shrink(comm, set(range(comm.size)).difference(change.targets), wait)
        if mine < change.sources:
            world, rank = awake[mine]
            same = rank == MPI.COMM_WORLD.rank
            say(kind="fate", give=number, world=world, rank=MPI.COMM_WORLD.rank, fate=left.fate, same=same)
        if left.comm is not None:
            self._worlds = change.after
            check(left.comm, wait)
            self.run(left.comm, number + 1)


def freed_after(began: float, processes: Iterable[Process], limit_s: float) -> float | None:
    """When the last of these processes of this machine has ended; None if one has not in time."""
    pids = [each.pid for each in processes]
    while pids := [pid for pid in pids if alive(pid)]:
        if time.perf_counter() - began > limit_s:
            return None
        MPI.COMM_WORLD.Iprobe()
        time.sleep(0.0005)
    return time.perf_counter() - began


def alive(pid: int) -> bool:
    """Whether it is there and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


if __name__ == "__main__":
    main()
