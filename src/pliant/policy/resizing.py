"""Sizes that a resize may lead to, whether a growth pays, and reasons: for all policies that resize."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from pliant.policy.job_view import JobView
from pliant.policy.view import ClusterView, Reason

NO_GAIN: Final = 1e-12
"""A share of the time that a model only seems to save, by rounding: where a resize costs nothing, that would do."""

Limit = Callable[[JobView], int]
"""An allowed size of the job that it shall not pass."""


def smallest(job: JobView) -> int:
    return job.bounds.min


def preferred(job: JobView) -> int:
    return job.bounds.preferred


def largest(job: JobView) -> int:
    return job.bounds.floor(job.bounds.max)


def pays(view: ClusterView, job: JobView, size: int, payback: float) -> bool:
    """Whether the rest of the work saves ``payback`` times what growing to ``size`` takes."""
    cost_s = view.cost.expand_s(job.size, size, job.spec.data_mb)
    gain = 1.0 - job.spec.speed_ratio(size, job.size)
    return gain > NO_GAIN and (job.remaining_s(view.now) - cost_s) * gain > payback * cost_s


def paying(view: ClusterView, job: JobView, payback: float) -> Callable[[int], bool]:
    """``pays`` for many sizes of one job."""
    before, data_mb, cost, left_s = job.size, job.spec.data_mb, view.cost, job.remaining_s(view.now)
    ratio = job.spec.speed_ratios(before)

    def paying_at(size: int) -> bool:
        cost_s = cost.expand_s(before, size, data_mb)
        gain = 1.0 - ratio(size)
        return gain > NO_GAIN and (left_s - cost_s) * gain > payback * cost_s

    return paying_at


def left_figures(job: JobView, left_s: float) -> dict[str, float]:
    """What a reason tells of the ``left_s`` that ``job`` still takes: whether that is known, or by the user's estimate
    alone; nothing if nobody has estimated it."""
    if job.spec.model is not None or job.fraction > 0.0:
        return {"remaining_s": left_s}
    return {} if job.spec.unestimated is True else {"estimated_s": left_s}


def idle_nodes(view: ClusterView, job: JobView) -> Reason:
    """Why a job grows into nodes that nobody waits for."""
    return Reason("idle_nodes", figures=left_figures(job, job.remaining_s(view.now)))


def shrink_reason(head: JobView, saved_s: float) -> Reason:
    """Why a job shrinks for the head of the queue, which starts up to ``saved_s`` sooner then; inf if it could not
    start at all."""
    figures = {"wait_saved_s": saved_s} if saved_s < math.inf else {}
    return Reason("shrink_for_head", for_job=head.id, figures=figures)


def down(job: JobView, size: int, most: int = 0) -> int:
    """An allowed size a little below ``size``, by a sixteenth or ``most`` nodes; 0 if there is none."""
    step = max(1, size >> 4)
    return job.bounds.floor(size - (min(step, most) if most else step)) or job.bounds.floor(size - 1)


def up(job: JobView, size: int, most: int = 0) -> int:
    """An allowed size a little above ``size``, by a sixteenth, but no more than ``most`` nodes; else 0."""
    step = max(1, size >> 4)
    more = job.bounds.floor(size + (min(step, most) if most else step))
    if more <= size:
        more = job.bounds.above(size)
    return 0 if most and more - size > most else more
