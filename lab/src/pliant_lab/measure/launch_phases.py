"""How long a launch over a tree takes: a discrete-event model of the three phases (Bosilca et al. 2011, Algorithms 1
and 2).

Every agent starts its children, ``window`` at a time; each takes processor time where it is started from, a delay that
is nobody's work (a network's latency, name services), processor time on its own node, and again where it calls. When
all below a child is known, its contacts go up; what the root has then goes down. The program starts on a node as soon
as its agent has called, for that is when word of it comes along the tree.

Nodes have a processor each, or all share a few (``processors``), as virtual nodes on one machine do: in equal parts, as
under a fair scheduler. So those that are started together are there together, and what one waits for nobody's work is
not hidden behind another. What is not in it: noise, and a network that is full.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from pliant.plan.tree import Subtree, TreeShape


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
    span: Subtree
    parent: _Agent | None
    queue: list[Subtree] = field(default_factory=list)
    starting: int = 0
    uncalled: int = 0
    """Children that have not called."""
    unknown: int = 0
    """Children below whom not all is known."""
    children: list[_Agent] = field(default_factory=list)
    free_at: float = 0.0
    """Where it has a processor of its own."""

    @property
    def below(self) -> int:
        return self.span.end - self.span.child


class _Processors:
    """Who may compute when. An agent does one thing after another; all that have something to do share the processors
    in equal parts, as under a fair scheduler. The clock inside says how much has been computed by one that always had
    something to do."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._waiting: dict[int, deque[tuple[float, Callable[[], None]]]] = {}
        """By agent what it has to do after what it is at."""
        self._busy: list[tuple[float, int, int, Callable[[], None]]] = []
        """By when it is done, by the clock inside."""
        self._number = 0
        self._inside = self._at = 0.0

    def _share(self) -> float:
        return min(1.0, self._count / max(1, len(self._busy)))

    def _advance(self, now: float) -> None:
        self._inside += (now - self._at) * self._share()
        self._at = now

    def take(self, agent: int, now: float, seconds: float, then: Callable[[], None]) -> None:
        """``then``, when ``agent`` has computed for so long."""
        if agent in self._waiting:
            self._waiting[agent].append((seconds, then))
            return
        self._waiting[agent] = deque()
        self._advance(now)
        self._begin(agent, seconds, then)

    def _begin(self, agent: int, seconds: float, then: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._busy, (self._inside + seconds, self._number, agent, then))

    def next_at(self) -> float:
        """When the next one is done."""
        if not self._busy:
            return math.inf
        return self._at + max(0.0, self._busy[0][0] - self._inside) / self._share()

    def done(self, now: float) -> Callable[[], None]:
        """What follows for the one that is done now."""
        self._advance(now)
        self._inside, _, agent, then = heapq.heappop(self._busy)
        if waiting := self._waiting[agent]:
            self._begin(agent, *waiting.popleft())
        else:
            del self._waiting[agent]
        return then


class _Launch:
    def __init__(
        self, agents: int, shape: TreeShape, window: int, costs: LaunchCosts, processors: int
    ) -> None:
        self._shape, self._window, self._costs = shape, window, costs
        self._agents = agents
        self._shared = _Processors(processors) if processors else None
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._now = 0.0
        self.called = self.contacts = self.started = 0.0

    def run(self) -> LaunchPhases:
        root = _Agent(Subtree(0, self._agents + 1), None)
        self._begin(root)
        while happen := self._next():
            happen()
        return LaunchPhases(self.called, self.contacts, self.started)

    def _next(self) -> Callable[[], None] | None:
        """What happens next."""
        done = self._shared.next_at() if self._shared else math.inf
        if self._events and self._events[0][0] <= done:
            self._now, _, happen = heapq.heappop(self._events)
            return happen
        if self._shared is None or done == math.inf:
            return None
        self._now = done
        return self._shared.done(done)

    def _at(self, time: float, happen: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (time, self._count, happen))

    def _compute(self, agent: _Agent, seconds: float, then: Callable[[], None], later: float = 0.0) -> None:
        """``then``, so much ``later`` than ``agent`` has computed for so long."""
        if self._shared is None:
            agent.free_at = max(agent.free_at, self._now) + seconds
            self._at(agent.free_at + later, then)
            return

        def computed() -> None:
            self._at(self._now + later, then)

        self._shared.take(agent.span.child, self._now, seconds, computed if later else then)

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
    agents: int, shape: TreeShape, window: int, costs: LaunchCosts, *, processors: int = 0
) -> LaunchPhases:
    """How long a launch of ``agents`` agents takes. ``processors``: how many all nodes share; 0: each has its own."""
    if agents < 1 or window < 1:
        raise ValueError(f"a launch of {agents} agents, {window} at a time: both are at least 1")
    return _Launch(agents, shape, window, costs, processors).run()
