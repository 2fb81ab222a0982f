"""A live cluster without I/O: the scheduler's core and the lives of its jobs, as one machine.

``handle`` takes what has happened and answers with records and with what is to be done, in this order: the records
are written before anything is done for them. A start or an offer comes out of the call after the one that made its
record, as do acknowledgements, requests for nodes, and nodes to be given back, with whose agents goes what they have
told: by then ``Hold`` has told it if that could not be written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from pliant.core import commands as c
from pliant.core import events as e
from pliant.core import records as r
from pliant.core.arrays import ArrayThrottle
from pliant.core.core import SchedulerCore
from pliant.core.job import ScheduledJob
from pliant.core.ledger import Outcome
from pliant.core.settings import Settings
from pliant.live.cluster import orders as o
from pliant.live.cluster import term
from pliant.live.cluster.bus import Bus
from pliant.live.cluster.nodes import Nodes
from pliant.live.job import resuming
from pliant.live.job.groups import GroupPlace
from pliant.live.job.life import KILLED, SESSION_S, JobLife
from pliant.model.deadlines import GROUP_GONE_S, GROUP_LINGER_S, GROUP_START_S
from pliant.model.errors import ProtocolError
from pliant.model.jobs import JobSpec, JobState
from pliant.model.limits import LOG
from pliant.model.nodes import NodeSet
from pliant.model.words import are, count
from pliant.policy.fcfs import Fcfs
from pliant.policy.view import Policy
from pliant.protocol import codec
from pliant.protocol import messages as m

PATIENCE_S = {"start": GROUP_START_S, "linger": GROUP_LINGER_S, "gone": GROUP_GONE_S}
"""What waits for agents, and so much longer while one of them cannot be reached."""
JOURNAL = "journal"
"""The key of the hold that says that what was made before is not written."""


class RunContext(NamedTuple):
    """What the jobs of a cluster have in common: the directory of their output, where they start, the environment that
    the provider adds to theirs, and the run's secret."""

    output: str
    cwd: str
    env: dict[str, str]
    secret: bytes


