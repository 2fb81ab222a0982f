"""A node of the world, and the agent that may live there: its machine, with a shell of arithmetic around it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf
from random import Random

from pliant.live.node import messages as n
from pliant.live.node.life import BEAT, CANNOT, END, ORPHAN, SESSIONS, NodeLife
from pliant.live.node.sessions import HELLO_S
from pliant.live.node.uplink import AGAIN
from pliant.live.node.warmth import WARM as WARM_TIMER
from pliant.protocol import codec
from pliant.protocol import messages as m
from pliant_lab.injection.audit.agent import Told
from pliant_lab.injection.audit.fences import Pieces
from pliant_lab.injection.audit.memory import weigh
from pliant_lab.injection.audit.violation import Violation
from pliant_lab.injection.clock import Clock, Timer, Wire
from pliant_lab.injection.outside import Outside
from pliant_lab.injection.standins.helpers import Helpers
from pliant_lab.injection.standins.process import SIGKILL, Proc
from pliant_lab.injection.standins.programs import Process
from pliant_lab.injection.standins.running import own_words

ANSWERS_S = 31.0
"""An agent gives a step of a start up within this time, and says so."""
DIAL_S = 0.1
FIRST_DIAL_S = 20.0
USER = 1000
LATENCY_S = 2e-5
"""Of a socket on one machine. The same always: bytes of one connection must not overtake each other."""
SOON_S = 0.05
"""Within this time an agent does what nobody else has a part in."""
HELPED, WARM = 0.2, 0.8
"""The shares of agents with a helper of their own, and of those that may have a warm process."""
SLOW, SLOW_S = 0.2, 0.1
"""The share of agents where a program takes up to so long to be executed: the first rank may have ended before the last
is there."""
SLOW_END = 0.1
"""The share of sessions whose end is read well after that of their process."""
NONSENSE = b'"surrender"'
"""Is in an order that there is not."""
CPU_S = 0.25
"""What each rank uses."""


class Agent:
    """The agent's process on a node, while it lives: its machine, timers, link and sessions."""

    def __init__(self, node: Node, pid: int) -> None:
        self.node = node
        self.pid = pid
        self.up: Wire | None = None
        """Its end of the link, the last one if there is none now."""
        self.sessions: dict[int, Proc | None] = {}
        self.left = False
        self.is_ending = False
        """It looks for what is left of anything, to leave then."""
        home = n.Home(
            node.name, node.slots, "run", pid, USER, "/run", f"/run/{node.name}.sock", f"/shm/{node.name}",
            node.outside.grace, warm=node.random.random() < WARM,
        )  # fmt: skip
        self._life = NodeLife(home)
        self.helpers = Helpers(self, warm=home.warm)
        self.timers: dict[str, Timer] = {}
        self._tokens: dict[tuple[int, int], str] = {}
        self._files: dict[tuple[int, int], str] = {}
        self.slow = node.random.random() < SLOW
        self._unanswered: set[tuple[int, int]] = set()
        self._given_up: set[tuple[int, int]] = set()
        self._pieces = Pieces()
        self.audit = Told(self)
        self.errors = self.lines = 0
        """How often it has told the controller that it cannot do something, and how many lines it has written."""
        self._last_session = 0
        self._told_sessions: set[int] = set()
        self.had = 0
        """How many groups it was to start."""
        self._outputs = 0
        """How much it has asked for."""
        self._queue: list[n.AnyInput] = []
        self._busy = False

    @property
    def lives(self) -> bool:
        return self.node.agent is self

    def tell(self, *inputs: n.AnyInput) -> None:
        """Let the machine take it, and do what it asks; what follows from that comes after all of it."""
        self._queue += inputs
        if self._busy:
            return
        self._busy = True
        try:
            while self._queue and not self.left and self.lives:
                queue, self._queue = self._queue, []
                for output in self._life.handle(queue, self.node.clock.now):
                    self._outputs += 1
                    self._carry_out(output)
        finally:
            self._busy = False

    def begin(self) -> None:
        self.tell(n.Began())
        if self.lives and self.node.random.random() < HELPED:
            self.helpers.begin()

    def is_starting(self, job: int) -> bool:
        """Whether the kernel has yet to start something of this job."""
        return any(each == job for each, _ in self._unanswered)

    @property
    def is_behind(self) -> bool:
        """Whether the kernel has yet to start anything."""
        return bool(self._unanswered)

    def waits_for(self) -> list[str]:
        """Its timers, but for those that it may have when nothing goes on: a stranger may hang on for a while."""
        return [key for key in self.timers if key.split()[0] not in (BEAT, AGAIN, WARM_TIMER, "hello")]

    def hears(self, data: bytes) -> None:
        """Its controller says this; what the agent cannot read or follow it answers, and notes for people."""
        errors, lines = self.errors, self.lines
        self.audit.hears(data)
        self.tell(n.LinkSaid(data))
        odd = NONSENSE in data and b"\n" in data[data.index(NONSENSE) :]
        if odd and self.lives and not self.is_ending and self.errors == errors:
            raise Violation("lost", f"{self.node.name} has had nonsense for an order, and does not say so")
        if odd and self.lives and not self.is_ending and self.lines == lines:
            raise Violation("lost", f"{self.node.name} has had nonsense for an order, and notes nothing")

    def link_lost(self) -> None:
        if self.lives:
            self.audit.unlinked()
            self.tell(n.LinkLost())
            if not self.node.outside.grace:
                self.audit.alone()

    def kept(self) -> int:
        """How much the agent remembers."""
        return weigh(self._life)

    def files(self) -> list[str]:
        """What it has written and not removed."""
        return [*self._files.values()]

    def died(self) -> None:
        """Killed: its timers go with it, and its sessions hang up."""
        for timer in self.timers.values():
            timer.cancel()
        for proc in list(self.sessions.values()):
            if proc is not None:
                proc.hung_up()
        self.sessions.clear()
        self._hang_up()
        self.node.outside.connector.died(self.node.name, self)

    def _hang_up(self) -> None:
        if self.up is not None:
            self.up.close()

    def dial(self) -> None:
        """It has just been started, and looks for its controller."""
        self._dial(n.Began(), self.node.clock.now + FIRST_DIAL_S, self.node.random.uniform(0.05, 0.3))

    def _dial(self, then: n.AnyInput, until: float, wait_s: float = 0.0) -> None:
        """Connect to a controller, tried until there is one; ``then`` is told."""

        def attempt() -> None:
            if not self.lives:
                return
            if self.node.reaches_head():
                self.node.outside.connector.connected(self.node.name)
                self.audit.linked()
                self.tell(then)
            elif self.node.clock.now > until:
                self.node.kill_agent()
            else:
                self.node.clock.later(DIAL_S, attempt)

        self.node.clock.later(wait_s, attempt)

    def _carry_out(self, output: n.AnyOutput) -> None:
        match output:
            case n.Tell():
                self._tell(output)
            case n.Say():
                self.lines += 1
            case n.Connect():
                self._hang_up()
                self._dial(n.LinkMade(), inf)
            case n.SetTimer():
                self._cancel(output.key)
                key = output.key
                self.timers[key] = self.node.clock.later(output.seconds, lambda: self._fired(key))
            case n.CancelTimer():
                self._cancel(output.key)
            case n.Leave():
                if self.sessions:
                    raise Violation("leaked", f"the agent of {self.node.name} leaves with sessions open")
                self.left = True
                self.audit.leaves(orphaned=output.orphaned)
                if more := self._life.handle([n.TimerFired(BEAT)], self.node.clock.now):
                    raise Violation("wrong", f"the agent of {self.node.name} has left, and goes on: {more}")
                self.node.agent_left(self)
            case n.SayToSession() | n.CloseSession():
                self._with_session(output)
            case _:
                self._with_processes(output)

    def _with_session(self, output: n.SayToSession | n.CloseSession) -> None:
        clock, latency_s = self.node.clock, LATENCY_S
        if isinstance(output, n.SayToSession):
            self._told_sessions.add(output.session)
            self.audit.says(output.session, output.data)
            if (proc := self.sessions.get(output.session)) is not None:
                clock.later(latency_s, partial(proc.heard, output.data))
        elif output.session in self.sessions:
            if (proc := self.sessions.pop(output.session)) is None:
                if output.session not in self._told_sessions and not self.is_ending:
                    raise Violation("lost", f"{self.node.name} closes a session, and does not say why")
            else:
                clock.later(latency_s, proc.hung_up)
            # Whoever reads there finds its end.
            clock.later(latency_s, lambda: self.tell(n.SessionClosed(output.session)))

    def _tell(self, output: n.Tell) -> None:
        message = output.message
        if isinstance(message, m.Started | m.StartFailed):
            self._unanswered.discard((message.job, message.group))
        if isinstance(message, m.StartFailed):
            self._given_up.add((message.job, message.group))
        elif isinstance(message, m.Fence):
            self._pieces.look(message)
        self.errors += isinstance(message, m.Error)
        self.helpers.told(output.message)
        self.audit.tells(message, output.number)
        if self.up is not None:
            line = m.From(
                self.node.name, codec.raw(output.message), output.number, output.after, output.obeyed
            )
            self.up.send(codec.encode(line))

    def _with_processes(self, output: n.AnyOutput) -> None:
        """What is asked of the kernel and the file system."""
        match output:
            case n.WriteToken():
                self._write_soon(output)
            case n.Spawn():
                self.helpers.ordered(output)
                self._when_answered(output.job, output.group, lambda: self.helpers.fork(output, self._spawn))
            case n.Kill():
                self._kill(output.pids)
            case n.StartHelper():
                self.helpers.start(output)
            case n.ClearFiles():
                self._clear_files(output)
            case n.SignalGroup():
                self._signal(output)
            case n.SayToRank():
                self._say_to_rank(output)
            case n.Scan():
                self.is_ending |= output.key == END
                if not self.node.outside.ledger.hung_s(self.node.name, scans=True):
                    self.tell(n.Found(output.key, self._scan(output)))
            case _:
                pass

    def _kill(self, pids: tuple[int, ...]) -> None:
        self.helpers.killed(pids)
        for proc in [self.node.processes[pid] for pid in pids if pid in self.node.processes]:
            proc.kill()

    def _signal(self, order: n.SignalGroup) -> None:
        if order.number == SIGKILL:
            raise Violation("wrong", f"{self.node.name} asks process {order.pid} to end by SIGKILL")
        proc = self.node.processes.get(order.pid)
        if proc is not None and proc.program is not None and not proc.dying:
            proc.program.signalled(order.number)

    def _clear_files(self, output: n.ClearFiles) -> None:
        self.node.files.difference_update(output.paths)
        for group in [group for group, path in self._files.items() if path in output.paths]:
            del self._files[group]
            self._tokens.pop(group, None)

    def _cancel(self, key: str) -> None:
        if (timer := self.timers.pop(key, None)) is not None:
            timer.cancel()

    def _fired(self, key: str) -> None:
        self.timers.pop(key, None)
        self.helpers.fired(key)
        if key == ORPHAN:
            self.audit.fired()
        before = self._outputs
        self.tell(n.TimerFired(key))
        if self._outputs == before and key not in (BEAT, AGAIN):  # that is for a controller, if there is one
            raise Violation("leaked", f"{self.node.name} has waited for nothing: {key}")

    def _when_answered(self, job: int, group: int, call: Callable[[], None]) -> None:
        """A step of a start: the kernel of this node may take its time, and the agent must not."""
        ledger, clock = self.node.outside.ledger, self.node.clock
        if hung_s := ledger.hung_s(self.node.name):
            ledger.no_start(job)
            self._unanswered.add((job, group))
            if hung_s > ANSWERS_S:
                clock.later(ANSWERS_S, lambda: self._answers((job, group)))
            clock.later(hung_s, lambda: call() if self.lives else None)
        elif self.slow:
            self._unanswered.add((job, group))
            clock.later(self.node.random.uniform(0.0, SLOW_S), lambda: call() if self.lives else None)
        else:
            call()

    def _answers(self, group: tuple[int, int]) -> None:
        if self.up is not None and not self.up.open:
            self.node.clock.later(ANSWERS_S, lambda: self._answers(group))  # it has nobody to tell
        elif group in self._unanswered and self.lives:
            raise RuntimeError(f"{self.node.name} has not said whether group {group} could be started")

    def _write_soon(self, order: n.WriteToken) -> None:
        self._tokens[order.job, order.group] = order.token
        self.had += 1
        if self.node.outside.ledger.hung_s(self.node.name) and self.node.random.random() < 0.5:
            self._write_token(order)  # files are written: only the programs cannot be read
        else:
            self._when_answered(order.job, order.group, partial(self._write_token, order))

    def _write_token(self, order: n.WriteToken) -> None:
        if order.path in self.node.files:
            self.tell(n.NotSpawned(order.job, order.group, "it was started already", CANNOT))
            return
        self.node.files.add(order.path)
        self._files[order.job, order.group] = order.path
        self.tell(n.TokenWritten(order.job, order.group))

    def _spawn(self, order: n.Spawn, *, warm: bool) -> None:
        """Execute a rank, or have it forked."""
        if not self.lives:
            return
        if problem := self.node.outside.ledger.exec_problem(self.node.name, order.job):
            self.tell(n.NotSpawned(order.job, order.group, problem, CANNOT))
            return
        self.node.outside.witness.spawned(order.job, order.group, order.rank)
        proc = self.node.new_process(order.job, order.group, order.rank)
        proc.env, proc.argv = order.env, order.argv
        proc.token = self._tokens.get((order.job, order.group), "")  # it may have been removed meanwhile
        proc.program = Process(proc, self.node.outside.ledger.fabric(order.job))
        self.audit.started(proc)
        self.tell(n.Spawned(order.job, order.group, order.rank, proc.pid, warm))
        if (order.job, order.group) in self._given_up and not proc.dying:
            raise Violation("leaked", f"{proc.name} of job {order.job} goes on, which was given up")
        proc.later(self.node.random.uniform(0.0, 0.05), proc.program.begin)

    def _say_to_rank(self, output: n.SayToRank) -> None:
        rank = (output.job, output.group, output.rank)
        for proc in self.node.processes.values():
            if (proc.job, proc.group, proc.rank) == rank and proc.program is not None:
                proc.launcher_says(output.data)
                return

    def _scan(self, scan: n.Scan) -> tuple[int, ...]:
        keep, known = set(scan.keep), set(scan.known)
        return tuple(
            proc.pid
            for proc in self.node.processes.values()
            if proc.pid not in known
            and (proc.job, proc.group) not in keep
            and (scan.job is None or proc.job == scan.job or proc.program is None)
        )

    # ---- sessions and launch connections -------------------------------------------------------------

    def connected(self, proc: Proc | None, uid: int = USER) -> int:
        self._last_session += 1
        number = self._last_session
        self.sessions[number] = proc
        self.tell(n.SessionOpened(number, uid))
        return number

    def hung_on(self) -> None:
        """Somebody connects who has nothing to say, and hangs up sooner or later, or never."""
        number = self.connected(None)
        if self.node.random.random() < 0.5:
            self.node.clock.later(self.node.random.uniform(0.0, 2.0), partial(self._session_ended, number))

    def has_to_close(self, number: int, within_s: float) -> None:
        """A session that is none is not left open."""

        def look() -> None:
            if self.lives and number in self.sessions:
                raise Violation("stuck", f"{self.node.name} leaves a session open that says nothing it may")

        self.node.clock.later(within_s, look)

    def session_said(self, number: int, data: bytes) -> None:
        self.node.clock.later(
            LATENCY_S,
            lambda: self.tell(n.SessionSaid(number, data)) if number in self.sessions else None,
        )

    def rank_said(self, proc: Proc, data: bytes) -> None:
        """It is read a little later, when the rank may have been killed."""
        said = n.RankSaid(proc.job, proc.group, proc.rank, data)
        self.node.clock.later(LATENCY_S, partial(self.tell, said))

    def process_gone(self, proc: Proc, code: int) -> None:
        """The kernel tells: its connections end, and its parent may collect it."""
        heirs = [
            each for each in self.node.processes.values() if each.program is None and each.job == proc.job
        ]
        for number in [number for number, other in self.sessions.items() if other is proc]:
            if heirs:
                self.sessions[number] = heirs[0]  # a daemon has it open as well
                continue
            slow = self.node.random.random() < SLOW_END
            wait_s = SOON_S if slow else LATENCY_S
            self.node.clock.later(wait_s, partial(self._session_ended, number))
        cpu_s = 0.0
        self.audit.ended(proc, code)
        if proc.program is not None:
            closed = n.RankClosed(proc.job, proc.group, proc.rank)
            self.node.clock.later(LATENCY_S, partial(self.tell, closed))
            cpu_s = CPU_S
            self.node.outside.ledger.fabric(proc.job).cpu_s += cpu_s
            failed = code or proc.in_mpi
            if proc.in_mpi and code == 0 and self.node.outside.ledger.specs_by_number[proc.job].one_world:
                self.node.outside.ledger.left_early.add(proc.job)
            if failed and own_words(proc.argv)[0] not in ("tasks", "places"):
                self.node.clock.later(SOON_S, lambda: self._ended_together(proc))
        # Its end may be noticed before what it said last, or after.
        wait = self.node.random.choice([0.0, 2 * LATENCY_S])
        self.node.clock.later(wait, partial(self._reap, proc, code, cpu_s))

    def _reap(self, proc: Proc, code: int, cpu_s: float) -> None:
        if self.lives:
            self.helpers.reaped(proc.pid)
        self.tell(n.Exited(proc.pid, code, cpu_s))

    def _ended_together(self, dead: Proc) -> None:
        """The other ranks of a group do not outlive one that has failed: the agent sees to that."""
        if not self.lives or (dead.job, dead.group) in self._unanswered:
            return
        for proc in self.node.processes.values():
            mine = (proc.job, proc.group) == (dead.job, dead.group) and proc.program is not None
            if mine and not proc.dying:
                raise Violation("leaked", f"{proc.name} of job {proc.job} goes on without rank {dead.rank}")

    def _session_ended(self, number: int) -> None:
        if self.sessions.pop(number, None) is not None:
            self.tell(n.SessionClosed(number))
            if self.timers.keys() & {SESSIONS} and not self.sessions and self.lives:
                raise Violation("stuck", f"the agent of {self.node.name} waits for sessions, and has none")


