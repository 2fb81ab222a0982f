"""Keeps malleable jobs at their preferred sizes where it can.

After the strategy KeepPref of arXiv 2602.17318, of which only the idea could be read; the steps are a
reconstruction.
"""

from __future__ import annotations

from pliant.policy.easy import easy_pass
from pliant.policy.fcfs import least_size
from pliant.policy.giving import EVENLY, Attempt, Precedence, above_preferred, growable
from pliant.policy.resizing import largest, preferred, smallest
from pliant.policy.view import ClusterView, Decision

FURTHEST_ABOVE = Precedence(above_preferred)


class KeepPreferred:
    """Keeps jobs at their preferred sizes; only the head of the queue, after long, may push them below.

    1. Waiting jobs start by EASY at the preferred size, or at the largest below it that fits.
    2. If the head lacks nodes, jobs above their preferred size give: enough for its preferred size, else for
       its minimum. Below their preferred size they give only if that brings the head forward by more than
       ``patience_s`` seconds, and only for its minimum.
    3. Nodes that nobody waits for go to jobs below their preferred size first, then, while the queue is
       empty, to the smallest, where the growth pays for itself ``payback`` times.
    """

    name = "keep-preferred"

    def __init__(self, start: str = "preferred", patience_s: float = 60.0, payback: float = 2.0) -> None:
        self._start = start
        self._patience_s = patience_s
        self._payback = payback

    def decide(self, view: ClusterView) -> list[Decision]:
        decisions, head, reservation, free = easy_pass(view, self._start)
        if head is not None:
            least = least_size(head, self._start, view.total)
            attempts = [
                Attempt(max(least, head.bounds.preferred), preferred),
                Attempt(least, preferred),
                Attempt(least, smallest, self._patience_s),
            ]
            shrinks = FURTHEST_ABOVE.shrink_for_head(view, head, reservation, free, attempts)
            if shrinks:
                return [*decisions, *shrinks]
        idle = growable(view, head, reservation, free)
        growth = EVENLY.grow(view, idle, (preferred,), self._payback)
        if not growth and head is None:  # above the preferred size only when none below it could be helped
            growth = EVENLY.grow(view, idle, (largest,), self._payback)
        return [*decisions, *growth]
