"""The sources' part in an expansion, by MPI."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple, cast

from mpi4py import MPI

from pliant.job.spawning import messages as m
from pliant.job.spawning import sources
from pliant.job.spawning.clock import PhaseClock
from pliant.job.spawning.sources import Arrivals, brief
from pliant.job.spawning.spawn_tree import SpawnTreeNode
from pliant.mpi.bare.spawning.driver import run
from pliant.mpi.wait import Wait
from pliant.plan.spawn import SpawnPlan


class Expansion(NamedTuple):
    """What an expansion has come to, on one rank: `sources.Expanded`, with the communicators of MPI."""

    plan: SpawnPlan
    epoch: int
    comm: MPI.Intracomm | None
    between: MPI.Intercomm | None
    phases: dict[str, float]
    trace: tuple[m.Started, ...] = ()

    @classmethod
    def of(cls, expanded: sources.Expanded) -> Expansion:
        comm = cast("MPI.Intracomm | None", expanded.comm)
        between = cast("MPI.Intercomm | None", expanded.between)
        return cls(expanded.plan, expanded.epoch, comm, between, expanded.phases, expanded.trace)

    def hand_over(self, wait: Wait) -> None:
        """The targets have all that they need: leave each other. The sources have nothing more to do then."""
        run(sources.hand_over(sources.Expanded(*self)), wait)


def clock() -> PhaseClock:
    return PhaseClock(time.perf_counter)


def expand(  # noqa: PLR0913 - what is started where, by which plan, and how long the wait for it may last
    comm: MPI.Intracomm,
    plan: SpawnPlan,
    command: Sequence[str],
    hosts: Sequence[str],
    wait: Wait,
    *,
    epoch: int = 1,
) -> Expansion:
    """Start ``command`` as ``plan`` says and join what comes up; collective over ``comm``, the sources.

    ``hosts``: the names of the plan's nodes. ``comm`` is spent by a Merge; it must not be COMM_WORLD. The command
    calls ``arrive`` first of all. NotExpanded if a newcomer cannot be started or does not come up in time.
    What dies later, or in a way that MPI cannot bear, ends the sources by the deadline of ``wait``.
    """
    briefing = brief(plan, command, hosts, epoch)
    return Expansion.of(run(sources.expand(comm, plan, briefing, clock()), wait))


def accept(
    comm: MPI.Intracomm, plan: SpawnPlan, arrivals: Arrivals, wait: Wait, clock: PhaseClock
) -> Expansion:
    """The sources join the newcomers, if these are there; collective over ``comm``. NotExpanded if they are not."""
    return Expansion.of(run(sources.accept(comm, plan, arrivals, clock), wait))


def check(
    comm: MPI.Intracomm, plan: SpawnPlan, command: Sequence[str], hosts: Sequence[str], wait: Wait
) -> None:
    """ValueError for what does not fit; NotExpanded on all sources if there is no such program where one of them is,
    or one has no free file descriptors."""
    run(sources.check(comm, plan, command, hosts), wait)


def late(kin: SpawnTreeNode, wait: Wait) -> bool:
    """At the end of a job whose newcomers have been called off: whether some are there still, or that cannot be
    told."""
    return run(kin.late(), wait)
