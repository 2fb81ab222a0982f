"""Which process starts which group of processes, in which step: Martín-Álvarez et al. 2025, sections 4.1 and 4.2.

A group is what is started on one node. Under the parallel strategies each is started alone, by one process, and has
an MPI_COMM_WORLD of its own; so its node can be given back later. In each step every live process starts one group,
in the order of ranks: sources first, then groups by id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import groupby, zip_longest
from typing import NamedTuple

SOURCES = -1
"""In the place of a group's id: the processes that are there before the resize."""


class Method(StrEnum):
    """Which processes stay: the sources and what they lack (Merge), or new ones alone (Baseline)."""

    MERGE = "merge"
    BASELINE = "baseline"


class Strategy(StrEnum):
    """One call for all groups; one group after the other; in parallel, all of one size; in parallel, of any size."""

    SINGLE = "single"
    SEQUENTIAL = "sequential"
    HYPERCUBE = "hypercube"
    DIFFUSIVE = "diffusive"


class SpawnedGroup(NamedTuple):
    """``size`` processes on ``node``, an index, started in ``step``, 1 and up; ids are in the order of start.

    Its parent is ``parent_rank`` in the world of ``parent_group``, or among all sources if that is ``SOURCES``.
    """

    id: int
    node: int
    size: int
    step: int
    parent_group: int
    parent_rank: int


class SpawnStep(NamedTuple):
    """After this step there are ``processes`` on ``nodes``; in it ``spawned`` were started, in ``groups``, and
    ``new_nodes`` had none before. Step 0 is the start.

    The sources count, as in Equations 4 to 8. Equations 1 and 2, of hypercube, leave them out under Baseline, and so
    does this.
    """

    step: int
    processes: int
    spawned: int
    nodes: int
    new_nodes: int
    groups: int


class SpawnCall(NamedTuple):
    """One MPI_Comm_spawn: its ``groups`` are one MPI_COMM_WORLD, ranks in their order."""

    step: int
    parent_group: int
    parent_rank: int
    groups: tuple[SpawnedGroup, ...]

    @property
    def size(self) -> int:
        return sum(group.size for group in self.groups)


class SpawnPlan(NamedTuple):
    """``cores`` and ``running`` by node: what the job is given there, and its processes there before. ``one``: of the
    sources one alone starts others (Single, in section 2 of the paper)."""

    method: Method
    strategy: Strategy
    cores: tuple[int, ...]
    running: tuple[int, ...]
    groups: tuple[SpawnedGroup, ...]
    steps: tuple[SpawnStep, ...]
    oversubscription: int = 1
    one: bool = False

    @property
    def by_port(self) -> bool:
        """Whether what is started is joined by port. Of one call of all sources these know it at once."""
        return self.one or self.strategy is not Strategy.SINGLE

    @property
    def sources(self) -> int:
        return sum(self.running)

    @property
    def spawned(self) -> int:
        return sum(group.size for group in self.groups)

    @property
    def targets(self) -> int:
        """How many processes go on after the resize."""
        return self.spawned + (self.sources if self.method is Method.MERGE else 0)

    @property
    def calls(self) -> tuple[SpawnCall, ...]:
        """In order; of ``single`` it is one, of the others one a group. The n-th makes the n-th new world."""
        if self.strategy is Strategy.SINGLE:
            return (SpawnCall(1, SOURCES, 0, self.groups),) if self.groups else ()
        return tuple(
            SpawnCall(group.step, group.parent_group, group.parent_rank, (group,)) for group in self.groups
        )

    def node_of(self, group: int, rank: int) -> int:
        """Where a process is; sources count node by node. ValueError if there is none."""
        if group != SOURCES:
            return self.groups[group].node
        left = rank
        for node, have in enumerate(self.running):
            if left < have:
                return node
            left -= have
        raise ValueError(f"no process {rank} among {self.sources} sources")


