"""Where the nodes of the world come from: what ``providers/local.py`` and ``providers/kept.py`` do, on its clock."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

import msgspec

from pliant.live.cluster import orders as o
from pliant.model.errors import ProtocolError
from pliant.model.nodes import NodeSet
from pliant.protocol import codec
from pliant.protocol import messages as m
from pliant.testing.audit.violation import Violation
from pliant.testing.clock import Wire
from pliant.testing.standins.agent import Agent
from pliant.testing.standins.node import Node

if TYPE_CHECKING:
    from pliant.testing.standins.head import Head

SILENCE_S = 35.0
"""So long after its last word an agent is taken for dead."""
BURY_S = 2.0
"""What is left of a node's processes gets so long to be gone; then the node is given up."""
RESTARTS = 3
START_S = 20.0
STOP_S = 4.0
NONE_LEFT = 0.2
"""The share of nodes asked for that cannot be had."""
LOOK_S = 0.1
SLOW, SLOW_S = 0.2, 10.0
"""The share of lost links that are given up so much later than agents wait: their nodes are lost before."""


class Cleared(Protocol):
    """What follows when a node has been cleared, or could not be."""

    def __call__(self, node: Node, *, clean: bool) -> None: ...


class Link:
    """The controller's end of a link to an agent."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.node = agent.node
        self.lines = codec.Lines(codec.MAX_LINE + codec.WRAPPING)
        self.ready = False
        self.since = 0.0
        """When it was, first."""
        self.heard = agent.node.clock.now
        self.repeats = 0
        """Up to this number the agent says again what it may have said already."""
        self.told = 0
        """The number of the last message that the controller has been told."""
        self.progress: set[tuple[int, int]] = set()
        self.down: Wire
        self.up: Wire
        self.open = True


class LocalNodes:
    """Nodes whose agents end with their controller."""

    def __init__(self, head: Head) -> None:
        self.links: dict[str, Link] = {}
        self._head = head
        self._world = head.world
        self._clock = head.world.clock
        self._restarts: dict[str, int] = {}
        self._envelopes = codec.from_nodes()
        self._decoder = codec.from_agent()
        state = head.cluster.core.state
        self._granted = {state.names[number] for number in NodeSet(state.all_mask)} & set(self._world.nodes)

    # ---- the port ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Bring all nodes up; what was taken away meanwhile is not there any more."""
        for node in self._world.nodes.values():
            self._bury(node, self._clock.now, self._launch)
        names = self._head.cluster.core.state.names
        for number in NodeSet(self._head.cluster.core.state.all_mask):
            if names[number] not in self._world.nodes:
                self._head.tell(o.Lost(names[number], final=True))
        self._watch()

    def grant_all(self) -> None:
        self._grant(*self._world.nodes.values())

    def send(self, name: str, message: m.ControllerMessage, order: int = 0) -> None:
        link = self.links.get(name)
        if link is not None and link.open:
            link.down.send(codec.encode(m.To((name,), codec.raw(message), order)))

    def reaches(self, node: int) -> bool:
        """Whether there is a link to the node of this number."""
        link = self.links.get(self._head.cluster.core.state.names[node])
        return link is not None and link.open and link.ready

    def request(self, count: int) -> None:
        """New nodes come one by one, and not all of them."""
        for _ in range(count):
            if self._world.random.random() < NONE_LEFT:
                self._head.tell(o.Refused(1, "there is none left"))
            else:
                self._bury(self._world.new_node(), self._clock.now, self._launch)

    def give_back(self, name: str) -> None:
        link, node = self.links.pop(name), self._world.nodes.pop(name)
        link.open = False
        link.down.close()
        node.kill_agent()
        self._granted.discard(name)
        self._head.tell(o.Returned((name,)))

    def stop(self) -> None:
        """All is over: every agent is to leave."""
        for name in self.links:
            self.send(name, m.Shutdown())

    def crash(self) -> None:
        """The controller's process is gone: its ends of the links with it."""
        for link in self.links.values():
            link.open = False
            link.down.close()

    # ---- agents --------------------------------------------------------------------------------------

    def _launch(self, node: Node, *, clean: bool) -> None:
        """Start an agent, if all of the last one has gone."""
        name = node.name
        if self._world.nodes.get(name) is not node:
            return  # it has been taken away meanwhile
        again = name in self._restarts
        if again or not clean:
            final = not clean or self._restarts[name] >= RESTARTS
            if name in self._granted:
                self._head.tell(o.Lost(name, final))
            elif final:
                self._head.tell(o.Refused(1, f"no agent could be started on {name}"))
            if final:
                return
        self._restarts[name] = self._restarts.get(name, -1) + 1
        link = self.links[name] = self._linked(agent := node.new_agent())
        self._clock.later(self._world.random.uniform(0.05, 0.3), agent.begin)
        self._clock.later(START_S, lambda: None if link.ready else self._lost(link))

    def _linked(self, agent: Agent) -> Link:
        """A link of two wires between an agent and this controller."""
        clock, random, latency = self._clock, self._world.random, self._world.latency_s()
        link = Link(agent)
        link.up = agent.up = Wire(
            clock, random, latency, lambda data: self._heard(link, data), lambda: self._lost(link)
        )
        link.down = Wire(
            clock, random, latency,
            agent.hears, agent.link_lost,
        )  # fmt: skip
        return link

    def _heard(self, link: Link, data: bytes) -> None:
        if not (self._head.alive and link.open):
            return
        link.heard = self._clock.now
        try:
            for line in link.lines.feed(data):
                envelope = self._envelopes.decode(line)
                self._take(link, envelope, self._decoder.decode(envelope.message))
        except ProtocolError:
            self._lost(link)

    def _take(self, link: Link, envelope: m.From, message: m.AgentMessage) -> None:
        if isinstance(message, m.AgentHello):
            self._ready(link)
        elif not isinstance(message, m.Heartbeat | m.Error):
            self._head.tell(o.Said(envelope.node, msgspec.Raw(bytes(envelope.message))))

    def _ready(self, link: Link) -> None:
        link.ready, link.since = True, self._clock.now
        node = link.node
        if node.name in self._granted:
            self._head.tell(o.Back(node.name))
        elif self._world.begun:
            self._grant(node)
        else:
            self._world.up(node)

    def _grant(self, *nodes: Node) -> None:
        self._granted.update(node.name for node in nodes)
        self._head.tell(o.Granted(tuple(node.name for node in nodes), tuple(node.slots for node in nodes)))

    def _lost(self, link: Link) -> None:
        """The agent is gone, or as good as gone: end all that is left on the node, then try a new one."""
        if not (self._head.alive and link.open):
            return
        link.open = False
        if self._world.over:
            return
        link.down.close()
        link.node.kill_agent()
        self._bury(link.node, self._clock.now, self._launch)

    def _bury(self, node: Node, since: float, then: Cleared) -> None:
        """End all that is left on a node that has no agent any more."""
        if not self._head.alive:
            return
        if node.agent is not None and self.links.get(node.name) is None:
            node.kill_agent()  # of a controller that was killed: it has not heard of it yet
        for proc in list(node.processes.values()):
            proc.kill()
        if not node.processes:
            if not self._world.grace:
                node.files.clear()  # else they say for ever what has been started there
            then(node, clean=True)
        elif self._clock.now - since > BURY_S:
            then(node, clean=False)
        else:
            self._clock.later(0.02, lambda: self._bury(node, since, then))

    def _watch(self) -> None:
        """Agents that have been silent for too long."""
        if not self._head.alive or self._world.over:
            return
        for link in list(self.links.values()):
            if link.open and link.ready and self._clock.now - link.heard > SILENCE_S:
                self._lost(link)
        self._clock.later(1.0, self._watch)


