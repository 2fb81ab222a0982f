"""Kinds of jobs: what a job's groups are to each other, and so what the loss of one means to it."""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import NamedTuple


class JobKind(StrEnum):
    """What runs in a job's groups."""

    MPI = "mpi"
    TASKS = "tasks"
    PLACES = "places"


class Loss(Enum):
    """What it means to a job that a group which is part of it has failed, or its node is lost."""

    ENDS_JOB = "its ranks cannot go on without those that are gone: the job has failed"
    FAILS_JOB = "ranks and groups do not need each other: the others go on, and the job has failed at its end"
    IS_TOLD = (
        "the job is told, goes on with the groups that are left, and ends as they say; "
        "without its root it has failed"
    )


class KindRow(NamedTuple):
    """How the groups of a job are launched (a name in ``live/node/dialects.py``), whether they may have one
    MPI world over all nodes, what a loss means, and whether a group has a process for each of its slots, or one for all
    of them. ``sleeps``: some of these processes can be put to sleep, and be woken, in a resize; ``migrates``: groups
    can arrive and others leave in one.
    ``modules``: what its Python programs import, where they may be forked from a process that has done that already."""

    dialect: str
    one_world: bool
    loss: Loss
    a_process_a_slot: bool = True
    modules: tuple[str, ...] = ()
    sleeps: bool = False
    migrates: bool = False

    def processes(self, slots: int) -> int:
        """How many a group of so many slots has."""
        return slots if self.a_process_a_slot else 1


MPI = ("numpy", "pliant.job.preload")
PLACES = ("numpy", "numba", "cloudpickle", "zmq", "pliant.apgas.session")
"""Those of them that are not there are left out."""
KINDS: dict[JobKind, KindRow] = {
    JobKind.MPI: KindRow("pmi1", one_world=True, loss=Loss.ENDS_JOB, modules=MPI, sleeps=True, migrates=True),
    JobKind.TASKS: KindRow("none", one_world=False, loss=Loss.FAILS_JOB),
    JobKind.PLACES: KindRow(
        "none", one_world=False, loss=Loss.IS_TOLD, a_process_a_slot=False, modules=PLACES
    ),
}
