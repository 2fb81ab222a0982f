"""Which nodes a job gives back when it may choose: Martín-Álvarez et al. 2025, section 4.6.

Nodes that worlds have in common go together or not at all, unless worlds are cut. Those that were there first, if one
world is over several of them, stay as long as what came later is enough; if more has to go, they go first, all of them,
and the world that could not be cut is gone for good.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from pliant.plan.shrink import SpawnedWorld, awake_on, check_worlds


class NodeChoice(StrEnum):
    """Which nodes were chosen."""

    FREE = "free"
    """The last ones: no world of the initial allocation is over several nodes."""
    INITIAL_STAYS = "initial stays"
    INITIAL_GOES = "initial goes"
    CUT = "cut"
    """No nodes go together that are as many: a world is cut."""


class GivenBack(NamedTuple):
    """Slots by node, all that the job has there; and why these."""

    choice: NodeChoice
    slots: dict[int, int]


def choose_nodes(worlds: Sequence[SpawnedWorld], count: int, initial: int | None = None) -> GivenBack:
    """``count`` nodes of the job to give back. ``initial``: the id of the world that was there first, by default that
    of the first one. Nodes where all ranks sleep do not count: they were given back before. ValueError if there are not
    so many, or if none would be left."""
    check_worlds(worlds)
    awake = awake_on(worlds)
    if not 1 <= count < len(awake):
        raise ValueError(
            f"{count} nodes to give back, and the job is at work on {len(awake)}: one has to stay"
        )
    parts = _together([[node for node in dict.fromkeys(world.nodes) if awake[node]] for world in worlds])
    choice, chosen = _choose(parts, count, _uncut(worlds, parts, initial))
    return GivenBack(choice, {node: awake[node] for node in chosen})


def _uncut(worlds: Sequence[SpawnedWorld], parts: Sequence[Sequence[int]], initial: int | None) -> int | None:
    """Which part has the initial world in it, if that is over several nodes."""
    number = worlds[0].id if initial is None else initial
    for world in worlds:
        if world.id == number and len(set(world.nodes)) > 1:
            return next(i for i, part in enumerate(parts) if not set(part).isdisjoint(world.nodes))
    return None


def _together(worlds: Sequence[Sequence[int]]) -> list[list[int]]:
    """Nodes that worlds connect, part by part, all in the order of ranks; ``worlds``: the nodes of each."""
    parts: list[list[int]] = []
    for nodes in worlds:
        joined = [part for part in parts if not set(part).isdisjoint(nodes)]
        merged = list(dict.fromkeys([*(node for part in joined for node in part), *nodes]))
        place = parts.index(joined[0]) if joined else len(parts)
        parts = [part for part in parts if part not in joined]
        parts.insert(place, merged)
    return parts


def _choose(parts: Sequence[Sequence[int]], count: int, initial: int | None) -> tuple[NodeChoice, list[int]]:
    """``initial``: which part has a world in it that cannot be cut and was there first."""
    if initial is None:
        fitting = _fitting(parts, count)
        return (NodeChoice.FREE, fitting) if fitting is not None else (NodeChoice.CUT, _cut(parts, count))
    first = parts[initial]
    later = [part for part in parts if part is not first]
    if (fitting := _fitting(later, count - len(first))) is not None:
        return NodeChoice.INITIAL_GOES, [*first, *fitting]
    if (fitting := _fitting(later, count)) is not None:
        return NodeChoice.INITIAL_STAYS, fitting
    return NodeChoice.CUT, _cut(parts, count)


def _fitting(parts: Sequence[Sequence[int]], count: int) -> list[int] | None:
    """Whole parts of ``count`` nodes in all, the last ones where that can be chosen; None if there are none."""
    if count < 0:
        return None
    reached = [1]  # bit n: some of the parts before have n nodes together
    for part in parts:
        reached.append(reached[-1] | reached[-1] << len(part))
    if not reached[-1] >> count & 1:
        return None
    chosen: list[int] = []
    for part, before in zip(reversed(parts), reversed(reached[:-1]), strict=True):
        left = count - len(chosen) - len(part)
        if left >= 0 and before >> left & 1:
            chosen += part
    return chosen


def _cut(parts: Sequence[Sequence[int]], count: int) -> list[int]:
    """Whole parts, the last first, and the last nodes of one more."""
    chosen: list[int] = []
    left_out: list[Sequence[int]] = []
    for part in reversed(parts):
        if len(chosen) + len(part) <= count:
            chosen += part
        else:
            left_out.append(part)
    rest = count - len(chosen)
    return chosen + ([*left_out[0][-rest:]] if rest else [])
