"""The controller: one event loop that turns what happens into events for the core and carries out its
commands. It holds no scheduling logic."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import deque
from collections.abc import Callable
from pathlib import Path

from pliant.core import commands as c
from pliant.core import events as e
from pliant.core import records as r
from pliant.core.core import SchedulerCore
from pliant.core.state import Settings
from pliant.daemon.jobs import LiveGroup, LiveJob, log_file
from pliant.daemon.sessions import Sessions
from pliant.model.errors import PolicyError, ProtocolError
from pliant.model.jobs import JobSpec
from pliant.model.nodes import NodeSet, hostlist
from pliant.policy.view import Policy
from pliant.protocol import messages as m
from pliant.protocol.fence import pieces
from pliant.protocol.scheduler_side import SchedulerSide
from pliant.providers.local import LocalNodes

SESSION_S = 60.0
"""A job that may be resized and has not opened a session by then is told so in its log."""
LINGER_S = 30.0
"""When one group has ended in good order, the others of its job have this long to follow."""


class Controller:
    """A cluster of local nodes and the jobs on it. ``sinks`` get every record as it is made."""

    def __init__(
        self, policy: Policy, settings: Settings, *,
        nodes: int, slots: int, runtime: Path, run: str, output: Path,
    ) -> None:  # fmt: skip
        self.core = SchedulerCore(policy, settings, self._keep)
        self.provider = LocalNodes(
            nodes, slots, run, runtime, on_message=self._heard, on_lost=self._lost, on_back=self._back
        )
        self.names = self.provider.names
        self._numbers = {name: i for i, name in enumerate(self.names)}
        self._output = output
        self._policy = policy.name
        self.sinks: list[Callable[[r.Record], None]] = []
        self._holds: dict[str, str] = {}
        self._jobs: dict[int, LiveJob] = {}
        self._events: list[e.Event] = []
        self._due = False
        self._wake: asyncio.TimerHandle | None = None
        self._timers: set[asyncio.TimerHandle] = set()
        self._began = 0.0
        self._idle = asyncio.Event()
        self._unsubmitted = 0
        self._gone: set[int] = set()
        self._last_job = 0
        self._crash: BaseException | None = None
        self._sessions = Sessions(self.names, self.provider.send, self.happened, self._drop_newcomers)

    # ---- life ----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Bring the nodes up; time 0 is when all of them are there."""
        await self.provider.start()
        self._began = asyncio.get_running_loop().time()
        self.happened(e.Granted(NodeSet.first(len(self.names))))

    async def run(self, jobs: tuple[JobSpec, ...]) -> None:
        """Submit the jobs at their times and return when all have ended and all nodes are clean."""
        self._unsubmitted = len(jobs)
        self._submit_due(deque(sorted(jobs, key=lambda job: job.submit_s)))
        await self._idle.wait()
        if self._crash is not None:
            raise self._crash

    async def end_jobs(self, why: str, patience_s: float) -> None:
        """End all jobs, in good order if that takes no longer than ``patience_s``."""
        self.hold("end", why)
        self._unsubmitted = 0
        self._idle.clear()
        self._crash = None
        for number, job in self.core.state.jobs.items():
            self.happened(e.Cancelled(number, why))
            if job.size and number not in self._jobs:
                self.happened(e.Ended(number, 0))  # recorded as started in a pass that failed: nothing runs
        self.happened(e.Tick())
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), patience_s)

    def end_now(self) -> None:
        """Book the end of all jobs that have not ended: what is left of them ends with their agents."""
        self.hold("end", "the run ends")
        for number, job in self.core.state.jobs.items():
            if job.size:
                self.happened(e.Ended(number, 128 + signal.SIGKILL))
            else:
                self.happened(e.Cancelled(number))
        self._handle()

    def hold(self, key: str, why: str) -> None:
        """Begin nothing until all holds are released; what goes on goes on."""
        self._holds[key] = why
        self.core.held = "; ".join(self._holds.values())

    def release(self, key: str) -> None:
        """Release a hold, and make up for the passes that were not made."""
        self._holds.pop(key, None)
        self.core.held = "; ".join(self._holds.values())
        self.happened(e.Tick())

    def fail(self, error: Exception) -> None:
        """End ``run`` with this error."""
        if self._crash is None:
            self._crash = error
        self._idle.set()

    async def stop(self) -> None:
        for timer in self._timers:
            timer.cancel()
        if self._wake is not None:
            self._wake.cancel()
        await self.provider.stop()

    @property
    def now(self) -> float:
        """Seconds since all nodes were there; 0 before."""
        return asyncio.get_running_loop().time() - self._began if self._began else 0.0

    def _submit_due(self, waiting: deque[JobSpec]) -> None:
        """Submit what is due, in order, and come back for the next."""
        if not self._unsubmitted:
            return
        while waiting and waiting[0].submit_s <= self.now:
            self._unsubmitted -= 1
            self.happened(e.Submitted(self._next_job(), waiting.popleft()))
        if waiting:
            self._later(waiting[0].submit_s - self.now, self._submit_due, waiting)

    def _next_job(self) -> int:
        self._last_job += 1
        return self._last_job

    # ---- the core ------------------------------------------------------------------------------------

    def happened(self, event: e.Event) -> None:
        """Note an event; all that are noted before the loop turns again are handled together."""
        self._events.append(event)
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._handle)

    def _handle(self) -> None:
        self._due = False
        events, self._events = self._events, []
        try:
            for command in self.core.handle(events, self.now):
                self._carry_out(command)
        except Exception as error:  # noqa: BLE001 - whatever it is, run() raises it after the clean-up
            self.fail(error)
            return
        self._forget_ended()
        self._give_up_oversized()
        state = self.core.state
        if state.dirty or self._unsubmitted or self._events:
            return
        if not state.jobs:
            self._idle.set()
        elif self._is_stuck():
            waiting = ", ".join(job.spec.name for job in state.jobs.values())
            self.fail(
                PolicyError(
                    f"policy {self._policy!r} is stuck at {self.now:.3f} s: nothing runs, {state.free} nodes are "
                    f"free, nothing is left to happen, and it starts none of the jobs that wait ({waiting})"
                )
            )

    def _is_stuck(self) -> bool:
        """Whether jobs wait and nothing will ever happen again."""
        state = self.core.state
        returning = state.lost_mask & ~NodeSet.of(self._gone).mask
        return not (state.running or returning or self._holds or self._wake)

    def _keep(self, record: r.Record) -> None:
        if isinstance(record, r.ResizeDone):
            self._resize_done(record)
        for sink in self.sinks:
            sink(record)

    def _is_over(self, command: c.Start | c.Offer | c.Stay | c.Withdraw | c.Kill) -> bool:
        job = self._jobs.get(command.job)
        if job is None:
            return not isinstance(command, c.Start) or command.job not in self.core.state.jobs
        return job.ended

    def _forget_ended(self) -> None:
        """Jobs that have ended and whose nodes are clean: nothing more can come from them."""
        state = self.core.state
        for number in [n for n, job in self._jobs.items() if job.ended]:
            if number not in state.jobs and number not in state.dirty:
                del self._jobs[number]

    def _carry_out(self, command: c.Command) -> None:
        if isinstance(command, c.Start | c.Offer | c.Stay | c.Withdraw | c.Kill) and self._is_over(command):
            return  # it crossed the job's end; what was reserved for it is released by that
        match command:
            case c.Start():
                self._start(command)
            case c.Offer():
                self._offer(command)
            case c.Stay():
                self._sessions.tell_root(self._jobs[command.job], m.Stay())
            case c.Withdraw():
                self._sessions.tell_root(self._jobs[command.job], m.Withdraw(command.resize))
            case c.Release():
                for node in command.nodes:
                    self.provider.send(self.names[node], m.Prove(command.job))
            case c.Kill():
                self._kill(command)
            case c.WakeAt():
                if self._wake is not None:
                    self._wake.cancel()
                loop = asyncio.get_running_loop()
                self._wake = loop.call_at(self._began + command.at, self._woken)

    def _woken(self) -> None:
        self._wake = None
        self.happened(e.Tick())

    def _start(self, command: c.Start) -> None:
        state = self.core.state.jobs[command.job]
        job = self._jobs.get(command.job)
        if job is None:
            output = log_file(self._output, state.spec)
            job = self._jobs[command.job] = LiveJob(command.job, state.spec, output)
        epoch = 0 if job.side is None else job.side.epoch + 1
        groups = job.add_groups(list(command.nodes), self.provider.slots, command.resize)
        if job.side is None:
            job.side = SchedulerSide(groups[0].number)
            self._later(SESSION_S, self._tell_no_session, job)
        env = {
            **self.provider.env,
            **job.spec.env,
            "PLIANT_EPOCH": str(epoch),
            "PLIANT_RESIZE": str(command.resize),
        }
        for group in groups:
            order = m.StartGroup(
                job.number, group.number, group.world, job.spec.command, env,
                job.spec.cwd or os.getcwd(), str(job.output), group.token,  # noqa: PTH109
            )  # fmt: skip
            self.provider.send(self.names[group.node], order)

    def _offer(self, command: c.Offer) -> None:
        job = self._jobs[command.job]
        side = job.session
        names = tuple(self.names[node] for node in command.nodes)
        if command.must:
            self._sessions.tell_root(
                job, m.Drain(command.resize, side.epoch, command.size, names, command.deadline_s)
            )
            return
        job.planned = {node: job.next_group() for node in command.nodes} if command.kind == "expand" else {}
        self._sessions.tell_root(
            job,
            m.Offer(
                command.resize, side.epoch, command.kind, command.size, names, command.deadline_s,
                tuple(job.planned.values()),
            ),
        )  # fmt: skip

    def _kill(self, command: c.Kill) -> None:
        job = self._jobs[command.job]
        if not job.alive():
            self._end(job)
            return
        if command.grace_s:
            self._signal(job, signal.SIGTERM)
            self._later(command.grace_s, self._signal, job, signal.SIGKILL)
        else:
            self._signal(job, signal.SIGKILL)

    def _signal(self, job: LiveJob, number: int, group: int | None = None) -> None:
        for each in job.alive():
            if group in (None, each.number):
                self.provider.send(self.names[each.node], m.Signal(job.number, number, each.number))

    def _later(self, delay: float, call: Callable[..., None], *arguments: object) -> None:
        def fire() -> None:
            self._timers.discard(handle)
            call(*arguments)

        handle = asyncio.get_running_loop().call_later(delay, fire)
        self._timers.add(handle)

    # ---- messages of agents --------------------------------------------------------------------------

    def _heard(self, node: str, message: m.AgentMessage) -> None:
        try:
            self._take(node, message)
        except Exception as error:  # noqa: BLE001 - a defect of ours: run() raises it after the clean-up
            self.fail(error)

    def _take(self, node: str, message: m.AgentMessage) -> None:
        if isinstance(message, m.Proof):
            self._proved(node, message)
            return
        job = self._jobs.get(getattr(message, "job", 0))
        if job is None or job.ended:
            return
        match message:
            case m.Exited():
                self._exited(job, job.groups[message.group], message)
            case m.StartFailed():
                group = job.groups[message.group]
                group.alive.clear()
                self._group_gone(job, group, message.code, message.error)
            case m.Relay():
                self._sessions.relayed(job, node, message)
            case m.Fence():
                self._fence(job, message)
            case m.Started():
                job.groups[message.group].started = True
                if all(group.started for group in job.groups.values() if group.joined):
                    self.happened(e.Launched(job.number))
            case _:
                pass

    def _proved(self, node: str, proof: m.Proof) -> None:
        nodes = NodeSet.of([self._numbers[node]])
        if proof.clean:
            self.happened(e.Clean(proof.job, nodes))
        else:
            # Not even SIGKILL removed them: this node cannot be given to anyone.
            self._gone.update(nodes)
            self.happened(e.Lost(nodes))

    def _fence(self, job: LiveJob, message: m.Fence) -> None:
        """A group of a world that spans several nodes has come to its fence."""
        if job.fence is None:
            return
        try:
            merged = job.fence.arrive(message.group, message.round, message.entries, more=message.more)
        except ProtocolError as error:
            job.fail(1, str(error))
            self._signal(job, signal.SIGKILL)
            return
        if merged is None:
            self._check_fence(job)
            return
        for number in job.fence.groups:
            group = job.groups[number]
            for piece, more in pieces(merged):
                order = m.Fenced(job.number, number, piece, more)
                self.provider.send(self.names[group.node], order)

    def _check_fence(self, job: LiveJob) -> None:
        """A world whose ranks wait in MPI_Init for those of a group that has ended would wait for ever."""
        if job.fence is not None and (missed := job.fence.missed()):
            nodes = hostlist(self.names[job.groups[number].node] for number in missed)
            job.fail(
                1, f"the ranks on {nodes} have ended, and others wait for them in MPI_Init or MPI_Finalize"
            )
            self._signal(job, signal.SIGKILL)

    def _exited(self, job: LiveJob, group: LiveGroup, message: m.Exited) -> None:
        group.alive.discard(message.rank)
        if message.code != 0:
            how = (
                f"was ended by signal {-message.code}" if message.code < 0 else f"exited with {message.code}"
            )
            of = "" if job.spec.one_world else f" of group {group.number}"
            error = f"rank {message.rank}{of} on {self.names[group.node]} {how}"
            code = message.code if message.code > 0 else 128 - message.code
            self._group_gone(job, group, code, error)
        elif not group.alive:
            self._group_gone(job, group, 0, "")

    def _group_gone(self, job: LiveJob, group: LiveGroup, code: int, error: str) -> None:
        """A group has ended, or is broken beyond repair."""
        if not group.joined:
            # What goes wrong with a newcomer concerns nobody but the newcomer.
            self._sessions.tell_root(job, m.GroupLost(group.number, group.why(error)))
        elif code and not group.released:
            job.fail(code, error)
            self._signal(job, signal.SIGKILL)
        if job.fence is not None and not code:
            job.fence.left(group.number)
            self._check_fence(job)
        if not any(each.joined for each in job.alive()):
            # The job itself is over; newcomers that still wait have nobody to join.
            self._signal(job, signal.SIGKILL)
        if not job.alive():
            self._end(job)
        elif group.joined and not group.released and not code and self._in_session(job):
            self._later(LINGER_S, self._linger_over, job, group.number)

    def _in_session(self, job: LiveJob) -> bool:
        """Whether the job's groups belong together as an open session tells, and its root has not said Bye."""
        return job.session.state not in ("new", "closed")

    def _linger_over(self, job: LiveJob, group: int) -> None:
        if not job.ended and not job.groups[group].released and self._in_session(job):
            job.fail(1, f"group {group} had ended, but others did not follow within {LINGER_S:g} s")
            self._signal(job, signal.SIGKILL)

    def _tell_no_session(self, job: LiveJob) -> None:
        if not (job.ended or job.spec.one_world) and job.session.state == "new":
            job.log(
                f"this job was submitted as {job.spec.job_class} ({job.spec.nodes.describe()} nodes) but has not "
                "opened a session with pliant.mpi, so it is not resized, and each node runs a copy with an "
                "MPI_COMM_WORLD of its own; for one world over all nodes give one number of nodes, or class = 'moldable'"
            )

    def _end(self, job: LiveJob) -> None:
        if job.ended:
            return
        if job.exit_code == 0:
            self._tell_no_session(job)
        job.ended = True
        self.happened(e.Ended(job.number, job.exit_code, job.result, job.story() if job.exit_code else ""))

    def _lost(self, node: str, final: bool) -> None:  # noqa: FBT001 - a callback
        """The node's agent is gone and everything on it has been ended; ``final``: it will not come back."""
        number = self._numbers[node]
        self.happened(e.Lost(NodeSet.of([number])))
        for job in self._jobs.values():
            for group in job.groups.values():
                if group.node == number and group.alive and not job.ended:
                    group.alive.clear()
                    self._group_gone(job, group, 128 + signal.SIGKILL, f"node {node} was lost")

        if final:
            self._gone.add(number)

    def _give_up_oversized(self) -> None:
        """Pending jobs that need more nodes than will ever be there again would wait for ever."""
        left = len(self.names) - len(self._gone)
        for job in self.core.state.queue:
            if job.bounds.min > left:
                self.happened(
                    e.Cancelled(job.id, f"it needs {job.bounds.min} nodes, and only {left} are left")
                )

    def _back(self, node: str) -> None:
        self.happened(e.Back(NodeSet.of([self._numbers[node]])))

    def _resize_done(self, record: r.ResizeDone) -> None:
        """The commit point: newcomers are members now, released groups may end without harm."""
        job = self._jobs[record.job]
        for group in job.groups.values():
            if group.resize == record.resize:
                group.joined = True
            if group.node in record.released and group.joined:
                group.released = True
        job.board.forget_before(job.session.epoch)

    def _drop_newcomers(self, job: LiveJob, resize: int) -> None:
        for group in job.alive():
            if group.resize == resize and not group.joined:
                self._signal(job, signal.SIGKILL, group.number)
