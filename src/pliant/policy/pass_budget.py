"""What a pass of ``marginal`` has given away and promised so far."""

from __future__ import annotations

from collections.abc import Callable

from pliant.model.jobs import JobClass
from pliant.model.speedup import falls
from pliant.policy.backlog import LONG_S
from pliant.policy.easy import NEVER, Reservation
from pliant.policy.job_view import JobView
from pliant.policy.view import ClusterView


class PassBudget:
    """Nodes that nobody computes on: ``free`` now; ``coming`` in a moment; and ``awaited``, which come as well, but
    are given already to jobs that start then."""

    __slots__ = ("awaited", "coming", "free")

    def __init__(self, free: int, coming: int) -> None:
        self.free = free
        self.coming = coming
        self.awaited = 0

    def lacking(self, size: int) -> int:
        """How many of ``size`` would have to come from running jobs; 0 or less if none."""
        return size - self.free - self.coming

    def give(self, size: int) -> None:
        """Free ones, to one that starts or grows now."""
        self.free -= size

    def expect(self, size: int) -> None:
        """So many more, which running jobs leave."""
        self.coming += size

    def promise(self, size: int) -> None:
        """Those that are coming, then free ones, to one that starts when all of them have come."""
        back = min(self.coming, size)
        self.coming -= back
        self.awaited += back
        self.free -= size - back


class QueueHead:
    """Whether the head of the queue is ``blocked``, and the reservations that nobody behind it may delay, None if
    nobody knows when enough nodes will be there: ``soon`` if all go on with the sizes that they have, and ``promise``,
    no earlier, if those that have grown go back to their preferred sizes. Else they could give nobody anything until
    they end."""

    __slots__ = ("blocked", "promise", "soon")

    def __init__(self) -> None:
        self.blocked = False
        self.soon: Reservation | None = None
        self.promise: Reservation | None = None

    def block(self, soon: Reservation | None, promise: Reservation | None) -> None:
        self.blocked = True
        self.soon = soon
        self.promise = promise

    def delayed(self, size: int, end: float) -> bool:
        """Whether ``size`` nodes more that are held until ``end`` would delay it."""
        return _delayed(self.soon, size, end) or _delayed(self.promise, size, end)

    def book(self, size: int, end: float) -> None:
        """``size`` nodes more are held until ``end``."""
        for reservation in (self.soon, self.promise):
            if reservation is not None and end > reservation.at:
                reservation.spare -= size


def _delayed(reservation: Reservation | None, size: int, end: float) -> bool:
    return reservation is not None and size > reservation.spare and end > reservation.at


def shrink_s(view: ClusterView) -> float:
    """From a shrink to the moment its nodes are free, with the most that any job may have to move."""
    cost = view.cost
    if not cost.data_s:
        return cost.shrink_s()
    most = max((job.spec.data_mb / job.bounds.min for job in view.elastic), default=0.0)
    return cost.shrink_s() + cost.data_s * most


def after(releases: list[tuple[float, int]], first: int) -> list[tuple[float, int]]:
    """What is left of ``releases`` for those who come after others that wait for ``first`` nodes."""
    taken = 0
    while first > 0 and taken < len(releases):
        end, nodes = releases[taken]
        if nodes > first:
            releases[taken] = (end, nodes - first)
            break
        first -= nodes
        taken += 1
    return releases[taken:]


def quickest(job: JobView) -> tuple[int, float]:
    """The fewest nodes that a job needs, and how long it takes at its preferred size; no time, if it may be quicker
    with fewer nodes, or has a choice of sizes and the scheduler may not resize it."""
    bounds, spec = job.bounds, job.spec
    if bounds.min == bounds.max or (spec.job_class is JobClass.MALLEABLE and falls(spec.model)):
        return bounds.min, spec.walltime_s
    return bounds.min, 0.0


def anything() -> float:
    """Running jobs may give any number of nodes."""
    return NEVER


def promising(there: int, quick_s: float, spare: float, limit: float) -> Callable[[int], float]:
    """How long a job may take (``quickest``) by its need: ``limit``, if that is more than ``spare`` nodes, and
    ``quick_s`` over the nodes that it lacks, if it is more than are ``there``."""

    def most(need: int) -> float:
        most_s = limit if need > spare else LONG_S
        return min(most_s, quick_s / (need - there)) if need > there else most_s

    return most