class Node:
    """One node of the world, whether or not an agent lives there now."""

    def __init__(self, outside: Outside, name: str, slots: int) -> None:
        self.outside = outside
        self.clock: Clock = outside.clock
        self.random: Random = outside.random
        self.name = name
        self.slots = slots
        self.agent: Agent | None = None
        self.processes: dict[int, Proc] = {}
        self.files: set[str] = set()
        """Tokens of groups that were started here and have not been cleared away."""
        self.cut_off_until = self.off_until = 0.0
        self._last_pid = 1

    def new_pid(self) -> int:
        self._last_pid += 1
        return self._last_pid

    def new_process(self, job: int, group: int, rank: int) -> Proc:
        proc = Proc(self, self.new_pid(), job, group, rank)
        self.processes[proc.pid] = proc
        return proc

    def said_by_a_stranger(self, data: bytes, uid: int = USER) -> None:
        """Another process that uses the agent's socket, over a connection of its own."""
        if (agent := self.agent) is not None:
            number = agent.connected(None, uid)
            patient = uid == USER and not (data.strip() and data.endswith(b"\n"))
            agent.has_to_close(number, HELLO_S + 1.0 if patient else SOON_S)
            if data:
                agent.session_said(number, data)

    def exited(self, proc: Proc, code: int) -> None:
        if self.agent is not None:
            self.agent.process_gone(proc, code)

    def new_agent(self) -> Agent:
        """Start an agent; where nothing can be started it is never heard of."""
        agent = Agent(self, self.new_pid())
        self.agent = agent if self.clock.now >= self.off_until else None
        return agent

    def begin_agent(self) -> None:
        """Somebody starts an agent here, if there is none."""
        if self.agent is None:
            self.new_agent().dial()

    def lose(self, seconds: float) -> None:
        """Lose the node with all that is there; for so long nothing can be started."""
        self.off_until = self.clock.now + seconds
        self.kill_agent()
        for proc in list(self.processes.values()):
            proc.vanish()

    def reaches_head(self) -> bool:
        """Whether a link to the controller could be made now."""
        return self.clock.now >= self.cut_off_until and self.outside.connector.alive

    def kill_agent(self) -> None:
        """SIGKILL of the agent: its ranks die with it, daemons that they left behind do not."""
        agent, self.agent = self.agent, None
        if agent is None:
            return
        agent.died()
        for proc in list(self.processes.values()):
            if proc.program is not None or proc.helps:
                proc.kill()

    def agent_left(self, agent: Agent) -> None:
        """It has said that all is done."""
        if self.agent is agent:
            self.agent = None
            agent.died()
