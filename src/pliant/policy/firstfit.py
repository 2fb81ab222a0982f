"""First-fit backfilling: whoever fits starts, and nobody holds a reservation."""

from __future__ import annotations

from collections.abc import Iterable

from pliant.policy.easy import Behind
from pliant.policy.fcfs import FITS, start_size
from pliant.policy.lasting import Lasting
from pliant.policy.view import ClusterView, Decision, Start


class FirstFit:
    """First-fit backfilling without reservation: whoever fits starts, and wide jobs may starve (a bound)."""

    name = "firstfit"

    def __init__(self, start: str = "preferred") -> None:
        self._start = start

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        free = view.free
        lasting = Lasting(view) if view.expiring else None
        decisions: list[Decision] = []
        queue, backlog = iter(view.queue), view.backlog
        fitting = None if backlog is None else Behind(backlog, view, 0, self._start)
        while free and (job := next(queue, None) if fitting is None else fitting.next(free, None)):
            size = start_size(job, self._start, free, view.total)
            if lasting is not None and size:
                size = lasting.start(job, size, self._start, keep=False)
            if size:
                decisions.append(Start(job.id, size, FITS))
                free -= size
        return decisions
