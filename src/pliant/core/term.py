"""The end of nodes that expire: who has to be off them by then, who is ended before it, and who waits in vain.

A job is not started that could not end in time by its estimate, whatever size it got. Where its user has stated none,
nobody knows: it may begin, and is ended with the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from pliant.core.job import ScheduledJob
from pliant.core.moving import MOVING, leaves_at
from pliant.core.settings import NEVER, end_of, lease_s
from pliant.core.state import State
from pliant.model.jobs import JobState
from pliant.model.limits import REQUEUES
from pliant.model.nodes import NodeSet, without
from pliant.policy.lasting import shortest_s

OVER = "the time of the nodes is over"


class _Chance(NamedTuple):
    """A job that takes ``least_s`` could still run on nodes that last to ``at``."""

    least_s: float
    at: float


class Term:
    """What follows from the end of nodes. Of the jobs that wait those are at hand that have to start soonest."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._latest: list[tuple[float, int]] = []
        self._known: object = None

    def waits(self, job: ScheduledJob) -> None:
        """This job has been submitted."""
        chance = self._chance(job)
        heappush(self._latest, (chance.at - chance.least_s, job.id))

    def due(self) -> Iterator[tuple[ScheduledJob, str]]:
        """Jobs that must not wait or run any longer, and why."""
        state = self._state
        yield from self._in_vain()
        if over := self.over():
            for _, _, job in list(state.running):
                if job.ending is None and (mine := job.nodes & over):
                    all_over = (
                        state.nodes.until != NEVER and end_of(state.nodes.until, state.settings) <= state.now
                    )
                    yield job, OVER if all_over else f"the time of {state.nodes.hosts(NodeSet(mine))} is over"

    def may_come_again(self, job: ScheduledJob) -> bool:
        """Whether a job that the end of its nodes ends is to be submitted again: there may be nodes enough for it."""
        nodes, pool = self._state.nodes, self._state.settings.pool
        if job.spec.requeue is not True or job.times >= REQUEUES:
            return False
        left = without(nodes.all_mask, nodes.lost_mask | nodes.reclaimed_mask | self.over())
        most = left.bit_count() + nodes.coming if pool is None else pool.max
        return job.spec.nodes.min <= most

    def over(self) -> int:
        """The nodes on which nothing may run any more."""
        state, over = self._state, 0
        for until, nodes in state.nodes.expiry.items():
            if end_of(until, state.settings) <= state.now:
                over |= nodes
        return over

    def expired(self) -> int:
        """Those of them that have yet to be asked back."""
        return without(self.over(), self._state.nodes.reclaimed_mask)

    def next(self) -> float:
        """When something will have to be done."""
        state = self._state
        now, wake = state.now, NEVER
        for until, nodes in state.nodes.expiry.items():
            end = end_of(until, state.settings)
            if now < end < wake:
                wake = end
            for _, _, job in state.running:
                leaves = job.nodes & nodes and job.spec.job_class in MOVING
                if leaves and now < (at := leaves_at(state, job, until)) < wake:
                    wake = at
        return wake

    def _in_vain(self) -> Iterator[tuple[ScheduledJob, str]]:
        state = self._state
        self._look_again()
        now = state.now
        while self._latest and self._latest[0][0] <= now:
            _, number = heappop(self._latest)
            job = state.jobs.get(number)
            if job is None or job.state is not JobState.PENDING:
                continue
            chance = self._chance(job)
            if now >= chance.at or now + chance.least_s > chance.at:
                yield job, _in_vain(chance, now)
                continue
            heappush(self._latest, (chance.at - chance.least_s, number))
            if chance.at - chance.least_s <= now:
                break  # it has to start now

    def _look_again(self) -> None:
        """Nodes may have come or gone since, or their end has been moved."""
        state = self._state
        ends = tuple((each.at, each.nodes) for each in state.expiring)
        known = ends, state.total, state.nodes.coming, state.nodes.until
        if known != self._known:
            self._known = known
            chances = ((self._chance(job), job.id) for job in state.queue)
            self._latest = [(chance.at - chance.least_s, number) for chance, number in chances]
            heapify(self._latest)

    def _chance(self, job: ScheduledJob) -> _Chance:
        """The best that it has on the nodes that are there or asked for."""
        state, spec, least = self._state, job.spec, job.bounds.min
        if (pool := state.settings.pool) is not None:
            leased = state.now + lease_s(state.settings)
            stay = state.total - sum(each.nodes for each in state.expiring)
            needs_s = 0.0 if spec.may_outlast else shortest_s(spec, pool.max)
            return _Chance(needs_s, NEVER if stay >= least or state.now + needs_s <= leased else leased)
        expiring = state.expiring
        have = state.total + state.nodes.coming - sum(each.nodes for each in expiring)
        if have >= least:
            return _Chance(0.0, NEVER)
        best: _Chance | None = None
        for each in reversed(expiring):
            have += each.nodes
            if have >= least:
                chance = _Chance(0.0 if spec.may_outlast else shortest_s(spec, have), each.at)
                if best is None or chance.at - chance.least_s > best.at - best.least_s:
                    best = chance
        until = end_of(state.nodes.until, state.settings)
        return best or _Chance(0.0 if spec.may_outlast else shortest_s(spec, have), until)


def _in_vain(chance: _Chance, now: float) -> str:
    least_s, at = chance
    if now >= at:
        return f"{OVER}, and it had not started"
    return (
        f"it needs {least_s:.6g} s by its estimate, and jobs can run on these nodes for {at - now:.6g} s: "
        "have the nodes for longer, or state less time"
    )
