"""A process that starts others beside a job, and the root's end of it: the strategy Asynchronous of paper 1, section 2.

MPI_Comm_spawn returns when what it has started has initialised MPI, and nothing else can be done in MPI meanwhile: a
thread of MPICH that is in it keeps the lock that every other call of its process needs (measured: 217 to 351 ms of 272
to 404). So the job's root has a process of its own for it, which it has started when it began. No thread is needed.
"""

from __future__ import annotations

from collections.abc import Callable

from pliant.job.spawning import messages as m
from pliant.job.spawning import operations as o
from pliant.job.spawning.clock import Clock
from pliant.job.spawning.kin import Kin, patience
from pliant.job.spawning.sources import Arrivals, bring

# ---- the root's end: one order at a time ------------------------------------------------------------


def order(comm: o.Comm, briefing: m.Briefing) -> o.Steps[m.Order]:
    """Have newcomers started by the process behind ``comm``; it is not waited for."""
    port: str = yield o.OpenPort()
    given = m.Order(briefing, port)
    sent = yield o.Send(comm, 0, given)
    yield o.Await(sent, "an order to the process that starts others")
    return given


def arrivals(comm: o.Comm, given: m.Order) -> o.Steps[Arrivals]:
    """What has come of them, when that is known."""
    briefing = given.briefing
    assert briefing is not None  # noqa: S101 - they were ordered
    share = patience(briefing.plan())
    (outcome,) = yield o.Receive(((comm, 0),), m.Outcome, "the newcomers to join", share=share)
    return Arrivals(briefing.epoch, given.port, outcome, starter=comm)


def give_up(comm: o.Comm, given: m.Order) -> o.Steps[None]:
    """Nobody waits any more for the newcomers that were ordered: they go again."""
    there = yield from arrivals(comm, given)
    yield o.ClosePort(there.port)
    if there.outcome is not None and not there.outcome.error:
        yield from there.call(go=False)


def end(comm: o.Comm, *, last: bool) -> o.Steps[bool]:
    """The process ends; no order is open. At the ``last`` end, that of the job: whether some of those that it has
    started stand still."""
    what = "the process that starts others to end"
    sent = yield o.Send(comm, 0, m.Order(last=last))
    yield o.Await(sent, what)
    late = False
    if last:
        # It waits for each of them as long as others wait for it.
        (outcome,) = yield o.Receive(((comm, 0),), m.Outcome, what, limited=False)
        late = bool(outcome.error)
    yield o.Leave((comm,), "leaving the process that starts others")
    return late


# ---- the process itself -----------------------------------------------------------------------------


def serve(root: o.Comm, now: Callable[[], float]) -> o.Steps[None]:
    """Carry out the orders of ``root``, one after the other, until it is to end."""
    late: list[Kin] = []
    while (given := (yield from _next(root))).briefing is not None:
        clock, plan = Clock(now), given.briefing.plan()
        alone: o.Comm = yield o.Alone()
        kin = Kin(alone, given.briefing, None)
        outcome = yield from bring(kin, plan, given.briefing.epoch, given.port, clock)
        yield o.Reach(None)
        sent = yield o.Send(root, 0, outcome)
        yield o.Await(sent, "the job to hear of its newcomers")
        if not outcome.error:
            what = "the job to call its newcomers"
            (come,) = yield o.Receive(((root, 0),), m.Come, what, limited=False)
            sent = yield o.Send(kin.children[0].comm, 0, come)
            yield o.Await(sent, "the newcomers to be called")
            yield from kin.gone()
        else:
            late.append(kin)
    if given.last:
        remain = False
        for kin in late:
            remain |= yield from kin.late()
        sent = yield o.Send(root, 0, m.Outcome("late" if remain else ""))
        yield o.Await(sent, "the job to hear who is late")
    yield o.Leave((root,))


def _next(root: o.Comm) -> o.Steps[m.Order]:
    """It may be long until then, and the job needs the processors."""
    yield o.Nap(root)
    (given,) = yield o.Receive(((root, 0),), m.Order, "an order of the job")
    order_: m.Order = given
    return order_
