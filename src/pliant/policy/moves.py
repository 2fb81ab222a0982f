"""Nodes that leave running jobs for others to which they are worth far more, as long as nobody waits."""

from __future__ import annotations

from heapq import heappop, heappush

from pliant.policy.given import Sizes
from pliant.policy.ladder import Entry

MARGIN = 2.0
"""Nodes move between running jobs only if they are worth so many times more where they go."""


def move(takers: list[Entry], donors: list[Entry], sizes: Sizes, spare: int, payback: float) -> None:
    """Let donors shrink to ``sizes`` where that is worth it: heaps of who may grow, the most by it first, and
    of who may shrink, the least by it first. ``spare`` nodes are free anyhow; growth has to pay for itself
    ``payback`` times. The takers get what they are given in the next pass, once it is free."""
    grown: dict[int, int] = {}
    while takers:
        worth, number, taker = heappop(takers)
        size = grown.get(number, taker.size)
        more = taker.up(size).to
        if number not in grown and not taker.pays(more, payback):
            continue
        grown[number] = more
        spare -= more - size
        taken: dict[int, int] = {}
        while spare < 0 and donors and donors[0][1] not in grown and -worth >= MARGIN * donors[0][0]:
            _, other, donor = heappop(donors)
            have = taken.get(other) or sizes.get(other, donor.size)
            below = taken[other] = donor.less(have, -spare)
            spare += have - below
            further = donor.down(below)
            if further.to:
                heappush(donors, (further.worth / donor.left, other, donor))
        if spare < 0:
            return  # not enough for the whole step: then nobody gives anything for it
        if taken:
            sizes.shrink(taken, taker.job)
        further = taker.up(more)
        if further.to:
            heappush(takers, (-further.worth / taker.left, number, taker))
