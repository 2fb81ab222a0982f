"""The calls of a program that has a loop of its own: check and resize, after the DMR API (Iserte et al. 2018, sections
3 to 5).

Each check is agreed on: all ranks exchange what they are about to do, so that a call by only some of them, or with
other bounds, fails on every rank and changes nothing. A check waits for that before the scheduler is asked. An icheck
asks meanwhile, and reads at the next call what was exchanged: if that fails, nothing comes of what was asked.
"""

from __future__ import annotations

import time
from enum import IntEnum
from zlib import crc32

import numpy as np
from mpi4py import MPI

from pliant.job.asking import SchedulerQuestion
from pliant.job.decisions import Action, Decision
from pliant.job.negotiation import Situation
from pliant.model.errors import PliantError
from pliant.mpi.arguments import RequestedSizes
from pliant.mpi.context import Context
from pliant.mpi.errors import Released
from pliant.mpi.inhibitor import Inhibitor
from pliant.mpi.looking import looping, prepare
from pliant.mpi.loop import ENDLESS, hold, open_to_offers, situation
from pliant.mpi.snapshot import LoopPlace, Snapshot
from pliant.mpi.wait import BRIEF_S, NAP_S, Wait
from pliant.mpi.watching import Watch
from pliant.plan.data.mapping import Mapping, mapping

TIMEOUT_S = 10.0
"""How long a check waits for the scheduler and for newcomers."""
ANSWER_S = 250e-6
"""What the scheduler takes at least for an answer: until then those who wait for it leave the cores to it."""
JOINED, TURNED = 0, 1
"""The turns after a resize, as a watch counts them: the first begins, and is over."""


class CallKind(IntEnum):
    """What a rank is about to do."""

    CHECK = 1
    RESIZE = 2
    END = 3
    ICHECK = 4


CALLS = {
    CallKind.CHECK: "job.check()", CallKind.RESIZE: "job.resize()", CallKind.END: "the end of the block",
    CallKind.ICHECK: "job.icheck()",
}  # fmt: skip


class CallAgreement:
    """What all ranks are about to do, said to all over ``comm`` when it is made, and ``read`` then or at a later call.

    The number of the call, its arguments and what is registered are ``details``. ``word`` is the root's to all: after
    how many calls to ask, 0 for now.
    """

    def __init__(self, comm: MPI.Intracomm, kind: CallKind, *details: int, word: int = 0) -> None:
        self._kind = kind
        mine = np.array([word, kind, *details, *[0] * (3 - len(details))], "i8")
        self._every = np.empty((comm.size, mine.size), "i8")
        self._request = comm.Iallgather(mine, self._every)

    def read(self, wait: Wait) -> int:
        """The root's word. PliantError on all ranks alike unless all do the same. A rank may be in user code for as
        long as it takes; only who has been told of a resize is late."""
        kind = self._kind
        wait.request(
            self._request,
            f"all ranks to come to {CALLS[kind]}",
            limited=kind is CallKind.RESIZE,
            brief_s=NAP_S,
        )
        said = self._every[:, 1:]
        if (said == said[0]).all():
            return int(self._every[0, 0])
        others = [rank for rank, each in enumerate(said) if (each != said[0]).any()]
        there = said[others[0]]
        names = ("kind", "number of the call", "arguments", "registered arrays, values and functions")
        what = [name for name, one, other in zip(names, said[0], there, strict=True) if one != other]
        at = f"rank 0 is at {CALLS[CallKind(said[0][0])]}, rank {others[0]} at {CALLS[CallKind(there[0])]}"
        how = at if what[0] == "kind" else f"{CALLS[kind]} differs in its {' and '.join(what)}"
        raise PliantError(
            f"all ranks call job.check() and job.resize() alike, but ranks {', '.join(map(str, others))} differ from "
            f"rank 0: {how}"
        )


class Question:
    """What an icheck has asked, until it is known what comes of it. ``asking`` is there on a root that has asked."""

    def __init__(self, agreement: CallAgreement, begun: float, timeout_s: float) -> None:
        self.agreement: CallAgreement | None = agreement
        self.begun, self.end, self.timeout_s = begun, begun + timeout_s, timeout_s
        self.asking: SchedulerQuestion | None = None


