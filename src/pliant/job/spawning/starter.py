"""A process that starts others beside a job, and the root's end of it: the strategy Asynchronous of Martín-Álvarez et
al. 2025, section 2.

MPI_Comm_spawn returns when what it has started has initialised MPI, and nothing else can be done in MPI meanwhile: a
thread of MPICH that is in it keeps the lock that every other call of its process needs (measured: 217 to 351 ms of 272
to 404). So the job's root has a process of its own for it, which it has started when it began. No thread is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pliant.job.errors import Stalled
from pliant.job.spawning import messages as m
from pliant.job.spawning import operations as o
from pliant.job.spawning.clock import PhaseClock
from pliant.job.spawning.sources import Arrivals, bring
from pliant.job.spawning.spawn_tree import SpawnTreeNode, patience

# ---- the root's end: one order at a time ------------------------------------------------------------


TOO_LATE = m.Outcome("the newcomers have come when nobody waited for them any more")


class Ordered(NamedTuple):
    """Newcomers that are being started by another process, if it has heard of that (``sent``)."""

    briefing: m.Briefing
    port: str
    sent: o.Pending


def order(comm: o.Comm, briefing: m.Briefing) -> o.Steps[Ordered]:
    """Have newcomers started by the process behind ``comm``; it is not waited for, nor that it hears of it."""
    port: str = yield o.OpenPort()
    sent = yield o.Send(comm, 0, m.Order(briefing, port))
    return Ordered(briefing, port, sent)


def arrivals(comm: o.Comm, ordered: Ordered) -> o.Steps[Arrivals]:
    """What has come of them, when that is known. Of a process that says nothing of them they are not to be had: the job
    needs it for nothing else, and goes on without it."""
    briefing, port, sent = ordered
    share = patience(briefing.plan())
    try:
        (outcome,) = yield o.Receive(((comm, 0),), m.Outcome, "the newcomers to join", share=share)
    except Stalled as error:
        silent = m.Outcome(f"the process that starts others says nothing: {error}")
        return Arrivals(briefing.epoch, port, silent, starter=comm, lost=True)
    yield o.Await(sent, "an order to the process that starts others")
    return Arrivals(briefing.epoch, port, outcome, starter=comm)


def give_up(comm: o.Comm, ordered: Ordered) -> o.Steps[Arrivals]:
    """Nobody waits any more for the newcomers that were ordered: they go again, which is what has come of them."""
    there = yield from arrivals(comm, ordered)
    yield o.ClosePort(there.port)
    if there.outcome is not None and not there.outcome.error:
        yield from there.call(go=False)
        return there._replace(outcome=TOO_LATE)
    return there


def end(comm: o.Comm, *, last: bool, failed: int = 0) -> o.Steps[bool]:
    """The process ends; no order is open, and of ``failed`` of them newcomers were called off. Whether it stands still;
    at the ``last`` end, that of the job, or some of those that it has started."""
    what, late = "the process that starts others to end", False
    try:
        yield o.Await((yield o.Send(comm, 0, m.Order(last=last))), what)
        if last:
            # It has a deadline for those of each order that were called off, and is waited for a while longer.
            (outcome,) = yield o.Receive(((comm, 0),), m.Outcome, what, share=failed + 2)
            late = bool(outcome.error)
        yield o.Await((yield o.Part(comm)), what)
    except Stalled:
        return True
    yield o.Leave((comm,), "leaving the process that starts others")
    return late


# ---- the process itself -----------------------------------------------------------------------------


def serve(root: o.Comm, now: Callable[[], float]) -> o.Steps[None]:
    """Carry out the orders of ``root``, one after the other, until it is to end."""
    late: list[SpawnTreeNode] = []
    while (given := (yield from _next(root))).briefing is not None:
        clock, plan = PhaseClock(now), given.briefing.plan()
        alone: o.Comm = yield o.Alone()
        kin = SpawnTreeNode(alone, given.briefing, None)
        outcome = yield from bring(kin, plan, given.briefing.epoch, given.port, clock)
        yield o.Reach(None)
        sent = yield o.Send(root, 0, outcome)
        yield o.Await(sent, "the job to hear of its newcomers")
        if not outcome.error:
            what = "the job to call its newcomers"
            (come,) = yield o.Receive(((root, 0),), m.Come, what, limited=False)
            sent = yield o.Send(kin.children[0].comm, 0, come)
            yield o.Await(sent, "the newcomers to be called")
            if come.go:
                yield from kin.gone()
                continue
            yield from kin.call_off(m.Verdict(TOO_LATE.error))
        late.append(kin)
    if given.last:
        remain = False
        for kin in late:
            remain |= yield from kin.late()
        sent = yield o.Send(root, 0, m.Outcome("late" if remain else ""))
        yield o.Await(sent, "the job to hear who is late")
    yield o.Await((yield o.Part(root)), "the job to part", limited=False)
    yield o.Leave((root,))


def _next(root: o.Comm) -> o.Steps[m.Order]:
    """It may be long until then, and the job needs the processors."""
    yield o.Nap(root)
    (given,) = yield o.Receive(((root, 0),), m.Order, "an order of the job")
    order_: m.Order = given
    return order_
