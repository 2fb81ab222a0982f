"""Expansions and shrinks of a job that a bare mpiexec has started: by MPI_Comm_spawn, by the plans of paper 1."""

from pliant.mpi.spawning.expansion import (
    Arrivals,
    Clock,
    Expansion,
    NotExpanded,
    accept,
    brief,
    check,
    expand,
)
from pliant.mpi.spawning.kin import Kin, drain, end_job, end_with_launcher, host
from pliant.mpi.spawning.newcomer import Arrival, arrive, begin, join_job
from pliant.mpi.spawning.shrink import Left, OwnWorld, Word
from pliant.mpi.spawning.starter import Starter

__all__ = [
    "Arrival", "Arrivals", "Clock", "Expansion", "Kin", "Left", "NotExpanded", "OwnWorld", "Starter", "Word", "accept",
    "arrive", "begin", "brief", "check", "drain", "end_job", "end_with_launcher", "expand", "host", "join_job",
]  # fmt: skip
