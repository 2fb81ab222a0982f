"""What people are told of the end of the nodes' time, and when. What follows from it, `core/term.py` decides."""

from __future__ import annotations

from collections.abc import Iterator

from pliant.core import records as r
from pliant.core.settings import NEVER, Settings
from pliant.core.state import State
from pliant.core.term import end_of
from pliant.live.cluster import orders as o

KEY = "term"
WARNING_S = 300.0
"""So long before jobs are ended people are warned."""


def is_over(state: State, now: float) -> bool:
    return state.nodes.until != NEVER and now >= end_of(state.nodes.until, state.settings)


def granted(until: float, now: float, settings: Settings) -> Iterator[o.Output]:
    """The nodes are there until then."""
    end = end_of(until, settings)
    yield o.Notice(
        f"the nodes are there for {_minutes(until - now)}: what runs {until - end:g} s before that is ended then, "
        "as TIMEOUT"
    )
    yield o.SetTimer((KEY,), max(now, end - WARNING_S if end - WARNING_S > now else end))


def fired(state: State, now: float) -> Iterator[o.Output]:
    """It is time to warn, or to end: then the core has seen to that, if the time has really come."""
    if state.nodes.until == NEVER or is_over(state, now):
        return
    end = end_of(state.nodes.until, state.settings)
    if now >= end - WARNING_S and (running := len(state.running)):
        jobs = "1 job that runs" if running == 1 else f"{running} jobs that run"
        yield o.Notice(
            f"the nodes' time is over soon: in {_minutes(end - now)} {jobs} will be ended, as TIMEOUT"
        )
    yield o.SetTimer((KEY,), end)


def doubts(state: State, record: r.Record) -> Iterator[o.Output]:
    """Where a job was started that will not end in time at this size, as far as anybody knows."""
    if state.nodes.until == NEVER or not isinstance(record, r.JobStarted):
        return
    job = state.jobs[record.job]
    late = job.expected_end - end_of(state.nodes.until, state.settings)
    if late <= 0 or job.spec.unestimated is True:
        return
    nodes = "1 node" if job.size == 1 else f"{job.size} nodes"
    yield o.Notice(
        f"{job.spec.name} has started on {nodes}, where by its estimate it ends {_minutes(late)} too late for these "
        "nodes: it will be ended unless it is quicker or grows"
    )


def _minutes(seconds: float) -> str:
    minutes, rest = divmod(round(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
