"""The calls of a program that has a loop of its own: check and resize, after the DMR API (paper 3, sections 3 to 5).

Each check is agreed on: before the scheduler is asked for anything all ranks exchange what they are about to do, so
that a call by only some of them, or with other bounds, fails on every rank and changes nothing.
"""

from __future__ import annotations

import time
from enum import IntEnum
from typing import NamedTuple
from zlib import crc32

import numpy as np
from mpi4py import MPI

from pliant.job.decisions import Action, Decision
from pliant.job.negotiation import Negotiation, Situation
from pliant.model.errors import PliantError
from pliant.model.jobs import Bounds
from pliant.mpi.context import Context, Snapshot
from pliant.mpi.errors import Released
from pliant.mpi.loop import arrive, can_grow, situation
from pliant.mpi.resizing import resize
from pliant.mpi.wait import Wait
from pliant.plan.data.mapping import Mapping, mapping

TIMEOUT_S = 10.0
"""How long a check waits for the scheduler and for newcomers."""
ENDLESS = 1 << 30
"""Steps that are left in a loop of which nobody knows the end."""


class Kind(IntEnum):
    """What a rank is about to do."""

    CHECK = 1
    RESIZE = 2
    END = 3


CALLS = {Kind.CHECK: "job.check()", Kind.RESIZE: "job.resize()", Kind.END: "the end of the block"}


class Wish(NamedTuple):
    """What a check was called with, in nodes; 0: what the job allows."""

    min: int = 0
    max: int = 0
    factor: int = 0
    preferred: int = 0

    def within(self, allowed: Bounds) -> Bounds:
        """The bounds to ask for. ValueError if none of the sizes that are ``allowed`` is in them."""
        wish = Bounds(
            self.min or allowed.min, self.max or allowed.max, self.factor or allowed.factor, self.preferred
        )
        if not allowed.nearest(allowed.min, wish.min, wish.max):
            raise ValueError(
                f"job.check: none of the job's sizes ({allowed.describe()}) is from {wish.min} to {wish.max} nodes"
            )
        return wish


def concur(comm: MPI.Intracomm, wait: Wait, kind: Kind, *details: int) -> None:
    """PliantError on all ranks alike unless all do the same: the number of the call, its arguments and what is
    registered are ``details``. A rank may be in user code for as long as it takes; only who has been told of a resize
    is late."""
    mine = np.array([kind, *details, *[0] * (3 - len(details))], "i8")
    every = np.empty((comm.size, mine.size), "i8")
    wait.request(
        comm.Iallgather(mine, every), f"all ranks to come to {CALLS[kind]}", limited=kind is Kind.RESIZE
    )
    if (every == every[0]).all():
        return
    others = [rank for rank, each in enumerate(every) if (each != every[0]).any()]
    there = every[others[0]]
    names = ("kind", "number of the call", "arguments", "registered arrays and values")
    what = [name for name, one, other in zip(names, every[0], there, strict=True) if one != other]
    at = f"rank 0 is at {CALLS[Kind(every[0][0])]}, rank {others[0]} at {CALLS[Kind(there[0])]}"
    how = at if what[0] == "kind" else f"{CALLS[kind]} differs in its {' and '.join(what)}"
    raise PliantError(
        f"all ranks call job.check() and job.resize() alike, but ranks {', '.join(map(str, others))} differ from "
        f"rank 0: {how}"
    )


