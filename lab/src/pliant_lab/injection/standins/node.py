"""A node of the world, whether or not an agent lives there now."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from pliant.live.node.sessions import HELLO_S
from pliant_lab.injection.clock import Clock
from pliant_lab.injection.standins.agent import SOON_S, USER, Agent
from pliant_lab.injection.standins.process import Proc

if TYPE_CHECKING:
    from pliant_lab.injection.world import World


class Node:
    """One node of the world, whether or not an agent lives there now."""

    def __init__(self, world: World, name: str, slots: int) -> None:
        self.world = world
        self.clock: Clock = world.clock
        self.random: Random = world.random
        self.name = name
        self.slots = slots
        self.agent: Agent | None = None
        self.processes: dict[int, Proc] = {}
        self.files: set[str] = set()
        """Tokens of groups that were started here and have not been cleared away."""
        self.cut_off_until = self.off_until = 0.0
        self._last_pid = 1

    def latency_s(self) -> float:
        """Of a socket on one machine. The same always: bytes of one connection must not overtake each other."""
        return 2e-5

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
        return self.clock.now >= self.cut_off_until and self.world.head.alive

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
