"""A newcomer's part in an expansion, by MPI."""

from __future__ import annotations

from mpi4py import MPI

from pliant.job.spawning import newcomer
from pliant.job.spawning.newcomer import Arrival, CalledOff
from pliant.mpi.bare.spawning.driver import run
from pliant.mpi.bare.spawning.expansion import Expansion, clock
from pliant.mpi.errors import Released
from pliant.mpi.wait import Wait


def arrive(wait: Wait) -> Expansion | None:
    """To be called first of all; None in a process that nobody has spawned.

    Released where the expansion was called off: the process ends.
    """
    arrival = begin(wait)
    return None if arrival is None else join_job(arrival, wait)


def begin(wait: Wait) -> Arrival | None:
    """Start others, if this newcomer is to: they come up while it does what it has to do before it can be joined.
    Released if it is not needed."""
    parent = MPI.Comm.Get_parent()
    if parent == MPI.COMM_NULL:
        return None
    try:
        return run(newcomer.begin(parent, clock()), wait)
    except CalledOff as error:
        raise Released from error


def join_job(arrival: Arrival, wait: Wait) -> Expansion:
    """Join those that were started with it, and with them the sources. Released if it is not needed."""
    try:
        return Expansion.of(run(newcomer.join_job(arrival), wait))
    except CalledOff as error:
        raise Released from error
