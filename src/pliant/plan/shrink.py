"""What becomes of each process when a job gives back nodes, or some slots of a node: Martín-Álvarez et al. 2025,
sections 4.6 and 4.7.

A rank cannot leave its MPI_COMM_WORLD and live on, nor end alone: a world ends as a whole. So a world whose ranks all
go is terminated (TS), at next to no cost, and its nodes are free. Of a world that loses some ranks of a node these
sleep, as zombies (ZS). A world over several nodes of which some go is cut: it is ended, and what it still needs is
started anew on the nodes that stay (SS), each node for itself; or its ranks there sleep, and hold their nodes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from pliant.plan.spawn import Method, SpawnPlan, Strategy, spawn_plan


class SpawnedWorld(NamedTuple):
    """An MPI_COMM_WORLD of a job: the node of each rank, an index, and the ranks that are asleep."""

    id: int
    nodes: tuple[int, ...]
    asleep: frozenset[int] = frozenset()

    @property
    def awake(self) -> tuple[int, ...]:
        return tuple(rank for rank in range(len(self.nodes)) if rank not in self.asleep)


class WorldRank(NamedTuple):
    """A rank of a world, by the world's id."""

    world: int
    rank: int


class ShrinkMethod(StrEnum):
    """What is done with worlds that are cut: they are respawned, or their ranks sleep. By ``RESPAWN`` all worlds are
    respawned, cut or not (Baseline)."""

    TERMINATION = "termination"
    ZOMBIE = "zombie"
    RESPAWN = "respawn"


class WorldCase(StrEnum):
    """Of a world."""

    KEPT = "kept"
    """Nothing of it is given back."""
    TERMINATED = "terminated"
    """All of its ranks are: they end."""
    EMPTIED = "emptied"
    """All that were awake are: the others are woken, and all end."""
    THINNED = "thinned"
    """Some ranks of nodes that stay are: they sleep."""
    HELD = "held"
    """Some nodes are, and its ranks there sleep: they hold these nodes."""
    RESPAWNED = "respawned"
    """It ends, and what it still needs is started anew."""


ENDED = frozenset({WorldCase.TERMINATED, WorldCase.EMPTIED, WorldCase.RESPAWNED})


class WorldFate(NamedTuple):
    """Of a world: each rank stays awake, falls asleep (``sleeps``), remains ``asleep``, or ends; of those that end,
    ``wakes`` were asleep. ``root``: its first rank awake from then on, which keeps its records; None if it ends."""

    world: int
    case: WorldCase
    stays: tuple[int, ...]
    sleeps: tuple[int, ...]
    asleep: tuple[int, ...]
    ends: tuple[int, ...]
    wakes: tuple[int, ...]
    root: int | None


class ShrinkPlan(NamedTuple):
    """``respawn`` comes first, from all ranks that are awake, and its groups are the last worlds of ``after``, in the
    order of their ranks. Then the data moves, the root hands over its records if it is another one ``root_after``, and
    ranks sleep or end.

    ``free``: nodes of the job that no process of it is on any more. ``held``: those where all of them sleep.
    """

    method: ShrinkMethod
    fates: tuple[WorldFate, ...]
    respawn: SpawnPlan | None
    after: tuple[SpawnedWorld, ...]
    free: tuple[int, ...]
    held: tuple[int, ...]
    root_before: WorldRank
    root_after: WorldRank

    @property
    def root_leaves(self) -> bool:
        return self.root_before != self.root_after


def world_over(number: int, ranks: Mapping[int, int], asleep: Sequence[int] = ()) -> SpawnedWorld:
    """A world with so many ranks a node, node by node in the order given."""
    return SpawnedWorld(
        number, tuple(node for node, count in ranks.items() for _ in range(count)), frozenset(asleep)
    )


