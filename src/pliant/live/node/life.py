"""The life of one node's agent. It starts groups, answers their PMI requests, passes their sessions on, reports their
ends, and proves the node clean. Without its controller it ends everything and leaves, after ``orphan_grace`` seconds.

A machine without I/O or clock: what happens goes in with its time, what is to be done comes out.
"""

from __future__ import annotations

from collections.abc import Iterable

from pliant.live.node import messages as n
from pliant.live.node.outbox import Outbox
from pliant.live.node.pmix import SERVER
from pliant.live.node.proof import PATIENCE_S, Removal
from pliant.live.node.register import GroupStage, NodeGroup, Register, start_problem
from pliant.live.node.servers import Following, Servers
from pliant.live.node.sessions import Sessions
from pliant.live.node.uplink import AGAIN, Uplink
from pliant.live.node.warmth import Warmth
from pliant.model.deadlines import (
    AGENT_HANG_UP_S,
    AGENT_HEARTBEAT_S,
    AGENT_LOOK_AGAIN_S,
    AGENT_SCAN_S,
    GROUP_LAST_S,
    RANK_START_S,
)
from pliant.model.errors import ProtocolError
from pliant.protocol import messages as m

CANNOT = 126
"""A shell's exit code for a command that cannot be executed."""
UNPREPARED = 125
"""The exit code where Pliant cannot do its own part of a start, as env and timeout have it."""
SIGKILL = 9
BEAT, END, SESSIONS, ORPHAN = "beat", "end", "sessions", "orphan"


