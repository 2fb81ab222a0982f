"""The malleable policy of Finnerty et al. 2024 (their minAgree; corrected as in the notes): start by EASY, shrink the
largest for whoever waits, grow the smallest with what nobody waits for."""

from __future__ import annotations

from pliant.policy.easy import easy_pass, need_of
from pliant.policy.giving import EVENLY, Attempt, Precedence, growable, size_of
from pliant.policy.resizing import largest, smallest
from pliant.policy.view import ClusterView, Decision, Resize

LARGEST_FIRST = Precedence(size_of)


class Malleable:
    """Starts jobs small, shrinks the largest for the head of the queue, grows the smallest into idle nodes.

    Three steps a pass:

    1. Waiting jobs start by EASY at their minimum (``start`` = min), or at the preferred size or what is
       free, if that does not delay the head. With ``min``, those that it cannot resize later start at their best size.
    2. If the head still lacks nodes, malleable jobs with the largest allocation shrink: just enough, all
       or nothing, and only if that brings the head forward by more than the shrink takes.
    3. Nodes that nobody waits for go to the malleable jobs with the smallest allocation, where the rest of
       their work pays for the resize ``payback`` times.
    """

    name = "malleable"

    def __init__(self, start: str = "min", payback: float = 2.0) -> None:
        self._start = start
        self._payback = payback

    def decide(self, view: ClusterView) -> list[Decision]:
        decisions, head, reservation, free = easy_pass(view, self._start, resizes=True)
        shrinks: list[Resize] = []
        if head is not None:
            attempts = [Attempt(need_of(head, self._start, view.total), smallest)]
            shrinks = LARGEST_FIRST.shrink_for_head(view, head, reservation, free, attempts)
        idle = 0 if shrinks else growable(view, head, reservation, free)
        return [*decisions, *shrinks, *EVENLY.grow(view, idle, (largest,), self._payback)]
