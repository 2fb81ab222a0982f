"""How an MPI job is resized, chosen from what its MPI can do and what its user asks for; and why so.

There are two starters: a node's agent starts groups beside the job, which join it by port; or, under a bare mpiexec,
its processes start others by MPI_Comm_spawn (Martín-Álvarez et al. 2025). A job chooses by this, and ``pliant doctor``
tells it.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import NamedTuple

import msgspec

from pliant.plan.shrink import ShrinkMethod
from pliant.plan.spawn import Method, Strategy


class SpawnOption(StrEnum):
    """Martín-Álvarez et al. 2025, section 2, call two more things strategies. ``ASYNCHRONOUS``: the job computes while
    newcomers start and join among themselves. ``ONE`` is the paper's Single: one rank has others started, and tells the
    rest; that is not ``Strategy.SINGLE``, one call for all nodes."""

    ASYNCHRONOUS = "asynchronous"
    ONE = "one"


class Abilities(msgspec.Struct, frozen=True):
    """What an MPI can do here. ``no_spawn`` and ``no_ports`` are reasons, empty where it can. ``netmod``: MPICH's
    network module, empty of other libraries. ``shared``: several nodes are one machine, and MPICH has not been told to
    send all messages between them by network (MPIR_CVAR_NOLOCAL)."""

    library: str = ""
    netmod: str = ""
    no_spawn: str = ""
    no_ports: str = ""
    shared: bool = False

    @property
    def no_wide_call(self) -> str:
        """Why one MPI_Comm_spawn must not be for several nodes; empty if it may."""
        if self.shared and self.netmod == "ofi":
            return (
                "one start on several nodes that are one machine hangs with MPICH's ofi: set MPIR_CVAR_NOLOCAL=1, or "
                "MPIR_CVAR_CH4_NETMOD=ucx"
            )
        return ""


class SpawnPreferences(NamedTuple):
    """What the user says; None is left to the choice."""

    method: Method = Method.MERGE
    strategy: Strategy | None = None
    shrink: ShrinkMethod | None = None
    beside: frozenset[SpawnOption] = frozenset()


class StartedBy(StrEnum):
    """Who starts newcomers."""

    AGENT = "agent"
    SPAWN = "spawn"


class Chosen(NamedTuple):
    """``strategy`` is of processes that start others; None: by the groups that are missing, each time. ``why``: of the
    strategy first, then of whatever else is not as it was asked for."""

    starter: StartedBy
    method: Method
    strategy: Strategy | None
    shrink: ShrinkMethod
    beside: frozenset[SpawnOption]
    why: tuple[str, ...]

    def __str__(self) -> str:
        strategies = [self.strategy] if self.strategy else [Strategy.HYPERCUBE, Strategy.DIFFUSIVE]
        by = self.starter.value if self.starter is StartedBy.AGENT else " or ".join(strategies)
        words = ", ".join([f"{self.method} and {by}", *sorted(self.beside), f"shrinks by {self.shrink}"])
        return f"{words}: {'; '.join(self.why)}"

    def strategy_for(self, sizes: Collection[int]) -> tuple[Strategy, str]:
        """For new groups of these sizes, and why."""
        if self.strategy is not None:
            return self.strategy, self.why[0]
        if len(set(sizes)) == 1:
            return Strategy.HYPERCUBE, "as all new groups are equal"
        return Strategy.DIFFUSIVE, "as the new groups differ"


BY_SIZES = "hypercube where all new groups are equal, diffusive where they differ: either starts in parallel"


def by_spawn(
    can: Abilities,
    asked: SpawnPreferences = SpawnPreferences(),  # noqa: B008 - immutable
    said_by: str = "asked for",
) -> Chosen:
    """Under a bare mpiexec. ``said_by``: where the strategy was asked for. ValueError, with what to do, if that cannot
    be."""
    if can.no_spawn:
        raise ValueError(
            f"MPI_Comm_spawn does not work here ({can.no_spawn}): start the job by pliant run, whose agents need none"
        )
    strategy, beside, why = (
        asked.strategy,
        asked.beside,
        [f"as {said_by} says" if asked.strategy else BY_SIZES],
    )
    if can.no_ports:
        if strategy not in {None, Strategy.SINGLE}:
            raise ValueError(f"{strategy} joins newcomers by port ({can.no_ports}): take single")
        strategy, beside = Strategy.SINGLE, frozenset()
        why = [f"as newcomers cannot be joined by port ({can.no_ports})"]
        if asked.beside:
            why.append(f"not {' and '.join(sorted(asked.beside))}, for the same reason")
    if strategy is Strategy.SINGLE and can.no_wide_call:
        raise ValueError(f"single: {can.no_wide_call}" + ("" if can.no_ports else "; or take diffusive"))
    if SpawnOption.ASYNCHRONOUS in beside:
        # The process that starts them is one.
        beside |= {SpawnOption.ONE}
    return Chosen(
        StartedBy.SPAWN, asked.method, strategy, asked.shrink or _shrink(asked.method), beside, tuple(why)
    )


def _shrink(method: Method) -> ShrinkMethod:
    return ShrinkMethod.RESPAWN if method is Method.BASELINE else ShrinkMethod.TERMINATION


def by_agent(can: Abilities) -> Chosen:
    """By the nodes' agents. ValueError if newcomers could not join."""
    if can.no_ports:
        raise ValueError(f"newcomers cannot be joined by port ({can.no_ports})")
    why = "each node's group starts and joins the others beside the job"
    return Chosen(
        StartedBy.AGENT, Method.MERGE, None, ShrinkMethod.TERMINATION, frozenset(SpawnOption), (why,)
    )
