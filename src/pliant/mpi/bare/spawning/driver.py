"""Carries out what the coroutines of `job/spawning/` yield, by MPI.

What blocks in MPI has a watchdog; all else is tested in a loop that ends in Stalled when it takes too long.
"""

from __future__ import annotations

import shutil
import time
from typing import Any, TypeVar, cast

import numpy as np
from mpi4py import MPI

from pliant.job.spawning import operations as o
from pliant.model.errors import PliantError
from pliant.mpi import join
from pliant.mpi.bare.spawning.process import host
from pliant.mpi.bare.spawning.words import TAG, receive_all, send, tell
from pliant.mpi.resizer import say
from pliant.mpi.resizing.admission import has_descriptors
from pliant.mpi.team import gather_all, part_with
from pliant.mpi.wait import Wait, nothing

T = TypeVar("T")

NAP_S = 0.005


def run(steps: o.Steps[T], wait: Wait) -> T:
    """What the coroutine comes to. An error of MPI that it does not take is raised as MPI has raised it."""
    try:
        operation = next(steps)
        while True:
            try:
                outcome = _carry_out(operation, wait)
            except MPI.Exception as error:
                failed = o.Failed(error.Get_error_string())
                failed.__cause__ = error
                operation = steps.throw(failed)
            except PliantError as error:
                operation = steps.throw(error)
            else:
                operation = steps.send(outcome)
    except StopIteration as done:
        return cast("T", done.value)
    except o.Failed as failed:
        if failed.__cause__ is None:
            raise
        raise failed.__cause__ from None


def _carry_out(operation: o.Operation, wait: Wait) -> Any:  # noqa: C901, PLR0911, PLR0912 - a line or two each
    match operation:
        case o.Reach(phase):
            wait.come(phase)
        case o.Say(text):
            say(text)
        case o.Alone():
            return MPI.COMM_SELF
        case o.Duplicate(what):
            own, request = MPI.COMM_WORLD.Idup()
            wait.request(request, what)
            return own
        case o.Hosts(comm, what):
            return gather_all(_intra(comm), host(), wait, what)
        case o.Look(comm, program, what):
            return _look(_intra(comm), program, what, wait)
        case o.Spawn():
            return _spawn(operation, wait)
        case o.Send(comm, target, message):
            return send(_any(comm), target, message)
        case o.Receive(peers, kind, what, limited, share):
            heard = [(_any(comm), rank) for comm, rank in peers]
            with wait.looking(nothing, share):  # nobody else looks: this job has no session
                return receive_all(heard, kind, wait, what, limited=limited)
        case o.Tell(comm, message, kind, what, limited, share):
            with wait.looking(nothing, share):
                return tell(_intra(comm), message, kind, wait, what, limited=limited)
        case o.Nap(comm):
            while not _any(comm).Iprobe(0, TAG):
                time.sleep(NAP_S)
        case o.Part(comm):
            return [_any(comm).Ibarrier()]
        case o.Await(pending, what, limited):
            wait.requests(pending, what, limited=limited)
        case o.Leave(comms, what):
            _leave(comms, what, wait)
        case o.OpenPort():
            return MPI.Open_port()
        case o.ClosePort(port):
            MPI.Close_port(port)
        case o.Accept(comm, port, what):
            with wait.watchdog(what):
                return _intra(comm).Accept(port, root=0)
        case o.Connect(comm, port):
            return join.connect(_intra(comm), port, wait)
        case o.Unite(comm, between, high):
            return join.unite(_intra(comm), cast("MPI.Intercomm", between), wait, high=high)
        case o.Split(comm, key, what):
            with wait.watchdog(what):
                ordered = _intra(comm).Split(0, key)
                part_with(_intra(comm))
            return ordered
    return None


def _any(comm: o.Comm) -> MPI.Comm:
    return cast("MPI.Comm", comm)


def _intra(comm: o.Comm) -> MPI.Intracomm:
    return cast("MPI.Intracomm", comm)


def _look(comm: MPI.Intracomm, program: str, what: str, wait: Wait) -> tuple[bool, bool]:
    found = np.array([shutil.which(program) is not None, has_descriptors()], "i4")
    everywhere = np.empty_like(found)
    wait.request(comm.Iallreduce(found, everywhere, MPI.MIN), what)
    return bool(everywhere[0]), bool(everywhere[1])


def _spawn(asked: o.Spawn, wait: Wait) -> MPI.Intercomm:
    command, *args = asked.command
    comm = MPI.COMM_SELF if asked.by is None else _intra(asked.by)
    info = MPI.Info.Create()
    info.Set("hosts", asked.hosts)
    try:
        with wait.watchdog(asked.what):
            return comm.Spawn(command, args=args, maxprocs=asked.size, info=info, root=0)
    finally:
        info.Free()


def _leave(comms: tuple[o.Comm, ...], what: str, wait: Wait) -> None:
    if not what:
        for comm in comms:
            part_with(_any(comm))
        return
    with wait.watchdog(what):
        for comm in comms:
            part_with(_any(comm))
