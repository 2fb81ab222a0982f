"""The malleable policy of Finnerty et al. 2024 (their minAgree; corrected as in the notes): start by EASY, shrink the
largest for whoever waits, grow the smallest with what nobody waits for."""

from __future__ import annotations

from pliant.policy.easy import Reservation, easy_pass, need_of
from pliant.policy.job_view import JobView
from pliant.policy.resizing import grow, just_enough, largest, shrink_reason, smallest
from pliant.policy.view import ClusterView, Decision, Resize


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
        if head is None:
            if free and view.returning() == 0:  # one resize for all that come back, not one for each
                decisions += self._grow(view, free)
            return decisions
        shrinks = self._shrink(view, head, reservation, free)
        decisions += shrinks
        if not shrinks and free and reservation is not None and view.returning() == 0:
            # The head waits for others in any case: growing into what is spare then does it no harm.
            decisions += self._grow(view, min(free, reservation.spare))
        return decisions

    def _shrink(
        self, view: ClusterView, head: JobView, reservation: Reservation | None, free: int
    ) -> list[Resize]:
        need = need_of(head, self._start, view.total) - free - view.returning()
        if need <= 0:
            return []  # what is on its way back is enough
        saved = reservation.at - view.now if reservation is not None else float("inf")
        if saved <= view.cost.shrink_s():
            return []
        donors = [job for job in view.elastic if job.size > job.bounds.min and view.resizable(job)]
        donors.sort(key=lambda job: (-job.size, job.id))
        reason = shrink_reason(head, saved)
        return just_enough(donors, need, smallest, reason)

    def _grow(self, view: ClusterView, free: int) -> list[Resize]:
        takers = [job for job in view.elastic if view.resizable(job, grow=True)]
        return grow(view, takers, free, largest, self._payback)
