"""Jobs that move to other nodes: by an operator's order, and off nodes that are asked back.

A node that is asked back and in use is emptied first. Its job moves to another node where one is free; else it goes on
with fewer nodes, where its bounds allow that; else the node is waited for until the job has ended.

So is a node that is about to expire, with time enough for it; but a job leaves it only if it can leave all that expire
as soon.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pliant.core import placing
from pliant.core.job import ScheduledJob
from pliant.core.settings import end_of, leaving_s
from pliant.core.state import State
from pliant.model.jobs import JobClass
from pliant.model.kinds import KINDS
from pliant.model.nodes import NodeSet, lowest_bits, without
from pliant.model.words import are, count
from pliant.policy.view import Reason

MOVING = (JobClass.MALLEABLE, JobClass.EVOLVING)
"""What the scheduler may move by itself."""
ASKED_BACK = "asked_back"
ROUNDING_S = 1e-2
"""Ends that are so near are one."""


class WayOff(NamedTuple):
    """How a job leaves nodes: it goes to ``size``, and ``leave`` are among those that it gives back."""

    size: int
    leave: NodeSet

    @property
    def reason(self) -> Reason:
        return Reason(ASKED_BACK, figures={"nodes": len(self.leave)})


def objection(  # noqa: PLR0911 - each objection supposes that those before it fail
    state: State, job: ScheduledJob, leave: NodeSet
) -> str | None:
    """Why a running job cannot be ordered off these nodes to as many others, or None."""
    who = f"job {job.id} ({job.spec.name})"
    if not KINDS[job.spec.kind].migrates:
        return (
            f"{who} is of kind {job.spec.kind}, which cannot move; a malleable one can be ordered to more nodes and "
            f"then, with --leave, to fewer"
        )
    if job.spec.job_class is JobClass.RIGID or job.one_world:
        return f"{who} is {job.spec.job_class} and keeps its nodes; submit it as malleable to move it"
    if not job.accepts_offers:
        return f"{who} is not inside its loop, where it can move; try again when it is"
    if job.resize is not None:
        return f"resize {job.resize.id} of job {job.id} is still under way; try again when it is over"
    if others := leave - NodeSet(job.nodes):
        its = state.nodes.hosts(NodeSet(job.nodes))
        return f"{state.nodes.hosts(others)} is none of the nodes of job {job.id}, which holds {its}"
    if not job.bounds.allows(job.size):
        has, may = count(job.size, "node"), job.bounds.describe()
        return f"{who} has {has}, and may have {may}: order it to one of these sizes"
    if (missing := len(leave) - (free := placing.usable(state))) > 0:
        return (
            f"{who} would move to {count(len(leave), 'other node')}, and {are(free)} free: "
            f"{missing} missing; name fewer with --leave, or add some with pliant nodes add {missing}"
        )
    return None


def why_stays(state: State, job: ScheduledJob, nodes: NodeSet, free: int) -> str:
    """Why a job will not leave these of its nodes before it has ended, or not soon; empty if it can."""
    root = state.groups(job)[job.root]
    if not KINDS[job.spec.kind].migrates and job.nodes & nodes.mask == 1 << root:
        where = state.nodes.hosts([root])
        return f"has place {job.root} on {where}, which runs its program: that one stays until the job ends"
    if job.spec.job_class not in MOVING or job.one_world:
        return f"is {job.spec.job_class}"
    if job.ending is not None:
        return "is being ended"
    if not job.accepts_offers:
        return "is not inside its loop"
    return "" if way_off(state, job, nodes.mask, free) is not None else _why_no_way(state, job)


def _why_no_way(state: State, job: ScheduledJob) -> str:
    """Why a job that could be asked can neither go on with fewer nodes nor move off these."""
    migrates = KINDS[job.spec.kind].migrates
    fewer = "cannot have fewer nodes"
    if job.pinned and job.bounds.floor(job.size - 1):
        fewer = f"is pinned to {count(job.size, 'node')} by pliant resize (pliant resize {job.id} auto undoes that)"
    if not migrates:
        return f"{fewer}, and cannot move, as it is of kind {job.spec.kind}"
    if job.stays_put:
        return f"{fewer}, and has declined to move"
    if state.now < job.grow_from:
        return (
            f"{fewer}, and is not moved for {job.grow_from - state.now:.3g} s, as its last resize has failed"
        )
    return f"{fewer}, and none is free that it could move to"


def way_off(state: State, job: ScheduledJob, nodes: int, free: int) -> WayOff | None:
    """How the job could leave as many of ``nodes`` as possible where ``free`` others are; None if it can leave none.

    A size that an operator has ordered stays as it is.
    """
    held = job.nodes & without(nodes, state.nodes.lost_mask)
    if not KINDS[job.spec.kind].migrates:
        free = 0
        held &= ~(1 << state.groups(job)[job.root])  # the root of such a job cannot leave
    elif job.stays_put or state.now < job.grow_from:
        free = 0  # it has declined to move, or its newcomers keep failing
    for left in range(held.bit_count(), 0, -1):
        size = job.bounds.floor(job.size - left + min(free, left))
        if size and (size == job.size or not job.pinned):
            return WayOff(size, NodeSet(lowest_bits(held, left)))
    return None


def leaves_at(state: State, job: ScheduledJob, until: float) -> float:
    """From when on the job is asked to leave nodes that expire then: not before its end, if it expects that in time."""
    settings = state.settings
    at = end_of(until, settings)
    since = at - leaving_s(settings) - placing.STEPS * job.gap
    in_time = not job.spec.may_outlast and state.now < job.expected_end <= at + ROUNDING_S
    return max(since, job.expected_end + ROUNDING_S) if in_time else since


def to_leave(state: State) -> Iterable[tuple[ScheduledJob, int]]:
    """The jobs that could be asked to leave nodes which are asked back or expire soon, now or when they have rested,
    with these."""
    asked = state.nodes.reclaimed_mask & ~state.nodes.parked_mask & ~state.nodes.lost_mask
    for _, _, job in list(state.running) if asked or state.nodes.expiry else ():
        willing = (
            job.accepts_offers and job.spec.job_class in MOVING and job.ending is None and job.resize is None
        )
        if willing and (leave := job.nodes & (asked | _soon(state, job)[0])):
            yield job, leave


def _soon(state: State, job: ScheduledJob) -> tuple[int, list[float]]:
    """Those nodes of the job that expire so soon that it should leave them, and by when they do."""
    soon, dates = 0, []
    for until, nodes in state.nodes.expiry.items():
        if job.nodes & nodes and leaves_at(state, job, until) <= state.now:
            soon |= job.nodes & nodes
            dates.append(until)
    return soon, sorted(dates)


def best_way(state: State, job: ScheduledJob) -> tuple[WayOff, int] | None:
    """How the job leaves the most of the nodes that it should, and the nodes it moves to; None if it can leave none."""
    asked = job.nodes & state.nodes.reclaimed_mask
    soon, dates = _soon(state, job)
    for until in reversed(dates):
        free = placing.to_move(state, end_of(until, state.settings), job.size)
        way = way_off(state, job, asked | soon, free.bit_count())
        if way is not None and NodeSet(soon) <= way.leave:
            return way, free
        soon = without(soon, state.nodes.expiry[until])
    free = placing.best(state, min(job.size, state.free)) if state.nodes.expiry else state.nodes.free_mask
    way = way_off(state, job, asked, free.bit_count())
    return None if way is None else (way, free)
