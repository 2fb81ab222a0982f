"""The life of one live job, from its start to its end, without I/O: its groups and newcomers, its sessions, its root
and board, the fence of its world, how it is drained, ended and told.

Messages, the core's commands and timers go in; events for the core, messages for agents and timers come out, by
``Effects``.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence

from pliant.core import commands as c
from pliant.core import events as e
from pliant.core import records as r
from pliant.live.cluster.orders import SIGKILL, SIGTERM
from pliant.live.job.effects import Effects
from pliant.live.job.exchange import Exchange
from pliant.live.job.groups import GroupPlace, LiveGroup, last_line, story_of
from pliant.live.job.rendezvous import Asker
from pliant.model.deadlines import GROUP_GONE_S, GROUP_LINGER_S, GROUP_START_S
from pliant.model.errors import ProtocolError
from pliant.model.groups import Group
from pliant.model.jobs import Bounds, JobSpec, JobState
from pliant.model.kinds import KINDS, Loss
from pliant.model.nodes import hostlist
from pliant.model.world import MpiWorld
from pliant.protocol import VERSION, codec
from pliant.protocol import messages as m
from pliant.protocol.phases import Phase
from pliant.protocol.scheduler_side import START, KeyValueStore, SchedulerSide

SESSION_S = 60.0
"""A job that may be resized and has not opened a session by then is told so in its log."""
TAIL_S = 5.0
BLOCK = "its block `with mpi.malleable(...) as job:`"
SIGNALLED = 128
"""Exit codes above are those of processes that a signal has ended, as a shell shows it."""
KILLED = SIGNALLED + SIGKILL


class JobLife:
    """One job between its start and its end. Its kind says what the loss of a group means to it; ``losses`` are those
    that it goes on without, each with why."""

    def __init__(
        self, number: int, spec: JobSpec, place: GroupPlace, effects: Effects, *, one_world: bool
    ) -> None:
        self.number = number
        self.spec = spec
        self.groups: dict[int, LiveGroup] = {}
        self.losses: dict[int, str] = {}
        self.side = SchedulerSide(0)
        self.ended = False
        self._kind = KINDS[spec.kind]
        self._place = place
        self._effects = effects
        self._exit_code = 0
        self._cause = ""
        self._one_world = one_world
        self._values = KeyValueStore()
        self._exchange = Exchange(number, self.groups, effects, self.newcomers)
        self._said_last = m.Bye(0)
        self.cpu_s = 0.0
        """What its ranks that have ended took of the processors."""
        self._said = ""
        self._telling = False
        self._output: str | None = None
        """The end of its output, where its end is known and is not told yet."""
        self._decoder = codec.from_job()
        self.beginning: c.Start | c.Offer | None = None
        """What is to begin when it is known that the record of it is on disk."""
        self.unbegun = 0
        """The resize that it has accepted and whose newcomers have yet to be started."""
        self.quiet = False
        """What agents say may be what they have said before: it gets no errors for an answer. Its end is not told: each
        of them may know a part of what it used."""

    # ---- what the core wants -------------------------------------------------------------------------

    def start(self, groups: Sequence[Group], resize: int) -> None:
        """Start these groups: the first of the job, or the newcomers of a resize."""
        if self.is_over:
            return  # what was reserved for it is released by the end
        self.unbegun = 0
        self.add(groups, resize)
        if not resize:
            self._effects.later(("session", self.number), SESSION_S)
        for group in groups:
            self.start_again(self.groups[group.id])

    def start_again(self, group: LiveGroup, *, order: bool = True) -> None:
        """Have a group started, if that has not been done, and wait no longer than usual until it is."""
        if order:
            self._send_start(group)
        if not group.started:
            self._effects.later(("start", self.number, group.number), GROUP_START_S)

    def add(self, groups: Sequence[Group], resize: int) -> None:
        """These groups belong to the job from now on, those of a ``resize`` as newcomers."""
        for group in groups:
            if group.id not in self.groups:
                token = hmac.new(self._place.secret, f"{self.number}/{group.id}".encode(), hashlib.sha256)
                world = self._world(group, groups)
                self.groups[group.id] = LiveGroup(group, resize, world, token.hexdigest()[:32])
        if self._one_world and len(groups) > 1:
            self._exchange.span(tuple(group.id for group in groups), again=self.quiet)

    def _world(self, group: Group, groups: Sequence[Group]) -> MpiWorld:
        if not self._one_world:
            return MpiWorld(group.id, (self._kind.processes(group.slots),))
        sizes = tuple(self._kind.processes(each.slots) for each in groups)
        return MpiWorld(groups[0].id, sizes, groups.index(group))

    def _send_start(self, group: LiveGroup) -> None:
        epoch = self.side.epoch + (group.resize != 0)
        slots = {} if self._kind.a_process_a_slot else {"PLIANT_WORKERS": str(group.slots)}
        env = {
            **slots,
            **self._place.env,
            **self.spec.env,
            "PLIANT_EPOCH": str(epoch),
            "PLIANT_RESIZE": str(group.resize),
        }
        order = m.StartGroup(
            self.number, group.number, group.world, self.spec.command, env,
            self.spec.cwd or self._place.cwd, self._place.output, group.token, self.spec.dialect,
            self._kind.modules, stdin="" if group.number else self.spec.stdin or "",
        )  # fmt: skip
        self._effects.send(group.node, order)

    def offer(self, command: c.Offer) -> None:
        self._tell_root(self.offer_of(command))

    def offer_of(self, command: c.Offer) -> m.Offer | m.Drain:
        """The message for it."""
        epoch = self.side.epoch
        if command.must:
            return m.Drain(command.resize, epoch, command.size, command.deadline_s, command.leaving)
        arriving = tuple(m.NewGroup(g.id, self._name(g.node), g.slots) for g in command.arriving)
        return m.Offer(
            command.resize, epoch, command.size, command.deadline_s, arriving, command.leaving, command.slots
        )

    def say_again(self, message: m.SchedulerMessage) -> None:
        """Tell the root what it may have been told: its agent knows, and passes it on once."""
        self._tell(self.groups[self.side.root], message)

    def stay(self) -> None:
        # Else one answer was for several wishes, or none is waited for any more.
        if self.side.state == "asked":
            self._tell_root(m.Stay())

    def withdraw(self, resize: int) -> None:
        if self.side.state != "closed":  # else a Bye has answered the offer
            self._tell_root(m.Withdraw(resize))
        if late := [g for g in self.alive() if g.resize == resize and not (g.joined or g.ready)]:
            nodes = hostlist(self._name(g.node) for g in late)
            self._effects.log(self._place.output, f"resize {resize}: {nodes} had not come to the loop")

    def kill(self, grace_s: float) -> None:
        """End the job: ask first, and after ``grace_s`` seconds use force."""
        if not self.alive():
            self._end()
        elif grace_s:
            self._signal(SIGTERM)
            self._effects.later(("kill", self.number), grace_s)
        else:
            self._signal(SIGKILL)

    def committed(self, record: r.ResizeDone) -> None:
        """A resize is done: its newcomers are members now, and released groups may end without harm."""
        new = [group for group in self.groups.values() if group.resize == record.resize]
        for group in new:
            group.joined = True
        for number in record.left:
            self.groups[number].released = True
        for group in new:
            if not group.alive:
                # It ended before the job could say that it is a part of it: that is a loss, or an end, like any other.
                self._group_gone(group, *group.end)
        self._values.forget_before(self.side.epoch)

    # ---- its groups --------------------------------------------------------------------------------

    def alive(self) -> list[LiveGroup]:
        return [group for group in self.groups.values() if group.alive]

    def newcomers(self) -> list[LiveGroup]:
        """Those of the resize that goes on, lost or not."""
        accepted = self.side.accepted
        return [group for group in self.groups.values() if group.resize == accepted and not group.joined]

    def fail(self, code: int, cause: str) -> None:
        """Book a failure; the first one stands, as others follow from it."""
        self._exit_code = self._exit_code or code
        self._cause = self._cause or cause

    def _fail_with(self, group: LiveGroup, code: int, error: str) -> None:
        """Book that a group is lost. If that was none of our doing, what others have complained of before it was heard
        follows from it: an MPI may tell a rank that its peer is gone before the peer's own agent does."""
        unasked = (code > SIGNALLED and not group.killed) or group.early
        if self._cause and not self._exit_code and unasked:
            self._cause = f"{error}; {self._cause}"
        self.fail(code, error)

    def _signal(self, number: int, only: LiveGroup | None = None) -> None:
        for group in self.alive() if only is None else [only]:
            if number == SIGKILL and not self._doom(group):
                continue
            self._effects.send(group.node, m.Signal(self.number, number, group.number))

    def _doom(self, group: LiveGroup) -> bool:
        """The group is being killed: it gets so long to be gone. Whether that is news."""
        if group.killed:
            return False
        group.killed = True
        self._effects.later(("gone", self.number, group.number), GROUP_GONE_S)
        return True

    # ---- timers --------------------------------------------------------------------------------------

    def fired(self, what: str, group: int | None = None, ask: int = 0) -> None:
        """A time that was asked for has come."""
        if self.ended:
            return
        match what:
            case "session":
                self._tell_no_session()
            case "kill":
                self._signal(SIGKILL)
            case "tail":
                self.tail("")
            case "asked" if group is not None:
                self._exchange.overdue(Asker(group, ask))
            case "linger" if group is not None:
                self._linger_over(self.groups[group])
            case "start" if group is not None and not self.groups[group].started:
                where = self._name(self.groups[group].node)
                self.gone(
                    group, 1, f"no word from {where} that the group was started, within {GROUP_START_S:g} s"
                )
            case "gone" if group is not None:
                self.gone(
                    group, KILLED, f"its ranks on {self._name(self.groups[group].node)} could not be ended"
                )

    def gone(self, number: int, code: int, why: str) -> None:
        """All ranks of the group that were taken for alive are given up."""
        group = self.groups[number]
        if group.alive and not self.ended:
            group.alive.clear()
            self._group_gone(group, code, why)

    # ---- messages of agents --------------------------------------------------------------------------

    def heard(self, node: int, message: m.AgentMessage) -> None:
        """A message about a group of this job, from the agent of ``node``."""
        group = self.groups.get(getattr(message, "group", -1))
        if group is None and isinstance(message, m.Exited):
            self.cpu_s += message.cpu_s  # the job had left it before this controller began
        if self.ended or group is None or group.node != node:
            return  # it crossed the end, or an agent says what is not its own
        match message:
            case m.Started():
                group.started = True
                self._check_launched()
            case m.StartFailed():
                group.started = True
                self.gone(group.number, message.code or 1, message.error)
            case m.Exited():
                self._exited(group, message)
            case m.Fence():
                self._at_fence(group, message)
            case m.Asked():
                self._exchange.asked(group, message)
            case m.Relay():
                self._relayed(group, message)
            case _:
                pass

    def lost(self, node: int) -> None:
        """The node is gone, and everything on it has ended."""
        for group in list(self.groups.values()):
            if group.node == node:
                self.gone(group.number, KILLED, f"node {self._name(node)} was lost")

    def _exited(self, group: LiveGroup, message: m.Exited) -> None:
        if message.rank not in group.alive:
            return
        group.alive.discard(message.rank)
        self.cpu_s += message.cpu_s
        if message.code != 0 or message.early:
            of = "" if self._one_world else f" of group {group.number}"
            group.early = message.early
            self._rank_failed(
                group,
                1 if message.early else message.code if message.code > 0 else 128 - message.code,
                f"rank {message.rank}{of} on {self._name(group.node)} {message.how}",
            )
        elif not group.alive:
            if why := self._too_early(group):
                group.early, group.end = True, (1, why)
            self._group_gone(group, *group.end)

    def _too_early(self, group: LiveGroup) -> str:
        """Why a group should not have ended though its ranks have with 0; nothing if it may."""
        loss, words = self._kind.loss, group.words
        if group.released or loss is Loss.FAILS_JOB or "Bye" in words:
            return ""
        ended = f"group {group.number} on {self._name(group.node)} ended with exit code 0 before"
        if "Hello" in words:
            return f"{ended} the end of {BLOCK if loss is Loss.ENDS_JOB else 'run()'}"
        silent = loss is Loss.IS_TOLD and not group.words_missed
        return f"{ended} it came to run()" if silent and self._is_awaited(group) else ""

    def _is_awaited(self, group: LiveGroup) -> bool:
        """Whether others of the job wait for the first word of this group: for the root's all that have said theirs."""
        if group.number != self.side.root:
            return self.side.in_session
        return any("Hello" in each.words for each in self.groups.values() if each is not group)

    def _rank_failed(self, group: LiveGroup, code: int, error: str) -> None:
        """As the first rank to fail did, its group does: at once, or, where ranks do not need each other, when all have
        ended."""
        if self._kind.loss is Loss.ENDS_JOB:
            self._group_gone(group, code, error)
            return
        group.end = group.end if group.end[0] else (code, error)
        if not group.alive:
            self._group_gone(group, *group.end)

    def _group_gone(self, group: LiveGroup, code: int, error: str) -> None:
        """A group has ended, or is broken beyond repair."""
        group.end = code, error
        if not group.joined:
            # What goes wrong with a newcomer concerns nobody but the newcomer.
            if self.side.in_session:
                self._tell_root(m.GroupLost(group.number, group.why(error)))
        elif code and not group.released:
            self._member_lost(group, code, error)
        self._exchange.ended(group, well=not code)
        if not code:
            self._check_fence()
        if not any(each.joined for each in self.alive()):
            # The job itself is over; newcomers that still wait have nobody to join.
            self._signal(SIGKILL)
        if not self.alive():
            self._end()
        elif group.joined and not group.released and not code and self._lingers():
            self._linger(group)

    def _linger(self, group: LiveGroup) -> None:
        self._effects.later(("linger", self.number, group.number), GROUP_LINGER_S)

    def _linger_anew(self) -> None:
        """The job's session is open: groups that had ended before it was are waited for from now on."""
        for group in list(self.groups.values()):
            if not group.is_over or group.released:
                continue
            if why := self._too_early(group):
                self._group_gone(group, 1, why)
            else:
                self._linger(group)

    def _lingers(self) -> bool:
        """Whether its groups belong together, so that none goes on for long without the others."""
        return self.side.in_session and self._kind.loss is not Loss.FAILS_JOB

    def _linger_over(self, group: LiveGroup) -> None:
        if not group.released and self._lingers():
            self.fail(
                1, f"group {group.number} had ended, but others did not follow within {GROUP_LINGER_S:g} s"
            )
            self._signal(SIGKILL)

    # ---- losses --------------------------------------------------------------------------------------

    def _member_lost(self, group: LiveGroup, code: int, error: str) -> None:
        """A group that is a part of the job has failed, or its node is lost: what that means, the table of kinds
        says."""
        loss, number = self._kind.loss, group.number
        why = group.why(error)
        if loss is not Loss.ENDS_JOB:
            self.losses[number] = why
        others = [each.number for each in self.groups.values() if each is not group and self._stays(each)]
        if loss is Loss.ENDS_JOB or not others or (loss is Loss.IS_TOLD and number == self.side.root):
            self._fail_with(group, code, error)
            self._signal(SIGKILL)
            return
        if loss is Loss.FAILS_JOB:
            self._fail_with(group, code, error)
        if number == self.side.root:
            self._without_root(min(others))
        elif self.side.in_session:
            self._tell_root(m.GroupLost(number, why))
        self._effects.happened(e.GroupsLost(self.number, (number,), why))
        self._check_launched()

    def _without_root(self, root: int) -> None:
        """Nobody speaks for the job any more, as after a Bye; or nobody has yet, and another group may."""
        if self.side.in_session:
            self._leave_loop(self.side.accepted)
        self.side.root_lost(root)

    def _stays(self, group: LiveGroup) -> bool:
        """Whether it is one that the job has, as the core counts them."""
        return group.joined and not group.released and group.number not in self.losses

    def tell_losses(self) -> None:
        """Tell the root which groups are lost; what it has been told its agent does not tell it again."""
        for number, why in self.losses.items() if self.side.in_session else ():
            self._tell_root(m.GroupLost(number, why))

    def _check_launched(self) -> None:
        if all(each.started or not each.alive for each in self.groups.values() if each.joined):
            self._effects.happened(e.Launched(self.number))

    def _leave_loop(self, accepted: int | None) -> None:
        """The root can say no more; what the job had ``accepted`` comes to nothing."""
        self._root_said(m.Malleable(self.side.epoch, on=False))
        if accepted is not None:
            self._drop_newcomers(accepted)
            self._root_said(m.Failed(self.side.epoch, accepted, "the job has left its loop", late=True))

    def _root_said(self, message: m.CoreMessage) -> None:
        self._effects.happened(e.RootSaid(self.number, message))

    def _ready(self, group: LiveGroup) -> None:
        """A newcomer has come to where it can be joined; the last of its resize ends the start."""
        group.ready = True
        if not group.joined and all(
            each.ready for each in self.groups.values() if each.resize == group.resize
        ):
            self._root_said(m.Reached(self.side.epoch, group.resize, Phase.SYNCHRONISE))

    def failed(self, record: r.ResizeFailed | r.JobEnded) -> None:
        """Have the job's log tell in which phase a resize has failed, or the job that was resized."""
        if record.phase is None or (isinstance(record, r.ResizeFailed) and record.late):
            return
        what = f"resize {record.resize}" if isinstance(record, r.ResizeFailed) else "the job, being resized,"
        if isinstance(record, r.ResizeFailed) or record.state is not JobState.COMPLETED:
            why = record.error.partition("\n")[0]
            self._effects.log(self._place.output, f"{what} failed in its phase {record.phase}: {why}")

    def _drop_newcomers(self, resize: int) -> None:
        for group in self.alive():
            if group.resize == resize and not group.joined:
                self._signal(SIGKILL, group)

    # ---- fences --------------------------------------------------------------------------------------

    def _at_fence(self, group: LiveGroup, message: m.Fence) -> None:
        """A group of a world that spans several nodes has come to its fence."""
        try:
            self._exchange.fence(group, message)
        except ProtocolError as error:
            self.fail(1, str(error))
            self._signal(SIGKILL)
        else:
            self._check_fence()

    def _check_fence(self) -> None:
        """A world whose ranks wait in MPI_Init for those of a group that has ended would wait for ever."""
        if missed := self._exchange.missed():
            nodes = hostlist(self._name(self.groups[number].node) for number in missed)
            self.fail(
                1, f"the ranks on {nodes} have ended, and others wait for them in MPI_Init or MPI_Finalize"
            )
            self._signal(SIGKILL)

    # ---- sessions ------------------------------------------------------------------------------------

    def _relayed(self, group: LiveGroup, relay: m.Relay) -> None:
        """A message has come from a session; what is out of place is answered by an error, there alone."""
        try:
            said = self._decoder.decode(relay.message)
            if relay.session == 0 and isinstance(said, m.Error):
                self._broken(group, said.text)
                return
            if isinstance(said, m.Hello):
                if said.version != VERSION:
                    raise ProtocolError(
                        f"the program speaks version {said.version} of the protocol, this scheduler {VERSION}"
                    )
                group.session = relay.session  # the latest speaks for the group
            if isinstance(said, m.Hello | m.Bye):
                group.words.add(type(said).__name__)
            self._take(group, said)
        except ProtocolError as error:
            if not self.quiet:
                self._tell(group, m.Error(f"{error} ({self._name(group.node)})"), relay.session)
        while (early := self.side.next_early()) is not None:
            # What turns out to be out of place must not take Done with it.
            number, kept = early
            try:
                self._take(self.groups[number], kept)
            except ProtocolError as error:
                self._tell(self.groups[number], m.Error(str(error)))

    def _take(self, group: LiveGroup, said: m.JobMessage) -> None:
        if isinstance(said, m.Done):
            self._check_done(said)
        opens, accepted = self.side.state == START, self.side.accepted
        if self.side.receive(group.number, said):
            self._said_by(group, said, accepted)
            if opens and self._lingers():
                self._linger_anew()

    def _broken(self, group: LiveGroup, why: str) -> None:
        """The agent itself says why it ends a group, and does so."""
        self._doom(group)
        if group.joined:
            self._cause = self._cause or why
        else:
            group.broken = last_line(why)

    def _check_done(self, done: m.Done) -> None:
        """A program may say what it likes; its groups have to be ones that exist."""
        if self.unbegun and done.resize == self.unbegun:
            raise ProtocolError(f"done is of resize {done.resize}, and no group of it has been started")
        if unknown := sorted({done.root, *done.released} - self.groups.keys() - self.losses.keys()):
            raise ProtocolError(f"done names groups {unknown}, which the job does not have")

    def _said_by(self, group: LiveGroup, message: m.JobMessage, accepted: int | None) -> None:
        match message:
            case m.Hello():
                self._welcome(group, message)
            case m.Put() | m.Get():
                self._with_values(group, message)
            case m.Error():
                self._complained(group, message.text)
            case m.Bye():
                self._said_last = message
                self._leave_loop(accepted)
            case m.Ready():
                self._ready(group)
            case _:
                if isinstance(message, m.Failed):
                    self._drop_newcomers(message.resize)
                self._root_said(message)
                if isinstance(message, m.Done) and message.root != group.number:
                    self.tell_losses()

    def _with_values(self, group: LiveGroup, said: m.Put | m.Get) -> None:
        if isinstance(said, m.Put):
            for waiting in self._values.put(said.epoch, said.key, said.value):
                self._tell(self.groups[waiting], m.Value(said.epoch, said.key, said.value))
        elif (value := self._values.get(group.number, said.epoch, said.key)) is not None:
            self._tell(group, m.Value(said.epoch, said.key, value))

    def _welcome(self, group: LiveGroup, hello: m.Hello) -> None:
        together = tuple(each.number for each in self.groups.values() if each.resize == group.resize)
        bounds = self._agreed(hello.bounds)
        self._tell(group, m.Welcome(self.number, self.spec.name, together, self.spec.model, bounds))
        if group.number == self.side.root:
            self._effects.happened(e.Hello(self.number, hello.bounds))
            self.tell_losses()
        elif (root := self.groups[self.side.root]).is_over and (why := self._too_early(root)):
            self._group_gone(root, 1, why)

    def _agreed(self, program: Bounds | None) -> Bounds | None:
        """The sizes this job may come to, by its submission and by what the ``program`` allows."""
        bounds = self.spec.nodes
        if self.spec.keeps_size:
            bounds = Bounds.exactly(len(self.groups))
        return bounds if program is None else bounds.intersect(program)

    def _complained(self, group: LiveGroup, text: str) -> None:
        if group.joined:
            self._said = self._said or last_line(text)
        else:
            group.complain(text)

    # ---- the end -------------------------------------------------------------------------------------

    def _end(self) -> None:
        """Nothing of the job lives any more. One that failed is told with the end of its output."""
        if self.is_over:
            return
        self._telling = True
        if self._exit_code:
            self._effects.read_tail(self.number, self._place.output)
            self._effects.later(("tail", self.number), TAIL_S)
        else:
            self._tell_no_session()
            self.tail("")

    def tail(self, output: str) -> None:
        """The end of the job's output is there: now the core learns of the job's end, if all agents have been heard."""
        if self.ended or not self._telling:
            return
        if self.quiet:
            self._output = self._output or output
            return
        self.ended = True
        story = story_of(output, self._said, self._cause) if self._exit_code else ""
        bye = self._said_last
        self._effects.happened(
            e.Ended(self.number, self._exit_code, bye.result, story, cpu_s=self.cpu_s, places=bye.places)
        )

    @property
    def is_over(self) -> bool:
        """Whether nothing of it lives, told or not: how it ended does not change any more."""
        return self.ended or self._telling

    def tell_end(self) -> None:
        """Tell its end, if that is known: all agents have been heard, or nobody can wait for them."""
        if self._output is not None:
            self.quiet = False
            self.tail(self._output)

    def _tell_no_session(self) -> None:
        if not self.spec.keeps_size and self.side.state == "new":
            said = (
                f"this job was submitted as {self.spec.job_class} ({self.spec.nodes.in_nodes()}) but has not "
                "opened a session"
            )
            mpi = (
                " with pliant.mpi, so it is not resized, and each node runs a copy with an MPI_COMM_WORLD of its own; "
                "for one world over all nodes give one number of nodes, or class = 'moldable'"
            )
            self._effects.log(
                self._place.output, said + (mpi if self._kind.one_world else ", so it is not resized")
            )

    # ---- telling -------------------------------------------------------------------------------------

    def _tell_root(self, message: m.SchedulerMessage) -> None:
        """Send to the group that speaks for the job; ProtocolError if that must not be sent now."""
        self._tell(self.groups[self.side.root], self.side.send(message))

    def _tell(self, group: LiveGroup, message: m.SchedulerMessage, session: int | None = None) -> None:
        """Send to a session of the group, its latest if none is named."""
        number = group.session if session is None else session
        once = codec.once(message)
        self._effects.send(group.node, m.Deliver(self.number, group.number, number, codec.raw(message), once))

    def _name(self, node: int) -> str:
        return self._place.names.get(node, f"n{node}")
