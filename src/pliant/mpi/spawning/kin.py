"""A process' part in the tree of starts: the worlds that it starts, and the words that go up and down between them."""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple

import msgspec
from mpi4py import MPI

from pliant.job.errors import Stalled
from pliant.mpi.spawning import messages as m
from pliant.mpi.team import gather_all
from pliant.mpi.wait import Wait, nothing
from pliant.plan.spawn import SOURCES, SpawnCall
from pliant.plan.synchronise import sync_tree

PR_SET_PDEATHSIG = 1
NAP_S = 1e-3
END_S = 5.0
"""What mpiexec gets to end this process."""


class Child(NamedTuple):
    """``comm``: between the process that has started the world, or all sources if they started it together, and it."""

    world: int
    comm: MPI.Intercomm


class Kin:
    """Parent and children of a rank's world: what it starts, hears of that, and says.

    ``own``: the world's communicator. ``parent``: between the process that has started this world and it; None for
    the sources.
    """

    def __init__(
        self, own: MPI.Intracomm, briefing: m.Briefing, parent: MPI.Intercomm | None, wait: Wait
    ) -> None:
        self.children: list[Child] = []
        self._own, self._briefing, self._parent, self._wait = own, briefing, parent, wait
        self._world = briefing.world
        self._plan = briefing.plan()
        self._tree = sync_tree(self._plan).worlds[self._world + 1]
        self._error = ""
        self._sent: list[MPI.Request] = []
        self._parting: list[MPI.Request] = []
        self._lost = False

    @property
    def first(self) -> bool:
        """Whether this is rank 0 of its world, or the only one that starts others for it."""
        return self._own.rank == 0

    # ---- start --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the worlds that the plan wants of this rank, one after the other; what fails is for the report."""
        together = self._world == SOURCES and not self._plan.by_port
        mine = (self._world, self._own.rank)
        count = 0
        for world, call in enumerate(self._plan.calls):
            if not together and (call.parent_group, call.parent_rank) != mine:
                continue
            count += 1
            try:
                comm = self._spawn(call, self._own if together else MPI.COMM_SELF)
            except MPI.Exception as error:
                self._error = f"group {call.groups[0].id} on {self._hosts(call)}: {error.Get_error_string()}"
                return
            self.children.append(Child(world, comm))
            if mine == (call.parent_group, call.parent_rank):
                own = msgspec.structs.replace(
                    self._briefing, world=world, step=self._briefing.step + count,
                    parent_group=self._world, parent_rank=self._own.rank,
                )  # fmt: skip
                self._sent += m.send(comm, 0, own)

    def _spawn(self, call: SpawnCall, comm: MPI.Intracomm) -> MPI.Intercomm:
        command, args = self._briefing.command[0], list(self._briefing.command[1:])
        info = MPI.Info.Create()
        info.Set("hosts", self._hosts(call))
        try:
            with self._wait.watchdog(f"starting {command} on {self._hosts(call)}"):
                return comm.Spawn(command, args=args, maxprocs=call.size, info=info, root=0)
        finally:
            info.Free()

    def _hosts(self, call: SpawnCall) -> str:
        """As mpiexec reads it. Always given: without it, the second start on several hosts ends mpiexec."""
        return ",".join(f"{self._briefing.hosts[group.node]}:{group.size}" for group in call.groups)

    # ---- upside -------------------------------------------------------------------------------------

    def upside(self, ports: Mapping[str, str]) -> m.Report:
        """What is known here of all that is below: on rank 0 of the world, of all that its ranks have started.

        Rank 0 of a new world has sent it to the parent as well, with the ``ports`` that it has opened.
        """
        report = m.Report(self._error, tuple(self._present()), dict(ports)) + self._below()
        own = self._own
        if own.rank and own.rank in self._tree.members:
            self._sent += m.send(own, 0, report)
        if own.rank == 0:
            members = [(own, rank) for rank in self._tree.members if rank]
            for each in m.receive_all(members, m.Report, self._wait, "the ranks that start others"):
                report += each
            if self._parent is not None:
                self._sent += m.send(self._parent, 0, report)
        return report

    def _present(self) -> Iterator[m.Started]:
        """The groups that this world consists of, told by its rank 0."""
        if self._world == SOURCES:
            return
        hosts = gather_all(self._own, host(), self._wait, "the hosts of the group")
        briefing, first = self._briefing, 0
        for group in self._plan.calls[self._world].groups if self._own.rank == 0 else ():
            there = hosts[first : first + group.size]
            first += group.size
            yield m.Started(
                group.id, briefing.step, briefing.parent_group, briefing.parent_rank,
                ",".join(dict.fromkeys(there)), len(there),
            )  # fmt: skip

    def _below(self) -> m.Report:
        mine = [child for child in self.children if self._speaks_to(child)]
        report = m.Report()
        try:
            # Who is further up waits longer, so that the news of a loss comes before it is given up itself.
            with self._wait.looking(nothing, 1 / 2 / (1 + self._briefing.step)):
                peers = [(child.comm, 0) for child in mine]
                heard = m.receive_all(peers, m.Report, self._wait, "what was started")
        except (Stalled, MPI.Exception) as error:
            worlds = ", ".join(str(child.world) for child in mine)
            return m.Report(f"not all of the groups {worlds} have come up: {error}")
        for each in heard:
            report += each
        return report

    def _speaks_to(self, child: Child) -> bool:
        call = self._plan.calls[child.world]
        return (call.parent_group, call.parent_rank) == (self._world, self._own.rank)

    # ---- downside -----------------------------------------------------------------------------------

    def downside(self, verdict: m.Verdict | None) -> m.Verdict:
        """What the sources' rank 0 has found, which gives it as ``verdict``, on every rank, and sent further down."""
        if self._parent is not None and self._own.rank == 0:
            verdict = m.receive(self._parent, 0, m.Verdict, self._wait, "word that all groups are there")
        verdict = m.tell(self._own, verdict, m.Verdict, self._wait, "word that all groups are there")
        for child in self.children:
            if self._speaks_to(child):
                with self._spared(verdict):
                    self._sent += m.send(child.comm, 0, verdict)
        return verdict

    @contextmanager
    def _spared(self, verdict: m.Verdict) -> Iterator[None]:
        """Where all is called off as one has ended, MPI may say of it that it is not there."""
        try:
            yield
        except MPI.Exception:
            if not verdict.error:
                raise
            self._lost = True

    def part(self) -> None:
        """Begin to leave parent and children: a barrier that is waited for in :meth:`gone`, or at the end of the job in
        :meth:`late`."""
        parent = [] if self._parent is None else [self._parent]
        self._parting = [comm.Ibarrier() for comm in (*parent, *(child.comm for child in self.children))]

    def gone(self) -> None:
        """Leave parent and children, if :meth:`part` has begun to."""
        self._wait.requests([*self._sent, *self._parting], "parent and children to part")
        if not self._parting:
            return
        with self._wait.watchdog("leaving parent and children"):
            if self._parent is not None:
                self._parent.Disconnect()
            for child in self.children:
                child.comm.Disconnect()

    # ---- where it is called off ---------------------------------------------------------------------

    def go(self) -> None:
        """A newcomer goes again: when all have that it has started, and all that these have. However long that takes,
        it does not fail, which would end the job that goes on; who stands still for ever is ended when that ends."""
        parent = [] if self._parent is None else [self._parent]
        for comms in ([child.comm for child in self.children], parent):
            parting = [comm.Ibarrier() for comm in comms]
            self._wait.requests(parting, "those below to go", limited=False)
            for comm in comms:
                comm.Disconnect()

    def call_off(self, verdict: m.Verdict) -> None:
        """Begin to leave those that were started; nobody waits for that before :meth:`late`."""
        with self._spared(verdict):
            self.part()

    def late(self) -> bool:
        """At the end of a job whose newcomers have been called off: whether some are there still, or that cannot be
        told. Who was only slow has gone, or does so now."""
        if self._lost:
            return True
        try:
            # Disconnect would wait for what has been received in part, or not at all.
            self._wait.requests(self._parting, "those that were started, and go again")
        except (Stalled, MPI.Exception):
            return True
        return False


def drain() -> None:
    """What this process has said is on its way: what mpiexec has not read when it is told to end all would be lost."""
    until = time.perf_counter() + END_S
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # it is closed, or no pipe
            stream.flush()
            while unread(stream.fileno()) and time.perf_counter() < until:
                time.sleep(NAP_S)


def unread(pipe: int) -> int:
    """Bytes in it; OSError if this cannot be told."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def end_job(code: int) -> None:
    """All that mpiexec has started ends, with this exit code, and this process at once, whatever it is in: a thread
    that is in MPI_Comm_spawn keeps MPI_Abort waiting. An exit alone would have mpiexec wait for what has been
    started. What this process has said is read first."""
    drain()
    fd = os.environ.get("PMI_FD", "")
    if fd.isdigit():
        os.write(int(fd), f"cmd=abort exitcode={code}\n".encode())
        time.sleep(END_S)  # it is ended meanwhile
    os._exit(code)


def end_with_launcher() -> None:
    """Have the kernel end this process when that which has started it does: of several that fail at once Hydra's
    proxies crash, and what stands still would be left."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def host() -> str:
    """The node of this process, as mpiexec calls it: several virtual nodes may be one machine."""
    return os.environ.get("PMI_HOSTNAME") or MPI.Get_processor_name()