def shrink_plan(
    worlds: Sequence[SpawnedWorld],
    give_back: Mapping[int, int],
    method: ShrinkMethod = ShrinkMethod.TERMINATION,
    strategy: Strategy = Strategy.DIFFUSIVE,
    *,
    one: bool = False,
) -> ShrinkPlan:
    """Of the job's ``worlds``, in the order of its ranks, so many slots a node are to be given back; ``strategy``
    and ``one`` are those of what is started anew.

    A node of which all slots are is to be free afterwards. Its root is the first rank awake. ValueError if there is not
    so much to give, or if nothing would be left.
    """
    awake = _check(worlds, give_back)
    goes = _going(worlds, give_back, awake)
    whole = {node for node, slots in give_back.items() if slots == awake[node]}
    fates = tuple(_fate(world, goes, whole, method) for world in worlds)
    again = Counter(
        world.nodes[rank]
        for world, fate in zip(worlds, fates, strict=True)
        if fate.case is WorldCase.RESPAWNED
        for rank in world.awake
        if WorldRank(world.id, rank) not in goes
    )
    respawn = _respawn(again, awake, strategy, one=one) if again else None
    after = _after(worlds, fates, respawn)
    there = {node for world in after for node in world.nodes}
    at_work = {world.nodes[rank] for world in after for rank in world.awake}
    before = {node for world in worlds for node in world.nodes}
    return ShrinkPlan(
        method, fates, respawn, after, tuple(sorted(before - there)), tuple(sorted(there - at_work)),
        root_of(worlds), root_of(after),
    )  # fmt: skip


def root_of(worlds: Sequence[SpawnedWorld]) -> WorldRank:
    """The first rank awake, which speaks for the job."""
    return awake_ranks(worlds)[0]


def awake_on(worlds: Sequence[SpawnedWorld]) -> Counter[int]:
    """How many ranks are awake, by node."""
    return Counter(world.nodes[rank] for world in worlds for rank in world.awake)


def waking(worlds: Sequence[SpawnedWorld], more: Mapping[int, int]) -> dict[int, tuple[int, ...]]:
    """Which ranks of which worlds wake up, so that ``more`` are awake on nodes: the first in the order of the job's
    ranks. ValueError if not so many sleep there."""
    wakes: dict[int, tuple[int, ...]] = {}
    for node, count in more.items():
        there = [WorldRank(w.id, rank) for w in worlds for rank in sorted(w.asleep) if w.nodes[rank] == node]
        if len(there) < count:
            raise ValueError(f"node {node}: {count} ranks are to wake up, and {len(there)} sleep there")
        for world, rank in there[:count]:
            wakes[world] = (*wakes.get(world, ()), rank)
    return {world: tuple(sorted(wakes[world])) for world in sorted(wakes)}


def woken(worlds: Sequence[SpawnedWorld], wakes: Mapping[int, Sequence[int]]) -> tuple[SpawnedWorld, ...]:
    """The job's worlds when these ranks are awake."""
    return tuple(world._replace(asleep=world.asleep.difference(wakes.get(world.id, ()))) for world in worlds)


def awake_ranks(worlds: Sequence[SpawnedWorld]) -> tuple[WorldRank, ...]:
    """The job's ranks, in their order."""
    return tuple(WorldRank(world.id, rank) for world in worlds for rank in world.awake)


def check_worlds(worlds: Sequence[SpawnedWorld]) -> None:
    """ValueError if they cannot be those of a job."""
    if twice := [number for number, times in Counter(world.id for world in worlds).items() if times > 1]:
        raise ValueError(f"world {twice[0]} is there twice: give each an id of its own")
    for world in worlds:
        if bad := sorted(world.asleep - set(range(len(world.nodes)))):
            raise ValueError(f"world {world.id}: rank {bad[0]} sleeps, and it has {len(world.nodes)} ranks")
        if not world.awake:
            raise ValueError(f"world {world.id} has no rank awake: such a world has ended; leave it out")


