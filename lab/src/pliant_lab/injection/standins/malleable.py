"""The stand-in for a rank of a malleable program: what ``pliant.mpi`` does, step by step, with the session and the
negotiation that are shipped, and the fabric in place of MPI.

    malleable STEPS STEP_S [name=value ...]

Words: ``late`` (seconds within which it starts, at random), ``never`` (the chance that a newcomer never comes to its
session), ``odd`` (the chance that a newcomer has other arrays), ``uneven`` (how far a step's length is drawn from
STEP_S, 0 to 1), ``sync`` (every so many steps the user's code waits for all ranks; 0 for never), ``lag`` (the most
steps between two checks), ``move`` (seconds that redistribution takes at most), ``wants`` (every so many steps the root
asks for a size, and often lets its wish stay open), ``bounds`` (MIN:MAX), ``rows`` (to more nodes its arrays cannot be
spread), ``exit`` (the exit code of a program that fails at its end), ``leave`` (the exit code of ranks that were
released, some seconds later), ``stay`` (seconds that they stay for), ``quit`` (the step at which all groups but the
first end in good order, and the others wait for them), ``migrates`` (1: groups may come and others leave in one
resize), ``ahead`` (the chance that constant data move beside the steps of an expansion), ``hangs`` (the chance that a
redistribution never ends), ``deaf`` (1: SIGTERM is ignored), ``tidy`` (seconds that its end takes after SIGTERM).
"""

from __future__ import annotations

from functools import lru_cache
from typing import cast

from pliant.job.decisions import Action, Decision
from pliant.job.negotiation import Negotiation, Situation
from pliant.job.session import Session
from pliant.model.errors import PliantError
from pliant.model.jobs import Bounds
from pliant.plan.join import JoinPlan, joined_key, source_key, star
from pliant.protocol import messages as m
from pliant.protocol.phases import Phase
from pliant_lab.injection.standins.admission import Admitting, Undone
from pliant_lab.injection.standins.fabric import Call, Fabric, Result, Seat, Span
from pliant_lab.injection.standins.running import FIRST, OWN, PEERS, SCHEDULER, Host, Script
from pliant_lab.injection.standins.team import LastWord, Snapshot, Team, after, count_members

MOST_NODES = 1 << 16
REPORT_S = 1.0
CHECK_S = 0.05
"""So long at most pass between two checks, unless a step takes longer."""
LEAVE_S = 1.5
"""A released rank that fails does so after this time: what its root says of the release is there before."""
END, RELEASED, QUIT = "end", "released", "quit"
"""Why a rank that sleeps has to end: with its job, with its node, or as its group just ends."""
_star = lru_cache(maxsize=4)(star)
"""One plan for all ranks of a job, as they are in one process here: that of a thousand groups is large."""
SIGNATURE = "arrays [] and values []"


