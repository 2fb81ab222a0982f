"""Nodes that leave running jobs for others to which they are worth far more, as long as nobody waits."""

from __future__ import annotations

from heapq import heappop
from typing import Final

from pliant.policy.job_view import JobView
from pliant.policy.ladder import Entry, put_back

MARGIN: Final = 2.0
"""Nodes move between running jobs only if they are worth so many times more where they go."""


def move(
    takers: list[Entry], donors: list[Entry], spare: int, payback: float
) -> tuple[dict[int, int], dict[int, JobView]]:
    """The sizes to which donors shrink where that is worth it, and for whom each does: of heaps of who may grow, the
    most by it first, and of who may shrink, the least by it first. ``spare`` nodes are free anyhow; growth has to pay
    for itself ``payback`` times. The takers get what they are given in the next pass, once it is free."""
    sizes: dict[int, int] = {}
    served: dict[int, JobView] = {}
    grown: dict[int, int] = {}
    while takers:
        worth, number, taker, step = takers[0]
        size, more = grown.get(number, taker.size), step.to
        if number not in grown and not taker.pays(more, payback):
            heappop(takers)
            continue
        grown[number] = more
        spare -= more - size
        taken: dict[int, int] = {}
        while spare < 0 and donors:
            loss, other, donor, _ = donors[0]
            if other in grown or -worth < MARGIN * loss:
                break
            have = taken.get(other) or sizes.get(other, donor.size)
            below = taken[other] = donor.less(have, -spare)
            spare += have - below
            put_back(donors, donor, donor.down(below), donor.left)
        if spare < 0:
            break  # not enough for the whole step: then nobody gives anything for it
        sizes.update(taken)
        for other in taken:
            served[other] = taker.job
        put_back(takers, taker, taker.up(more), -taker.left)
    return sizes, served
