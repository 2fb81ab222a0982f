"""Keeps malleable jobs at their preferred sizes where it can.

After the strategy KeepPref of arXiv 2602.17318, of which only the idea could be read; the steps are a
reconstruction.
"""

from __future__ import annotations

from pliant.policy.easy import Reservation, easy_pass
from pliant.policy.fcfs import least_size
from pliant.policy.job_view import JobView
from pliant.policy.resizing import Limit, grow, just_enough, largest, preferred, shrink_reason, smallest
from pliant.policy.view import ClusterView, Decision, Resize


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
        shrinks: list[Resize] = []
        if head is not None:
            shrinks = self._shrink(view, head, reservation, free)
            decisions += shrinks
            free = min(free, reservation.spare) if reservation is not None else 0
        if free and not shrinks and view.returning() == 0:
            decisions += self._grow(view, free, empty=head is None)
        return decisions

    def _shrink(
        self, view: ClusterView, head: JobView, reservation: Reservation | None, free: int
    ) -> list[Resize]:
        have = free + view.returning()
        least = least_size(head, self._start, view.total)
        if least <= have:
            return []
        saved = reservation.at - view.now if reservation is not None else float("inf")
        if saved <= view.cost.shrink_s():
            return []
        attempts: list[tuple[int, Limit]] = [
            (max(least, head.bounds.preferred), preferred),
            (least, preferred),
        ]
        if saved > self._patience_s:
            attempts.append((least, smallest))
        reason = shrink_reason(head, saved)
        able = [job for job in view.elastic if view.resizable(job)]
        able.sort(key=lambda job: (job.bounds.preferred - job.size, job.id))
        for wanted, floor in attempts:
            donors = [job for job in able if job.size > floor(job)]
            if shrinks := just_enough(donors, wanted - have, floor, reason):
                return shrinks
        return []

    def _grow(self, view: ClusterView, free: int, *, empty: bool) -> list[Resize]:
        able = [job for job in view.elastic if view.resizable(job, grow=True)]
        below = [job for job in able if job.size < job.bounds.preferred]
        growth = grow(view, below, free, preferred, self._payback)
        if growth or not empty:
            return growth  # above the preferred size only when nobody is below it that could be helped
        return grow(view, able, free, largest, self._payback)
