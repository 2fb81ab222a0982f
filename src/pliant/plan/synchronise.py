"""How all new worlds learn that every port is open, before anybody connects: Martín-Álvarez et al. 2025, section 4.3.

A world knows its parent and its children alone. So word goes up the tree of starts until the sources have it of all,
and from them down again. Within a world the root and those that have started others wait for one another.
"""

from __future__ import annotations

from typing import NamedTuple

from pliant.plan.spawn import SOURCES, SpawnPlan


class Token(NamedTuple):
    """A word from ``rank`` of the world ``world`` to ``to_rank`` of the world ``to_world``."""

    world: int
    rank: int
    to_world: int
    to_rank: int

    @property
    def back(self) -> Token:
        return Token(self.to_world, self.to_rank, self.world, self.rank)


class WaitingWorld(NamedTuple):
    """A world: ``members``, the ranks that take part, and ``children``, as (rank that started it, world), both
    ascending. Rank 0, the root, talks to the parent, (world, rank); the sources have none."""

    world: int
    members: tuple[int, ...]
    children: tuple[tuple[int, int], ...]
    parent: tuple[int, int] | None


class SyncTree(NamedTuple):
    """``worlds``: the sources, then the new ones by number.

    ``upside``: children before parents. A rank waits for its children's tokens, then the members for each other
    (a barrier), then the root sends its own. ``downside``: the same tokens back, parents first; a world's root gets
    one, then the members wait for each other (but for the sources, who know already), then each tells its children.
    """

    worlds: tuple[WaitingWorld, ...]
    upside: tuple[Token, ...]
    downside: tuple[Token, ...]


def sync_tree(plan: SpawnPlan) -> SyncTree:
    """Of the worlds that ``plan`` makes; they are numbered in the order of their calls."""
    calls = plan.calls
    children: dict[int, list[tuple[int, int]]] = {world: [] for world in range(SOURCES, len(calls))}
    for world, call in enumerate(calls):
        children[call.parent_group].append((call.parent_rank, world))
    worlds = [_waiting(SOURCES, children[SOURCES], None)]
    worlds += [
        _waiting(world, children[world], (call.parent_group, call.parent_rank))
        for world, call in enumerate(calls)
    ]
    # Who was started later is further down, or beside.
    upside = tuple(
        Token(world, 0, call.parent_group, call.parent_rank) for world, call in reversed([*enumerate(calls)])
    )
    return SyncTree(tuple(worlds), upside, tuple(token.back for token in reversed(upside)))


def _waiting(world: int, children: list[tuple[int, int]], parent: tuple[int, int] | None) -> WaitingWorld:
    members = sorted({0, *(rank for rank, _ in children)})
    return WaitingWorld(world, tuple(members), tuple(sorted(children)), parent)