class KeptNodes(LocalNodes):
    """Nodes whose agents outlive their controller for a grace: they come to it, and to the next one."""

    def __init__(self, head: Head) -> None:
        super().__init__(head)
        self._known: dict[str, Agent] = {}
        self._strangers: list[Link] = []
        """Those that have not said who they are."""

    def start(self) -> None:
        """Start all agents, or wait for those that run; what is lost by the journal is begun anew."""
        state = self._head.cluster.core.state
        if self._world.begun:
            self._restarts = {state.names[number]: 0 for number in NodeSet(state.all_mask)}
        lost = {state.names[number] for number in NodeSet(state.lost_mask)}
        for node in self._world.nodes.values():
            if not self._world.begun:
                self._restarts[node.name] = 0
                node.new_agent().dial()
            elif node.name in lost:
                self._clear(node.name, self._anew)
            elif node.name in self._restarts:
                self._await(node.name, None, self._clock.now + self._world.grace)
        self._watch()

    def request(self, count: int) -> None:
        self._head.tell(o.Refused(count, "nodes that outlive their controller cannot be added while it runs"))

    def give_back(self, name: str) -> None:
        """End its agent, where nothing runs any more."""
        if name in self._restarts:
            self.send(name, m.Shutdown())
            del self._restarts[name]
            self._clock.later(STOP_S, lambda: self._clear(name, self._returned))

    def _returned(self, node: Node, *, clean: bool) -> None:
        self._head.tell(o.Returned((node.name,)) if clean else o.Lost(node.name, final=True))

    def stop(self) -> None:
        super().stop()
        for node in self._world.nodes.values():
            if node.name not in self.links:
                node.kill_agent()
                self._bury(node, self._clock.now, self._over)

    def _over(self, node: Node, *, clean: bool) -> None:
        """Nothing follows."""

    def crash(self) -> None:
        """What was on its way arrives, or not."""
        for link in (*self.links.values(), *self._strangers):
            link.open = False
            if self._world.random.random() < 0.5:
                link.down.cut()
            else:
                link.down.close()

    # ---- links ---------------------------------------------------------------------------------------

    def connected(self, agent: Agent) -> None:
        """An agent has come to the socket."""
        self._strangers.append(self._linked(agent))

    def _take(self, link: Link, envelope: m.From, message: m.AgentMessage) -> None:
        name = envelope.node
        if not link.ready:
            if not isinstance(message, m.AgentHello) or name not in self._restarts or name in self.links:
                raise ProtocolError(f"a link for {name!r} that is not due")
            if self._known.setdefault(name, link.agent) is not link.agent:
                raise ProtocolError(
                    f"another agent for {name!r}, before the one that was there is cleared away"
                )
            link.ready, link.since, link.repeats = True, self._clock.now, message.repeats
            self._strangers.remove(link)
            self.links[name] = link
            if not self._world.begun:
                self._world.up(link.node)
        if isinstance(message, m.Relay) and 0 < envelope.number <= link.repeats:
            self._told_again(link, message)
        if not isinstance(message, m.Heartbeat | m.Error):
            raw = msgspec.Raw(bytes(envelope.message))
            link.told = max(link.told, envelope.number)
            self._head.tell(o.Said(name, raw, envelope.number, envelope.obeyed))

    @staticmethod
    def _told_again(link: Link, relay: m.Relay) -> None:
        """Of how far a group is only the last is kept."""
        if b'"progress"' in bytes(relay.message)[:30]:
            if (relay.job, relay.group) in link.progress:
                raise Violation(
                    "leaked", f"group {relay.group} of job {relay.job} tells again where it was before"
                )
            link.progress.add((relay.job, relay.group))

    def _lost(self, link: Link) -> None:
        """The agent may come back, and what it has goes on."""
        if not (self._head.alive and link.open):
            return
        link.open = False
        link.down.close()
        name = link.node.name
        if self.links.get(name) is not link:
            return
        del self.links[name]
        if self._stays(name):
            self._head.tell(o.Unlinked(name))
            slow_s = SLOW_S if self._world.random.random() < SLOW else 0.0
            self._await(name, link.agent, self._clock.now + self._world.grace + slow_s)

    def _await(self, name: str, agent: Agent | None, until: float) -> None:
        """Wait for the node's agent, as long as it may be there; then the node is lost, and tried anew."""
        if not self._stays(name) or name in self.links:
            return
        if self._clock.now >= until or (agent is not None and agent.node.agent is not agent):
            self._clear(name, self._anew)
        else:
            self._clock.later(LOOK_S, partial(self._await, name, agent, until))

    def _clear(self, name: str, then: Cleared) -> None:
        if self._head.alive:
            self._known.pop(name, None)
            node = self._world.nodes[name]
            node.kill_agent()
            self._bury(node, self._clock.now, then)

    def _anew(self, node: Node, *, clean: bool) -> None:
        name = node.name
        if not self._stays(name):
            return
        final = not clean or self._restarts[name] >= RESTARTS
        self._head.tell(o.Lost(name, final))
        if not final:
            self._restarts[name] += 1
            self._known[name] = agent = node.new_agent()
            agent.dial()
            self._until_here(name, self._clock.now + START_S)

    def _until_here(self, name: str, until: float) -> None:
        if not self._stays(name):
            return
        if name in self.links:
            self._head.tell(o.Back(name))
        elif self._clock.now >= until:
            self._clear(name, self._anew)
        else:
            self._clock.later(LOOK_S, partial(self._until_here, name, until))

    def _stays(self, name: str) -> bool:
        """Whether the node is ours, and is not about to be given back."""
        return self._head.alive and not self._world.over and name in self._restarts
