"""How newcomers are taken in: until the root's last word the sources can go back to what they were.

No MPI call gets out by itself when its peer has died. So what the sources do with newcomers are non-blocking calls that
are tested, and what they agree on goes over the communicator of before, which no newcomer can break. What is left
behind by an admission that is undone is kept for good: MPI may yet write there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from enum import IntEnum

import numpy as np
from mpi4py import MPI

from pliant.job.errors import DESCRIPTORS, Stalled
from pliant.model.deadlines import ROOT_ADMIT_S
from pliant.mpi import join
from pliant.mpi.context import Context
from pliant.mpi.errors import Undone
from pliant.mpi.resizing.release import AcceptRelease
from pliant.mpi.team import part_with
from pliant.mpi.wait import Wait
from pliant.protocol.messages import Put

PATIENCE = 2 / 3
"""Of PLIANT_DEADLINE: how long the root waits for newcomers that stand still. The other sources wait for its word, and
for longer."""


class Met(IntEnum):
    """Whom a rank has met in Accept; of all ranks the least counts."""

    NOBODY = 0
    RELEASE = 1
    NEWCOMERS = 2


def has_descriptors() -> bool:
    """Whether this process could open that many files."""
    taken: list[int] = []
    try:
        while len(taken) < DESCRIPTORS:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return False
    finally:
        for each in taken:
            os.close(each)
    return True


def admit(context: Context, comm: MPI.Intracomm, key: str) -> MPI.Intercomm:
    """Accept the newcomers who connect to the port stored at ``key``; collective over the sources' ``comm``, which can
    be used as before whatever happens. Undone, on all ranks alike, if they cannot be connected.

    The port is told before Accept blocks; the newcomers' Connect comes a socket's way later.
    """
    connection, wait = context.connection, context.wait
    if comm.rank != 0 or connection is None:
        return _accepted(comm, "", wait, None, key)
    port = MPI.Open_port()
    connection.send(Put(context.epoch + 1, key, port))

    def lost() -> bool:
        connection.poll()
        return bool(context.broken)

    release = AcceptRelease(port, lost, _admit_s(wait) + 1.0)
    try:
        between = _accepted(comm, port, wait, release, key)
    except Undone as undone:
        raise Undone(context.broken or str(undone)) from undone
    finally:
        release.end()
    if not release.came:
        MPI.Close_port(port)
    return between


def _admit_s(wait: Wait) -> int:
    """There are two steps, and then the watchdog has still to sleep."""
    return max(1, min(ROOT_ADMIT_S, int(wait.limit_s // 3)))


def _accepted(
    comm: MPI.Intracomm, port: str, wait: Wait, release: AcceptRelease | None, key: str
) -> MPI.Intercomm:
    """As :func:`admit`, at this port. If it fails that stays open: its number would be given to the next, and UCX may
    still receive under it."""
    why = ""
    between: MPI.Intercomm | None = None
    info = MPI.Info.Create({"timeout": str(_admit_s(wait))})
    with wait.watchdog(f"accepting at {key}"), release or nullcontext():
        try:
            between = comm.Accept(port, info, root=0)
        except MPI.Exception as error:
            # On this rank: another may have got through.
            why = f"the newcomers could not be connected: {told(error)}"
    info.Free()
    mine = Met.NOBODY if why else Met.RELEASE if release and release.connected() else Met.NEWCOMERS
    met = np.array([mine], "i4")
    wait.request(comm.Iallreduce(MPI.IN_PLACE, met, MPI.MIN), "all ranks to be connected to the newcomers")
    if met[0] == Met.RELEASE and between is not None:
        with wait.watchdog("leaving who came in place of the newcomers"):
            part_with(between)
    if met[0] != Met.NEWCOMERS or between is None:
        raise Undone(why or "the newcomers could not be connected on all ranks")
    return between


def united(context: Context, comm: MPI.Intracomm, between: MPI.Intercomm) -> MPI.Intracomm:
    """The sources over ``comm`` and the newcomers, merged; Undone on all sources if MPI says to one that it cannot be.
    Where it says nothing, a lost newcomer is waited for until the process ends."""
    own: MPI.Intracomm | None = None
    why = "the newcomers could not be merged on all ranks"
    try:
        own = join.merge(between, context.wait, high=False)
    except MPI.Exception as error:
        why = f"the newcomers could not be merged: {told(error)}"
    all_are = np.array([own is not None], "i4")
    context.wait.request(comm.Iallreduce(MPI.IN_PLACE, all_are, MPI.MIN), "all ranks to be merged")
    if own is None or not all_are[0]:
        raise Undone(why)
    return own


def told(error: BaseException) -> str:
    """Why, in a few words."""
    if isinstance(error, MPI.Exception):
        return f"MPI says {error.Get_error_string().partition(',')[0]}"
    return str(error)


@contextmanager
def agreed(context: Context, comm: MPI.Intracomm) -> Iterator[None]:
    """The sources do the block together, or none of them does: it is over when the root says so over their ``comm``.

    It is left by Undone on all of them when the root learns of a newcomer's loss before its block is done, by MPI or
    by the scheduler, or has waited too long in it.
    """
    word = _Word(comm)

    def look() -> None:
        if comm.rank == 0 and context.broken:
            raise Undone(context.broken)
        word.check()

    try:
        with context.wait.looking(look, PATIENCE if comm.rank == 0 else 1.0):
            yield
            look()
    except (Undone, Stalled, MPI.Exception) as error:
        if isinstance(error, Stalled) and comm.rank != 0:
            raise  # the root itself may be lost
        word.say(go=False)
        # Disconnect would wait for it, at the next resize.
        context.wait.request(word.request, "the root's word")
        if isinstance(error, MPI.Exception) and word.goes:
            raise  # the others go on without a newcomer that this rank cannot reach
        raise Undone(told(error)) from error
    word.say(go=True)
    context.wait.request(word.request, "the root's word")
    word.check()


class _Word:
    """Go or not, from rank 0 of ``comm`` to the others, once."""

    def __init__(self, comm: MPI.Intracomm) -> None:
        self._comm = comm
        self._go = bytearray(b"\1")
        self.request = MPI.REQUEST_NULL
        if comm.rank != 0:
            self.request = self._post()

    def _post(self) -> MPI.Request:
        return self._comm.Ibcast([self._go, 1, MPI.BYTE], root=0)

    def say(self, *, go: bool) -> None:
        """On rank 0."""
        if self._comm.rank == 0:
            self._go[0] = go
            self.request = self._post()

    @property
    def goes(self) -> bool:
        """What it is, when it has come."""
        return bool(self._go[0])

    def check(self) -> None:
        """Undone if it has come, and is no."""
        if self.request.Test() and not self._go[0]:
            raise Undone("the root has given the newcomers up")
