"""The steps of a malleable loop: join, pace, check, resize, report."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from zlib import crc32

import numpy as np
from mpi4py import MPI

from pliant.job import environment
from pliant.job.decisions import Action, Decision
from pliant.job.negotiation import Situation
from pliant.model.errors import PliantError
from pliant.model.jobs import Bounds
from pliant.model.speedup import Model
from pliant.mpi import abilities
from pliant.mpi.context import MAX_NODES, Context
from pliant.mpi.errors import Released
from pliant.mpi.leaving import LeavingRanks
from pliant.mpi.pace import Pace, Totals
from pliant.mpi.resizer import say
from pliant.mpi.snapshot import LoopPlace, Snapshot
from pliant.mpi.stalling import Stalling
from pliant.mpi.watching import Watch
from pliant.plan.choose import by_agent
from pliant.protocol.messages import Drain, Offer, Progress, Withdraw

REPORT_S = 1.0
SHORT_S = 5.0
"""Between two checks: where they are further apart, constant data do not move beside the steps, which would take two
checks more."""
ENDLESS = 1 << 62
"""The length of a loop without an end: more steps than a job can make."""
LOOK_S = 50e-3
"""How often a step that is no check sees whether something has come, such as the loss of a group."""


def agree(context: Context) -> None:
    """PliantError on all ranks alike if they have not registered the same; collective over the job.

    A job that cannot be resized is let be: none of its ranks waits for another in its loop.
    """
    if not context.resizer.resizes:
        return
    own, mine = context.joined("the job").own, context.signature()
    every = np.empty(own.size, "u4")
    request = own.Iallgather(np.array([crc32(mine.encode())], "u4"), every)
    context.wait.request(request, "what all ranks have registered", limited=False)
    if others := [rank for rank, each in enumerate(every) if each != every[0]]:
        raise PliantError(
            f"the ranks have not registered the same data: {'those of rank' if len(others) == 1 else 'those of ranks'} "
            f"{', '.join(map(str, others))} differ from those of rank 0; here, on rank {own.rank}, there are {mine}"
        )


def can_grow() -> bool:
    """Whether newcomers could be joined; the scheduler is not told of a job to which that cannot be done."""
    try:
        by_agent(abilities.find([]))
    except ValueError as error:
        say(f"the job keeps its size: {error}")
        return False
    return True


def open_to_offers(context: Context) -> None:
    """On the root: the loop begins. The scheduler is told how far the job can grow, as its arrays are known by now; of
    one that cannot be joined it is told nothing."""
    if context.speaks and context.negotiation is not None and can_grow():
        most = _most_nodes(context)
        context.negotiation.begin(context.epoch, most if most < MAX_NODES else 0)


def _most_nodes(context: Context) -> int:
    # Newcomers have all slots of their nodes; of the root's group some may sleep.
    first, *others = context.joined("the job").awake.values()
    return context.most_nodes(max(first + len(context.sleepers), *others, 1))


def situation(context: Context, left: int, lag: int, signature: str, *, sleeps: bool = True) -> Situation:
    """Where the job stands, for the root's answers, with so many steps ``left``."""
    team = context.joined("the job")
    return Situation(context.epoch, team.groups, left, lag, _most_nodes(context), signature, sleeps)


def hold(context: Context, now: Situation, rest_s: float) -> None:
    """On the root of a job that is to take up no offer for ``rest_s``: one waits for that, but is declined if its
    deadline would not, or the scheduler has taken it back."""
    connection, negotiation = context.connection, context.negotiation
    if connection is None or negotiation is None:
        return
    inbox = connection.session.inbox
    offers = [message for message in inbox if isinstance(message, Offer)]
    if any(offer.deadline_s < rest_s for offer in offers) or any(
        isinstance(each, Withdraw) for each in inbox
    ):
        why = f"the job looks for offers again in {rest_s:.3g} s: its inhibitor (PLIANT_INHIBIT)"
        negotiation.answer(now._replace(inhibited=why))


class _Elsewhere(Exception):  # noqa: N818 - nothing is wrong
    """This rank has slept, and the job is in another loop now."""


