"""``handle(events, now) -> (records, commands)``: the scheduler, without any I/O. Whoever keeps a journal writes the
records before anything is done for the commands.

Each event makes records; each record changes the state; one scheduling pass follows if anything happened
that could let a job start or change size. Races end here: a message that comes too late for its job or its
resize is absorbed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from pliant.core import commands as c
from pliant.core import events as e
from pliant.core import records as r
from pliant.core.job import Job, Resize
from pliant.core.settings import NEVER, Settings
from pliant.core.state import State
from pliant.model.errors import PolicyError
from pliant.model.jobs import JobClass, JobState
from pliant.model.nodes import NodeSet, lowest_bits
from pliant.policy import view as p
from pliant.policy.view import rebalances
from pliant.protocol import resizing

Outcome = tuple[list[r.Record], list[c.Command]]
"""Records first: they are written before the commands are carried out."""
ORDERED = p.Reason("ordered")
WANTED = p.Reason("wanted")


class SchedulerCore:
    """The scheduler. A ``policy`` that raises or decides what cannot be ends in a PolicyError, or, where there is a
    ``fallback``, is replaced by that for good."""

    def __init__(
        self,
        policy: p.Policy,
        settings: Settings | None = None,
        *,
        fallback: p.Policy | None = None,
    ) -> None:
        self.state = State(following(policy, settings or Settings()))
        self._policy = policy
        self._fallback = fallback
        self._records: list[r.Record] = []
        self._commands: list[c.Command] = []
        self._news = False
        self._woken = NEVER
        self._always = rebalances(policy)
        self._pass_at = NEVER
        self._asked = NEVER
        self._called = False
        self.held = ""
        """Why nothing may be begun now: no pass is made and no job is offered anything; empty if it may."""
        self._handlers: dict[type[e.Event], Callable[[Any], None]] = {
            e.Submitted: self._submitted,
            e.Cancelled: self._cancelled,
            e.Ordered: self._ordered,
            e.Launched: self._launched,
            e.Hello: self._hello,
            e.Malleable: self._malleable,
            e.Wants: self._wants,
            e.Accepted: self._accepted,
            e.Declined: self._declined,
            e.Resized: self._resized,
            e.ResizeFailed: self._resize_failed,
            e.Progressed: self._progressed,
            e.Ended: self._ended,
            e.Granted: self._granted,
            e.Clean: self._clean,
            e.Lost: self._lost,
            e.Back: self._back,
            e.Tick: self._tick,
        }

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
        if core.state.policy_failed and fallback is not None:
            core._policy = fallback
        core._news = True
        return core

    def unanswered(self) -> list[c.Command]:
        """The commands to which the records hold no answer. Carried out again, they have to do no harm."""
        state = self.state
        commands: list[c.Command] = []
        for _, _, job in state.running:
            if job.state is JobState.CONFIGURING:
                commands.append(c.Start(job.id, NodeSet(job.nodes)))
            if job.resize is not None:
                commands += self._of_resize(job, job.resize)
            if job.ending is not None:
                commands.append(self._kill(job, job.ending))
        commands += [c.Release(number, NodeSet(mask)) for number, mask in state.dirty.items()]
        return commands

    def _of_resize(self, job: Job, resize: Resize) -> Iterable[c.Command]:
        match resize.stage:
            case resizing.OFFERED:
                yield self._offer_of(job, resize)
            case resizing.ACCEPTED if resize.arriving:
                yield c.Start(job.id, NodeSet.of(group.node for group in resize.arriving), resize.id)
            case resizing.WITHDRAWN | resizing.CROSSED | resizing.RECALLED:
                yield c.Withdraw(job.id, resize.id)

    def handle(self, events: Iterable[e.Event], now: float) -> Outcome:
        """Apply all events of one instant, then ``settle``; ``now`` never runs backwards."""
        records, commands = self._begin(now)
        for event in events:
            self._handlers[type(event)](event)
        self._settle(now)
        return records, commands

    def note(self, event: e.Event, now: float) -> Outcome:
        """Apply one event, and decide nothing yet: ``settle`` follows when all that is known has been told."""
        outcome = self._begin(now)
        self._handlers[type(event)](event)
        return outcome

    def settle(self, now: float) -> Outcome:
        """See to what is overdue, and make a scheduling pass if that could change anything."""
        outcome = self._begin(now)
        self._settle(now)
        return outcome

    def _begin(self, now: float) -> Outcome:
        state = self.state
        if now < state.now:
            raise ValueError(f"time ran backwards: {now} after {state.now}")
        state.now = now
        records: list[r.Record] = []
        commands: list[c.Command] = []
        self._records, self._commands = records, commands
        return records, commands

    def _settle(self, now: float) -> None:
        state = self.state
        self._expire(now)
        if now >= self._woken:
            # The time that a Tick was asked for has come, whichever event was first to notice.
            self._tick()
        if self._news and not self.held and self._due(now):
            self._news, self._pass_at = False, NEVER
            if state.free or state.waiting or self._always or self._called:
                self._schedule()
        wake = self._next_deadline(now)
        if self._news and not self.held:
            wake = min(wake, self._pass_at)
        if wake != self._woken:
            self._woken = wake
            if wake != NEVER:
                self._commands.append(c.WakeAt(wake))

    def _due(self, now: float) -> bool:
        """Whether a pass may be made now: else the next multiple of the interval is set for it."""
        interval = self.state.settings.pass_interval_s
        if not interval:
            return True
        if self._pass_at == NEVER:
            self._pass_at = math.ceil(now / interval - 1e-9) * interval
        return now >= self._pass_at - 1e-9 * interval

    def _record(self, record: r.Record) -> None:
        self.state.apply(record)
        self._records.append(record)

    def refusal(self, number: int, size: int, leave: NodeSet) -> str | None:
        """Why an order to resize job ``number`` to ``size`` cannot be given now, or None."""
        state = self.state
        if self.held:
            return f"nothing is started or resized now: {self.held}"
        job = state.jobs.get(number)
        if job is None:
            return f"job {number} is not pending or running"
        if not job.size:
            return f"job {number} ({job.spec.name}) is still pending; only a running job can be resized"
        if job.ending is not None:
            return f"job {number} ({job.spec.name}) is being ended"
        if size == 0:
            return None
        if not job.on or job.spec.job_class is JobClass.RIGID:
            return f"job {number} ({job.spec.name}) takes no resizes now: it is {job.spec.job_class} and " + (
                "inside its loop" if job.on else "not inside its loop"
            )
        if job.resize is not None:
            return f"resize {job.resize.id} of job {number} is still under way"
        if not job.bounds.allows(size):
            return f"{size} is no allowed size of job {number}; allowed: {job.bounds.describe()}"
        if size == job.size and not leave:
            return f"job {number} has {size} nodes already"
        more = _arriving(job, size, leave)
        if more > state.free:
            return f"job {number} would need {more} more nodes, and {state.free} are free"
        if not leave <= NodeSet(job.nodes) or (more and leave and size != job.size):
            return f"job {number} cannot give back {leave}: it holds {NodeSet(job.nodes)} and goes to {size} nodes"
        return None

    # ---- events --------------------------------------------------------------------------------------

    def _submitted(self, event: e.Submitted) -> None:
        if event.job <= self.state.last_job:
            raise ValueError(f"job number {event.job} is not above {self.state.last_job}")
        self._record(r.JobSubmitted(self.state.now, event.job, event.spec, event.requeue_of))
        if event.requeue_of:
            self.state.over.again(event.requeue_of, event.job)
        self._news = True

    def _cancelled(self, event: e.Cancelled) -> None:
        job = self.state.jobs.get(event.job)
        if job is None:
            return
        if job.state is JobState.PENDING:
            record = r.JobEnded(self.state.now, job.id, JobState.CANCELLED, 0, NodeSet(), None, event.why)
            self._record(record)
            self.state.over.ends.append((job, record, 0))
            self._news = True
        else:
            self._end(job, JobState.CANCELLED, event.why or "cancelled")

    def _ordered(self, event: e.Ordered) -> None:
        if self.refusal(event.job, event.size, event.leave) is not None:
            return
        job = self.state.jobs[event.job]
        self._record(r.JobPinned(self.state.now, job.id, event.size != 0))
        self._news = True
        if event.size:
            self._offer(job, event.size, ORDERED, event.leave)

    def _launched(self, event: e.Launched) -> None:
        job = self._live(event.job)
        if job is not None and job.state is JobState.CONFIGURING:
            self._record(r.JobLaunched(self.state.now, job.id))

    def _hello(self, event: e.Hello) -> None:
        job = self._live(event.job)
        if job is None or job.greeted:
            return
        bounds = job.bounds if event.bounds is None else job.bounds.intersect(event.bounds)
        if bounds is None or not bounds.allows(job.size):
            own = event.bounds.describe() if event.bounds else "any"
            self._end(
                job,
                JobState.FAILED,
                f"the submission allows {job.bounds.describe()} nodes, the program {own}, "
                f"and the job was started on {job.size}: state the same bounds in both",
            )
            return
        self._record(r.JobRunning(self.state.now, job.id, bounds))

    def _malleable(self, event: e.Malleable) -> None:
        job = self._live(event.job)
        if job is not None and job.on != event.on and job.greeted:
            self._record(r.JobMalleable(self.state.now, job.id, event.on))
            if not event.on and job.resize is not None and job.resize.stage == resizing.OFFERED:
                # They crossed: the job will read the offer when it next looks, at its very end perhaps.
                self._withdraw(job, "its loop is over")
            self._news = True

    def _wants(self, event: e.Wants) -> None:
        """A job requests an action: paper 3, section 4.1. It grows if so many nodes are free, and may shrink."""
        job = self._live(event.job)
        if job is None or job.resize is not None:
            return  # the offer that is under way is the answer
        size = job.bounds.nearest(job.size, event.bounds.min, event.bounds.max)  # its own, if that is within
        too_soon = size > job.size and self.state.now < job.grow_from
        if too_soon or size in (0, job.size) or self.refusal(job.id, size, NodeSet()) is not None:
            self._commands.append(c.Stay(job.id))
        else:
            self._offer(job, size, WANTED, NodeSet())

    def _answered(self, number: int, resize: int, what: str) -> tuple[Job, Resize] | None:
        """The resize that the job has answered, if that answer can still count."""
        job = self._live(number)
        if job is None or job.resize is None or job.resize.id != resize:
            return None
        return (job, job.resize) if (job.resize.stage, what) in resizing.TABLE else None

    def _accepted(self, event: e.Accepted) -> None:
        if (found := self._answered(event.job, event.resize, "Accept")) is None:
            return
        job, resize = found
        self._record(r.ResizeAccepted(self.state.now, job.id, resize.id))
        if resize.started:
            self._commands.append(
                c.Start(job.id, NodeSet.of(group.node for group in resize.arriving), resize.id)
            )

    def _declined(self, event: e.Declined) -> None:
        if self._answered(event.job, event.resize, "Decline") is not None:
            self._record(r.ResizeDeclined(self.state.now, event.job, event.resize, event.reason, event.late))
            self._news = True

    def _resized(self, event: e.Resized) -> None:
        if (found := self._answered(event.job, event.resize, "Done")) is None:
            return
        job, resize = found
        objection = self._objection(job, resize, event)
        gained, released = self._moved(job, resize, () if objection else event.released)
        if not objection and job.size + len(gained) - len(released) != resize.after:
            objection = f"from {resize.before} to {resize.after} nodes gave back {len(released)} nodes"
        if objection:
            self._end(job, JobState.FAILED, f"resize {resize.id}: {objection}")
            return
        self._record(
            r.ResizeDone(
                self.state.now, job.id, resize.id, gained, released, event.blocked_s, event.phases,
                event.released, event.root,
            )
        )  # fmt: skip
        if released:
            self._commands.append(c.Release(job.id, released))
        if lost := NodeSet(job.nodes & self.state.lost_mask):
            # The resize was done before the job heard that a newcomer's node is gone.
            self._end(job, JobState.NODE_FAIL, f"lost node {lost}")
        self._news = True

    def _moved(self, job: Job, resize: Resize, left: tuple[int, ...]) -> tuple[NodeSet, NodeSet]:
        """The nodes that the job gains and gives back when arriving groups have come and those of ``left`` have gone."""
        coming = 0
        for group in resize.arriving:
            coming |= 1 << group.node
        return NodeSet(resize.nodes), NodeSet(self.state.nodes_without(job, left) & ~coming)

    def _objection(self, job: Job, resize: Resize, event: e.Resized) -> str:
        """What is wrong with what a job says it has done; empty if nothing is."""
        if resize.arriving and resize.stage == resizing.CROSSED:
            return "the job says that it is done, but it had been taken back and no group was started"
        present, left = self.state.groups(job), set(event.released)
        if unknown := sorted(left - present.keys()):
            return f"groups {unknown} were given back, which the job does not have"
        known = event.root in present or any(group.id == event.root for group in resize.arriving)
        if event.root in left or not known:
            return f"group {event.root} is to speak for the job, but it is not one of it"
        return ""

    def _resize_failed(self, event: e.ResizeFailed) -> None:
        if (found := self._answered(event.job, event.resize, "Failed")) is None:
            return
        job, resize = found
        dirty = NodeSet(resize.nodes)
        self._record(r.ResizeFailed(self.state.now, job.id, resize.id, event.error, dirty, event.late))
        if dirty:
            self._commands.append(c.Release(job.id, dirty))
        self._news = True

    def _progressed(self, event: e.Progressed) -> None:
        job = self._live(event.job)
        if job is not None:
            self._record(r.JobProgressed(self.state.now, job.id, event.fraction, event.pace_s, event.paced_s))

    def _ended(self, event: e.Ended) -> None:
        job = self.state.jobs.get(event.job)
        if job is None or job.state is JobState.PENDING:
            return
        state = job.ending or (JobState.FAILED if event.exit_code or event.error else JobState.COMPLETED)
        mask = job.nodes
        if job.resize is not None and job.resize.started:
            mask |= job.resize.nodes
        record = r.JobEnded(
            self.state.now,
            job.id,
            state,
            event.exit_code,
            NodeSet(mask),
            event.result,
            job.why or event.error,
            event.requeue,
        )
        self._record(record)
        if event.requeue:
            self.state.over.awaited[job.id] = job, record
        else:
            self.state.over.ends.append((job, record, 0))
        if left := mask & ~self.state.lost_mask:
            self._commands.append(c.Release(job.id, NodeSet(left)))
        self._news = True

    def _granted(self, event: e.Granted) -> None:
        self._record(r.NodesGranted(self.state.now, event.nodes, event.names, event.slots))
        self._news = True

    def _clean(self, event: e.Clean) -> None:
        if not self.state.dirty.get(event.job, 0) & event.nodes.mask:
            return  # lost meanwhile, or proved twice
        self._record(r.NodesClean(self.state.now, event.job, event.nodes))
        self._news = True

    def _lost(self, event: e.Lost) -> None:
        self._record(r.NodesLost(self.state.now, event.nodes))
        for _, _, job in list(self.state.running):
            newcomers = job.resize.nodes if job.resize is not None else 0
            if job.nodes & event.nodes.mask:
                self._end(job, JobState.NODE_FAIL, f"lost node {event.nodes}")
            elif newcomers & event.nodes.mask and job.resize is not None:
                self._withdraw(job, "a node of the expansion is lost")
        self._news = True

    def _back(self, event: e.Back) -> None:
        self._record(r.NodesBack(self.state.now, event.nodes))
        self._news = True

    def _tick(self, _event: e.Tick | None = None) -> None:
        self._news = True
        if self.state.now >= self._asked:
            self._called, self._asked = True, NEVER
        self._woken = NEVER  # it may have come a hair too early: then it is asked for again

    def _live(self, number: int) -> Job | None:
        """The running job, unless it is already being ended: then nothing it says matters any more."""
        job = self.state.jobs.get(number)
        if job is None or job.state is JobState.PENDING or job.ending is not None:
            return None
        return job

    # ---- deadlines -----------------------------------------------------------------------------------

    def _expire(self, now: float) -> None:
        """Walltimes that are over and resizes that take too long."""
        state = self.state
        for end, _, job in state.running if state.limited else ():
            if end > now:
                break
            if job.limited and job.ending is None:
                self._end(job, JobState.TIMEOUT, f"walltime of {job.spec.estimate(job.size):.6g} s is over")
        if not state.resizing:
            return
        for job in list(state.resizing.values()):
            resize = job.resize
            if resize is None or resize.deadline > now or job.ending is not None:
                continue
            if (resize.stage, "Withdraw") not in resizing.TABLE:
                self._end(job, JobState.FAILED, f"resize {resize.id} passed its deadline; the job is stuck")
            else:
                self._withdraw(
                    job, f"not {'done' if resize.stage == resizing.ACCEPTED else 'answered'} in time"
                )

    def _next_deadline(self, now: float) -> float:
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
        if now < state.resting:
            for job in state.elastic:
                if now < job.not_before < wake:
                    wake = job.not_before
                if now < job.grow_from < wake:
                    wake = job.grow_from
        return wake

    def _withdraw(self, job: Job, why: str) -> None:
        resize = job.resize
        if resize is not None and (resize.stage, "Withdraw") in resizing.TABLE:
            freed = NodeSet(0 if resize.stage == resizing.ACCEPTED else resize.nodes)
            self._record(r.ResizeWithdrawn(self.state.now, job.id, resize.id, why, freed))
            self._commands.append(c.Withdraw(job.id, resize.id))
            self._news = True

    def _end(self, job: Job, state: JobState, error: str) -> None:
        if job.ending is None:
            self._record(r.JobEnding(self.state.now, job.id, state, error))
            self._commands.append(self._kill(job, state))

    def _kill(self, job: Job, state: JobState) -> c.Kill:
        hard = state in (JobState.NODE_FAIL, JobState.FAILED)
        return c.Kill(job.id, 0.0 if hard else self.state.settings.kill_grace_s)

    # ---- decisions -----------------------------------------------------------------------------------

    def _schedule(self) -> None:
        self._called = False
        try:
            # All of them first: a policy that yields must not see what its own decisions change.
            decisions = list(self._policy.decide(self.state))
            self.state.over.ends.clear()
            for decision in decisions:
                self._decide(decision)
        except Exception as error:
            if self._fallback is None or self._policy is self._fallback:
                raise
            said = str(error) if isinstance(error, PolicyError) else f"{type(error).__name__}: {error}"
            self._give_way(said)
            self._schedule()

    def fall_back(self, error: str, now: float) -> Outcome:
        """The policy has failed for good: the fallback decides from now on, in every pass. PolicyError if it is that
        which has failed, or there is none."""
        outcome = self._begin(now)
        if self._fallback is None or self._policy is self._fallback:
            raise PolicyError(error)
        self._give_way(f"policy {self._policy.name!r} is stuck at {now:.3f} s: {error}")
        return outcome

    def _give_way(self, error: str) -> None:
        if self._fallback is not None:
            self._record(r.PolicyFailed(self.state.now, self._policy.name, error, self._fallback.name))
            self._policy = self._fallback
            self._always = rebalances(self._policy)
            self._news = True

    def _decide(self, decision: p.Decision) -> None:
        job = self.state.jobs.get(decision.job)
        if job is None:
            if isinstance(decision, p.Wake):
                if self.state.now < decision.at < self._asked:
                    self._asked = decision.at
                return
            raise self._wrong(decision, "there is no such job")
        if type(decision) is p.Start:
            self._start(job, decision)
        elif type(decision) is p.Resize:
            if not self.state.resizable(job):
                raise self._wrong(decision, "the job cannot be offered a resize now")
            if decision.size > job.size and not self.state.resizable(job, grow=True):
                return  # its newcomers keep failing; a policy need not know that
            self._offer(job, decision.size, decision.reason, NodeSet())
        elif isinstance(decision, p.Promise) and job.promised != decision.at:
            self._record(r.JobPromised(self.state.now, job.id, decision.at))

    def _start(self, job: Job, decision: p.Start) -> None:
        if job.state is not JobState.PENDING:
            raise self._wrong(decision, f"the job is {job.state}")
        if not job.bounds.allows(decision.size):
            raise self._wrong(decision, f"allowed sizes are {job.bounds.describe()}")
        if decision.size > self.state.free:
            raise self._wrong(decision, f"only {self.state.free} nodes are free")
        nodes = NodeSet(lowest_bits(self.state.free_mask, decision.size))
        self._record(r.JobStarted(self.state.now, job.id, nodes, decision.reason, job.spec.one_world))
        self._commands.append(c.Start(job.id, nodes))

    def _offer(self, job: Job, size: int, reason: p.Reason, leave: NodeSet) -> None:
        state = self.state
        decision = p.Resize(job.id, size, reason)
        more = _arriving(job, size, leave)
        if not job.bounds.allows(size) or (size == job.size and not more):
            raise self._wrong(decision, f"it has {job.size} nodes; allowed are {job.bounds.describe()}")
        if more > state.free:
            raise self._wrong(decision, f"only {state.free} nodes are free")
        mask = lowest_bits(state.free_mask, more) if more else 0
        self._record(
            r.ResizeOffered(
                state.now, job.id, state.last_resize + 1, job.size, size, NodeSet(mask), reason,
                state.new_groups(mask, job.last_group + 1), state.groups_on(job, leave.mask) if leave else (),
                must=size < job.size and reason is ORDERED,
            )
        )  # fmt: skip
        if job.resize is not None:
            self._commands.append(self._offer_of(job, job.resize))

    def _offer_of(self, job: Job, resize: Resize) -> c.Offer:
        groups = self.state.groups(job) if resize.leaving else {}
        leave = NodeSet.of(groups[number] for number in resize.leaving)
        return c.Offer(
            job.id, resize.id, resize.before, resize.after, NodeSet(resize.nodes), leave,
            self.state.settings.offer_deadline_s, resize.arriving, resize.leaving, must=resize.must,
        )  # fmt: skip

    def _wrong(self, decision: p.Decision, why: str) -> PolicyError:
        state = self.state
        return PolicyError(
            f"policy {self._policy.name!r} at {state.now:.3f} s decided {decision}, but {why} "
            f"(free {state.free} of {state.total}, pending {state.waiting}, running {len(state.running)})"
        )


def _arriving(job: Job, size: int, leave: NodeSet) -> int:
    """How many new groups, one a node, it takes to come to ``size`` nodes when those of ``leave`` are left."""
    return max(0, size - (job.size - len(leave)))


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
