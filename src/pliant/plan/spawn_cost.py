"""How long a spawn plan or a shrink plan takes: sums over what it does, with coefficients that are measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import msgspec

from pliant.plan.connect import connection_plan
from pliant.plan.shrink import ShrinkPlan
from pliant.plan.spawn import SOURCES, Method, SpawnCall, SpawnPlan


class SpawnCosts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds.

    Starting: ``call_s`` a step, for MPI_Comm_spawn itself; ``caller_s`` for each further call from the same node in
    that step; ``fork_s`` for each process, one after the other on its node; ``launch_s`` for each process of the step,
    one after the other at the launcher; ``process_s``, of a processor, until a process has initialised MPI. Then:
    ``token_s`` a message of the synchronisation; ``connect_s`` a round of connections; ``merge_rank_s`` for each rank
    in a merge; ``reorder_s``, and ``reorder_rank_s`` for each rank.
    Shrinking: ``part_s`` until the others go on, with one world that ends or sleeps, and ``part_each_s`` for each
    further one; ``turn_s`` for each rank that was awake on a processor that several nodes share, until all have had
    their turn; ``hand_over_s`` if the root does; ``end_s`` from there until one world's processes have ended, and
    ``end_each_s`` for each further one.

    The defaults are of first trials with MPICH 5.0.2 over ofi: groups of two ranks of Python, NumPy and mpi4py, on
    virtual nodes that share two busy cores (expansions from 1 to 2, 4 and 8 groups in 148, 442 and 952 ms, of which
    joining took 6 ms for one group; shrinks by 1 and by 7 groups; latency between groups). They are good to a factor
    of two, and on no other machine. What is 0 has not been measured; ``launch_s`` and ``turn_s`` depend on what else a
    machine does, and `pliant reproduce spawning` fits them.
    """

    call_s: float = 0.008
    caller_s: float = 0.0
    fork_s: float = 0.0
    launch_s: float = 0.0
    process_s: float = 0.134
    token_s: float = 0.0000157
    connect_s: float = 0.006
    merge_rank_s: float = 0.0
    reorder_s: float = 0.0
    reorder_rank_s: float = 0.0
    part_s: float = 0.0005
    part_each_s: float = 0.00225
    turn_s: float = 0.0
    hand_over_s: float = 0.0
    end_s: float = 0.0225
    end_each_s: float = 0.0296


class SpawnTimes(NamedTuple):
    """Seconds: of each step, the first of which is the start and takes none; of each round of connections; and of the
    phases. The sources stand still for ``total_s``."""

    steps: tuple[float, ...]
    synchronise_s: float
    rounds: tuple[float, ...]
    join_s: float
    """The sources and what is new become one (Merge), or know of each other (Baseline)."""
    reorder_s: float

    @property
    def start_s(self) -> float:
        return sum(self.steps)

    @property
    def total_s(self) -> float:
        return self.start_s + self.synchronise_s + sum(self.rounds) + self.join_s + self.reorder_s


class ShrinkTimes(NamedTuple):
    """Seconds: what a respawn takes, if there is one; ``blocked_s``, with it, until those that stay go on; ``free_s``
    from there until what ends has ended, so that the nodes are free."""

    respawn: SpawnTimes | None
    blocked_s: float
    free_s: float

    @property
    def total_s(self) -> float:
        return self.blocked_s + self.free_s


def predict_spawn(plan: SpawnPlan, costs: SpawnCosts, *, processors: int = 0) -> SpawnTimes:
    """How long ``plan`` takes. ``processors``: how many all nodes share, as virtual nodes do; 0: each has its cores."""
    if processors < 0:
        raise ValueError(f"{processors} processors for all nodes: 1 or more, or 0 for nodes with their own")
    starts = [
        _start_s(plan, list(calls), costs, processors)
        for _, calls in groupby(plan.calls, key=lambda call: call.step)
    ]
    calls = plan.calls
    if not calls:
        return SpawnTimes((0.0,), 0.0, (), 0.0, 0.0)
    sizes = [call.size for call in calls]
    rounds = tuple(
        costs.connect_s
        + costs.merge_rank_s * max(sum(sizes[world] for world in (*each.low, *each.high)) for each in round_)
        for round_ in (round_.connections for round_ in connection_plan(len(calls), 0).rounds)
    )
    merged = plan.targets if plan.method is Method.MERGE else 0
    # A lone world has its ranks in order, and the call itself has told the sources that it is there.
    several = len(calls) > 1
    return SpawnTimes(
        (0.0, *starts),
        2 * _depth(calls) * costs.token_s,
        rounds,
        costs.connect_s + costs.merge_rank_s * merged,
        (costs.reorder_s + costs.reorder_rank_s * plan.spawned) if several else 0.0,
    )


def predict_shrink(plan: ShrinkPlan, costs: SpawnCosts, *, processors: int = 0) -> ShrinkTimes:
    """How long ``plan`` takes; ``processors`` as for ``predict_spawn``."""
    respawn = None if plan.respawn is None else predict_spawn(plan.respawn, costs, processors=processors)
    parting = sum(1 for fate in plan.fates if fate.ends or fate.sleeps)
    ending = sum(1 for fate in plan.fates if fate.ends)
    blocked = (respawn.total_s if respawn else 0.0) + _of_several(parting, costs.part_s, costs.part_each_s)
    if processors and parting:
        awake = sum(
            len(fate.stays) + len(fate.sleeps) + len(fate.ends) - len(fate.wakes) for fate in plan.fates
        )
        blocked += costs.turn_s * awake / processors
    blocked += costs.hand_over_s if plan.root_leaves else 0.0
    return ShrinkTimes(respawn, blocked, _of_several(ending, costs.end_s, costs.end_each_s))


def _of_several(count: int, one: float, each: float) -> float:
    return one + (count - 1) * each if count else 0.0


def _start_s(plan: SpawnPlan, calls: Sequence[SpawnCall], costs: SpawnCosts, processors: int) -> float:
    """Of the ``calls`` of one step, all at the same time."""
    callers = Counter(plan.node_of(call.parent_group, call.parent_rank) for call in calls)
    groups = [group for call in calls for group in call.groups]
    processes = sum(group.size for group in groups)
    if processors:
        computing = costs.process_s * max(1.0, processes / processors)
    else:  # The sources wait in MPI, which takes their cores as well.
        computing = costs.process_s * max(
            1.0, *((group.size + plan.running[group.node]) / plan.cores[group.node] for group in groups)
        )
    forks = costs.fork_s * max(group.size for group in groups)
    calling = costs.call_s + costs.caller_s * (max(callers.values()) - 1)
    return calling + forks + costs.launch_s * processes + computing


def _depth(calls: Sequence[SpawnCall]) -> int:
    """Of the tree of worlds below the sources."""
    depths = {SOURCES: 0}
    for world, call in enumerate(calls):
        depths[world] = depths[call.parent_group] + 1
    return max(depths.values())