class Cluster:
    """All nodes and jobs of a live cluster. Under a policy that goes wrong it goes on with ``fcfs``."""

    def __init__(
        self, policy: Policy, settings: Settings, context: RunContext, records: Iterable[r.Record] = ()
    ) -> None:
        """With the ``records`` of a journal it goes on where they end, and so does its time; ``Resumed`` is then the
        first that it is told."""
        self.core = SchedulerCore.resume(policy, settings, records, fallback=Fcfs())
        state = self.core.state
        self.lives: dict[int, JobLife] = {}
        self._bus = Bus()
        self._bus.now = state.now
        self.nodes = Nodes(state, self._bus, self.lives)
        self._context = context
        self._decoder = codec.from_agent()
        self._holds: dict[str, str] = {}
        self._leaving: list[str] = []
        self._asking: list[o.Acquire | o.Withdraw] = []
        self._unsubmitted: deque[JobSpec] = deque()
        self._throttle: ArrayThrottle[JobSpec] = ArrayThrottle()
        self._specs = {job.id: job.spec for job in state.jobs.values()}
        for spec in (*self._specs.values(), *(job.spec for job in state.requeued.values())):
            self._throttle.there(spec)
        self._last_job = state.last_job
        self._woken = False
        self._resuming = ""
        self._records: list[r.Record] = []

    # ---- in and out ----------------------------------------------------------------------------------

    def handle(self, inputs: Iterable[o.AnyInput], now: float) -> tuple[list[r.Record], list[o.Output]]:
        """What follows from these inputs, which have come by ``now``: seconds that never run backwards."""
        bus = self._bus
        bus.now = now
        self._records, bus.outputs = [], []
        inputs = list(inputs)
        for each in inputs:
            if isinstance(each, o.Hold):
                self._take(each)  # first of all: it speaks of what was made before
        self._begin()
        for each in inputs:
            self._take(each)
            self._drain()
        if self._resuming:
            self._go_on()
        if not self._resuming:
            self._settle()
        records, outputs = self._records, bus.outputs
        self._records, bus.outputs = [], []  # else they are kept until the next call, whenever that is
        return records, outputs

    @property
    def pending(self) -> bool:
        """Whether ``handle`` has more to say at once, when the records of this call have been written."""
        begins = any(life.beginning is not None for life in self.lives.values())
        return bool(begins or self._leaving or self._asking) and not self.held_back

    @property
    def held_back(self) -> bool:
        """Whether there are records that could not be written: what follows from them has to wait."""
        return JOURNAL in self._holds

    def _begin(self) -> None:
        """What the records of earlier calls allow, as they are written."""
        if self.held_back:
            return
        if self._leaving:
            leaving, self._leaving = self._leaving, []
            # One that was lost meanwhile, and is back, is there twice.
            self._bus.outputs.append(o.GiveBack(tuple(dict.fromkeys(leaving))))
        asking, self._asking = self._asking, []
        self._bus.outputs += asking  # behind those that leave, which may come again
        for life in self.lives.values():
            command, life.beginning = life.beginning, None
            if command is None or life.ended:
                continue
            if isinstance(command, c.Start):
                self._start(life, command)
            else:
                life.offer(command)

    def _settle(self) -> None:
        """One scheduling pass for all that has happened, and whatever follows from it at once."""
        while True:
            self._follow(self.core.settle(self._bus.now))
            self._give_up_oversized()
            if self._is_stuck():
                waiting = ", ".join(job.spec.name for job in self.core.state.jobs.values())
                why = (
                    f"nothing runs, {are(self.core.state.nodes.free, 'node')} free, nothing is left to happen, and it "
                    f"starts none of the jobs that wait ({waiting})"
                )
                self._follow(self.core.fall_back(why, self._bus.now))
            elif not self._bus.events:
                break
            self._drain()
        self._forget_ended()

    def _drain(self) -> None:
        """Let the core take what has happened, one event after the other: each job's session goes in step with it."""
        bus = self._bus
        while bus.events:
            self._follow(self.core.note(bus.events.popleft(), bus.now))

    def _follow(self, outcome: Outcome) -> None:
        records, commands = outcome
        self._records += records
        for record in records:
            if isinstance(record, r.ResizeDone):
                self.lives[record.job].committed(record)
            elif isinstance(record, r.ResizeFailed | r.JobEnded) and record.job in self.lives:
                self.lives[record.job].failed(record)
            self._bus.outputs += term.doubts(self.core.state, record)
            if isinstance(record, r.JobEnded):
                spec = self._specs.pop(record.job)
                if record.requeued:
                    self._submit(spec, record.job)
                else:
                    self._submit(self._throttle.ended(spec))
        for command in commands:
            self._carry_out(command)

    @property
    def idle(self) -> bool:
        """Whether all jobs have ended and all nodes are clean."""
        state = self.core.state
        return not (state.jobs or state.nodes.dirty or self._unsubmitted or self._resuming)

    @property
    def resuming(self) -> bool:
        """Whether it still hears what there is, and decides nothing."""
        return bool(self._resuming)

    def _is_stuck(self) -> bool:
        """Whether jobs wait and nothing will ever happen again, though another policy could start them."""
        state = self.core.state
        if not state.jobs or state.policy_failed or self._bus.events or self._holds or self._unsubmitted:
            return False
        if state.nodes.awaited:
            return False
        returning = state.nodes.lost_mask & ~self.nodes.gone
        return not (state.running or state.nodes.dirty or returning or self._woken)

    # ---- inputs --------------------------------------------------------------------------------------

    def _take(self, given: o.AnyInput) -> None:  # noqa: C901, PLR0912 - a table: a case for each input
        match given:
            case o.Said():
                self._heard(given)
            case o.Fired():
                self._fired(given.key)
            case o.Granted():
                self.nodes.granted(given)
            case o.Lost():
                self.nodes.lost(given.node, final=given.final, why=given.why)
            case o.Back():
                self.nodes.back(given.node)
            case o.Unlinked() | o.Greeted() | o.Repeated():
                self.nodes.linked(given)
            case o.Refused():
                self._bus.happened(e.Refused(given.count, given.why, given.need))
            case o.Returned():
                self.nodes.returned(given.names)
            case o.Ask():
                self._bus.happened(e.NodesOrdered(given.count, given.need))
            case o.Reclaim():
                self.nodes.asked_back(given)
            case o.AskLess():
                self._bus.happened(e.NodesWithdrawn(given.count))
            case o.Batch():
                self._unsubmitted.extend(sorted(given.jobs, key=lambda job: job.submit_s))
                self._submit_due()
            case o.Cancel():
                self._cancel(given.job, given.why)
            case o.Resize():
                slots = {self.nodes.numbers[name]: count for name, count in given.slots.items()}
                leave = self.nodes.named(given.leave)
                self._bus.happened(e.ResizeOrdered(given.job, given.size, leave, slots))
            case o.Tail():
                if (life := self.lives.get(given.job)) is not None:
                    life.tail(given.text)
            case o.Hold():
                self._hold(given.key, given.why)
            case o.Release():
                self._release(given.key)
            case o.Resumed():
                self._take_up(given.why)
            case o.EndAll():
                self._end_all(given.why, given.state)
            case o.EndNow():
                self._end_now(given.why)

    def _hold(self, key: str, why: str) -> None:
        self._holds[key] = why
        self.core.held = "; ".join(self._holds.values())

    def _release(self, key: str) -> None:
        self._holds.pop(key, None)
        self.core.held = "; ".join(self._holds.values())
        self._bus.happened(e.Tick())

    def _submit_due(self) -> None:
        waiting = self._unsubmitted
        over = term.is_over(self.core.state, self._bus.now)
        while waiting and (over or waiting[0].submit_s <= self._bus.now):
            job = waiting.popleft()
            self._submit(self._throttle.come(job, job))
        if waiting:
            self._bus.outputs.append(o.SetTimer(("submit",), waiting[0].submit_s))

    def _submit(self, job: JobSpec | None, requeue_of: int = 0) -> None:
        if job is not None:
            self._last_job += 1
            self._specs[self._last_job] = job
            self._bus.happened(e.Submitted(self._last_job, job, requeue_of))

    def _acquire_again(self) -> None:
        """Nobody knows of nodes that were asked for and have not come; those to be given back the core names itself."""
        for command in self.core.unanswered():
            if isinstance(command, c.Acquire | c.WithdrawNodes):
                self._carry_out(command)

    def _cancel(self, number: int, why: str, state: JobState = JobState.CANCELLED) -> None:
        """What has ended, and is only not told yet, has not been cancelled."""
        if number in self.lives:
            self.lives[number].tell_end()
        self._bus.happened(e.Cancelled(number, why, state))

    def _end_all(self, why: str, state: JobState) -> None:
        self._hold("end", why)
        self._submit_no_more()
        for number in self.core.state.jobs:
            self._cancel(number, why, state)

    def _submit_no_more(self) -> None:
        self._unsubmitted.clear()
        self._throttle.clear()

    def _end_now(self, why: str) -> None:
        self._hold("end", why)
        self._submit_no_more()
        for life in self.lives.values():
            life.tell_end()
        for number, job in self.core.state.jobs.items():
            if job.requeues:
                self._bus.happened(e.Cancelled(number, why))
            self._bus.happened(e.Ended(number, KILLED, error=why) if job.size else e.Cancelled(number, why))
        for life in self.lives.values():
            life.ended = True

    def _fired(self, key: o.Key) -> None:
        what = key[0]
        if what == "wake":
            self._woken = False
            self._bus.happened(e.Tick())
        elif what == "submit":
            self._submit_due()
        elif what == term.KEY:
            self._bus.outputs += term.fired(self.core.state, self._bus.now)
            self._submit_due()  # what comes later comes in vain, and is told that
        elif what == "proof":
            self.nodes.proof_overdue(int(key[1]), int(key[2]))
        elif (life := self.lives.get(int(key[1]))) is not None:
            if what in PATIENCE_S and not self.nodes.reaches_all(life):
                # What it waits for may have happened, and nobody could tell.
                self._bus.later(key, PATIENCE_S[str(what)])
            else:
                life.fired(str(what), *map(int, key[2:]))

    # ---- messages of agents --------------------------------------------------------------------------

    def _heard(self, said: o.Said) -> None:
        node = self.nodes.numbers.get(said.node)
        if node is None:
            return
        try:
            message = self._decoder.decode(said.message)
        except ProtocolError as error:
            self._bus.outputs.append(o.Send((said.node,), m.Error(str(error))))
            return
        if not self.nodes.heard(node, message):
            life = self.lives.get(getattr(message, "job", 0))
            if life is not None:
                life.heard(node, message)

    # ---- going on where another controller ended -----------------------------------------------------

    def _take_up(self, why: str) -> None:
        """Let the jobs go on that ran. Until all agents are here, or lost, and have said again what may not have been
        recorded, nothing is begun, ended for being late, or taken back."""
        self._resuming = why
        self._hold("resume", why)
        state = self.core.state
        for number, job in state.requeued.items():
            self._submit(job.spec, number)
        self.nodes.resume()
        for _, number, job in state.running:
            self.lives[number] = life = self._life(job)
            resuming.take_up(life, job, state)
            for node in NodeSet(state.nodes.lost_mask):
                life.lost(node)
            if not job.greeted:
                self._bus.later(("session", number), SESSION_S)

    def _go_on(self) -> None:
        """See to the groups of jobs whose agents are all here. If all is known that can be known, take back what was
        left half done, and do again what has no answer."""
        state = self.core.state
        there = self.nodes.groups()
        for life in self.lives.values():
            job = state.jobs.get(life.number)
            if job is not None and not life.ended and not self.nodes.is_behind(life):
                resuming.find_missing(life, job, there)
        self._drain()
        if not self.nodes.settled:
            return
        for life in self.lives.values():
            life.quiet = False
            life.tell_end()
        self._drain()
        why, self._resuming = self._resuming, ""
        self._release("resume")
        self._bus.happened(e.Resumed())
        self._drain()
        for number, life in list(self.lives.items()):
            if (job := state.jobs.get(number)) is None or life.ended:
                continue
            if resuming.roll_back(self.core, life, job):
                self._bus.happened(e.TakenBack(number, why))
            self._drain()
        for command in resuming.unanswered(self.core, self.nodes.is_proving):
            self._carry_out(command)
        self._acquire_again()
        self._bus.outputs += term.timer(state, self._bus.now)

    # ---- commands of the core ------------------------------------------------------------------------

    def _carry_out(self, command: c.Command) -> None:  # noqa: C901 - a table: a case for each command
        match command:
            case c.WakeAt():
                self._woken = True
                self._bus.outputs.append(o.SetTimer(("wake",), command.at))
            case c.Release():
                for node in command.nodes:
                    self.nodes.prove(command.job, node)
            case c.Acquire():
                self._asking.append(o.Acquire(command.count, command.need))
            case c.WithdrawNodes():
                self._asking.append(o.Withdraw(command.count))
            case c.GiveBack():
                self._leaving += [self._bus.names[node] for node in command.nodes]
            case c.Start():
                if not command.resize:
                    self.lives[command.job] = self._life(self.core.state.jobs[command.job])
                self.lives[command.job].unbegun = command.resize
                self.lives[command.job].beginning = command
            case c.Offer():
                self.lives[command.job].beginning = command
            case c.Stay() | c.Withdraw() | c.Kill():
                self._to_life(command)

    def _to_life(self, command: c.Stay | c.Withdraw | c.Kill) -> None:
        life = self.lives.get(command.job)
        if life is None or life.ended:
            return
        beginning = life.beginning
        if not isinstance(command, c.Stay):
            life.beginning = None
        match command:
            case c.Stay():
                life.stay()
            case c.Withdraw() if isinstance(beginning, c.Offer):
                # The job has not heard of it: this is the answer that it cannot give.
                said = m.Decline(life.side.epoch, command.resize, "it was not offered in time", late=True)
                self._bus.happened(e.RootSaid(command.job, said))
                life.stay()  # if it has asked for one meanwhile
            case c.Withdraw():
                life.withdraw(command.resize)
            case c.Kill():
                life.kill(command.grace_s)

    def _start(self, life: JobLife, command: c.Start) -> None:
        state = self.core.state
        job = state.jobs[life.number]
        if not command.resize:
            resuming.know_losses(life, job)  # of what was lost while the start waited for the disk
            groups, present = state.new_groups(command.nodes.mask, 0), state.groups(job)
            life.start([group for group in groups if group.id in present], 0)
        elif job.resize is not None and job.resize.id == command.resize:
            life.start(job.resize.arriving, command.resize)

    def _life(self, job: ScheduledJob) -> JobLife:
        context = self._context
        place = GroupPlace(
            self._bus.names,
            f"{context.output}/{job.spec.name}{LOG}",
            context.cwd,
            context.env,
            context.secret,
        )
        return JobLife(job.id, job.spec, place, self._bus, one_world=job.one_world)

    def _forget_ended(self) -> None:
        """Jobs that have ended and whose nodes are clean: nothing more can come from them."""
        state = self.core.state
        for number in [n for n, life in self.lives.items() if life.ended]:
            if number not in state.jobs and number not in state.nodes.dirty:
                del self.lives[number]

    def _give_up_oversized(self) -> None:
        """Pending jobs that need more nodes than will ever be there again would wait for ever."""
        state = self.core.state
        staying = state.nodes.all_mask & ~state.nodes.reclaimed_mask & ~self.nodes.gone
        left = staying.bit_count() + state.nodes.awaited
        if left >= len(self._bus.names):
            return
        for job in state.queue:
            if job.bounds.min > left:
                why = f"it needs {count(job.bounds.min, 'node')}, and {are(left)} left"
                self._bus.happened(e.Cancelled(job.id, f"{why} ({self.nodes.missing()})"))
