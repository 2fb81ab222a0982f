"""DMR's policies: Iserte et al., DMR API: Improving the Cluster Productivity by Turning Applications into
Malleable (Iserte et al. 2018), sections 4 and 5.1.

Its Slurm plug-in has three modes. In the first the application itself asks for a size, which is granted if
there are nodes enough: that is the core's answer to the event ``Wants``, under any policy. The second and
the third are the policies here. In all of them a resize goes to an allowed size of the job (its factor), and
one job at a time is looked at, here in the order of their numbers, as if they had asked one after the other.
Between two looks an application may leave some time (the checking inhibitor): ``Settings.cooldown_s``, and
in simulations ``SimJob.period_s``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pliant.policy.backlog import LONG_S, NONE_S, Rest, named
from pliant.policy.easy import easy_pass, measure_of
from pliant.policy.fcfs import least_size, start_size
from pliant.policy.job_view import JobView
from pliant.policy.order import OtherQueue
from pliant.policy.resizing import idle_nodes
from pliant.policy.view import ClusterView, Decision, Reason, Resize, Start

TO_PREFERRED = Reason("to_preferred")


class DmrPreferred:
    """DMR's mode 2: jobs go to their preferred size while others wait, above it when nobody does.

    Waiting jobs start by EASY, by rule ``start``; Iserte et al. 2018 start them at their maximum. A job at its
    preferred size stays as it is; with ``idle_growth`` only as long as somebody waits. Any other job grows as
    far as free nodes allow if nobody waits, and else goes to its preferred size, or towards it. As in the
    paper, growth to the preferred size may delay the first in the queue.
    """

    name = "dmr-preferred"

    def __init__(self, start: str = "max", *, idle_growth: bool = False) -> None:
        self._start = start
        self._idle_growth = idle_growth

    def decide(self, view: ClusterView) -> list[Decision]:
        decisions, _, _, free = easy_pass(view, self._start)
        waiting = next(_waiting(view, decisions), None)
        for job in _asking(view):
            size, bounds = job.size, job.bounds
            if size == bounds.preferred and (waiting is not None or not self._idle_growth):
                continue
            if size > bounds.preferred and waiting is not None:
                reason = Reason("to_preferred", for_job=waiting.id)
                decisions.append(Resize(job.id, bounds.preferred, reason))
                continue
            limit = bounds.max if waiting is None else bounds.preferred
            after = bounds.floor(min(limit, size + free))
            if after > size and view.resizable(job, grow=True):
                free -= after - size
                decisions.append(Resize(job.id, after, TO_PREFERRED if waiting else idle_nodes(view, job)))
        return decisions


class DmrWide:
    """DMR's mode 3: a job shrinks if that lets a waiting job start at once, else jobs grow into free nodes.

    Waiting jobs start by EASY, by rule ``start``; Iserte et al. 2018 start them at their maximum. For the first waiting
    job that a single shrink lets start, the job that gives the fewest nodes shrinks, to its largest size that
    suffices. The job so served is the next to start: until then nobody else starts or is resized. If there is
    no such job and none that could start with free nodes but for EASY, jobs grow as far as free nodes allow. As
    in the paper, both may delay who was first in the queue.
    """

    name = "dmr-wide"

    def __init__(self, start: str = "max") -> None:
        self._start = start

    def decide(self, view: ClusterView) -> list[Decision]:
        seen = view
        boosted = self._still_boosted(view)
        if boosted is not None:
            if not start_size(boosted, self._start, view.free, view.total):
                return []
            seen = _led_by(boosted, view)
        decisions, _, _, free = easy_pass(seen, self._start)
        asking = _asking(view)
        if not asking:
            return decisions
        have = free + view.returning()
        most = max(job.size - job.bounds.min for job in asking)
        left = _Left(seen, decisions, self._start)
        waiting = left.first(have, have + most)
        if waiting is not None:
            return [*decisions, self._shrink(asking, waiting, view.total, have)]
        if left.first(0, have) is None:
            decisions += _grow(view, asking, free)
        return decisions

    def _still_boosted(self, view: ClusterView) -> JobView | None:
        """The job for which another has shrunk, if it waits and its nodes are free or on their way."""
        for job in named(view.queue, view.backlog, (view.served,)) if view.served else ():
            if least_size(job, self._start, view.total) <= view.free + view.returning():
                return job
        return None

    def _shrink(self, asking: list[JobView], waiting: JobView, total: int, have: int) -> Resize:
        """The job that gives the fewest nodes of those who can give what ``waiting`` lacks."""
        lacking = least_size(waiting, self._start, total) - have
        given, number, size = min(
            (job.size - size, job.id, size)
            for job in asking
            if (size := job.bounds.floor(job.size - lacking))
        )
        figures = {"lacking": float(lacking), "given": float(given)}
        return Resize(number, size, Reason("shrink_for_start", for_job=waiting.id, figures=figures))


class _Left:
    """Who is still in the queue after the starts among ``decisions``, by the fewest nodes with which rule ``start``
    lets them start."""

    __slots__ = ("_left_out", "_start", "_view")

    def __init__(self, view: ClusterView, decisions: Iterable[Decision], start: str) -> None:
        self._view = view
        self._left_out = {decision.job for decision in decisions if type(decision) is Start}
        self._start = start

    def first(self, over: int, most: int) -> JobView | None:
        """The first that needs more than ``over`` nodes and no more than ``most``."""
        rule, total, backlog = self._start, self._view.total, self._view.backlog
        if backlog is None:
            waiting = Rest(self._view.queue, self._left_out)
            return next((job for job in waiting if over < least_size(job, rule, total) <= most), None)
        rest = backlog.without(self._left_out)
        return next(
            rest.behind(
                0, lambda: most, measure_of(rule, total), lambda need: LONG_S if need > over else NONE_S
            ),
            None,
        )


def _asking(view: ClusterView) -> list[JobView]:
    """The jobs that can be resized now, in the order of their numbers."""
    return sorted((job for job in view.elastic if view.resizable(job)), key=lambda job: job.id)


def _waiting(view: ClusterView, decisions: Iterable[Decision]) -> Iterator[JobView]:
    """Who is still in the queue after the starts among ``decisions``."""
    started = {decision.job for decision in decisions if type(decision) is Start}
    for job in view.queue:
        if job.id not in started:
            yield job


def _led_by(job: JobView, view: ClusterView) -> OtherQueue:
    """The cluster with this job at the front, where it starts."""
    backlog = view.backlog
    rest = None if backlog is None else backlog.without((job.id,))
    return OtherQueue(view, Rest(view.queue, (job.id,), job), rest)


def _grow(view: ClusterView, asking: Iterable[JobView], free: int) -> list[Decision]:
    moves: list[Decision] = []
    for job in asking:
        after = job.bounds.floor(min(job.bounds.max, job.size + free))
        if after > job.size and view.resizable(job, grow=True):
            free -= after - job.size
            moves.append(Resize(job.id, after, idle_nodes(view, job)))
    return moves
