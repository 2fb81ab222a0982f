"""Equipartition: every job gets an equal share of the nodes, within its bounds.

McCann, Vaswani and Zahorjan, A Dynamic Processor Allocation Policy for Multiprogrammed Shared-Memory
Multiprocessors, 1993, with bounds and hysteresis.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from pliant.model.jobs import Bounds, JobClass
from pliant.policy.fcfs import FITS
from pliant.policy.giving import Precedence
from pliant.policy.job_view import JobView
from pliant.policy.resizing import pays
from pliant.policy.view import ClusterView, Decision, Reason, Resize, Start


def equal_shares(nodes: int, bounds: Sequence[Bounds]) -> list[int]:
    """``nodes`` shared out equally within ``bounds``, by water-filling: as much as possible in all.

    What does not divide evenly goes to the first. Every job gets its minimum, which ``nodes`` must allow.
    """
    low, high = 0, max((each.max for each in bounds), default=0)
    limits = [(each.min, each.max) for each in bounds]
    while low < high:
        level = (low + high + 1) // 2
        if sum([min(max(level, least), most) for least, most in limits]) <= nodes:
            low = level
        else:
            high = level - 1
    shares = [each.floor(min(max(low, each.min), each.max)) for each in bounds]
    left = nodes - sum(shares)
    # The remainder, and what jobs with a factor cannot use: to the smallest shares, earlier ones first.
    open_ = [(size, i) for i, size in enumerate(shares)]
    heapify(open_)
    while open_ and left > 0:
        size, i = heappop(open_)
        above = bounds[i].above(size)
        if above and above - size <= left:
            left -= above - size
            shares[i] = above
            heappush(open_, (above, i))
    return shares


class Equipartition:
    """Gives every job an equal share of the nodes within its bounds, and moves only the differences.

    Waiting jobs are admitted in order, as long as there is room for the minimum of all; if one of them lacks
    nodes, those above their share give just enough. Otherwise a job grows to its share where that pays for
    itself ``payback`` times: into free nodes, or at the cost of jobs above their share, if one side is at least
    ``least`` nodes off. Running jobs that cannot be resized keep what they have, and the others share the rest.
    """

    name = "equipartition"
    rebalances = True

    def __init__(self, least: int = 2, payback: float = 2.0) -> None:
        self._least = least
        self._payback = payback

    def decide(self, view: ClusterView) -> list[Decision]:
        elastic = sorted(view.elastic, key=_number)
        room = view.total - sum(job.target for _, _, job in view.running) + sum(job.target for job in elastic)
        admitted = _admitted(view, room - sum(job.bounds.min for job in elastic))
        limits = [self._limits(view, job) for job in elastic] + [job.bounds for job in admitted]
        shares = equal_shares(room, limits)
        share = {job.id: size for job, size in zip([*elastic, *admitted], shares, strict=True)}
        free = view.free
        short = most = 0
        decisions: list[Decision] = []
        for i, job in enumerate(admitted):
            size = job.bounds.floor(min(share[job.id], free))
            if not size:
                need = sum(share[other.id] for other in admitted[i:]) - free - view.returning()
                return [*decisions, *self._make_room(view, share, need, job.id, 1)]
            decisions.append(Start(job.id, size, FITS))
            free -= size
            if job.spec.job_class is JobClass.MALLEABLE:
                short += share[job.id] - size
                most = max(most, share[job.id] - size)
        if short > free + view.returning():
            # Started with less than its share: what it lacks is asked for at once, to grow into later.
            need = short - free - view.returning()
            last = admitted[-1].id
            return [*decisions, *self._make_room(view, share, need, last, self._excess(most))]
        return [*decisions, *self._balance(view, elastic, share, free)]

    def _limits(self, view: ClusterView, job: JobView) -> Bounds:
        """The job's bounds, but no more than it has if growing does not pay any more."""
        above = job.bounds.above(job.size)
        if not above or job.target != job.size or pays(view, job, above, self._payback):
            return job.bounds
        return Bounds(job.bounds.min, max(job.bounds.min, job.size), job.bounds.factor)

    def _make_room(
        self,
        view: ClusterView,
        share: dict[int, int],
        need: int,
        waiting: int,
        least: int,
    ) -> list[Resize]:
        """Shrink those that exceed their share by ``least`` nodes: by ``need`` in all, or as far as it goes."""
        donors = [job for job in view.elastic if job.size - share[job.id] >= least and view.resizable(job)]
        largest_excess = Precedence(lambda job, size: size - share[job.id])
        able = largest_excess.able(donors, lambda job: share[job.id])
        reason = Reason("shrink_for_share", for_job=waiting)
        need = min(need, able.surplus)
        return largest_excess.just_enough(able, need, lambda job: share[job.id], reason)

    def _balance(
        self, view: ClusterView, elastic: list[JobView], share: dict[int, int], free: int
    ) -> list[Resize]:
        """Nobody waits: free nodes go to those below their share; else those far above it give."""
        takers = [job for job in elastic if job.size < share[job.id] and view.resizable(job, grow=True)]
        if not takers or view.returning():
            return []  # one resize for all that come back
        takers.sort(key=lambda job: (job.size, job.id))
        moves: list[Resize] = []
        for job in takers:
            size = job.bounds.floor(min(share[job.id], job.size + free))
            if size > job.size and pays(view, job, size, self._payback):
                figures = {"share": float(share[job.id])}
                moves.append(Resize(job.id, size, Reason("idle_nodes", figures=figures)))
                free -= size - job.size
        if moves:
            return moves
        lacks = [share[job.id] - job.size for job in takers]
        excess = self._excess(max(lacks))
        return self._make_room(view, share, sum(lacks) - free, takers[0].id, excess)

    def _excess(self, lack: int) -> int:
        """From which excess on a job gives, where the neediest lacks ``lack`` nodes."""
        return 1 if lack >= self._least else self._least


def _number(job: JobView) -> int:
    return job.id


def _admitted(view: ClusterView, room: int) -> list[JobView]:
    """The first waiting jobs whose minima ``room`` allows."""
    admitted: list[JobView] = []
    for job in view.queue:
        if job.bounds.min > room:
            break
        room -= job.bounds.min
        admitted.append(job)
    return admitted
