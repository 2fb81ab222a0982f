"""What people are told of the end of nodes, and when. What follows from it, `core/term.py` decides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pliant.core import records as r
from pliant.core.settings import NEVER, end_of
from pliant.core.state import State
from pliant.live.cluster import orders as o
from pliant.model.nodes import NodeSet, hostlist

KEY = "term"
WARNING_S = 300.0
"""So long before jobs are ended people are warned."""
LATE_S = 1.0
"""A timer fires so soon."""


def is_over(state: State, now: float) -> bool:
    """Whether no node is left, and none will come."""
    over = state.nodes.until != NEVER and now >= end_of(state.nodes.until, state.settings)
    return over and not state.nodes.awaited and state.settings.pool is None


def granted(until: float, names: Sequence[str], state: State, now: float) -> Iterator[o.Output]:
    """Nodes are there until then: those of these names, or all."""
    end = end_of(until, state.settings)
    others = {state.nodes.names[node] for node in NodeSet(state.nodes.all_mask)} - set(names)
    which = f"{hostlist(names)} {'is' if len(names) == 1 else 'are'}" if names and others else "the nodes are"
    yield o.Notice(
        f"{which} there for {_minutes(until - now)}: what runs {until - end:g} s before that is ended then, "
        "as TIMEOUT"
    )
    yield from timer(state, now, until)


def timer(state: State, now: float, *more: float) -> Iterator[o.Output]:
    """When the next warning or end is due; ``more`` ends the state does not know yet."""
    wake = NEVER
    for until in (*state.nodes.expiry, *more):
        end = end_of(until, state.settings)
        at = end - WARNING_S if end - WARNING_S > now else end
        if at > now or until in more:
            wake = min(wake, max(now, at))
    if wake != NEVER:
        yield o.SetTimer((KEY,), wake)


def fired(state: State, now: float) -> Iterator[o.Output]:
    """It is time to warn, or to end: then the core has seen to that, if the time has really come."""
    warned = 0
    for until, nodes in state.nodes.expiry.items():
        if 0.0 <= now - (end_of(until, state.settings) - WARNING_S) < LATE_S:
            warned |= nodes
    if running := sum(1 for _, _, job in state.running if job.nodes & warned):
        jobs = "1 job that runs" if running == 1 else f"{running} jobs that run"
        whose = (
            "the nodes' time"
            if warned == state.nodes.all_mask
            else f"the time of {state.nodes.hosts(NodeSet(warned))}"
        )
        yield o.Notice(f"{whose} is over soon: in {_minutes(WARNING_S)} {jobs} will be ended, as TIMEOUT")
    yield from timer(state, now)


def doubts(state: State, record: r.Record) -> Iterator[o.Output]:
    """Where a job was started that will not end in time at this size, as far as anybody knows."""
    if not state.nodes.expiry or not isinstance(record, r.JobStarted):
        return
    job = state.jobs[record.job]
    late = job.expected_end - state.nodes.end_on(job.nodes)
    if late <= 0 or job.spec.may_outlast:
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
