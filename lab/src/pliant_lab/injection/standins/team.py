"""What the stand-ins for ranks of a malleable program know of each other, and tell newcomers."""

from __future__ import annotations

from itertools import groupby
from typing import Any, NamedTuple

from pliant.plan.places import successors
from pliant_lab.injection.standins.fabric import Seat, Span

Members = tuple[tuple[int, int], ...]
"""Groups with the ranks of each, in order."""


class Team(NamedTuple):
    """The ranks that are joined now; ``members`` are their groups, with the ranks of each, in order. Ranks that were
    woken are behind all others, so that a group may be there twice."""

    own: Seat
    members: Members

    @property
    def groups(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(group for group, _ in self.members))

    @property
    def places(self) -> list[int]:
        """The group of each rank."""
        return [group for group, ranks in self.members for _ in range(ranks)]

    def awake(self, group: int) -> int:
        return sum(ranks for each, ranks in self.members if each == group)


class Snapshot(NamedTuple):
    """What a newcomer is given."""

    step: int
    total: int
    lag: int
    spans: tuple[Span, ...]


class LastWord(NamedTuple):
    """The root's last word, when all have stopped."""

    go: bool
    leaving: tuple[int, ...] = ()
    slots: tuple[tuple[int, int], ...] = ()
    ahead: bool = False


def count_members(groups: dict[int, Any]) -> Members:
    """The members from every rank's group, by rank."""
    return tuple((group, len([*ranks])) for group, ranks in groupby(groups[rank] for rank in sorted(groups)))


def after(old: Members, leaving: tuple[int, ...], newcomers: Members) -> tuple[list[int], list[int]]:
    """The groups that go on, and their ranks among all that are joined, in their new order; as in
    ``mpi/resizing/resize.py``."""
    every, starts = (*old, *newcomers), [0]
    for _, ranks in every:
        starts.append(starts[-1] + ranks)
    order = successors([group not in leaving for group, _ in old], len(newcomers))
    groups = [*dict.fromkeys(every[number][0] for number in order)]
    return groups, [rank for number in order for rank in range(starts[number], starts[number + 1])]