class NodeLife:
    """Everything that is decided on one node."""

    def __init__(self, home: n.Home) -> None:
        self._home = home
        self._register = Register()
        self._sessions = Sessions(home, self._register, self._do, self._tell)
        self._warmth = Warmth(home, self._register, self._do)
        self._outbox = Outbox(home.base)
        self._uplink = Uplink(home, self._outbox, self._do, self._inventory)
        follow = Following(self._end_group, self._start_next, self._not_up)
        self._servers = Servers(self._register, self._outbox, self._do, self._tell, follow)
        self._proofs: dict[str, Removal] = {}
        self._end: Removal | None = None
        self._orphaned = self._ordered = False
        self._has_left = False
        self._now = 0.0
        self._out: list[n.AnyOutput] = []

    def handle(self, inputs: Iterable[n.AnyInput], now: float) -> list[n.AnyOutput]:
        """What is to be done because all this has happened by ``now``; after Leave, nothing."""
        self._now, self._out = now, []
        for each in inputs:
            if not self._has_left:
                self._take(each)
        return self._out

    def _take(self, happened: n.AnyInput) -> None:  # noqa: C901, PLR0912 - a table: a case for each input
        match happened:
            case n.Began():
                self._uplink.greet()
                self._do(n.SetTimer(BEAT, AGENT_HEARTBEAT_S))
            case n.LinkSaid():
                self._link_said(happened.data)
            case n.LinkLost():
                self._link_lost()
            case n.LinkMade():
                self._link_made()
            case n.StopAsked():
                if happened.why:
                    self._do(n.Say(happened.why))
                self._begin_end(f"failed: {happened.why}" if happened.why else "was ended by SIGTERM")
            case n.TokenWritten():
                if group := self._register.written((happened.job, happened.group)):
                    self._token_written(group)
            case n.Spawned():
                self._spawned(happened)
            case n.NotSpawned():
                self._not_spawned(happened)
            case n.HelperStarted() | n.HelperReady() | n.HelperFailed():
                self._warmth.heard(happened)
            case n.Exited():
                self._exited(happened)
            case n.RankSaid():
                self._servers.said(happened)
            case n.RankClosed():
                self._servers.closed(happened)
            case n.SessionOpened():
                self._sessions.opened(happened, is_open=self._end is None)
            case n.SessionSaid():
                self._sessions.said(happened.session, happened.data)
            case n.SessionClosed():
                self._sessions.drop(happened.session)
                for group in list(self._register.groups.values()):
                    if not group.sessions:
                        self._last_words(group)
                self._leave_if_alone()
            case n.Found():
                self._found(happened)
            case n.TimerFired():
                self._fired(happened.key)

    def _do(self, output: n.AnyOutput) -> None:
        self._out.append(output)

    def _tell(self, message: m.AgentMessage, what: str = "") -> None:
        """Tell the controller; ``what`` is the job's message that is passed on, if it is one."""
        self._uplink.tell(message, what)
        if what == m.Hello.__name__:
            self._warmth.came_up(message)
        if self._outbox.is_full and not self._uplink.here and self._end is None:
            self._do(n.Say("nobody takes what there is to tell, and it is more than is kept"))
            self._begin_end(orphaned=True)

    def _kill(self, pids: Iterable[int], *, patient: bool = False) -> None:
        if those := tuple(pids):
            self._do(n.Kill(those, patient))

    def _fired(self, key: str) -> None:  # noqa: C901 - a table: a case for each timer
        kind, *numbers = key.split()
        match kind:
            case "again":
                self._uplink.again()
            case "beat":
                self._tell(m.Heartbeat())
                self._do(n.SetTimer(BEAT, AGENT_HEARTBEAT_S))
            case "orphan":
                self._do(n.Say(f"no controller for {self._home.orphan_grace:g} s"))
                self._begin_end(orphaned=True)
            case "start":
                group = self._register.groups.get((int(numbers[0]), int(numbers[1])))
                if group is not None and group.is_starting:
                    self._not_started(group, f"not within {RANK_START_S:g} s", CANNOT)
            case "last":
                group = self._register.groups.get((int(numbers[0]), int(numbers[1])))
                if group is not None:
                    self._last_words(group)
            case "hello":
                self._sessions.is_late(int(numbers[0]))
            case "warm":
                self._warmth.due()
            case "sessions":
                self._sessions.close_all()
                self._leave_if_alone()
            case _:
                self._removal_due(key)

    # ---- the link ------------------------------------------------------------------------------------

    def _inventory(self) -> tuple[tuple[m.Held, ...], tuple[int, ...]]:
        proofs = sorted({removal.job for removal in self._proofs.values() if removal.job is not None})
        return self._register.inventory(), tuple(proofs)

    def _link_lost(self, *, cut: bool = True) -> None:
        """There is no controller; with a grace of 0 the end begins at once. ``cut``: there is no link either, and this
        agent has to make one."""
        if not self._uplink.here:
            return
        self._uplink.lost(cut=cut)
        if not self._home.orphan_grace:
            self._begin_end(orphaned=True)
        elif self._end is None:
            self._do(n.SetTimer(ORPHAN, self._home.orphan_grace))
            if cut:
                self._do(n.Connect())

    def _link_made(self) -> None:
        if not self._uplink.here:
            self._do(n.CancelTimer(ORPHAN))
            self._uplink.greet()

    # ---- the controller's orders ---------------------------------------------------------------------

    def _link_said(self, data: bytes) -> None:
        try:
            for line in self._uplink.lines.feed(data):
                self._opened(line)
            self._uplink.answer()
        except ProtocolError as error:
            # Nobody knows where the next line begins.
            self._do(n.Say(f"the controller sent {error}"))
            self._begin_end(f"could not read what it was sent: {error}")

    def _opened(self, line: bytes) -> None:
        """An envelope has come: what is in it and cannot be read is answered, and harms nothing else."""
        try:
            if (order := self._uplink.opened(line)) is not None:
                self._obey(order)
        except ProtocolError as error:
            self._do(n.Say(f"from the controller: {error}"))
            self._tell(m.Error(str(error)))

    def _obey(self, order: m.ControllerMessage) -> None:  # noqa: C901 - a table
        match order:
            case m.StartGroup():
                self._start(order)
            case m.Signal():
                self._signal(order)
            case m.Prove():
                self._prove(order)
            case m.Deliver():
                group = self._register.groups.get((order.job, order.group))
                if group is not None:
                    self._sessions.deliver(group, order)
            case m.Fenced():
                self._servers.fenced(order)
            case m.Answered():
                self._servers.answered(order)
            case m.Ack():
                self._taken(order)
            case m.Adrift() if order.on:
                self._link_lost(cut=False)
            case m.Adrift():
                self._link_made()
            case m.Error():
                self._do(n.Say(f"the controller says: {order.text}"))
            case m.Shutdown():
                self._begin_end()

    def _taken(self, ack: m.Ack) -> None:
        """What was told up to this number is recorded, and what follows from it."""
        self._uplink.acknowledged(ack)
        if tokens := self._register.taken(ack.number):
            self._do(n.ClearFiles(tokens))

    # ---- starting ------------------------------------------------------------------------------------

    def _start(self, order: m.StartGroup) -> None:
        """Start a group once, however often that is ordered: again, the answer is what it was."""
        known = self._register.groups.get((order.job, order.group))
        if known is not None and known.token == order.token:
            if known.answer is not None:
                self._tell(known.answer)
            return
        if known is not None:
            problem = f"group {order.group} of job {order.job} is still there from before"
        elif self._register.is_over(order):
            problem = f"group {order.group} of job {order.job} has been here, and is over"
        elif self._end is not None:
            problem = "this agent is about to leave"
        else:
            problem = start_problem(order, self._home)
        if problem:
            self._tell(m.StartFailed(order.job, order.group, problem, CANNOT))
            return
        group = NodeGroup(order, self._home)
        self._register.groups[group.key] = group
        self._do(n.WriteToken(group.job, group.number, group.token_file, group.token))
        self._do(n.SetTimer(group.timer, RANK_START_S))

    def _token_written(self, group: NodeGroup) -> None:
        if group.stage is GroupStage.WRITING:
            group.stage = GroupStage.STARTING
            if server := group.start_server(self._home):
                self._do(server)
                self._do(n.SetTimer(group.timer, RANK_START_S))
            else:
                self._start_next(group)
        elif group.cleared:
            self._do(n.ClearFiles(group.files))  # it comes too late

    def _start_next(self, group: NodeGroup) -> None:
        spawn = group.next_rank(self._home)
        if spawn is not None:
            self._do(self._warmth.warmed(spawn))
            self._do(n.SetTimer(group.timer, RANK_START_S))
            return
        group.stage = GroupStage.STARTED
        self._answer(group, m.Started(group.job, group.number, tuple(group.launched)))

    def _spawned(self, new: n.Spawned) -> None:
        group = self._register.groups.get((new.job, new.group))
        if group is None or group.stage is not GroupStage.STARTING or group.starting != new.rank:
            self._kill([new.pid])  # nobody waits for it any more
            return
        self._register.add(group, new.rank, new.pid)
        self._servers.connected(group, new.rank)
        if group.doomed:
            self._kill([new.pid])
        if new.rank != SERVER:  # which says itself when it is up
            self._start_next(group)

    def _not_spawned(self, failed: n.NotSpawned) -> None:
        if (group := self._register.written((failed.job, failed.group))) and group.is_starting:
            group.keep_token()
            self._not_started(group, failed.error, failed.code)

    def _not_started(self, group: NodeGroup, error: str, code: int) -> None:
        """A rank could not be started: the group's others end, and the controller learns why."""
        group.stage = GroupStage.FAILED
        self._kill(group.processes)
        if not group.processes:
            self._clear(group)
        self._answer(group, m.StartFailed(group.job, group.number, error, code))

    def _not_up(self, group: NodeGroup, error: str) -> None:
        self._not_started(group, error, CANNOT)

    def _answer(self, group: NodeGroup, answer: m.Started | m.StartFailed) -> None:
        """The start is over; what ended meanwhile is told now, so that nothing is told of a rank before its start."""
        group.answer = answer
        self._do(n.CancelTimer(group.timer))
        if not group.pids:
            self._kill(group.processes)
        self._tell(answer)
        self._tell_ends(group)
        self._check_waiting()

    # ---- ranks ---------------------------------------------------------------------------------------

    def _signal(self, order: m.Signal) -> None:
        for (job, number), group in self._register.groups.items():
            if job != order.job or order.group not in (None, number):
                continue
            if order.number == SIGKILL or group.is_starting:  # who has not begun has nothing to tidy up
                self._end_group(group)  # the proof finds what the ranks have started
                continue
            for pid in group.pids.values():
                # A rank leads a session: what it started in the foreground gets the signal as well.
                self._do(n.SignalGroup(pid, order.number))

    def _end_group(self, group: NodeGroup) -> None:
        group.doomed = True
        self._kill(group.processes if group.starting == SERVER else group.pids.values())

    def _exited(self, end: n.Exited) -> None:
        found = self._register.ended(end.pid)
        if found is None:
            return
        group, rank = found
        if rank == SERVER:
            self._servers.server_ended(group, end.code)
            self._check_waiting()
            return
        if not group.pids and not group.is_starting:
            self._kill(group.processes)  # its server has nobody left to answer
        if group.is_starting:
            group.ended.append((rank, end))
        elif group.sessions and not group.pids and self._end is None:
            # What it said last, its result say, is read from another socket, and may come behind its end.
            group.ended.append((rank, end))
            self._do(n.SetTimer(group.last_timer, GROUP_LAST_S))
        else:
            self._rank_ended(group, rank, end)
        self._check_waiting()

    def _last_words(self, group: NodeGroup) -> None:
        """All that a group has said has been passed on: now its end is told."""
        if group.ended and not group.is_starting:
            self._do(n.CancelTimer(group.last_timer))
            self._tell_ends(group)

    def _tell_ends(self, group: NodeGroup) -> None:
        ended, group.ended = group.ended, []
        for rank, end in ended:
            self._rank_ended(group, rank, end)

    def _rank_ended(self, group: NodeGroup, rank: int, end: n.Exited) -> None:
        code = end.code
        if group.broken and code == -SIGKILL:
            code = group.broken  # ended by us because of an abort: that is the group's own failure
        early = code == 0 and self._servers.is_early(group, rank)
        self._tell(m.Exited(group.job, group.number, rank, code, end.cpu_s, early))
        if group.dialect.together and (code != 0 or early):
            self._end_group(group)  # as mpiexec does: a group cannot go on without a rank
        elif code == 0:
            self._servers.left(group, rank)

    # ---- the proof -----------------------------------------------------------------------------------

    def _prove(self, order: m.Prove) -> None:
        """Wait for the job's groups to leave, end what does not, and look for anything left behind.

        Asked again while that goes on, the one answer is for both. Groups that are started later are not meant.
        """
        kept = sorted(set(order.keep))
        key = " ".join(map(str, ("proof", order.job, *kept)))
        if key in self._proofs:
            return
        if self._end is not None and self._end.key == SESSIONS:
            self._tell(m.Proof(order.job, self._end.clean, self._end.left))
            return
        groups = self._register.of(order.job, kept)
        removal = Removal(key, order.job, groups, tuple((order.job, number) for number in kept))
        self._proofs[key] = removal
        if self._end is not None:
            return  # the end of everything is the answer
        if self._register.is_alive(removal.groups):
            self._do(n.SetTimer(key, min(max(0.0, order.patience_s), PATIENCE_S)))
        else:
            self._seek(removal)

    def _check_waiting(self) -> None:
        """A rank has ended, or a start: proofs that have waited for that begin."""
        if self._end is not None:
            return
        for removal in list(self._proofs.values()):
            if removal.began is None and not self._register.is_alive(removal.groups):
                self._seek(removal)

    def _seek(self, removal: Removal) -> None:
        if removal.began is None:
            removal.began = self._now
            # What is still being started is not waited for any longer.
            for key in sorted(removal.groups):
                group = self._register.groups.get(key)
                if group is not None and group.is_starting:
                    self._not_started(group, "it was to end before it had started", CANNOT)
        removal.scanning = True
        if removal.job is None:
            self._do(n.Scan(removal.key))
        else:
            others, known = self._register.others(removal.groups)
            keep = tuple(sorted({*others, *removal.kept}))
            self._do(n.Scan(removal.key, removal.job, keep, known))
        self._do(n.SetTimer(removal.key, AGENT_SCAN_S))

    def _removal(self, key: str) -> Removal | None:
        return self._end if key == END else None if self._end else self._proofs.get(key)

    def _found(self, found: n.Found) -> None:
        removal = self._removal(found.key)
        if removal is None or not removal.scanning:
            return
        removal.scanning = False
        # A rank whose end we have not seen is there, whatever the process table says.
        ranks = self._register.pids(self._register.groups if removal.job is None else removal.groups)
        ours = self._register.helpers if removal.job is not None else ()  # one may be newer than the search
        removal.left = tuple(sorted({*found.pids, *ranks}.difference(ours)))
        if removal.left and not removal.is_over(self._now):
            self._kill(removal.left, patient=removal.is_patient(self._now))
            self._do(n.SetTimer(removal.key, AGENT_LOOK_AGAIN_S))
        else:
            self._removed(removal, clean=not removal.left)

    def _removal_due(self, key: str) -> None:
        """Time to look (again); or the last look has had no answer in time."""
        removal = self._removal(key)
        if removal is None:
            return
        if removal.scanning and removal.is_over(self._now):
            self._removed(removal, clean=False)
        else:
            self._seek(removal)

    def _removed(self, removal: Removal, *, clean: bool) -> None:
        self._do(n.CancelTimer(removal.key))
        if removal.job is None:
            self._all_ended(removal.left, clean=clean)
            return
        del self._proofs[removal.key]
        groups = sorted(removal.groups) if clean else ()
        gone = [group for key in groups if (group := self._register.forget(key)) is not None]
        for group in gone:
            self._last_words(group)
            self._clear(group)
            self._sessions.close_all(group)
        self._tell(m.Proof(removal.job, clean, removal.left))
        if clean:
            self._outbox.forget(removal.job, {*self._register.groups, *removal.kept})
        self._register.proved(gone, self._outbox.last)

    def _clear(self, group: NodeGroup) -> None:
        if not group.cleared:
            group.cleared = True
            if group.files:
                self._do(n.ClearFiles(group.files))

    # ---- the end -------------------------------------------------------------------------------------

    def _begin_end(self, why: str = "", *, orphaned: bool = False) -> None:
        """End all ranks, helpers and what they have started, then leave. ``why``: nobody has asked for that."""
        if self._end is not None:
            return
        self._orphaned, self._ordered = orphaned, not (orphaned or why)
        if not self._uplink.here and self._home.orphan_grace:
            self._do(n.CancelTimer(ORPHAN))
        for removal in self._proofs.values():
            self._do(n.CancelTimer(removal.key))
        self._end = Removal(END, None, frozenset(self._register.groups))
        for group in list(self._register.groups.values()):
            self._last_words(group)
            self._end_group(group)
        if why:
            self._tell(m.Leaving(f"its agent {why}"))
        self._warmth.end()
        self._seek(self._end)

    def _all_ended(self, left: tuple[int, ...], *, clean: bool) -> None:
        for group in self._register.groups.values():
            self._clear(group)
        # A controller that comes later may ask what was started.
        is_over = self._ordered or not self._home.orphan_grace
        if is_over and (tokens := self._register.tokens()):
            self._do(n.ClearFiles(tokens))
        for removal in self._proofs.values():
            if removal.job is not None:
                self._tell(m.Proof(removal.job, clean, left))
        self._proofs.clear()
        # The peers of the sessions are dead, so that their ends are about to be read.
        self._end = Removal(SESSIONS, None, frozenset(), began=self._now, left=left, clean=clean)
        self._do(n.SetTimer(SESSIONS, AGENT_HANG_UP_S))
        self._leave_if_alone()

    def _leave_if_alone(self) -> None:
        if self._end is not None and self._end.key == SESSIONS and not self._sessions.are_open:
            for timer in (SESSIONS, BEAT, AGAIN, ORPHAN):
                self._do(n.CancelTimer(timer))
            self._has_left = True
            self._do(n.Leave(self._orphaned))
