"""How long a launch over a tree takes: a discrete-event model of the three phases (paper 4, Algorithms 1 and 2).

Every agent starts its children, ``window`` at a time; each takes processor time where it is started from, a delay that
is nobody's work (a network's latency, name services), processor time on its own node, and again where it calls. When
all below a child is known, its contacts go up; what the root has then goes down. The program starts on a node as soon
as its agent has called, for that is when word of it comes along the tree.

Nodes have a processor each, or all share a few (``processors``), as virtual nodes on one machine do. What is not in
it: noise, and a network that is full.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from pliant.plan.tree import Span, Tree


class LaunchCosts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds, of a processor but for ``delay_s``.

    ``spawn_s``: to start a starter (fork, ssh), at the parent. ``agent_s``: what a started agent and whoever serves
    it on its node take until it calls. ``call_s``: to take a call and answer it. ``message_s``, ``contact_s``: a
    message between agents at each of its ends, and each contact in it. ``program_s``: to start the program on a node.
    ``hop_s``: of the network, one way. The defaults are of nobody: ``pliant bench launch`` measures them.
    """

    spawn_s: float = 0.01
    agent_s: float = 0.2
    call_s: float = 0.001
    message_s: float = 0.0001
    contact_s: float = 0.000002
    program_s: float = 0.005
    delay_s: float = 0.0
    hop_s: float = 0.0001


class LaunchPhases(msgspec.Struct, frozen=True):
    """Seconds from the start until all agents have called, every agent knows how all others are reached, and the
    program runs on all nodes."""

    called: float
    contacts: float
    started: float


@dataclass
class _Agent:
    span: Span
    parent: _Agent | None
    queue: list[Span] = field(default_factory=list)
    starting: int = 0
    uncalled: int = 0
    """Children that have not called."""
    unknown: int = 0
    """Children below whom not all is known."""
    children: list[_Agent] = field(default_factory=list)
    free_at: float = 0.0

    @property
    def below(self) -> int:
        return self.span.end - self.span.child


class _Processors:
    """Who may compute when: those who ask first."""

    def __init__(self, count: int) -> None:
        self._free = [0.0] * count

    def take(self, agent: _Agent, now: float, seconds: float) -> float:
        """When ``agent`` has computed for so long."""
        if not self._free:
            agent.free_at = max(agent.free_at, now) + seconds
            return agent.free_at
        end = max(heapq.heappop(self._free), now) + seconds
        heapq.heappush(self._free, end)
        return end


class _Launch:
    def __init__(self, agents: int, shape: Tree, window: int, costs: LaunchCosts, processors: int) -> None:
        self._shape, self._window, self._costs = shape, window, costs
        self._agents = agents
        self._processors = _Processors(processors)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._now = 0.0
        self.called = self.contacts = self.started = 0.0

    def run(self) -> LaunchPhases:
        root = _Agent(Span(0, self._agents + 1), None)
        self._begin(root)
        while self._events:
            self._now, _, happen = heapq.heappop(self._events)
            happen()
        return LaunchPhases(self.called, self.contacts, self.started)

    def _at(self, time: float, happen: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (time, self._count, happen))

    def _compute(self, agent: _Agent, seconds: float, then: Callable[[], None], later: float = 0.0) -> None:
        self._at(self._processors.take(agent, self._now, seconds) + later, then)

    # ---- phases 1 and 3 ----------------------------------------------------------------------------------

    def _begin(self, agent: _Agent) -> None:
        """It knows what is below it."""
        agent.queue = list(self._shape.spans(agent.span.child + 1, agent.span.end))[::-1]
        agent.uncalled = agent.unknown = len(agent.queue)
        if agent.parent is not None:
            self._compute(agent, self._costs.program_s, self._runs)
        if not agent.queue:
            self._whole(agent)
        while agent.queue and agent.starting < self._window:
            self._start(agent)

    def _start(self, parent: _Agent) -> None:
        child = _Agent(parent.queue.pop(), parent)
        parent.children.append(child)
        parent.starting += 1
        costs = self._costs
        self._compute(parent, costs.spawn_s, lambda: self._spawned(child), costs.delay_s)

    def _spawned(self, child: _Agent) -> None:
        self._compute(child, self._costs.agent_s, lambda: self._calls(child), self._costs.hop_s)

    def _calls(self, child: _Agent) -> None:
        if (parent := child.parent) is not None:
            self._compute(parent, self._costs.call_s, lambda: self._called(parent, child), self._costs.hop_s)

    def _called(self, parent: _Agent, child: _Agent) -> None:
        self.called = max(self.called, self._now)
        parent.starting -= 1
        parent.uncalled -= 1
        if parent.queue:
            self._start(parent)
        self._begin(child)

    def _runs(self) -> None:
        self.started = max(self.started, self._now)

    # ---- phase 2 -----------------------------------------------------------------------------------------

    def _message(self, contacts: int) -> float:
        return self._costs.message_s + self._costs.contact_s * contacts

    def _whole(self, agent: _Agent) -> None:
        """All that is below it is known to it."""
        parent = agent.parent
        if parent is None:
            self._all_known(agent)
            return

        def arrives() -> None:
            self._compute(parent, self._message(agent.below), taken)

        def taken() -> None:
            parent.unknown -= 1
            if not parent.unknown:
                self._whole(parent)

        self._compute(agent, self._message(agent.below), arrives, self._costs.hop_s)

    def _all_known(self, agent: _Agent) -> None:
        """It knows all: so will its children, from each of whom it has what is below them already."""
        self.contacts = max(self.contacts, self._now)
        for child in agent.children:
            others = self._message(self._agents + 1 - child.below)
            self._compute(agent, others, lambda child=child: self._hears(child), self._costs.hop_s)  # type: ignore[misc]

    def _hears(self, child: _Agent) -> None:
        others = self._message(self._agents + 1 - child.below)
        self._compute(child, others, lambda: self._all_known(child))


def predict(
    agents: int, shape: Tree, window: int, costs: LaunchCosts, *, processors: int = 0
) -> LaunchPhases:
    """How long a launch of ``agents`` agents takes. ``processors``: how many all nodes share; 0: each has its own."""
    if agents < 1 or window < 1:
        raise ValueError(f"a launch of {agents} agents, {window} at a time: both are at least 1")
    return _Launch(agents, shape, window, costs, processors).run()
