"""Wishes of jobs that stay open: what could not be met when it was asked for, and is offered as soon as it can be.

The policy comes first: they get nodes that are left when it has decided, and none while a job waits, so that they
delay nobody's start. Between two offers lies what lies between any two: the cool-down after one that was declined,
failed or done.
"""

from __future__ import annotations

from collections.abc import Iterator

from pliant.core.job import ScheduledJob
from pliant.core.state import State
from pliant.model.jobs import JobClass
from pliant.model.size_request import SizeRequest


def stays_open(job: ScheduledJob, wish: SizeRequest) -> bool:
    """Whether there is something left to be offered to the job by this wish, now or later."""
    return (
        job.accepts_offers and job.spec.job_class is not JobClass.RIGID and not wish.met(job.bounds, job.size)
    )


def to_grant(state: State) -> Iterator[tuple[ScheduledJob, int]]:
    """The jobs whose open wishes bring them to another size now, with that size; each is offered it before the next."""
    for number in sorted(state.wishing):
        job = state.wishing[number]
        if job.wish is None or not state.resizable(job):
            continue
        grows = not state.waiting and state.now >= job.grow_from
        free = state.free if grows else 0
        size = job.wish.goal(job.bounds, job.size, free)
        if size != job.size and size - job.size <= free:
            yield job, size


def rests(state: State) -> Iterator[float]:
    """When jobs with open wishes may be offered a resize again, or one to grow."""
    for job in state.wishing.values():
        yield from (at for at in (job.not_before, job.grow_from) if at > state.now)
