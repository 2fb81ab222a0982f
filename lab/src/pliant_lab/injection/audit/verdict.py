"""What became of a world."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from pliant.live.fleet.stages import Happens, NodeStage


class Verdict(NamedTuple):
    """What became of a world. ``broken`` is the kind of the violation that ended it and ``what`` tells it, empty if
    none did; ``faults`` counts (fault, state of a resize of a job that it met), ``expansions`` those by
    MPI_Comm_spawn alone, by what has come of them, ``ways`` those that nodes went along the table of their lives."""

    seed: int
    broken: str
    what: str
    story: list[str]
    jobs: int
    nodes: int
    ended: Counter[str]
    offered: int
    done: int
    slots: int
    cells: Counter[tuple[str, str]]
    faults: Counter[tuple[str, str]]
    expansions: Counter[str]
    ways: Counter[tuple[NodeStage, Happens]]