class MalleableRank(Admitting):
    """One rank. ``team`` is None on a newcomer that is not joined yet, and on a rank that has been released."""

    def __init__(self, host: Host, fabric: Fabric) -> None:
        super().__init__(host, fabric)
        env, word = host.env, self.program.word
        self.group, self.resize = (int(env[f"PLIANT_{name}"]) for name in ("GROUP", "RESIZE"))
        self.started: tuple[int, ...] = ()
        self.released = self.slept_out = False
        self.team: Team | None = None
        self.step, self.total = 0, int(self.program.number(0, 10))
        self.lag = self.due = 1
        self.spans: tuple[Span, ...] = ()
        low, _, high = self.program.words.get("bounds", f"1:{MOST_NODES}").partition(":")
        self.bounds = Bounds(int(low), int(high or low))
        self.most = int(word("rows", MOST_NODES))
        odd = self.resize != 0 and host.random.random() < word("odd", 0)
        self.signature = "other arrays" if odd else SIGNATURE
        self._negotiation: Negotiation | None = None
        self._world: Seat | None = None
        self._check: Call | None = None
        self._reported = 0.0

    # ---- from its start to its end -------------------------------------------------------------------

    def script(self) -> Script[int]:
        late, random = self.program.word("late", 0.2), self.host.random
        yield from self.sleep(random.uniform(0, late), "its own start")
        space = yield from self.mpi_init()
        env = self.host.env
        self._world = self.fabric.world(space, int(env["PMI_SIZE"]), int(env["PMI_RANK"]))
        try:
            yield from self._enter(self._world)
        except PliantError as error:
            self.abort(f"group {self.group} could not start: {error}")
        try:
            yield from self._block(self._world)
        except PliantError as error:
            if self.session is not None and self.session.side.state not in {"new", "closed"}:
                self.session.send(m.Error(f"{type(error).__name__}: {error}"))
            self.abort(str(error))
        code = int(self.program.word("leave", 0))
        if self.slept_out:
            code = 0  # it is neither released nor there when the others come to the end of their program
        elif self.released:
            yield from self.sleep(self.program.word("stay", 0), "what has no end after its release")
        if code and self.released:
            yield from self.sleep(
                self.host.random.uniform(LEAVE_S, 2 * LEAVE_S), "what comes after its release"
            )
            return code
        code = int(self.program.word("exit", 0))
        if code and not self.released:
            self.abort("the program fails after its end", code)
        yield from self.mpi_finalize()
        return 0

    def _enter(self, world: Seat) -> Script[None]:
        """Open the session on rank 0, tell the others what came with the welcome, and join those of the start."""
        random = self.host.random
        if self.resize and random.random() < self.program.word("never", 0):
            yield from self.wait(
                lambda: False, "nothing: it never comes to its session", excuse=OWN, polls=False
            )
        yield from self.sleep(random.uniform(0, self.program.word("late", 0.2)), "its own imports")
        if world.rank == 0:
            yield from self._greet(world.size)
        self.started = yield from self._told(world, 0, self.started, "the scheduler's welcome", PEERS)
        if self.resize == 0:
            own = world
            groups = yield from self._all(own, self.group, "the names of the groups")
            if set(groups.values()) != set(self.started):
                own = yield from self._together(_star(self.started, 0), own)
                groups = yield from self._all(own, self.group, "the names of the groups")
            self.team = Team(own, count_members(groups))

    def _greet(self, ranks: int) -> Script[None]:
        session = self.open(self.write)
        env = self.host.env
        job, token = int(env["PLIANT_JOB"]), self.host.token
        session.send(m.Hello(job, self.group, self.epoch, token, ranks, self.bounds))
        yield from self.wait(lambda: bool(session.inbox), "the scheduler's welcome")
        welcome = session.welcome()
        self.started = welcome.groups
        allowed = self.fabric.allowed
        if allowed is not None and welcome.bounds != allowed.intersect(self.bounds):
            self.fabric.problem(f"{self.name} is told that it may have {welcome.bounds}, and may {allowed}")
        session.listen(self._watch)
        self._negotiation = Negotiation(
            session,
            self.bounds,
            self.fabric.tell,
            migrates=self.program.word("migrates", 0) != 0,
            sleeps=True,
        )

    def _watch(self, message: m.SchedulerMessage) -> None:
        """End this group at the loss of one that it cannot do without, as mpi/entry.py does."""
        if isinstance(message, m.GroupLost) and not self.released:
            if message.group in self.joining:
                self.lost = self.lost or message.why or f"group {message.group} was lost"
                return
            needed = self.started if self.team is None else self.team.groups
            if message.group in needed:
                self.abort(f"group {message.group} of this job was lost, and its data with it")

    def _block(self, world: Seat) -> Script[None]:
        """The steps and the end of the block."""
        newcomer = self.team is None
        if newcomer:
            yield from self._arrive(world)
        self._start_epoch()
        if self.negotiates and not newcomer:
            self.negotiation.begin(self.epoch, self.most if self.most < MOST_NODES else 0)
        yield from self._loop()
        if self.released:
            self.let_go(RELEASED)
            if self.session is not None:
                self.session.send(m.Bye(self.epoch - 1))
            return
        own = self.joined.own
        if self._check is not None:
            yield from self.complete(self._check, "the root's last decision", excuse=PEERS)
        yield from self._all(own, None, "the end of the job", PEERS)
        self.let_go(END)
        if self.session is not None:
            self.session.send(m.Bye(self.epoch, self.result().text() if self.speaks else None))

    def let_go(self, word: str) -> None:
        """Those of this group that sleep hear it, from its rank 0: ``standins/sleeping.py`` has them."""

    def result(self) -> Result:
        return Result(sum(span.steps for span in self.spans), self.spans)

    # ---- who and where -------------------------------------------------------------------------------

    @property
    def joined(self) -> Team:
        if self.team is None:
            raise RuntimeError(f"{self.name} is not joined")
        return self.team

    @property
    def speaks(self) -> bool:
        return self.session is not None and self.team is not None and self.team.own.rank == 0

    @property
    def negotiates(self) -> bool:
        return self.speaks and self._negotiation is not None

    @property
    def negotiation(self) -> Negotiation:
        if self._negotiation is None:
            raise RuntimeError(f"{self.name} has no session")
        return self._negotiation

    @property
    def _talk(self) -> Session:
        if self.session is None:
            raise RuntimeError(f"{self.name} has no session")
        return self.session

    def _situation(self) -> Situation:
        groups, left = self.joined.groups, self.total - self.step
        return Situation(self.epoch, groups, left, self.lag, self.most, self.signature)

    # ---- calls that wait -----------------------------------------------------------------------------

    def _fetch(
        self, epoch: int, keys: list[str], what: str, excuse: str = "", times: int = 1
    ) -> Script[list[str]]:
        wanted, values = [(epoch, key) for key in keys], self._talk.values
        for _, key in wanted:
            self._talk.send(m.Get(epoch, key))
        yield from self.wait(lambda: all(want in values for want in wanted), what, excuse=excuse, times=times)
        return [values[want] for want in wanted]

    # ---- joining -------------------------------------------------------------------------------------

    def _together(self, plan: JoinPlan, own: Seat) -> Script[Seat]:
        """The communicator of all groups of the plan, as mpi/join.py makes it."""
        epoch = self.epoch
        if self.session is not None:
            if self.group != plan.leader:
                self.session.send(m.Put(epoch, plan.up[self.group], "up"))
            elif plan.up:
                yield from self._fetch(epoch, list(plan.up.values()), f"groups {sorted(plan.up)} to start")
        yield from self._all(own, None, "the other groups to start")
        for step in plan.steps:
            if self.group in step.accepting:
                own = yield from self._accept(own, epoch, step.key)
            elif self.group == step.connecting:
                port = ""
                if self.session is not None:
                    what = f"the port at {step.key}"
                    (port,) = yield from self._fetch(epoch, [step.key], what, times=step.turn)
                yield from self._all(own, None, "the port of the leader", FIRST)
                own = yield from self._meet(own, port, f"connecting at {step.key}", accepts=False)
        return own

    def _accept(self, own: Seat, epoch: int, key: str) -> Script[Seat]:
        port = ""
        if own.rank == 0 and self.session is not None:
            port = self.fabric.open_port()
            self.session.send(m.Put(epoch, key, port))
        return (yield from self._meet(own, port, f"accepting at {key}", accepts=True))

    def _meet(self, own: Seat, port: str, what: str, *, accepts: bool) -> Script[Seat]:
        """Accept or Connect, and Merge: blocked in MPI, where nothing but the watchdog gets it out."""
        joint = yield from self._met(own, port, what, accepts=accepts)
        yield from self._all(joint, None, "the merged groups")
        return joint

    def _arrive(self, world: Seat) -> Script[None]:
        """A newcomer comes to its loop: it joins the other newcomers, then the job."""
        resize = self.resize
        if self.session is not None:
            self.session.send(m.Ready(resize, self.group))
        own = yield from self._together(_star(self.started, resize), world)
        members = count_members((yield from self._all(own, self.group, "the newcomers' names")))
        port = ""
        if own.rank == 0 and self.session is not None:
            self.session.send(m.Put(self.epoch, joined_key(resize), self.signature))
            (port,) = yield from self._fetch(self.epoch, [source_key(resize)], "the job", SCHEDULER)
        port = yield from self._told(own, 0, port, "the job's port", SCHEDULER)
        count = own.size
        own = yield from self._met(own, port, "connecting to the job", accepts=False)
        yield from self._all(own, None, "all newcomers to be connected")
        yield from self._merge(own)
        yield from self._told(own, own.size - count, members, "the newcomers' names")
        snapshot, old, leaving, ahead = yield from self._told(own, 0, None, "the job's state")
        if ahead:
            snapshot = yield from self._early(own)
        self.team = Team(own, (*old, *members))
        self.step, self.total, self.lag, self.spans = snapshot
        yield from self._move(own)
        yield from self._all(own, None, "the sources to have the root's last word")
        if leaving:
            yield from self._divide(after(old, leaving, members)[1])

    # ---- the loop ------------------------------------------------------------------------------------

    def _start_epoch(self) -> None:
        self.due, self._check = self.step, None

    def _loop(self) -> Script[None]:
        word, number, random = self.program.word, self.program.number, self.host.random
        quits = int(word("quit", -1))
        step_s, uneven, sync = number(1, 0.1), word("uneven", 0.5), int(word("sync", 4))
        while self.step < self.total:
            yield from self._turn()
            if self.released:
                return
            if self.step == quits and self.group != self.joined.groups[0]:
                self.let_go(QUIT)
                self.exit(0)
            yield from self.sleep(step_s * random.uniform(1 - uneven, 1 + uneven), f"step {self.step}")
            if sync and self.step % sync == sync - 1:
                # A blocking collective: the session is not read, and nothing gets it out.
                call = self.joined.own.twin().call()
                yield from self.complete(call, f"the others in step {self.step}", excuse=PEERS, polls=False)
            self._count()
        if self.negotiates:
            self._progress()
            self.poll()
            self.negotiation.end(self.epoch)

    def _count(self) -> None:
        """A step has been done."""
        team = self.joined
        self.fabric.stepped(team.own, self.step, self.epoch, len(team.groups))
        span = Span(self.epoch, len(team.groups), 1)
        if self.spans and self.spans[-1][:2] == span[:2]:
            span = span._replace(steps=self.spans[-1].steps + 1)
            self.spans = (*self.spans[:-1], span)
        else:
            self.spans = (*self.spans, span)
        self.step += 1

    def _turn(self) -> Script[None]:
        """Everything between two steps of the user."""
        self.poll()
        if self.host.now - self._reported >= REPORT_S:
            self._progress()
        self._turned()
        if self.step != self.due:
            return
        decision = yield from self._read()
        self.lag = decision.lag
        if decision.action is not Action.NO_ACTION:
            yield from self._resize(decision)
            if self.released:
                return
        own, posted = self.joined.own, self._decide()
        if own.rank == 0:
            # As mpi/checks.py has it, the lag makes up for short steps only.
            most = min(self.program.word("lag", 3), CHECK_S / max(self.program.number(1, 0.1), 1e-3))
            better = self.host.random.randint(1, max(1, int(most)))
            posted = posted._replace(lag=better)
        self._check = own.call(posted.pack(), 0)
        self.due = self.step + self.lag

    def _read(self) -> Script[Decision]:
        """What was decided at the last check; nothing was at the first."""
        if self._check is None:
            return Decision(lag=self.lag)
        values = yield from self.complete(self._check, "the root's decision", excuse=PEERS)
        self._check = None
        return Decision.unpack(cast("bytes", values[0]))

    def _decide(self) -> Decision:
        if not self.negotiates:
            return Decision()
        now, wants = self._situation(), int(self.program.word("wants", 0))
        due = self.step == wants if self.program.word("once", 0) else self.step % max(wants, 1) == wants - 1
        if wants and due and not now.late and self._talk.side.state == "ready":
            self._talk.send(self._want(len(now.members)))
        self.negotiation.answer(now)
        return self._decided(now)

    def _want(self, size: int) -> m.Want:
        """Some kind of wish."""
        random = self.host.random
        low = random.randint(1, 2 * size)
        high = low + random.randint(0, 2)
        prefers = random.random() < 0.3
        bounds = Bounds(low, high, preferred=random.randint(low, high) if prefers else 0)
        stays = random.random() < 0.6 or bool(self.program.word("once", 0))
        return m.Want(self.epoch, bounds, stays, prefers)

    def _progress(self) -> None:
        self._reported = self.host.now
        if self.speaks:
            fraction = self.step / self.total if self.total else 1.0
            self._talk.send(m.Progress(self.epoch, fraction))

    # ---- what standins/growing.py has ------------------------------------------------------------------

    def _decided(self, now: Situation) -> Decision:
        raise NotImplementedError

    def _turned(self) -> None:
        """Between two steps."""

    def _abandon(self) -> None:
        """The expansion that has begun comes to nothing."""

    def _is_ahead(self, decision: Decision) -> bool:
        raise NotImplementedError

    def _begin(self, resize: int) -> Script[None]:
        raise NotImplementedError

    def _grow(self, resize: int, leaving: tuple[int, ...]) -> Script[list[int]]:
        raise NotImplementedError

    def _early(self, own: Seat) -> Script[Snapshot]:
        raise NotImplementedError

    # ---- a resize ------------------------------------------------------------------------------------

    def _resize(self, decision: Decision) -> Script[None]:
        """Do what was decided, as mpi/resizing/resize.py does; collective over the job."""
        began, old = self.host.now, self.joined
        order = yield from self._order(decision)
        if not order.go:
            self._abandon()
            return
        if order.ahead:
            yield from self._begin(decision.resize)
            return
        stopped = self.host.now
        staying = [group for group in old.groups if group not in order.leaving]
        if decision.action is Action.SHRINK:
            yield from self._part({rank for rank, group in enumerate(old.places) if group in order.leaving})
        else:
            try:
                staying = yield from self._grow(decision.resize, order.leaving)
            except Undone as undone:
                self._give_up(old, decision.resize, str(undone))
                return
        self.released = self.team is None
        if self._negotiation is not None and self._negotiation.resize == decision.resize:
            now = self.host.now
            phases: dict[str, float] = {
                Phase.SYNCHRONISE: stopped - began,
                Phase.REDISTRIBUTE: now - stopped,
            }
            root = staying[0]
            self._negotiation.done(
                m.Done(self.epoch, decision.resize, root, order.leaving, phases, now - began)
            )
        self.epoch += 1
        if not self.released:
            self._start_epoch()

    def _come(self, phase: Phase) -> None:
        """The root tells what its resize has come to."""
        if self._negotiation is not None and self._negotiation.resize:
            self._talk.send(m.Reached(self.epoch, self._negotiation.resize, phase))

    def _give_up(self, team: Team, resize: int, why: str) -> None:
        """The job is what it was, and the scheduler ends the newcomers."""
        self.team, self.joining, self.lost = team, (), ""
        if self._negotiation is not None and self._negotiation.resize == resize:
            self._negotiation.confirm(resize, self._situation(), why)

    def _order(self, decision: Decision) -> Script[LastWord]:
        """All have stopped; the root confirms, or calls it off."""
        team, order = self.joined, LastWord(go=False)
        yield from self._all(team.own, None, "all ranks to stop for the resize", PEERS)
        if self.negotiates:
            self.poll()
            fewer, slots = decision.action is not Action.EXPAND, self.negotiation.slots
            if self.negotiation.confirm(decision.resize, self._situation()):
                leaving = self.negotiation.leaving(team.groups) if fewer else ()
                order = LastWord(True, leaving, (*slots.items(),), self._is_ahead(decision))
                self.joining = self.negotiation.newcomers
        told = yield from self._told(team.own, 0, order, "the root's order")
        return cast("LastWord", told)

    def _part(self, gone: set[int]) -> Script[None]:
        """These ranks leave the others' communicator; collective over the job."""
        self._come(Phase.REDISTRIBUTE)
        yield from self._redistribute()
        yield from self._divide([rank for rank in range(len(self.joined.places)) if rank not in gone])

    def _divide(self, ranks: list[int]) -> Script[None]:
        """These go on, in this order, and the others leave; collective over the job."""
        old = self.joined
        self._come(Phase.REORDER)
        # Split blocks in MPI. Its first rank has made the communicator of those who stay.
        staying = {rank: old.places[rank] for rank in ranks}
        rest = old.own.comm.split(len(staying))
        yield from self.complete(old.own.call(), "splitting the communicator", polls=False, watchdog=True)
        self.team = None
        if old.own.rank in staying:
            members = count_members(dict(enumerate(staying.values())))
            self.team = Team(Seat(rest, ranks.index(old.own.rank)), members)
        self._come(Phase.COMMIT)
        yield from self._all(old.own, None, "the end of the resize")

    def _move(self, own: Seat) -> Script[None]:
        """Redistribute, and wait until all have."""
        yield from self._redistribute()
        yield from self._all(own, None, "the end of the redistribution")

    def _redistribute(self) -> Script[None]:
        word, random = self.program.word, self.host.random
        if random.random() < word("hangs", 0):
            yield from self.wait(lambda: False, "a redistribution without end", excuse=OWN)
        yield from self.sleep(random.uniform(0, word("move", 0.2)), "redistribution", polls=True)
