"""Who gets the nodes that nobody is entitled to."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heapreplace

from pliant.policy.entitled.terms import GrowthStep, Terms
from pliant.policy.job_view import JobView

NEVER = float("inf")
HELD = 1.05
"""What a node that a job has already is worth, against one that it would get: to and fro is for nothing."""


class Share:
    """What a job gets in a pass, ``size`` nodes, and ``least`` of them in any case.

    ``lead_s`` is None while it waits, or while the virtual schedule has not begun it.
    """

    __slots__ = ("haste", "held", "job", "lead_s", "least", "most", "size", "terms")

    def __init__(self, job: JobView, terms: Terms, size: int, lead_s: float | None = None) -> None:
        self.job = job
        self.terms = terms
        self.size = self.least = size
        self.lead_s = lead_s
        self.haste = 0.0
        """How much a node adds to 1 / (time left), against what it adds to the speed."""
        self.held = 0
        self.most = NEVER

    @property
    def behind(self) -> bool:
        """Whether it needs its preferred size now."""
        return self.lead_s is not None and self.lead_s <= self.terms.slack_s


def give(shares: Iterable[Share], left: int) -> int:
    """``left`` nodes go, step by step, where each adds most to 1 / (time left); how many are left then."""
    heap: list[tuple[float, int, Share, GrowthStep]] = []
    for share in shares:
        step = share.terms.step(share.size)
        if step.size > share.most:
            step = _last(share)
        if step.gain > 0.0:
            worth = step.gain * share.haste * (HELD if step.size <= share.held else 1.0)
            heap.append((-worth, share.job.id, share, step))
    heapify(heap)
    while heap and left > 0:
        _, number, share, step = heap[0]
        more = step.size
        if more - share.size > left:
            more = share.terms.bounds.floor(share.size + left)
            if more <= share.size:
                heappop(heap)
                continue
            step = share.terms.step(more)
        else:
            step = share.terms.after(step)
        left -= more - share.size
        share.size = more
        if step.size > share.most:
            step = _last(share)
        if step.gain > 0.0:
            worth = step.gain * share.haste * (HELD if step.size <= share.held else 1.0)
            heapreplace(heap, (-worth, number, share, step))
        else:
            heappop(heap)
    return left


def _last(share: Share) -> GrowthStep:
    """To the most that it may have, where a step would go beyond."""
    most = share.terms.bounds.floor(int(share.most))
    return share.terms.part(share.size, most) if most > share.size else GrowthStep(0, 0.0)
