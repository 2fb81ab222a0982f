"""Worlds that a launched program spawns: where their processes go, and what is known of each. Without I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from heapq import heapify, heapreplace
from typing import NamedTuple

from pliant.live.job.rendezvous import Asker
from pliant.live.tree.part import JOB
from pliant.model.world import MpiWorld
from pliant.protocol import launching as t
from pliant.protocol import messages as m
from pliant.protocol import pmix
from pliant.protocol.fence import Rounds

MOST = 10_000
"""Processes in a world that is spawned."""


class Part(NamedTuple):
    """So many processes of program number ``program`` on a node."""

    node: str
    program: int
    ranks: int


def placed(programs: Sequence[pmix.Program], load: Mapping[str, int]) -> list[Part]:
    """Each process is put where the fewest are by now, ``load`` at first. Ranks go by programs, then by nodes."""
    nodes = list(load)
    heap = [(count, place) for place, count in enumerate(load.values())]
    heapify(heap)
    parts = []
    for number, program in enumerate(programs):
        here: Counter[int] = Counter()
        for _ in range(program.ranks):
            count, place = heap[0]
            here[place] += 1
            heapreplace(heap, (count + 1, place))
        parts += [Part(nodes[place], number, here[place]) for place in sorted(here)]
    return parts


class SpawnedWorld:
    """One that ``asker`` waits for, until all ``groups`` of it are started or one of them cannot be. ``first`` is the
    number of its rank 0 among the processes of the launch."""

    def __init__(self, asker: Asker, first: int, groups: tuple[int, ...]) -> None:
        self.asker = asker
        self.first = first
        self.groups = groups
        self.waiting = set(groups)
        self.rounds = Rounds(groups)
        self.failed = False

    def starts(
        self, launch: t.Launch, number: int, ask: pmix.Spawn, parts: Sequence[Part]
    ) -> dict[int, tuple[str, t.Start]]:
        """By group, which node is to start what."""
        sizes = tuple(part.ranks for part in parts)
        found = {}
        for place, (group, part) in enumerate(zip(self.groups, parts, strict=True)):
            program = ask.programs[part.program]
            start = m.StartGroup(
                JOB, group, MpiWorld(number, sizes, place), program.argv, {**launch.env, "PMI_SPAWNED": "1"},
                program.cwd or launch.cwd, "", "", launch.dialect, streams=True, values=ask.values,
                appnum=part.program,
            )  # fmt: skip
            found[group] = part.node, t.Start(start, self.first)
        return found
