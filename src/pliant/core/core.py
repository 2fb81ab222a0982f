"""``handle(events, now) -> (records, commands)``: the scheduler, without any I/O. Whoever keeps a journal writes the
records before anything is done for the commands.

Each event makes records; each record changes the state; one scheduling pass follows if anything happened
that could let a job start or change size. Races end here: a message that comes too late for its job or its
resize is absorbed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from itertools import compress
from typing import Any

import msgspec

from pliant.core import commands as c
from pliant.core import events as e
from pliant.core import moving, placing, wishes
from pliant.core import records as r
from pliant.core.job import ScheduledJob
from pliant.core.ledger import Ledger, Outcome
from pliant.core.losses import Losses
from pliant.core.resizes import Resizes
from pliant.core.settings import NEVER, Settings
from pliant.core.state import State
from pliant.core.term import Term
from pliant.model.errors import PolicyError
from pliant.model.jobs import JobState
from pliant.model.limits import NOTE_CHARACTERS, NOTES
from pliant.model.nodes import EMPTY, NodeSet, lowest_bits, without
from pliant.model.words import are, count
from pliant.policy import view as p
from pliant.policy.view import rebalances
from pliant.protocol import messages as m
from pliant.protocol import resizing

EXPIRED = p.Reason("expired")

_MEMORY = msgspec.json.Decoder(dict[str, Any])


def _loses(told: Mapping[Any, Any], read: Mapping[str, Any]) -> bool:
    """Whether a number that JSON has not has become null, by which another would be forgotten."""
    return any(
        each is not None if found is None else isinstance(found, dict) and _loses(each, found)
        for each, found in zip(told.values(), read.values(), strict=False)
    )


class SchedulerCore:
    """The scheduler. A ``policy`` that raises or decides what cannot be ends in a PolicyError, or, where there is a
    ``fallback``, is replaced by that for good."""

    def __init__(
        self, policy: p.Policy, settings: Settings | None = None, *, fallback: p.Policy | None = None
    ) -> None:
        self.state = State(following(policy, settings or Settings()))
        self._ledger = ledger = Ledger(self.state)
        self.resizes = resizes = Resizes(ledger)
        self._losses = losses = Losses(ledger, resizes)
        self._policy = policy
        self._fallback = fallback
        self._woken = NEVER
        self._always = rebalances(policy)
        self._pass_at = NEVER
        self._asked = NEVER
        self._called = False
        self._given_back = 0
        self._term = Term(self.state)
        self._kept = 0
        """Free nodes kept for a job that the policy starts in this pass, and for which too few last long enough."""
        self._handlers: dict[type[e.Event], Callable[[Any], None]] = {
            e.Submitted: self._submitted,
            e.Cancelled: self._cancelled,
            e.ResizeOrdered: resizes.ordered,
            e.Launched: self._launched,
            e.Hello: self._hello,
            e.RootSaid: self._root_said,
            e.TakenBack: resizes.taken_back,
            e.Resumed: self._resumed,
            e.Ended: self._ended,
            e.Granted: self._granted,
            e.Clean: self._clean,
            e.Lost: self._lost,
            e.GroupsLost: losses.groups_lost,
            e.Back: self._back,
            e.NodesOrdered: self._nodes_ordered,
            e.NodesWithdrawn: self._nodes_withdrawn,
            e.Refused: self._refused,
            e.Reclaim: self._reclaim,
            e.Returned: self._returned,
            e.Tick: self._tick,
        }
        self._of_root: dict[type[m.CoreMessage], Callable[[ScheduledJob, Any], None]] = {
            m.Malleable: resizes.malleable,
            m.Want: resizes.wants,
            m.Accept: resizes.accepted,
            m.Decline: resizes.declined,
            m.Reached: resizes.reached,
            m.Done: losses.done,
            m.Failed: resizes.failed,
            m.Progress: self._progressed,
            m.Note: self._noted,
        }

    @property
    def held(self) -> str:
        """Why nothing may be begun now: no pass is made and no job is offered anything; empty if it may."""
        return self._ledger.held

    @held.setter
    def held(self, why: str) -> None:
        self._ledger.held = why

    @classmethod
    def resume(
        cls,
        policy: p.Policy,
        settings: Settings,
        records: Iterable[r.Record],
        *,
        fallback: p.Policy | None = None,
    ) -> SchedulerCore:
        """A core that goes on where the records of a journal end; ``unanswered`` says what is still to be done."""
        core = cls(policy, settings, fallback=fallback)
        for record in records:
            core.state.apply(record)
            core._ledger.due = True  # nothing is where nothing was recorded
        if core.state.policy_failed and fallback is not None:
            core._policy = fallback
        return core

    def unanswered(self) -> list[c.Command]:
        """The commands to which the records hold no answer. Carried out again, they have to do no harm."""
        state = self.state
        commands: list[c.Command] = []
        for _, _, job in state.running:
            if job.state is JobState.CONFIGURING:
                commands.append(c.Start(job.id, NodeSet(job.nodes)))
            if job.resize is not None:
                commands += self.resizes.of_resize(job, job.resize)
            if job.ending is not None:
                commands.append(self._ledger.kill_of(job, job.ending))
        commands += [c.Release(number, NodeSet(mask)) for number, mask in state.nodes.dirty.items()]
        commands += (c.Acquire(count, need) for need, count in state.nodes.wanted())
        if state.nodes.unwanted:
            commands.append(c.WithdrawNodes(state.nodes.unwanted))
        if state.nodes.parked_mask:
            commands.append(c.GiveBack(NodeSet(state.nodes.parked_mask)))
        return commands

    def handle(self, events: Iterable[e.Event], now: float) -> Outcome:
        """Apply all events of one instant, then ``settle``; ``now`` never runs backwards."""
        outcome = self._ledger.begin(now)
        for event in events:
            self._handlers[type(event)](event)
        self._settle(now)
        return outcome

    def note(self, event: e.Event, now: float) -> Outcome:
        """Apply one event, and decide nothing yet: ``settle`` follows when all that is known has been told."""
        outcome = self._ledger.begin(now)
        self._handlers[type(event)](event)
        return outcome

    def settle(self, now: float) -> Outcome:
        """See to what is overdue, and make a scheduling pass if that could change anything."""
        return self.handle((), now)

    def _settle(self, now: float) -> None:
        state, ledger = self.state, self._ledger
        if state.nodes.ends:
            self._heed_term()
        if state.limited or state.resizing:
            self._expire(now)
        if now >= self._woken:
            # The time that a Tick was asked for has come, whichever event was first to notice.
            self._tick()
        if ledger.due and not ledger.held and self._due(now):
            ledger.due, self._pass_at = False, NEVER
            self._pass()
        if state.nodes.parked_mask and (going := state.nodes.parked_mask & ~self._given_back):
            self._given_back |= going
            ledger.commands.append(c.GiveBack(NodeSet(going)))
        wake, nodes = self._asked, state.nodes
        if state.limited or state.resizing or nodes.reclaimed_mask or nodes.expiry or now < state.resting:
            wake = self._next_deadline(now)
        if ledger.due and not ledger.held:
            wake = min(wake, self._pass_at)
        if wake != self._woken:
            self._woken = wake
            if wake != NEVER:
                ledger.commands.append(c.WakeAt(wake))

    def _pass(self) -> None:
        state = self.state
        if state.nodes.reclaimed_mask or state.nodes.expiry:
            self._empty()
        if state.free or state.waiting or self._always or self._called:
            self._schedule()
        if state.wishing:
            self.resizes.grant()

    def _empty(self) -> None:
        """Jobs leave nodes that are asked back or expire soon, where they can, before anybody else gets what is
        free."""
        state = self.state
        for job, _ in moving.to_leave(state):
            found = moving.best_way(state, job) if state.now >= job.not_before else None
            if found is not None:
                way, among = found
                self.resizes.offer(job, way.size, way.reason, way.leave, among)

    def _due(self, now: float) -> bool:
        """Whether a pass may be made now; else the time for it is set: the next multiple of the interval, or, where
        there is none, when those nodes are no longer waited for that should be back at once."""
        interval = self.state.settings.pass_interval_s
        if not interval:
            if not self._ledger.left or not (at_once := self._ledger.back_at_once()):
                return True
            self._pass_at = min(self._pass_at, at_once)
            return now >= self._pass_at
        if self._pass_at == NEVER:
            self._pass_at = math.ceil(now / interval - 1e-9) * interval
        return now >= self._pass_at - 1e-9 * interval

    # ---- events --------------------------------------------------------------------------------------

    def _submitted(self, event: e.Submitted) -> None:
        if event.job <= self.state.last_job:
            raise ValueError(f"job number {event.job} is not above {self.state.last_job}")
        record = r.JobSubmitted(self.state.now, event.job, event.spec, event.requeue_of)
        self._ledger.record_due(record)
        if self.state.nodes.ends:
            self._term.waits(self.state.jobs[event.job])
        if event.requeue_of:
            self.state.over.again(event.requeue_of, event.job)

    def _cancelled(self, event: e.Cancelled) -> None:
        job = self.state.jobs.get(event.job)
        if job is None:
            return
        why = event.why or "cancelled"
        if job.state is JobState.PENDING:
            record = r.JobEnded(self.state.now, job.id, JobState.CANCELLED, 0, NodeSet(), None, why)
            self._ledger.record_due(record)
            self.state.over.ends.append((job, record, 0))
        elif job.requeues:  # it is being ended, and is not to come again
            self._ledger.record(r.JobEnding(self.state.now, job.id, event.state, why))
        else:
            self._ledger.end(job, event.state, why)

    def _launched(self, event: e.Launched) -> None:
        job = self._ledger.live(event.job)
        if job is not None and job.state is JobState.CONFIGURING:
            self._ledger.record(r.JobLaunched(self.state.now, job.id))

    def _hello(self, event: e.Hello) -> None:
        job = self._ledger.live(event.job)
        if job is None or job.greeted:
            return
        bounds = job.bounds if event.bounds is None else job.bounds.intersect(event.bounds)
        if bounds is None or not (job.losses or bounds.allows(job.size)):
            own = event.bounds.describe() if event.bounds else "any"
            self._ledger.end(
                job,
                JobState.FAILED,
                f"the submission allows {job.bounds.in_nodes()}, the program {own}, "
                f"and the job was started on {job.size}: state the same bounds in both",
            )
            return
        self._ledger.record(r.JobRunning(self.state.now, job.id, bounds))

    def _root_said(self, event: e.RootSaid) -> None:
        if (job := self._ledger.live(event.job)) is not None:
            self._of_root[type(event.message)](job, event.message)

    def _progressed(self, job: ScheduledJob, said: m.Progress) -> None:
        fraction = min(1.0, max(0.0, said.fraction))  # a program may say what it likes
        self._ledger.record(r.JobProgressed(self.state.now, job.id, fraction, said.pace_s, said.paced_s))

    def _noted(self, job: ScheduledJob, said: m.Note) -> None:
        if job.noted < NOTES:
            self._ledger.record(r.JobNoted(self.state.now, job.id, said.text[:NOTE_CHARACTERS]))

    def _ended(self, event: e.Ended) -> None:
        job = self.state.jobs.get(event.job)
        if job is None or job.state is JobState.PENDING:
            return
        state, code, error = self._losses.end_of(job, event)
        mask, resize = job.nodes, job.resize
        if resize is not None and resize.started:
            mask |= resize.nodes
        # Whoever reports an end may ask for that, unless the scheduler was ending the job: then it has decided.
        requeue = job.requeues or (event.requeue and job.ending in {None, JobState.NODE_FAIL})
        phase = resize.phase if resize is not None and job.state is JobState.RESIZING else None
        record = r.JobEnded(
            self.state.now, job.id, state, code, NodeSet(mask), event.result, error, requeue, event.cpu_s,
            event.places, phase,
        )  # fmt: skip
        self._ledger.record_due(record)
        if requeue:
            self.state.over.awaited[job.id] = job, record
        else:
            self.state.over.ends.append((job, record, 0))
        if left := without(mask, self.state.nodes.lost_mask):
            self._ledger.leave(job, NodeSet(left))

    def _granted(self, event: e.Granted) -> None:
        state = self.state
        there = state.nodes.all_mask & ~state.nodes.lost_mask
        nodes, names, slots, labels = event.nodes, event.names, event.slots, event.labels
        if nodes.mask & there:
            new = [not there >> node & 1 for node in nodes]
            nodes = NodeSet(nodes.mask & ~there)
            names, slots, labels = (
                (*compress(names, new),),
                (*compress(slots, new),),
                (*compress(labels, new),),
            )
        if nodes or (event.until is not None and not event.nodes):
            about = labels, event.source, event.need
            self._ledger.record_due(r.NodesGranted(state.now, nodes, names, slots, event.until, *about))
        kept = event.nodes.mask & there & ~state.nodes.reclaimed_mask
        if kept and event.until is not None and kept != state.nodes.expiry.get(event.until):
            self._ledger.record_due(r.NodesExpire(state.now, NodeSet(kept), event.until))

    def _clean(self, event: e.Clean) -> None:
        mask = event.nodes.mask
        clean = mask & self.state.nodes.dirty.get(event.job, 0)
        if not clean:
            return  # lost meanwhile, or proved twice
        # Those that were lost and came back have been free since, and may be another job's.
        nodes = event.nodes if clean == mask else NodeSet(clean)
        self._ledger.record_due(r.NodesClean(self.state.now, event.job, nodes))

    def _lost(self, event: e.Lost) -> None:
        self._given_back &= ~event.nodes.mask
        self._losses.lost(event)

    def _back(self, event: e.Back) -> None:
        nodes = NodeSet(event.nodes.mask & self.state.nodes.lost_mask)
        if not nodes:
            return  # they were returned meanwhile, or are back already
        self._ledger.record_due(r.NodesBack(self.state.now, nodes))

    def _nodes_ordered(self, event: e.NodesOrdered) -> None:
        if not self._ledger.held and event.count > 0:
            self._ledger.record(r.NodesOrdered(self.state.now, event.count, None, event.need))
            self._ledger.commands.append(c.Acquire(event.count, event.need))

    def _nodes_withdrawn(self, event: e.NodesWithdrawn) -> None:
        self._withdraw_nodes(min(event.count, self.state.nodes.coming))

    def _withdraw_nodes(self, count: int, reason: p.Reason | None = None) -> None:
        if count > 0 and not self._ledger.held:
            self._ledger.record(r.NodesWithdrawn(self.state.now, count, reason))
            self._ledger.commands.append(c.WithdrawNodes(count))

    def _refused(self, event: e.Refused) -> None:
        if count := min(event.count, self.state.nodes.awaited):
            self._ledger.record_due(r.NodesRefused(self.state.now, count, event.why, event.need))

    def _reclaim(self, event: e.Reclaim) -> None:
        state, by = self.state, event.by
        asked = event.nodes.mask & state.nodes.all_mask
        new = without(asked, state.nodes.reclaimed_mask)
        if by is not None:
            new = asked & (new | ~state.nodes.expired_by(by))
        if new:
            self._ledger.record_due(r.NodesReclaimed(state.now, NodeSet(new), by=by))

    def _returned(self, event: e.Returned) -> None:
        """What was asked back has gone. A node that is taken away unasked, or in use, is a loss."""
        state = self.state
        in_use = 0
        for _, _, job in state.running:
            in_use |= job.nodes | (job.resize.nodes if job.resize is not None else 0)
        gone = state.nodes.parked_mask | (state.nodes.reclaimed_mask & state.nodes.lost_mask & ~in_use)
        if away := event.nodes.mask & state.nodes.all_mask & ~state.nodes.lost_mask & ~gone:
            self._lost(e.Lost(NodeSet(away)))
        if returned := NodeSet(event.nodes.mask & gone):
            self._given_back &= ~returned.mask
            self._ledger.record(r.NodesReturned(state.now, returned))
        self._ledger.due = True

    def _resumed(self, _event: e.Resumed) -> None:
        self._ledger.record(r.ControllerResumed(self.state.now))

    def _tick(self, _event: e.Tick | None = None) -> None:
        self._ledger.due = True
        if self.state.now >= self._asked:
            self._called, self._asked = True, NEVER
        self._woken = NEVER  # it may have come a hair too early: then it is asked for again

    def _heed_term(self) -> None:
        for job, why in list(self._term.due()):
            if job.state is JobState.PENDING:
                self._cancelled(e.Cancelled(job.id, why))
            else:
                self._ledger.end(job, JobState.TIMEOUT, why, requeue=self._term.may_come_again(job))
        if not (over := self._term.over()):
            return
        if expired := self._term.expired():
            self._ledger.record_due(r.NodesReclaimed(self.state.now, NodeSet(expired), EXPIRED))
        for job in list(self.state.resizing.values()):
            if job.resize is not None and job.resize.nodes & over and job.ending is None:
                self.resizes.withdraw(job, "the time of its new nodes is over")

    # ---- deadlines -----------------------------------------------------------------------------------

    def _expire(self, now: float) -> None:
        """Walltimes that are over and resizes that take too long."""
        state = self.state
        for end, _, job in state.running if state.limited else ():
            if end > now:
                break
            if job.limited and job.ending is None:
                self._ledger.end(job, JobState.TIMEOUT, job.over_why(now))
        if not state.resizing:
            return
        for job in list(state.resizing.values()):
            resize = job.resize
            if resize is None or resize.deadline > now or job.ending is not None:
                continue
            if (resize.stage, "Withdraw") in resizing.TABLE or job.unheard_until <= now:
                self.resizes.overdue(job, resize)

    def _next_deadline(self, now: float) -> float:  # noqa: C901, PLR0912 - asked after every event: a call a part costs time
        """The next time at which a Tick could matter."""
        state = self.state
        wake = self._asked
        for end, _, job in state.running if state.limited else ():
            if end > now and job.limited and job.ending is None:
                wake = min(wake, end)
                break
        for job in state.resizing.values():
            if job.resize is not None and now < job.resize.deadline < wake and job.ending is None:
                wake = job.resize.deadline
            if now < job.unheard_until < wake:
                wake = job.unheard_until
        if now < state.resting:
            for job in state.elastic:
                if now < job.not_before < wake:
                    wake = job.not_before
        if now < state.wary:
            for job in state.elastic:
                if now < job.grow_from < wake:
                    wake = job.grow_from
        if state.nodes.expiry and (state.running or state.settings.pool is not None):
            wake = min(wake, self._term.next())
        for job, _ in moving.to_leave(state) if state.nodes.reclaimed_mask or state.nodes.expiry else ():
            wake = min([wake, *(at for at in (job.not_before, job.grow_from) if at > now)])
        for at in wishes.rests(state) if state.wishing else ():
            wake = min(wake, at)
        return wake

    # ---- decisions -----------------------------------------------------------------------------------

    def _schedule(self) -> None:
        self._called = False
        try:
            # All of them first: a policy that yields must not see what its own decisions change.
            decisions = list(self._policy.decide(self.state))
            if self.state.over.ends:
                self.state.over.ends.clear()
            if decisions:
                self._decide(decisions)
        except Exception as error:
            if self._fallback is None or self._policy is self._fallback:
                raise
            said = str(error) if isinstance(error, PolicyError) else f"{type(error).__name__}: {error}"
            self._give_way(said)
            self._schedule()

    def fall_back(self, error: str, now: float) -> Outcome:
        """The policy has failed for good: the fallback decides from now on, in every pass. PolicyError if it is that
        which has failed, or there is none."""
        outcome = self._ledger.begin(now)
        if self._fallback is None or self._policy is self._fallback:
            raise PolicyError(error)
        self._give_way(f"policy {self._policy.name!r} is stuck at {now:.3f} s: {error}")
        return outcome

    def _give_way(self, error: str) -> None:
        if self._fallback is not None:
            failed = r.PolicyFailed(self.state.now, self._policy.name, error, self._fallback.name)
            self._ledger.record_due(failed)
            self._policy = self._fallback
            self._always = rebalances(self._policy)

    def _decide(self, decisions: list[p.Decision]) -> None:
        jobs = self.state.jobs
        self._kept = 0
        for decision in decisions:
            if (job := jobs.get(decision.job)) is None:
                self._decide_for_itself(decision)
            elif type(decision) is p.Start:
                self._start(job, decision)
            elif type(decision) is p.Resize:
                self._resize(job, decision)
            elif isinstance(decision, p.Promise) and job.promised != decision.at:
                if not math.isfinite(decision.at):
                    raise self._wrong(decision, "a start is promised at a finite time")
                self._ledger.record(r.JobPromised(self.state.now, job.id, decision.at))

    def _check_reason(self, decision: p.Start | p.Resize | p.Acquire | p.Return | p.Withdraw) -> None:
        figures = decision.reason.figures
        if figures and not all(map(math.isfinite, figures.values())):
            raise self._wrong(decision, "a journal holds finite figures alone: leave out what is not")

    def _resize(self, job: ScheduledJob, decision: p.Resize) -> None:
        self._check_reason(decision)
        if not self.state.resizable(job):
            raise self._wrong(decision, "the job cannot be offered a resize now")
        more = decision.size - job.size
        if more > 0 and self.state.now < job.grow_from:
            return  # its newcomers keep failing; a policy need not know that
        if more == 0 or not job.bounds.allows(decision.size):
            has, may = count(job.size, "node"), job.bounds.describe()
            raise self._wrong(decision, f"it has {has}; allowed are {may}")
        if more > self.state.free:
            raise self._wrong(decision, f"only {are(self.state.free, 'node')} free")
        if more > 0 and self.state.nodes.expiry:
            self._grow_onto_lasting(job, decision)
        else:
            leave = placing.to_shrink(self.state, job, -more) if self.state.nodes.expiry else EMPTY
            self.resizes.offer(job, decision.size, decision.reason, leave)

    def _grow_onto_lasting(self, job: ScheduledJob, decision: p.Resize) -> None:
        """Grow, as far as there are nodes that last long enough."""
        among = placing.to_grow(self.state, job, decision.size, decision.size - job.size, self._kept)
        size = job.bounds.floor(min(decision.size, job.size + among.bit_count()))
        if size > job.size:
            self.resizes.offer(job, size, decision.reason, EMPTY, among)

    def _decide_for_itself(self, decision: p.Decision) -> None:
        """A decision that concerns no job."""
        if isinstance(decision, p.Wake):
            if self.state.now < decision.at < self._asked:
                self._asked = decision.at
        elif isinstance(decision, p.Remember):
            try:
                memory = _MEMORY.decode(msgspec.json.encode(decision.memory))
            except (TypeError, ValueError, msgspec.MsgspecError) as error:
                raise self._wrong(decision, f"only what JSON has can be remembered: {error}") from error
            if decision.merge and _loses(decision.memory, memory):
                raise self._wrong(decision, "only what JSON has can be remembered: a number is not finite")
            # As it will be read from a journal: there lists are what tuples were, and texts the keys.
            self._ledger.record(r.PolicyRemembers(self.state.now, memory, decision.merge))
        elif isinstance(decision, p.Acquire | p.Return | p.Withdraw):
            self._ask_for_nodes(decision)
        else:
            raise self._wrong(decision, "there is no such job")

    def _ask_for_nodes(self, decision: p.Acquire | p.Return | p.Withdraw) -> None:
        """Ask for nodes or for fewer, or give free ones back, within the limits of the pool: those that expire soonest
        go first, then the highest numbers."""
        self._check_reason(decision)
        state, count = self.state, decision.count
        pool = state.settings.pool
        if pool is None:
            raise self._wrong(decision, "no nodes come and go here")
        if count < 1:
            raise self._wrong(decision, "the count is 1 or more")
        coming = state.nodes.coming
        have = state.total + coming
        if isinstance(decision, p.Withdraw):
            if count > coming:
                raise self._wrong(decision, f"{are(coming, 'node')} awaited")
            self._withdraw_nodes(count, decision.reason)
            return
        if isinstance(decision, p.Acquire):
            if have + count > pool.max:
                raise self._wrong(decision, f"{have} nodes are there or awaited, and the most is {pool.max}")
            self._ledger.record(r.NodesOrdered(state.now, count, decision.reason))
            self._ledger.commands.append(c.Acquire(count))
            return
        if count > state.free or state.total - count < pool.min:
            left = f"{state.free} of {state.total} nodes are free, and the least is {pool.min}"
            raise self._wrong(decision, left)
        if state.nodes.expiry:
            going = placing.soonest(state, count, pool.min)
            if not going:
                return  # those that stay are the least; a policy need not know which ones it gives back
        else:
            going = without(
                state.nodes.free_mask, lowest_bits(state.nodes.free_mask, state.free - count, state.free)
            )
        self._ledger.record(r.NodesReclaimed(state.now, NodeSet(going), decision.reason))

    def _start(self, job: ScheduledJob, decision: p.Start) -> None:
        self._check_reason(decision)
        if job.state is not JobState.PENDING:
            raise self._wrong(decision, f"the job is {job.state}")
        if not job.bounds.allows(decision.size):
            raise self._wrong(decision, f"allowed sizes are {job.bounds.describe()}")
        if decision.size > self.state.free:
            raise self._wrong(decision, f"only {are(self.state.free, 'node')} free")
        state = self.state
        if state.nodes.expiry:
            chosen, enough = placing.to_start(state, job, decision.size, self._kept)
            if not enough:
                self._kept |= chosen  # else others, which need fewer, would start before it for ever
                return
        else:
            chosen = lowest_bits(state.nodes.free_mask, decision.size, state.free)
        nodes = NodeSet(chosen, decision.size)
        self._ledger.record(r.JobStarted(self.state.now, job.id, nodes, decision.reason, job.spec.one_world))
        self._ledger.commands.append(c.Start(job.id, nodes))

    def _wrong(self, decision: p.Decision, why: str) -> PolicyError:
        state = self.state
        return PolicyError(
            f"policy {self._policy.name!r} at {state.now:.3f} s decided {decision}, but {why} "
            f"(free {state.free} of {state.total}, pending {state.waiting}, running {len(state.running)})"
        )


def following(policy: p.Policy, settings: Settings) -> Settings:
    """``settings`` with the half-life that ``policy`` asks for, where they state none."""
    asked = 0.0 if settings.half_life_s else p.half_life_s(policy)
    return msgspec.structs.replace(settings, half_life_s=asked) if asked else settings


def replay(records: Iterable[r.Record], settings: Settings | None = None) -> State:
    """The state that the records tell; no policy is asked."""
    state = State(settings)
    for record in records:
        state.apply(record)
    return state
