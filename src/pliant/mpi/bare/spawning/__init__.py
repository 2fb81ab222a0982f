"""Expansions and shrinks of a job that a bare mpiexec has started: by MPI_Comm_spawn, by the plans of Martín-Álvarez et
al. 2025. What is decided in an expansion stands in `job/spawning/`, and is carried out here."""

from pliant.job.spawning.newcomer import Arrival
from pliant.job.spawning.sources import Arrivals, NotExpanded, brief
from pliant.job.spawning.spawn_tree import SpawnTreeNode
from pliant.mpi.bare.spawning.expansion import Expansion, accept, check, clock, expand, late
from pliant.mpi.bare.spawning.newcomer import arrive, begin, join_job
from pliant.mpi.bare.spawning.process import end_job, end_with_launcher, host
from pliant.mpi.bare.spawning.shrink import Left, OwnWorld, ZombieOrder
from pliant.mpi.bare.spawning.starter import SpawnStarter

__all__ = [
    "Arrival",
    "Arrivals",
    "Expansion",
    "Left",
    "NotExpanded",
    "OwnWorld",
    "SpawnStarter",
    "SpawnTreeNode",
    "ZombieOrder",
    "accept",
    "arrive",
    "begin",
    "brief",
    "check",
    "clock",
    "end_job",
    "end_with_launcher",
    "expand",
    "host",
    "join_job",
    "late",
]  # fmt: skip