class Own:
    """A program's own loop, on one rank: its checks are counted in place of steps."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._calls = 0
        self.asked = False
        """Whether the last check was none that the inhibitor answered."""
        self._decision = Decision()
        self._open: Question | None = None
        self._joining = context.team is None
        self._watch = Watch(context)
        self._signature = context.signature()
        if context.watches:
            prepare(looping())
        if self._joining:
            self._take_up(context.resizer.arrive())
        else:
            open_to_offers(context)
        self._inhibitor = Inhibitor(context.inhibit, time.perf_counter())

    def _take_up(self, begin: Snapshot) -> None:
        # The others are behind this check, and the newcomer is before it.
        self._calls = begin.step - 1
        self._watch.begin(JOINED, joined=True, gone=begin.seen)
        self._context.go_on()

    def _say(self, kind: CallKind, *arguments: float, word: int = 0) -> CallAgreement:
        context = self._context
        details = (self._calls, crc32(repr(arguments).encode()), crc32(self._signature.encode()))
        return CallAgreement(context.joined("the job").own, kind, *details, word=word)

    def _compare(self, agreement: CallAgreement) -> int:
        """The root's word to a call that has been counted; one that fails is not, as some may have resized instead."""
        try:
            return agreement.read(self._context.wait)
        except PliantError:
            self._calls -= 1
            raise

    # ---- checks -------------------------------------------------------------------------------------

    def check(self, wish: RequestedSizes, timeout_s: float) -> Action:
        """Ask, and wait for the answer; collective. The first check of a newcomer is the one it was joined at. Where an
        icheck has asked, wait for the answer to that."""
        if self._joining:
            return self._here()
        self._compare_turns()
        if self._open is not None and (came := self._came(waits=True)) is not None:
            return self._said(came)
        if self._inhibited():
            return Action.NO_ACTION
        self._ask(CallKind.CHECK, wish, timeout_s)
        came = self._came(waits=True)
        if came is None:
            self.asked = False
            return Action.NO_ACTION
        return self._said(came, counted=True)

    def icheck(self, wish: RequestedSizes, timeout_s: float) -> Action:
        """Ask, and say what came of what was asked before; collective, but no rank waits for what another says here."""
        if self._joining:
            return self._here()
        self._compare_turns()
        if self._open is not None and (came := self._came()) is not None and (came.action or self._open):
            return self._said(came)
        if self._inhibited():
            return Action.NO_ACTION
        self._ask(CallKind.ICHECK, wish, timeout_s)
        return Action.NO_ACTION

    def _ask(self, kind: CallKind, wish: RequestedSizes, timeout_s: float) -> None:
        """Compare the call on all ranks, and ask the scheduler meanwhile: nothing comes of it where they differ."""
        context = self._context
        if self._decision.action is not Action.NO_ACTION:
            self._unfollowed(kind, wish, timeout_s)
        self._calls += 1
        now = time.perf_counter()
        word = self._inhibitor.look(now) if context.speaks else 0
        agreement = self._say(kind, *wish, timeout_s, word=word)
        allowed = context.bounds if context.agreed is None else context.agreed
        try:
            bounds = wish.within(allowed, f"job.{kind.name.lower()}")
        except ValueError:
            self._compare(agreement)  # where others have asked for something else they are told that
            raise
        question = self._open = Question(agreement, now, timeout_s)
        if context.speaks and not word and context.negotiation is not None:
            prefers = wish.preferred > 0
            question.asking = SchedulerQuestion(
                context.negotiation, self._situation(), bounds, prefers=prefers
            )
            question.asking.ask()

    def _here(self) -> Action:
        """The call at which a newcomer was joined."""
        self._joining = False
        self._calls += 1
        if self._watch.due == JOINED:
            self._watch.turn()
        return Action.NO_ACTION

    def _compare_turns(self) -> None:
        """The first turn after a resize is over, if it is that: see :class:`Watch`."""
        if self._watch.due == TURNED:
            self._watch.turn()

    def _inhibited(self) -> bool:
        """Whether nothing is asked at this call, by what was agreed on; it is counted then."""
        self.asked = self._decision.action is not Action.NO_ACTION or not self._inhibitor.holds()
        if self.asked:
            return False
        self._calls += 1
        context = self._context
        if context.connection is not None and context.speaks:
            context.connection.poll()
            if context.connection.session.inbox:
                hold(context, self._situation(), self._inhibitor.rest_s(time.perf_counter()))
        return True

    def _unfollowed(self, kind: CallKind, wish: RequestedSizes, timeout_s: float) -> None:
        """PliantError on all ranks: the resize that was said has not been done."""
        self._calls += 1
        self._compare(self._say(kind, *wish, timeout_s))
        raise PliantError(
            f"the check before said {self._decision.action.name}, and job.resize() was not called: call it "
            f"before the next {CALLS[kind]}"
        )

    def _said(self, decision: Decision, *, counted: bool = False) -> Action:
        if not counted:
            self._calls += 1
            self._inhibitor.skip()
        self._decision = decision
        return decision.action

    def _told(self, said: Decision) -> Decision:
        """What the root has decided, on all ranks."""
        buffer = bytearray(said.pack())
        context = self._context
        request = context.joined("the job").own.Ibcast([buffer, len(buffer), MPI.BYTE], root=0)
        context.wait.request(request, "the root's decision", limited=False, brief_s=ANSWER_S)
        return Decision.unpack(buffer)

    def _came(self, *, waits: bool = False, dropped: bool = False) -> Decision | None:
        """What has come of the open question; None if the root did not ask. It stays open while that is not known.

        PliantError on all ranks if they have not asked alike: then nothing comes of it.
        """
        question = self._open
        if question is None:
            return None
        if question.agreement is not None:
            if waits and question.asking is not None:
                self._hears()
            agreement, question.agreement = question.agreement, None
            try:
                word = self._compare(agreement)
            except PliantError:
                self._open = None
                self._call_off(question.asking, "the ranks have not asked alike")
                raise
            if word:
                self._open = None
                self._inhibitor.take(word)
                return None
            self._inhibitor.restart(question.begun)
            if waits:  # the others may have been in user code
                question.end += time.perf_counter() - question.begun
        said = self._told(Decision(lag=0) if dropped else self._found(question, waits=waits))
        if not said.lag:
            self._open = None
        return said

    def _hears(self) -> None:
        """On the root: wait as long as the scheduler's first word may take, asleep; the other ranks' is there then."""
        if (connection := self._context.connection) is not None:
            inbox, end = connection.session.inbox, time.perf_counter() + BRIEF_S
            connection.wait(
                lambda: bool(inbox) or time.perf_counter() > end, "the scheduler's answer", limited=False
            )

    def _found(self, question: Question, *, waits: bool) -> Decision:
        """The root's: what the scheduler has said so far. Its lag is 1 while more is to come."""
        connection, asking = self._context.connection, question.asking
        if connection is None or asking is None:
            return Decision(lag=0)
        over = False

        def known() -> bool:
            nonlocal over
            over = asking.answered()
            return over or time.perf_counter() > question.end

        if waits:
            connection.wait(known, "the scheduler's answer", limited=False)
        else:
            connection.poll()
            before = asking.negotiation.resize
            known()
            if asking.negotiation.resize != before:  # accepted now, so that newcomers begin to come now
                question.end = max(question.end, time.perf_counter() + question.timeout_s)
        if not over and time.perf_counter() > question.end:
            late = "its newcomers did not come" if asking.negotiation.resize else "it was not answered"
            asking.give_up(f"{late} within the {question.timeout_s:g} s of job.check()")
            over = True
        return asking.decision._replace(lag=int(not over))

    def _call_off(self, asking: SchedulerQuestion | None, why: str) -> None:
        """On the root: what has been asked is not wanted. Wait for the answer, as nodes are held back for it."""
        context = self._context
        if asking is None or context.connection is None:
            return
        asking.give_up(why)
        negotiation, end = asking.negotiation, time.perf_counter() + TIMEOUT_S
        inbox = context.connection.session.inbox
        context.connection.wait(
            lambda: not negotiation.asked or bool(inbox) or time.perf_counter() > end,
            "the scheduler's answer", limited=False,
        )  # fmt: skip
        negotiation.answer(asking.now)

    def _situation(self) -> Situation:
        return situation(self._context, ENDLESS, 1, self._signature, sleeps=False)

    # ---- resizes ------------------------------------------------------------------------------------

    def resize(self, action: Action) -> Mapping:
        """Do what the last check said; collective. Released on ranks that leave."""
        context = self._context
        self._compare_turns()
        asking = self._open.asking if self._open is not None else None
        self._came(dropped=True)
        if asking is not None:  # the last check has said nothing yet, so this is an error
            asking.give_up("job.resize() was called before job.icheck() had an answer")
        self._say(CallKind.RESIZE, action).read(context.wait)
        decision = self._decision
        if action is Action.NO_ACTION or action is not decision.action:
            given = action.name if isinstance(action, Action) else repr(action)
            raise PliantError(
                f"job.resize({given}): the last check said {decision.action.name}; pass what job.check() "
                "returned, once, and nothing if that is NO_ACTION"
            )
        self._decision = Decision()
        before = context.joined("job.resize").own
        size, rank = before.size, before.rank
        snapshot = context.snapshot(self._calls, LoopPlace(0, 0, ENDLESS), 0.0, 0.0)
        snapshot = snapshot._replace(seen=self._watch.before())
        resized = context.resizer.perform(decision, self._situation(), snapshot, steps=False)
        if context.released:
            raise Released
        if context.stopped:
            context.go_on()
        if resized:
            self._watch.begin(JOINED, joined=False)
        if self._watch.due == JOINED:
            self._watch.turn()
        self._inhibitor.restart(time.perf_counter())
        after = context.joined("job.resize").own
        return mapping(size, rank, after.size, after.rank, done=resized)

    def settle(self) -> None:
        """The block is over on all ranks; collective."""
        self._watch.end()
        self._came(dropped=True)
        settle(self._context)
        context = self._context
        if context.speaks and context.connection is not None and context.negotiation is not None:
            context.connection.poll()
            context.negotiation.end(context.epoch)


def settle(context: Context) -> None:
    """All ranks have come to the end of the block, and none is in a check; collective."""
    CallAgreement(context.joined("the end of the job").own, CallKind.END).read(context.wait)
