"""``handle(events, now) -> commands``: the scheduler, without any I/O.

Each event makes records; each record changes the state; one scheduling pass follows if anything happened
that could let a job start or change size. Races end here: a message that comes too late for its job or its
resize is absorbed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from pliant.core import commands as c
from pliant.core import events as e
from pliant.core import records as r
from pliant.core.state import NEVER, Job, Settings, State
from pliant.model.errors import PolicyError
from pliant.model.jobs import ENDED, JobClass, JobState
from pliant.model.nodes import NodeSet, lowest_bits
from pliant.policy import view as p
from pliant.policy.view import rebalances

ORDERED = p.Reason("ordered")
WANTED = p.Reason("wanted")


class SchedulerCore:
    """The scheduler. ``sink`` receives every record; without one, records only change the state."""

    def __init__(
        self,
        policy: p.Policy,
        settings: Settings | None = None,
        sink: Callable[[r.Record], None] | None = None,
    ) -> None:
        self.state = State(settings)
        self._policy = policy
        self._sink = sink
        self._commands: list[c.Command] = []
        self._news = False
        self._woken = NEVER
        self._always = rebalances(policy)
        self._pass_at = NEVER
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

    def handle(self, events: Iterable[e.Event], now: float) -> list[c.Command]:
        """Apply all events of one instant, then make one scheduling pass; ``now`` never runs backwards."""
        state = self.state
        if now < state.now:
            raise ValueError(f"time ran backwards: {now} after {state.now}")
        state.now = now
        commands: list[c.Command] = []
        self._commands = commands
        for event in events:
            self._handlers[type(event)](event)
        self._expire(now)
        if now >= self._woken:
            # The time that a Tick was asked for has come, whichever event was first to notice.
            self._news, self._woken = True, NEVER
        if self._news and not self.held and self._due(now):
            self._news, self._pass_at = False, NEVER
            if state.free or state.waiting or self._always:
                self._schedule()
        wake = self._next_deadline(now)
        if self._news and not self.held:
            wake = min(wake, self._pass_at)
        if wake != self._woken:
            self._woken = wake
            if wake != NEVER:
                commands.append(c.WakeAt(wake))
        return commands

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
        if self._sink is not None:
            self._sink(record)

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
        if size == job.size:
            return f"job {number} has {size} nodes already"
        if size - job.size > state.free:
            return f"job {number} would need {size - job.size} more nodes, and {state.free} are free"
        if not leave <= NodeSet(job.nodes) or len(leave) > max(0, job.size - size):
            return f"job {number} cannot give back {leave}: it holds {NodeSet(job.nodes)} and goes to {size} nodes"
        return None

    # ---- events --------------------------------------------------------------------------------------

    def _submitted(self, event: e.Submitted) -> None:
        if event.job <= self.state.last_job:
            raise ValueError(f"job number {event.job} is not above {self.state.last_job}")
        self._record(r.JobSubmitted(self.state.now, event.job, event.spec, event.requeue_of))
        self._news = True

    def _cancelled(self, event: e.Cancelled) -> None:
        job = self.state.jobs.get(event.job)
        if job is None:
            return
        if job.state is JobState.PENDING:
            self._record(
                r.JobEnded(self.state.now, job.id, JobState.CANCELLED, 0, NodeSet(), None, event.why)
            )
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
        self._record(r.JobRunning(self.state.now, job.id, event.elastic, bounds))

    def _malleable(self, event: e.Malleable) -> None:
        job = self._live(event.job)
        if job is not None and job.on != event.on and job.greeted:
            self._record(r.JobMalleable(self.state.now, job.id, event.on))
            if not event.on and job.resize is not None and job.state is not JobState.RESIZING:
                # They crossed: the job will read the offer when it next looks, at its very end perhaps.
                self._record(
                    r.ResizeDeclined(self.state.now, job.id, job.resize.id, "its loop is over", late=True)
                )
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

    def _accepted(self, event: e.Accepted) -> None:
        job = self._live(event.job)
        if job is None or job.resize is None or job.resize.id != event.resize:
            return
        resize = job.resize
        if resize.stage == "offered":
            self._record(r.ResizeAccepted(self.state.now, job.id, resize.id))
            if resize.kind == "expand":
                self._commands.append(c.Start(job.id, NodeSet(resize.nodes), resize.id))
        elif resize.stage == "withdrawn" and job.state is not JobState.RESIZING:
            # It crossed the withdrawal: the job will follow it with a failure, and nothing was started.
            self._record(r.ResizeAccepted(self.state.now, job.id, resize.id))

    def _declined(self, event: e.Declined) -> None:
        job = self._live(event.job)
        if job is not None and job.resize is not None and job.resize.id == event.resize:
            self._record(r.ResizeDeclined(self.state.now, job.id, event.resize, event.reason, event.late))
            self._news = True

    def _resized(self, event: e.Resized) -> None:
        job = self._live(event.job)
        if job is None or job.resize is None or job.resize.id != event.resize:
            return
        resize = job.resize
        gained = NodeSet(resize.nodes) if resize.kind == "expand" else NodeSet()
        released = event.released & NodeSet(job.nodes)
        if job.size + len(gained) - len(released) != resize.after:
            why = f"resize {resize.id} from {resize.before} to {resize.after} nodes gave back {len(released)} nodes"
            self._end(job, JobState.FAILED, why)
            return
        self._record(
            r.ResizeDone(self.state.now, job.id, resize.id, gained, released, event.blocked_s, event.phases)
        )
        if released:
            self._commands.append(c.Release(job.id, released))
        if lost := NodeSet(job.nodes & self.state.lost_mask):
            # The resize was done before the job heard that a newcomer's node is gone.
            self._end(job, JobState.NODE_FAIL, f"lost node {lost}")
        self._news = True

    def _resize_failed(self, event: e.ResizeFailed) -> None:
        job = self._live(event.job)
        if job is None or job.resize is None or job.resize.id != event.resize:
            return
        started = job.resize.kind == "expand" and job.state is JobState.RESIZING
        dirty = NodeSet(job.resize.nodes if started else 0)
        self._record(r.ResizeFailed(self.state.now, job.id, event.resize, event.error, dirty, event.late))
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
        if job.resize is not None and job.resize.kind == "expand":
            mask |= job.resize.nodes
        self._record(
            r.JobEnded(
                self.state.now,
                job.id,
                state,
                event.exit_code,
                NodeSet(mask),
                event.result,
                job.why or event.error,
                event.requeue,
            )
        )
        if left := mask & ~self.state.lost_mask:
            self._commands.append(c.Release(job.id, NodeSet(left)))
        self._news = True

    def _granted(self, event: e.Granted) -> None:
        self._record(r.NodesGranted(self.state.now, event.nodes))
        self._news = True

    def _clean(self, event: e.Clean) -> None:
        if not self.state.dirty.get(event.job, 0) & event.nodes.mask:
            return  # lost meanwhile, or proved twice
        self._record(r.NodesClean(self.state.now, event.job, event.nodes))
        self._news = True

    def _lost(self, event: e.Lost) -> None:
        self._record(r.NodesLost(self.state.now, event.nodes))
        for _, _, job in list(self.state.running):
            newcomers = job.resize.nodes if job.resize is not None and job.resize.kind == "expand" else 0
            if job.nodes & event.nodes.mask:
                self._end(job, JobState.NODE_FAIL, f"lost node {event.nodes}")
            elif newcomers & event.nodes.mask and job.resize is not None:
                self._withdraw(job, "a node of the expansion is lost")
        self._news = True

    def _back(self, event: e.Back) -> None:
        self._record(r.NodesBack(self.state.now, event.nodes))
        self._news = True

    def _tick(self, _event: e.Tick) -> None:
        self._news = True
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
            if resize.stage == "withdrawn":
                self._end(job, JobState.FAILED, f"resize {resize.id} passed its deadline; the job is stuck")
            else:
                self._withdraw(job, f"not {'done' if resize.stage == 'accepted' else 'answered'} in time")

    def _next_deadline(self, now: float) -> float:
        """The next time at which a Tick could matter."""
        state = self.state
        wake = NEVER
        for end, _, job in state.running if state.limited else ():
            if end > now and job.limited and job.ending is None:
                wake = end
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
        if job.resize is not None and job.resize.stage != "withdrawn":
            self._record(r.ResizeWithdrawn(self.state.now, job.id, job.resize.id, why))
            self._commands.append(c.Withdraw(job.id, job.resize.id))

    def _end(self, job: Job, state: JobState, error: str) -> None:
        if job.ending is None:
            self._record(r.JobEnding(self.state.now, job.id, state, error))
            grace = (
                0.0 if state in (JobState.NODE_FAIL, JobState.FAILED) else self.state.settings.kill_grace_s
            )
            self._commands.append(c.Kill(job.id, grace))

    # ---- decisions -----------------------------------------------------------------------------------

    def _schedule(self) -> None:
        # All of them first: a policy that yields must not see what its own decisions change.
        for decision in list(self._policy.decide(self.state)):
            job = self.state.jobs.get(decision.job)
            if job is None:
                raise self._wrong(decision, "there is no such job")
            if type(decision) is p.Start:
                self._start(job, decision)
            elif type(decision) is p.Resize:
                if not self.state.resizable(job):
                    raise self._wrong(decision, "the job cannot be offered a resize now")
                if decision.size > job.size and not self.state.resizable(job, grow=True):
                    continue  # its newcomers keep failing; a policy need not know that
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
        self._record(r.JobStarted(self.state.now, job.id, nodes, decision.reason))
        self._commands.append(c.Start(job.id, nodes))

    def _offer(self, job: Job, size: int, reason: p.Reason, leave: NodeSet) -> None:
        state = self.state
        decision = p.Resize(job.id, size, reason)
        if not job.bounds.allows(size) or size == job.size:
            raise self._wrong(decision, f"it has {job.size} nodes; allowed are {job.bounds.describe()}")
        if size - job.size > state.free:
            raise self._wrong(decision, f"only {state.free} nodes are free")
        kind = "expand" if size > job.size else "shrink"
        nodes = leave
        if kind == "expand":
            nodes = NodeSet(lowest_bits(state.free_mask, size - job.size))
        resize = state.last_resize + 1
        self._record(r.ResizeOffered(state.now, job.id, resize, kind, job.size, size, nodes, reason))
        self._commands.append(
            c.Offer(
                job.id, resize, kind, size, nodes, state.settings.offer_deadline_s,
                must=kind == "shrink" and reason is ORDERED,
            )
        )  # fmt: skip

    def _wrong(self, decision: p.Decision, why: str) -> PolicyError:
        state = self.state
        return PolicyError(
            f"policy {self._policy.name!r} at {state.now:.3f} s decided {decision}, but {why} "
            f"(free {state.free} of {state.total}, pending {state.waiting}, running {len(state.running)})"
        )


def replay(records: Iterable[r.Record], settings: Settings | None = None) -> State:
    """The state that the records tell; no policy is asked."""
    state = State(settings)
    for record in records:
        state.apply(record)
    return state


def has_ended(state: JobState) -> bool:
    return state in ENDED