def _check(worlds: Sequence[SpawnedWorld], give_back: Mapping[int, int]) -> Counter[int]:
    check_worlds(worlds)
    awake = awake_on(worlds)
    for node, slots in give_back.items():
        if not 1 <= slots <= awake[node]:
            raise ValueError(
                f"node {node}: {slots} slots to give back, and the job has {awake[node]} ranks awake there; "
                f"give back 1 to {awake[node]}" if awake[node] else f"node {node}: the job has no rank awake there"
            )  # fmt: skip
    if not give_back:
        raise ValueError("nothing is to be given back: name nodes, or slots of nodes")
    if sum(give_back.values()) == awake.total():
        raise ValueError(
            "all of it would be given back, and nothing be left of the job: leave a rank, or end it"
        )
    return awake


def _going(
    worlds: Sequence[SpawnedWorld], give_back: Mapping[int, int], awake: Mapping[int, int]
) -> frozenset[WorldRank]:
    """The ranks awake that are given back. Of a node that stays: worlds that have none elsewhere and go as a whole,
    for these really end; then the last ranks."""
    goes: set[WorldRank] = set()
    on: dict[int, list[tuple[int, list[WorldRank]]]] = defaultdict(list)
    """Of each node the worlds there, in order: how many ranks each has awake in all, and which of them there."""
    for world in worlds:
        there: dict[int, list[WorldRank]] = defaultdict(list)
        every = world.awake
        for rank in every:
            there[world.nodes[rank]].append(WorldRank(world.id, rank))
        for node, ranks in there.items():
            on[node].append((len(every), ranks))
    for node, slots in give_back.items():
        left = slots
        if slots < awake[node]:
            for size, ranks in reversed(on[node]):
                if len(ranks) == size <= left:
                    goes.update(ranks)
                    left -= len(ranks)
        rest = [process for _, ranks in on[node] for process in ranks if process not in goes]
        goes.update(rest[len(rest) - left :])
    return frozenset(goes)


def _fate(
    world: SpawnedWorld, goes: frozenset[WorldRank], whole: set[int], method: ShrinkMethod
) -> WorldFate:
    given = tuple(rank for rank in world.awake if WorldRank(world.id, rank) in goes)
    stays = tuple(rank for rank in world.awake if WorldRank(world.id, rank) not in goes)
    case = _case(world, given, stays, whole, method)
    asleep = tuple(sorted(world.asleep))
    if case in ENDED:
        return WorldFate(world.id, case, (), (), (), tuple(range(len(world.nodes))), asleep, None)
    return WorldFate(world.id, case, stays, given, asleep, (), (), stays[0])


def _case(
    world: SpawnedWorld, given: Sequence[int], stays: Sequence[int], whole: set[int], method: ShrinkMethod
) -> WorldCase:
    if not stays:
        return WorldCase.EMPTIED if world.asleep else WorldCase.TERMINATED
    if method is ShrinkMethod.RESPAWN:
        return WorldCase.RESPAWNED
    if not whole.isdisjoint(world.nodes):
        if method is ShrinkMethod.TERMINATION:
            return WorldCase.RESPAWNED
        return WorldCase.HELD
    return WorldCase.THINNED if given else WorldCase.KEPT


def _respawn(
    again: Mapping[int, int], awake: Mapping[int, int], strategy: Strategy, *, one: bool
) -> SpawnPlan:
    nodes = range(max(awake) + 1)
    cores, running = ([counts.get(node, 0) for node in nodes] for counts in (again, awake))
    return spawn_plan(cores, running, Method.BASELINE, strategy, one=one)


def _after(
    worlds: Sequence[SpawnedWorld], fates: Sequence[WorldFate], respawn: SpawnPlan | None
) -> tuple[SpawnedWorld, ...]:
    left = [
        world._replace(asleep=world.asleep | frozenset(fate.sleeps))
        for world, fate in zip(worlds, fates, strict=True)
        if fate.case not in ENDED
    ]
    number = max(world.id for world in worlds) + 1
    return (*left, *(born(respawn, number) if respawn else ()))


def born(plan: SpawnPlan, first: int) -> tuple[SpawnedWorld, ...]:
    """The worlds that ``plan`` makes, with ids from ``first`` on."""
    nodes = (tuple(group.node for group in call.groups for _ in range(group.size)) for call in plan.calls)
    return tuple(SpawnedWorld(number, each) for number, each in enumerate(nodes, first))
