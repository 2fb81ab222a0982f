"""Which free nodes a job gets where some expire: ``policy/lasting.py`` says how many of each end, this names them.

``held`` are free nodes that are kept for jobs which are to start before any other, and need more that last.
"""

from __future__ import annotations

from pliant.core.job import ScheduledJob
from pliant.core.state import State
from pliant.model.nodes import NodeSet, lowest_bits, without
from pliant.policy.lasting import Lasting

STEPS = 12.0
"""So many of a job's longest steps are added to the time that it gets to leave: three to each deadline."""


def to_start(state: State, job: ScheduledJob, size: int, held: int) -> tuple[int, bool]:
    """The nodes on which a job starts with ``size`` nodes; or those that would do, if they are too few, and False."""
    lasting, classes = _free(state, held)
    counts = lasting.of(job, size)
    return _lowest(classes, counts), sum(counts) == size


def to_grow(state: State, job: ScheduledJob, size: int, more: int, held: int) -> int:
    """Up to ``more`` nodes onto which a running job can grow to ``size``."""
    lasting, classes = _free(state, held)
    return _lowest(classes, lasting.growth(job, size, more, STEPS * job.gap))


def to_shrink(state: State, job: ScheduledJob, count: int) -> NodeSet:
    """Up to ``count`` nodes that a job gives back if it shrinks: those of it that expire, the soonest first."""
    mine, chosen = job.nodes & ~(1 << state.groups(job)[job.root]), 0
    for until in sorted(state.nodes.expiry):
        nodes = state.nodes.expiry[until] & mine
        chosen |= lowest_bits(nodes, min(nodes.bit_count(), count - chosen.bit_count()))
    return NodeSet(chosen)


def to_move(state: State, until: float, most: int) -> int:
    """Up to ``most`` nodes that last longer than to this time, for a job that leaves those that do not."""
    lasting, classes = _free(state, 0)
    return _lowest(classes, lasting.beyond(until, most))


def best(state: State, most: int) -> int:
    """So many nodes, of those that are free, that last longest."""
    lasting, classes = _free(state, 0)
    return _lowest(classes, lasting.any(most))


def usable(state: State) -> int:
    """How many of the free nodes have not come to their end."""
    return best(state, state.free).bit_count() if state.nodes.expiry else state.free


def soonest(state: State, most: int, least: int) -> int:
    """Up to so many free nodes: those that expire soonest, and of those that stay the highest numbers, but for the
    ``least`` that are to be left of these."""
    stay, chosen = state.total - sum(each.nodes for each in state.expiring), 0
    classes = state.nodes.classes()
    for i, mask in enumerate(classes, 1):
        if i == len(classes):
            most = min(most, max(0, stay - least))
        have = mask.bit_count()
        if have > most:
            return chosen | without(mask, lowest_bits(mask, have - most, have))
        chosen |= mask
        most -= have
    return chosen


def _free(state: State, held: int) -> tuple[Lasting, list[int]]:
    classes = state.nodes.classes()
    kept = tuple((mask & held).bit_count() for mask in classes) if held else ()
    return Lasting(state, kept), [without(mask, held) for mask in classes]


def _lowest(classes: list[int], counts: list[int]) -> int:
    chosen = 0
    for mask, count in zip(classes, counts, strict=True):
        chosen |= lowest_bits(mask, count)
    return chosen
