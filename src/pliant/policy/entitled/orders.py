"""What has been decided for an instant and is still to be done in it, as others give their nodes back first.

It is remembered, so that a controller that begins anew carries it out as the one before it would have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pliant.policy.entitled.terms import is_flexible
from pliant.policy.job_view import JobView
from pliant.policy.view import ClusterView, Decision, Reason, Resize, Start, Wake

SOON_S = 1e-6
"""Nobody asks to be woken sooner: a time that rounding brings to the present would be ignored."""
ENTITLED, EARLY, BEST_USE = Reason("entitled"), Reason("early"), Reason("best_use")


class Beginning(NamedTuple):
    """The waiting job of this number starts on ``size`` nodes, or on fewer and grows; ``least`` are enough if it is
    ``early``, before it has begun virtually."""

    job: int
    size: int
    least: int
    early: bool


class Growth(NamedTuple):
    """The job goes to ``size``. It is ``behind`` if it needs its preferred size now; else its lead lasts until then as
    it is, where that is not 0."""

    job: int
    size: int
    behind: bool
    until: float = 0.0


class PlannedOrders:
    """Of one instant: who is to start, in this order, and who is to grow then."""

    def __init__(self, starts: Sequence[Beginning] = (), growths: Sequence[Growth] = ()) -> None:
        self.starts = list(starts)
        self.growths = list(growths)

    def __bool__(self) -> bool:
        """Whether anything is still to be done."""
        return bool(self.starts or self.growths)

    @classmethod
    def of(cls, memory: Sequence[Any]) -> PlannedOrders:
        starts, growths = memory
        return cls([Beginning(*row) for row in starts], [Growth(*row) for row in growths])

    def memory(self) -> list[Any]:
        return [[list(row) for row in self.starts], [list(row) for row in self.growths]]

    def carry_out(
        self, view: ClusterView, waiting: dict[int, JobView], coming: int, kept: dict[int, int]
    ) -> list[Decision]:
        """Starts as far as nodes are free, then growth; what remains is for the ``coming`` nodes. What those hold for
        good that start early goes into ``kept``."""
        decisions: list[Decision] = []
        if self.starts or self.growths:
            free = self._starts(decisions, view.free, waiting, coming, kept)
            if self.growths:
                self._grow(decisions, view, free, coming)
        return decisions

    def _starts(
        self,
        decisions: list[Decision],
        free: int,
        waiting: dict[int, JobView],
        coming: int,
        kept: dict[int, int],
    ) -> int:
        """The nodes that are left for growth; none while somebody waits for his."""
        short: list[Beginning] = []
        for order in self.starts:
            if (job := waiting.get(order.job)) is None:
                continue
            bounds, flexible = job.bounds, is_flexible(job)
            if free >= order.least and not (short and order.early):
                size = bounds.floor(min(order.size, free)) if flexible else order.size
            elif not order.early and flexible and not coming and free >= bounds.min:
                size = bounds.floor(free)  # better than to wait for nobody knows what
            else:
                short.append(order)
                continue
            free -= size
            decisions.append(Start(job.id, size, EARLY if order.early else ENTITLED))
            if order.early:
                kept[job.id] = order.least
            if size < order.size:
                self.growths.append(Growth(job.id, order.size, not order.early))
        self.starts = short
        return 0 if short else free

    def _grow(self, decisions: list[Decision], view: ClusterView, free: int, coming: int) -> None:
        """Those that are behind first; the others when all nodes have come: one resize for all."""
        running = {number: job for _, number, job in view.running}
        growths = [
            each for each in self.growths if each.job not in running or running[each.job].target < each.size
        ]
        self.growths = list(growths)
        for urgent in (True, False):
            for each in growths:
                job = running.get(each.job)
                if job is None or free <= 0:
                    continue
                needs = job.size < job.bounds.preferred and each.behind
                if needs is not urgent or (coming and (not needs or each.size - job.size > free)):
                    continue
                more = job.bounds.floor(min(each.size, job.size + free))
                if more > job.size and view.resizable(job, grow=True):
                    decisions.append(Resize(job.id, more, BEST_USE))
                    free -= more - job.size
                    if more == each.size:
                        self.growths.remove(each)
        until = min((each.until for each in self.growths if each.until), default=0.0)
        if until and not coming:
            decisions.append(Wake(max(until, view.now + SOON_S)))  # nobody knows when there are nodes for it
