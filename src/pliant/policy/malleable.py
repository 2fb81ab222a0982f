"""The malleable policy of paper 2 (its minAgree; corrected as in the notes): start by EASY, shrink the
largest for whoever waits, grow the smallest with what nobody waits for."""

from __future__ import annotations

from pliant.policy.easy import Reservation, easy_pass
from pliant.policy.view import ClusterView, Decision, JobView, Reason, Resize


class Malleable:
    """Three steps a pass.

    1. Waiting jobs start by EASY at their minimum (``start`` = min), or at the preferred size or what is
       free, if that does not delay the head.
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
        decisions, head, reservation, free = easy_pass(view, self._start)
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
        need = head.bounds.min - free - view.returning()
        if need <= 0:
            return []  # what is on its way back is enough
        saved = reservation.at - view.now if reservation is not None else float("inf")
        if saved <= view.cost.shrink_s():
            return []
        donors = [job for job in view.elastic if job.size > job.bounds.min and view.resizable(job)]
        if sum(job.size - job.bounds.min for job in donors) < need:
            return []
        donors.sort(key=lambda job: (-job.size, job.id))
        return _just_enough(donors, need, head.id, saved)

    def _grow(self, view: ClusterView, free: int) -> list[Resize]:
        """Raise the smallest allocations step by step, then keep what pays for itself."""
        takers = [job for job in view.elastic if view.resizable(job)]
        sizes = {job.id: job.size for job in takers}
        open_ = sorted(takers, key=lambda job: (job.size, job.id))
        while open_ and free > 0:
            job = open_[0]
            size = job.bounds.above(sizes[job.id])
            if not size or size - sizes[job.id] > free or not self._pays(view, job, size):
                open_.pop(0)
                continue
            free -= size - sizes[job.id]
            sizes[job.id] = size
            open_.sort(key=lambda job: (sizes[job.id], job.id))
        return [
            Resize(
                job.id,
                sizes[job.id],
                Reason("idle_nodes", figures={"remaining_s": job.remaining_s(view.now)}),
            )
            for job in takers
            if sizes[job.id] > job.size
        ]

    def _pays(self, view: ClusterView, job: JobView, size: int) -> bool:
        cost = view.cost.expand_s(job.size, size)
        left = job.remaining_s(view.now) - cost
        return left * (1.0 - job.spec.speed_ratio(size, job.size)) > self._payback * cost


def _just_enough(donors: list[JobView], need: int, head: int, saved: float) -> list[Resize]:
    """Shrink the first donors until ``need`` is met; then let each keep what has become superfluous, since a
    job with a factor may have to give more than was asked of it."""
    given: dict[int, int] = {}
    lacking = need
    for job in donors:
        if lacking <= 0:
            break
        size = job.bounds.floor(max(job.size - lacking, job.bounds.min))
        given[job.id] = job.size - size
        lacking -= job.size - size
    for job in donors:
        if job.id not in given or lacking >= 0:
            continue
        size = job.bounds.floor(min(job.size, job.size - given[job.id] - lacking))
        lacking += given[job.id] - (job.size - size)
        given[job.id] = job.size - size
    reason = Reason("shrink_for_head", for_job=head, figures={"wait_saved_s": saved})
    return [Resize(job.id, job.size - given[job.id], reason) for job in donors if given.get(job.id)]
