"""First come, first served: the head of the queue or nobody."""

from __future__ import annotations

from collections.abc import Iterable

from pliant.policy.job_view import JobView
from pliant.policy.lasting import ONE_SIZE, Lasting
from pliant.policy.view import ClusterView, Decision, Reason, Start

FITS = Reason("fits")


def start_size(job: JobView, rule: str, free: int, total: int) -> int:
    """The size a job would start with when ``free`` of ``total`` nodes are free, or 0 if it does not fit.

    Rigid jobs have one size. ``min``, ``preferred`` (or the largest below it that fits), ``free`` (as many
    as are free): the start rules of Finnerty et al. 2024, whose text says min and whose program used free.
    ``max`` is Iserte et al.'s: the largest size that the machine has, or wait; ``exact`` the preferred size, or wait.
    """
    bounds = job.bounds
    if bounds.min > free:
        return 0
    if rule == "min" or bounds.min == bounds.max:
        return bounds.min
    if rule in ONE_SIZE:
        size = least_size(job, rule, total)
        return size if size <= free else 0
    return bounds.floor(min(free, bounds.preferred) if rule == "preferred" else free)


def least_size(job: JobView, rule: str, total: int) -> int:
    """The fewest nodes with which ``rule`` lets a job start on a machine of ``total`` nodes."""
    bounds = job.bounds
    if rule not in ONE_SIZE:
        return bounds.min
    return bounds.floor(total if rule == "max" else min(bounds.preferred, total)) or bounds.min


class Fcfs:
    """First come, first served: nobody passes the head of the queue.

    Every job but a rigid one is moldable by ``start``.
    """

    name = "fcfs"

    def __init__(self, start: str = "preferred") -> None:
        self._start = start

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        free = view.free
        lasting = Lasting(view) if view.expiring else None
        decisions: list[Decision] = []
        for job in view.queue:
            size = start_size(job, self._start, free, view.total)
            if lasting is not None:
                size = lasting.start(job, size, self._start)
            if not size:
                break
            decisions.append(Start(job.id, size, FITS))
            free -= size
        return decisions