class Loop:
    """One ``steps()`` loop, at this ``place`` in its block; steps are counted over all loops. A rank that joins gets
    the job's state to ``begin`` with. ``over``: it has been left."""

    def __init__(
        self, context: Context, place: LoopPlace, model: Model | None, begin: Snapshot | None
    ) -> None:
        self._context = context
        self.place = place if begin is None else begin.loop
        self.step = self.place.first if begin is None else begin.step
        self.over = False
        self._pace = Pace(model, self.place.stop - self.place.first)
        self._wish: Bounds | None = None
        self._keep = False
        self._left_open = False
        """Whether one that stays open was asked for: the next takes its place, whatever the size is then."""
        self._resizing = False
        """Whether the ranks have stopped for a resize that is not over."""
        self._speaks = context.speaks
        if begin:
            self._pace.totals = Totals(begin.should_s, begin.paced_s)
        self._left: LeavingRanks | None = None
        self._watch = Watch(context)
        if begin:
            self._watch.begin(self.step, joined=True, gone=begin.seen)
        self._begun = self.step, time.perf_counter()
        self._reported = self._look_at = time.perf_counter()
        self._stalling: Stalling | None = None
        self._signature = context.signature()
        self._start_epoch(self.step + (begin is not None))
        if not begin:
            open_to_offers(context)
            if self._endless:  # what is known is of the loop before
                self._tell(0.0, 0.0, 0.0)

    def _start_epoch(self, open_step: int) -> None:
        """``open_step``: the first at which something may still be decided where no agent is."""
        context = self._context
        team = context.joined("the job")
        if not (self._keep or self._left_open) or not self._speaks:
            self._wish = None  # it was meant for the size of before, or who spoke has said it
        self._speaks = context.speaks
        self._looked = self.step, time.perf_counter()
        self._pace.begin(self.step, team.nodes, time.perf_counter())
        self._lag = 1  # how long a step takes at this size is not known
        self._checks = context.resizer.checks(self.step, self._lag, open_step)

    def _go_on(self) -> None:
        """After a decision that has left the job as it is: newcomers may be starting beside it."""
        context = self._context
        self._pace.begin(self.step, context.joined("the job").nodes, time.perf_counter())
        self._checks = context.resizer.checks_on(self.step, self._lag)

    def _look_for_stalls(self) -> Stalling | None:
        """None where no other rank could be waited for, or it is not wanted."""
        limit_s, context = environment.stall_s(), self._context
        if not limit_s or not (context.resizer.resizes or context.joined("the job").own.size > 1):
            return None

        def rank() -> int:
            return -1 if context.team is None else context.team.own.rank

        return Stalling(rank, lambda: -1 if self._resizing else self.step, limit_s)

    def run(self) -> Iterator[int]:
        """The steps, each a point where the job may be resized; Released on a rank that leaves."""
        _, first, stop = self.place
        try:
            self._stalling = self._look_for_stalls()
            while self.step < stop:
                self._turn()
                yield self.step - first
                self.step += 1
            self._leave()
            self._watch.end()
            self._context.wait.sleep_until(self._pace.start_of(self.step))
        except _Elsewhere:
            return
        finally:
            self._end()

    def _turn(self) -> None:
        """Everything that happens between two steps of the user. Of most steps that is a look at the clock."""
        if self._pace.paced:
            self._context.wait.sleep_until(self._pace.start_of(self.step))
        due, connection = self.step == self._checks.due, self._context.connection
        if connection is not None and (due or time.perf_counter() >= self._look_at):
            self._look_at = time.perf_counter() + LOOK_S
            connection.poll()
            self._report()
        if self._context.begun is not None:
            self._context.begun.ahead.turn()
        if self.step == self._watch.due:
            self._watch.turn()
        if due:
            decision = self._checks.read()
            self._lag = decision.lag
            if decision.action is not Action.NO_ACTION:
                self._resize(decision)
            self._checks.post(self.step, self._lag, self._decide())

    def request(self, wish: Bounds, *, keep: bool) -> None:
        """Ask for a size within ``wish`` at the next check; one that was not asked for yet is forgotten."""
        self._wish, self._keep = wish, keep

    def _situation(self) -> Situation:
        return situation(self._context, self.place.stop - self.step, self._lag, self._signature)

    def _decide(self) -> Decision:
        if (decision := self._context.resizer.ready()) is not None:
            return decision
        negotiation = self._context.negotiation
        if negotiation is None or not self._context.speaks:
            return Decision()
        if self._wish is None and negotiation.idle and not any(self._context.inhibit):
            return Decision()
        now = self._situation()
        if (rest_s := self._rest_s()) > 0 and not (negotiation.resize or negotiation.asked or self._must()):
            hold(self._context, now, rest_s)
            return Decision()
        self._looked = self.step, time.perf_counter()
        negotiation.answer(now)
        if self._wish is not None and (now.late or negotiation.want(now.epoch, self._wish, self._keep)):
            self._wish, self._left_open = None, self._keep
        if (begun := self._context.begun) is not None:
            return negotiation.finish(now, there=begun.ahead.there)
        return negotiation.decide(now)

    def _must(self) -> bool:
        """The root's: whether a resize has come that cannot be declined."""
        connection = self._context.connection
        return connection is not None and any(isinstance(each, Drain) for each in connection.session.inbox)

    def _rest_s(self) -> float:
        """The root's: for about how long the inhibitor still holds; 0 if it does not."""
        period = self._context.inhibit
        if not (period.seconds or period.steps):
            return 0.0
        step, since = self._looked
        gone_s, done = time.perf_counter() - since, self.step - step
        steps_s = max(0, period.steps - done) * max(gone_s / max(1, done), 1e-9)
        return max(period.seconds - gone_s, steps_s, 0.0)

    def _resize(self, decision: Decision) -> None:
        context = self._context
        self._resizing = True
        self._pace.end(self.step, time.perf_counter())
        totals = self._pace.totals
        snapshot = context.snapshot(self.step, self.place, totals.should_s, totals.paced_s)
        snapshot = snapshot._replace(seen=self._watch.before())
        resized = context.resizer.perform(decision, self._situation(), snapshot, steps=self._are_short())
        woken = context.resizer.woken()
        self._resizing = False
        if context.released:
            raise Released
        if woken is not None and woken.loop != self.place:
            context.begin_catching_up(woken)
            raise _Elsewhere
        if woken is not None:
            self._take_up(woken)
        if resized:
            self._start_epoch(self.step + 1)
        else:
            self._go_on()
        if context.stopped:
            context.go_on()
        if resized:
            gone = None if woken is None else woken.seen
            self._watch.begin(self.step, joined=woken is not None, gone=gone)
            if self.step == self._watch.due:
                self._watch.turn()

    def _are_short(self) -> bool:
        """Whether several checks are over long before a resize has to be."""
        return time.perf_counter() - self._looked[1] < SHORT_S

    def _take_up(self, begin: Snapshot) -> None:
        """A rank that has slept goes on where the job is."""
        self.step = begin.step
        self._pace.totals = Totals(begin.should_s, begin.paced_s)

    @property
    def behind(self) -> int:
        """The first step behind those that were begun."""
        return min(self.step + 1, self.place.stop)

    @property
    def _endless(self) -> bool:
        return self.place.stop - self.place.first >= ENDLESS

    # ---- reports ------------------------------------------------------------------------------------

    def _report(self) -> None:
        now = time.perf_counter()
        if now - self._reported >= REPORT_S:
            self._reported = now
            self._progress(now)

    def _progress(self, now: float) -> None:
        context = self._context
        if context.speaks and context.connection is not None and not self._endless:
            should_s, paced_s = self._pace.sums(self.step, now)
            first, stop = self.place.first, self.place.stop
            self._tell((self.step - first) / (stop - first) if stop > first else 1.0, should_s, paced_s)

    def _tell(self, fraction: float, should_s: float, paced_s: float) -> None:
        context = self._context
        if context.speaks and context.connection is not None:
            context.connection.send(Progress(context.epoch, fraction, pace_s=should_s, paced_s=paced_s))

    def _end(self) -> None:
        """No step will come: what is open fails, and the scheduler learns that it need not ask. Of a job that fails in
        a resize its end says so."""
        self.over = True
        if self._stalling is not None:
            self._stalling.end()
        if self._resizing or MPI.Is_finalized() or self._context.catching_up is not None:
            return
        context = self._context
        context.uses.on = False
        if context.team is not None:
            with suppress(MPI.Exception):  # the communicator may be broken: the end of the block tells
                self._leave()
        context.abandon()
        if context.speaks and context.connection is not None and context.negotiation is not None:
            self._progress(time.perf_counter())
            context.connection.poll()
            context.negotiation.end(context.epoch)

    def _leave(self) -> LeavingRanks:
        """Tell others, once, that this rank has left the loop."""
        if self._left is None:
            first, since = self._begun
            step_s = (time.perf_counter() - since) / max(1, self.step - first)
            own = self._context.joined("the job").own
            begun = self.place.first
            total = None if self._endless else self.place.stop - begun
            self._left = LeavingRanks(own, self.step - begun, total, step_s)
        return self._left

    def settle(self) -> None:
        """Complete the check that is under way; collective, so only where the block ends without error. PliantError on
        some ranks if they have not left the loop in the same step."""
        if not self._context.released:
            self._leave().check(self._context.wait)
            self._watch.end()
            self._checks.drain()
