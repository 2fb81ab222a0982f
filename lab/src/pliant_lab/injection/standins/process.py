"""A process on a node of the world."""

from __future__ import annotations

from collections.abc import Callable, Container
from random import Random
from typing import Protocol

from pliant.live.node import messages as n
from pliant_lab.injection.clock import Clock, Timer
from pliant_lab.injection.outside import Outside
from pliant_lab.injection.standins.programs import Process

DIES_S = 0.002
"""How long the kernel takes to remove a process that was killed."""
SIGKILL = 9


class AgentView(Protocol):
    """What others see of an agent."""

    timers: dict[str, Timer]
    is_ending: bool

    @property
    def node(self) -> NodeView: ...
    @property
    def lives(self) -> bool: ...
    @property
    def sessions(self) -> Container[int]: ...
    def tell(self, *inputs: n.AnyInput) -> None: ...
    def connected(self, proc: Proc | None, uid: int = ...) -> int: ...
    def session_said(self, number: int, data: bytes) -> None: ...
    def rank_said(self, proc: Proc, data: bytes) -> None: ...


class NodeView(Protocol):
    """What a process and the parts of an agent see of their node."""

    name: str
    clock: Clock
    random: Random
    outside: Outside
    processes: dict[int, Proc]

    @property
    def agent(self) -> AgentView | None: ...
    def new_process(self, job: int, group: int, rank: int) -> Proc: ...
    def exited(self, proc: Proc, code: int) -> None: ...


class Proc:
    """A process: a rank of a group, or a daemon that one has left behind. It is the host of its program."""

    def __init__(self, node: NodeView, pid: int, job: int, group: int, rank: int) -> None:
        self.node = node
        self.pid = pid
        self.job, self.group, self.rank = job, group, rank
        self.alive = True
        self.undead = 0.0
        """Not even SIGKILL removes it before this time."""
        self.dying = False
        self.program: Process | None = None
        self.env: dict[str, str] = {}
        self.argv: tuple[str, ...] = ()
        self.token = ""
        self.helps = False
        """It is a helper of an agent's, and ends with it."""
        self.random: Random = node.random
        self._session = 0

    @property
    def name(self) -> str:
        return f"rank {self.rank} of group {self.group}"

    @property
    def in_mpi(self) -> bool | None:
        """Whether it is a rank between MPI_Init and MPI_Finalize."""
        return self.program.in_mpi if self.program is not None else False

    # ---- what a program may do -----------------------------------------------------------------------

    @property
    def now(self) -> float:
        return self.node.clock.now

    def later(self, delay_s: float, call: Callable[[], None]) -> None:
        self.node.clock.later(delay_s, lambda: call() if self.alive and not self.dying else None)

    def connect(self) -> None:
        if (agent := self.node.agent) is not None:
            self._session = agent.connected(self)

    def say(self, data: bytes) -> None:
        if b'"accept"' in data:
            self.node.outside.witness.accepts(self.job, self.node.name)
        if (agent := self.node.agent) is not None and self._session in agent.sessions:
            agent.session_said(self._session, data)

    def ask(self, data: bytes) -> None:
        if (agent := self.node.agent) is not None:
            agent.rank_said(self, data)

    def exit(self, code: int) -> None:
        self.end(code)

    def abort(self, code: int) -> None:
        self.ask(f"cmd=abort exitcode={code}\n".encode())
        self.later(0.01, lambda: self.end(code))

    # ---- what happens to it --------------------------------------------------------------------------

    def heard(self, data: bytes) -> None:
        if self.alive and not self.dying and self.program is not None:
            self.program.on_session(data)

    def launcher_says(self, data: bytes) -> None:
        def arrive() -> None:
            if self.program is not None:
                self.program.on_launch(data)

        self.later(0.0, arrive)

    def hung_up(self) -> None:
        self._session = 0
        if self.alive and not self.dying and self.program is not None:
            self.program.on_session_closed()

    def kill(self) -> None:
        """SIGKILL: it computes no more at once, and is gone a little later; an undead one takes its time."""
        if self.alive and not self.dying:
            self.dying = True
            if self.program is not None:
                self.program.ended()
            wait = max(DIES_S, self.undead - self.now)
            self.node.clock.later(wait, lambda: self._gone(-SIGKILL))

    def end(self, code: int) -> None:
        if self.alive and not self.dying:
            self.dying = True
            if self.program is not None:
                self.program.ended()
            self._gone(code)

    def vanish(self) -> None:
        """Its node is lost."""
        self.end(-SIGKILL)
        self._gone(-SIGKILL)

    def _gone(self, code: int) -> None:
        if self.alive:
            self.alive = False
            del self.node.processes[self.pid]
            self.node.exited(self, code)
