"""What a pass of ``marginal`` has given away and promised so far."""

from __future__ import annotations

from pliant.policy.easy import Reservation
from pliant.policy.view import ClusterView, JobView


class Nodes:
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


class Sizes(dict[int, int]):
    """The sizes that jobs go to, by number, where it is not the one they have, and for whom those shrink that do."""

    __slots__ = ("served",)

    def __init__(self) -> None:
        self.served: dict[int, JobView] = {}

    def shrink(self, sizes: dict[int, int], other: JobView) -> None:
        """Let jobs go to smaller ``sizes`` for ``other``."""
        self.update(sizes)
        self.served.update(dict.fromkeys(sizes, other))


class Head:
    """Whether the head of the queue is ``blocked``, and its reservation, which nobody behind it may delay; None
    also if nobody knows when enough nodes will be there."""

    __slots__ = ("blocked", "reservation")

    def __init__(self) -> None:
        self.blocked = False
        self.reservation: Reservation | None = None

    def block(self, reservation: Reservation | None) -> None:
        self.blocked = True
        self.reservation = reservation

    def delayed(self, size: int, end: float) -> bool:
        """Whether ``size`` nodes more that are held until ``end`` would delay it."""
        reservation = self.reservation
        return reservation is not None and size > reservation.spare and end > reservation.at

    def book(self, size: int, end: float) -> None:
        """``size`` nodes more are held until ``end``."""
        reservation = self.reservation
        if reservation is not None and end > reservation.at:
            reservation.spare -= size


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