class Own:
    """A program's own loop, on one rank: its checks are counted in place of steps."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._calls = 0
        self._decision = Decision()
        self._joining = context.team is None
        self._signature = context.signature()
        if self._joining:
            self._take_up(arrive(context))
        elif context.speaks and context.negotiation is not None and can_grow():
            context.negotiation.begin(context.epoch)

    def _take_up(self, begin: Snapshot) -> None:
        # The others are behind this check, and the newcomer is before it.
        self._calls = begin.step - 1
        self._context.go_on()

    def _concur(self, kind: Kind, *arguments: int) -> None:
        context = self._context
        details = (self._calls, crc32(repr(arguments).encode()), crc32(self._signature.encode()))
        concur(context.joined("the job").own, context.wait, kind, *details)

    def check(self, wish: Wish, timeout_s: float) -> Action:
        """Ask, and wait for the answer; collective. The first check of a newcomer is the one it was joined at."""
        self._calls += 1
        if self._joining:
            self._joining = False
            return Action.NO_ACTION
        self._concur(Kind.CHECK, *wish)
        context = self._context
        if self._decision.action is not Action.NO_ACTION:
            raise PliantError(
                f"the check before said {self._decision.action.name}, and job.resize() was not called: call it "
                "before the next job.check()"
            )
        bounds = wish.within(context.bounds if context.agreed is None else context.agreed)
        said = self._ask(bounds, timeout_s) if context.speaks else Decision()
        buffer = bytearray(said.pack())
        request = context.joined("the job").own.Ibcast([buffer, len(buffer), MPI.BYTE], root=0)
        context.wait.request(request, "the root's decision", limited=False)
        self._decision = Decision.unpack(buffer)
        return self._decision.action

    def _ask(self, bounds: Bounds, timeout_s: float) -> Decision:
        """The root's: what the scheduler says to ``bounds``, when newcomers are there if there are any."""
        context = self._context
        connection, negotiation = context.connection, context.negotiation
        if connection is None or negotiation is None:
            return Decision()
        asking = Asking(negotiation, self._situation(), bounds)
        end = time.perf_counter() + timeout_s
        connection.wait(
            lambda: asking.answered() or time.perf_counter() > end, "the scheduler's answer", limited=False
        )
        if asking.decision.action is Action.NO_ACTION and negotiation.resize:
            why = f"its newcomers did not come within the {timeout_s:g} s of job.check()"
            negotiation.confirm(negotiation.resize, asking.now, why)
        return asking.decision

    def _situation(self) -> Situation:
        return situation(self._context, ENDLESS, 1, self._signature, sleeps=False)

    def resize(self, action: Action) -> Mapping:
        """Do what the last check said; collective. Released on ranks that leave."""
        self._concur(Kind.RESIZE, action)
        context, decision = self._context, self._decision
        if action is Action.NO_ACTION or action is not decision.action:
            raise PliantError(
                f"job.resize({action.name}): the last check said {decision.action.name}; pass what job.check() "
                "returned, once, and nothing if that is NO_ACTION"
            )
        self._decision = Decision()
        before = context.joined("job.resize").own
        size, rank = before.size, before.rank
        snapshot = context.snapshot(self._calls, self._calls, 1, 0.0, 0.0)
        resized = resize.perform(context, decision, self._situation(), snapshot)
        if context.released:
            raise Released
        if context.stopped:
            context.go_on()
        after = context.joined("job.resize").own
        return mapping(size, rank, after.size, after.rank, done=resized)

    def settle(self) -> None:
        """The block is over on all ranks; collective."""
        settle(self._context)
        context = self._context
        if context.speaks and context.connection is not None and context.negotiation is not None:
            context.connection.poll()
            context.negotiation.end(context.epoch)


def settle(context: Context) -> None:
    """All ranks have come to the end of the block, and none is in a check; collective."""
    concur(context.joined("the end of the job").own, context.wait, Kind.END)


class Asking:
    """A question to the scheduler, until it is ``answered``: by an action that can begin, or that nothing follows."""

    def __init__(self, negotiation: Negotiation, now: Situation, bounds: Bounds) -> None:
        self.now = now
        self.decision = Decision()
        self._negotiation = negotiation
        self._bounds = bounds
        self._sent = False

    def answered(self) -> bool:
        """Take in what has come; what the scheduler asks for by itself is an answer as well."""
        negotiation = self._negotiation
        negotiation.answer(self.now)
        if not self._sent:
            self._sent = negotiation.want(self.now.epoch, self._bounds)
        self.decision = negotiation.decide(self.now)
        return self.decision.action is not Action.NO_ACTION or not (negotiation.asked or negotiation.resize)