def spawn_plan(  # noqa: PLR0913 - what is given and there, and how
    cores: Sequence[int],
    running: Sequence[int],
    method: Method,
    strategy: Strategy,
    *,
    oversubscription: int = 1,
    one: bool = False,
) -> SpawnPlan:
    """Fill each node to ``cores`` processes a node, times ``oversubscription``, from those ``running`` there.

    Nodes that ``running`` does not name have none. Merge starts what is missing (S = A - R), Baseline all (S = A),
    also where sources are, which leave later. Nodes that lack nothing get no group. ``one``: the first of the sources
    starts alone what all of them would. ValueError if that cannot be.
    """
    running = tuple(have for _, have in zip_longest(cores, running, fillvalue=0))
    _check(cores, running, oversubscription)
    wanted = [each * oversubscription for each in cores]
    if method is Method.MERGE:
        _check_room(wanted, running)
        wanted = [want - have for want, have in zip(wanted, running, strict=True)]
    missing = [(node, size) for node, size in enumerate(wanted) if size]
    if strategy is Strategy.HYPERCUBE:
        _check_equal(missing)
    groups = tuple(
        _parallel(missing, 1 if one else sum(running)) if strategy in PARALLEL else _by_one(missing, strategy)
    )
    steps = tuple(_steps(groups, running, sources_count=(method, strategy) != UNCOUNTED))
    return SpawnPlan(method, strategy, tuple(cores), running, groups, steps, oversubscription, one)


PARALLEL = (Strategy.HYPERCUBE, Strategy.DIFFUSIVE)
UNCOUNTED = (Method.BASELINE, Strategy.HYPERCUBE)


def _check(cores: Sequence[int], running: Sequence[int], oversubscription: int) -> None:
    if len(running) > len(cores):
        raise ValueError(
            f"processes run on {len(running)} nodes, and cores are said of {len(cores)}: name all"
        )
    for what, counts in (("cores", cores), ("running processes", running)):
        if bad := [f"{count} on node {node}" for node, count in enumerate(counts) if count < 0]:
            raise ValueError(f"{what}: {bad[0]}; no node has fewer than 0")
    if oversubscription < 1:
        raise ValueError(f"{oversubscription} processes a core: at least 1, which is no oversubscription")
    if not any(cores):
        raise ValueError("cores: none on any node, and a job needs at least one process")
    if not any(running):
        raise ValueError(
            "no process is running, and somebody has to start the others: say how many, and where"
        )


def _check_room(wanted: Sequence[int], running: Sequence[int]) -> None:
    for node, (want, have) in enumerate(zip(wanted, running, strict=True)):
        if have > want:
            raise ValueError(
                f"node {node}: {have} processes are running, and {want} is what it is given; shrink the job there "
                "first, allow more processes a core (oversubscription), or take the baseline method"
            )


def _check_equal(missing: Sequence[tuple[int, int]]) -> None:
    for node, size in missing:
        if size != missing[0][1]:
            raise ValueError(
                f"hypercube starts as many processes on each node: node {missing[0][0]} lacks {missing[0][1]}, "
                f"node {node} lacks {size}; take diffusive, or nodes that lack the same"
            )


def _by_one(missing: Sequence[tuple[int, int]], strategy: Strategy) -> Iterator[SpawnedGroup]:
    """By the first of the sources alone."""
    for number, (node, size) in enumerate(missing):
        step = 1 if strategy is Strategy.SINGLE else number + 1
        yield SpawnedGroup(number, node, size, step, SOURCES, 0)


def _parallel(missing: Sequence[tuple[int, int]], sources: int) -> list[SpawnedGroup]:
    """By all that are alive, a group each a step (Equations 5 and 6)."""
    groups: list[SpawnedGroup] = []
    step = 0
    while len(groups) < len(missing):
        step += 1
        alive = [(SOURCES, sources), *((group.id, group.size) for group in groups)]
        parents = ((group, rank) for group, size in alive for rank in range(size))
        first = len(groups)
        groups += [
            SpawnedGroup(number, node, size, step, *parent)
            for number, ((node, size), parent) in enumerate(
                zip(missing[first:], parents, strict=False), first
            )
        ]
    return groups


def _steps(
    groups: Sequence[SpawnedGroup], running: Sequence[int], *, sources_count: bool
) -> Iterator[SpawnStep]:
    processes, nodes = 0, 0
    if sources_count:
        processes, nodes = sum(running), sum(1 for have in running if have)
    yield SpawnStep(0, processes, 0, nodes, 0, 0)
    for step, each in groupby(groups, key=lambda group: group.step):
        born = list(each)
        spawned = sum(group.size for group in born)
        new = sum(1 for group in born if not (sources_count and running[group.node]))
        processes, nodes = processes + spawned, nodes + new
        yield SpawnStep(step, processes, spawned, nodes, new, len(born))
