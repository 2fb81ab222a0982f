"""What stands for processes and sockets between the controller of the world and its nodes, as ``drivers/fork.py`` has
them. It decides nothing: the fleet that is shipped does."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from pliant.live.cluster import orders as o
from pliant.model.deadlines import AGENT_GRACE_S, AGENT_SILENCE_S
from pliant.model.errors import ProtocolError
from pliant.protocol import codec
from pliant.protocol import messages as m
from pliant_lab.injection.audit.violation import Violation
from pliant_lab.injection.clock import Wire
from pliant_lab.injection.roster import Roster
from pliant_lab.injection.standins.node import LATENCY_S, Agent, Node

SILENCE_S = AGENT_SILENCE_S + AGENT_GRACE_S
"""So long after its last word an agent is taken for dead."""
BURY_S = 2.0
"""What is left of a node's processes gets so long to be gone."""
LAST_S = 1.0
"""How long the end of an agent's link may be behind that of its process."""
NONE_LEFT = 0.2
"""The share of nodes asked for that cannot be had."""
LOST, DOUBLED = 0.02, 0.02
"""The shares of envelopes that a lossy world loses and doubles, as a tree does that heals."""


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
        self.progress: dict[tuple[int, int], int] = {}
        self.down: Wire
        self.up: Wire
        self.open = True


class Driver:
    """The nodes of one controller."""

    def __init__(self, roster: Roster, tell: Callable[[o.AnyInput], None]) -> None:
        self.alive = True
        self.links: dict[str, Link] = {}
        """By node, those whose agents have said who they are."""
        self._outside = outside = roster.outside
        self._roster = roster
        self._tell_head = tell
        self._clock = outside.clock
        self._known: dict[str, Agent] = {}
        self._strangers: list[Link] = []
        self._closed = False
        self._envelopes = codec.from_nodes()
        self._words = codec.from_agent()
        self._clock.later(1.0, self._watch)

    # ---- the port ------------------------------------------------------------------------------------

    def start(self, nodes: Iterable[str]) -> None:
        for name in nodes:
            node = self._roster.nodes.get(name)
            if node is None and self._outside.random.random() < NONE_LEFT:
                self._tell_later(o.Ended(name, "there is none left"))
                continue
            node = node or self._roster.new_node(name)
            self._known[name] = agent = node.new_agent()
            self._link(agent)
            self._clock.later(self._outside.random.uniform(0.05, 0.3), agent.begin)

    def send(self, name: str, envelope: m.To) -> None:
        link = self.links.get(name)
        if link is not None and link.open:
            for _ in range(self._copies()):
                link.down.send(codec.encode(envelope))

    def clear(self, name: str) -> None:
        if (link := self.links.pop(name, None)) is not None:
            self._hang_up(link)
        for link in [each for each in self._strangers if each.node.name == name]:
            self._strangers.remove(link)
            self._hang_up(link)
        self._known.pop(name, None)
        if (node := self._roster.nodes.get(name)) is None:
            self._tell_later(o.Cleared(name))
        else:
            node.kill_agent()
            self._bury(node, self._clock.now)

    def close(self) -> None:
        """All is over: every agent is to leave, and nothing is told of that."""
        self._closed = True
        for name, link in self.links.items():
            link.down.send(codec.encode(m.To((name,), codec.raw(m.Shutdown()))))
        for node in self._roster.nodes.values():
            if node.name not in self.links:
                node.kill_agent()
                self._bury(node, self._clock.now)

    # ---- what befalls it -----------------------------------------------------------------------------

    def crash(self) -> None:
        """The controller's process is gone, and its ends of the links with it. What was on its way arrives, or not."""
        self.alive = False
        for link in (*self.links.values(), *self._strangers):
            link.open = False
            if self._outside.random.random() < 0.5:
                link.down.cut()
            else:
                link.down.close()

    def take_away(self, name: str) -> None:
        """The source of this node takes it away."""
        node = self._roster.nodes.pop(name)
        if (link := self.links.pop(name, None)) is not None:
            self._hang_up(link)
        self._known.pop(name, None)
        node.kill_agent()
        self._tell(o.TakenAway(name))

    def reaches(self, name: str) -> bool:
        """Whether there is a link to this node."""
        link = self.links.get(name)
        return link is not None and link.open and link.ready

    def connected(self, node: str) -> None:
        """An agent has come to the socket."""
        if (agent := self._roster.nodes[node].agent) is not None:
            self._link(agent)

    def died(self, node: str, agent: object) -> None:
        """A process that was an agent has ended: told when its link has ended too."""
        self._clock.later(LATENCY_S, lambda: self._ended(node, agent, self._clock.now + LAST_S))

    # ---- links ---------------------------------------------------------------------------------------

    def _tell(self, event: o.AnyInput) -> None:
        if not self._closed:
            self._tell_head(event)

    def _tell_later(self, event: o.AnyInput) -> None:
        self._clock.later(0.0, lambda: self._tell(event))

    def _copies(self) -> int:
        if not self._outside.lossy:
            return 1
        drawn = self._outside.random.random()
        return 0 if drawn < LOST else 2 if drawn < LOST + DOUBLED else 1

    def _link(self, agent: Agent) -> None:
        """A link of two wires between an agent and this controller."""
        clock, random, latency = self._clock, self._outside.random, self._outside.latency_s()
        link = Link(agent)
        link.up = agent.up = Wire(
            clock, random, latency, lambda data: self._heard(link, data), lambda: self._cut(link)
        )
        link.down = Wire(clock, random, latency, agent.hears, agent.link_lost)
        self._strangers.append(link)

    def _heard(self, link: Link, data: bytes) -> None:
        if not (self.alive and link.open):
            return
        link.heard = self._clock.now
        try:
            for line in link.lines.feed(data):
                self._take(link, self._envelopes.decode(line))
        except ProtocolError:
            self._cut(link)

    def _take(self, link: Link, envelope: m.From) -> None:
        name, raw = link.node.name, msgspec.Raw(bytes(envelope.message))
        if link in self._strangers:
            self._strangers.remove(link)
            if (before := self.links.get(name)) is not None:
                self._hang_up(before)
            self.links[name] = link
            self._known.setdefault(name, link.agent)
        message = None if envelope.number else self._words.decode(raw)
        copies = 1 if isinstance(message, m.Error) else self._copies()
        if isinstance(message, m.Heartbeat) or not copies:
            return
        if isinstance(message, m.AgentHello):
            if not link.ready:
                link.ready, link.since, link.repeats = True, self._clock.now, message.repeats
        elif envelope.number:
            self._told_again(link, envelope)
        for _ in range(copies):
            link.told = max(link.told, envelope.number)
            self._tell(o.Heard(name, raw, envelope.number, envelope.after, envelope.obeyed))

    def _told_again(self, link: Link, envelope: m.From) -> None:
        """Of how far a group is only the last is kept."""
        raw = bytes(envelope.message)
        if b'"progress"' not in raw or not envelope.number <= link.repeats:
            return
        relay = self._words.decode(envelope.message)
        if isinstance(relay, m.Relay) and b'"progress"' in bytes(relay.message)[:30]:
            key = relay.job, relay.group
            if link.progress.setdefault(key, envelope.number) != envelope.number:
                raise Violation(
                    "leaked", f"group {relay.group} of job {relay.job} tells again where it was before"
                )

    def _hang_up(self, link: Link) -> None:
        link.open = False
        link.down.close()

    def _cut(self, link: Link) -> None:
        """The link is gone; what the agent has goes on."""
        if not (self.alive and link.open):
            return
        self._hang_up(link)
        name = link.node.name
        if link in self._strangers:
            self._strangers.remove(link)
            if self._known.get(name) is link.agent and name not in self.links:
                self._tell(o.Cut(name, "its agent is gone"))
        elif self.links.get(name) is link:
            del self.links[name]
            self._tell(o.Cut(name, "its agent is gone"))

    def _ended(self, name: str, agent: object, until: float) -> None:
        if self._known.get(name) is not agent or not self.alive:
            return
        link = self.links.get(name)
        if link is not None and link.agent is agent and link.open and self._clock.now < until:
            self._clock.later(0.05, lambda: self._ended(name, agent, until))
        else:
            self._tell(o.Ended(name, "its agent is gone"))

    def _bury(self, node: Node, since: float) -> None:
        """End all that is left on a node that has no agent any more."""
        if not self.alive:
            return
        for proc in list(node.processes.values()):
            proc.kill()
        if not node.processes:
            self._tell(o.Cleared(node.name))
        elif self._clock.now - since > BURY_S:
            self._tell(o.Cleared(node.name, f"{len(node.processes)} processes cannot be ended"))
        else:
            self._clock.later(0.02, lambda: self._bury(node, since))

    def _watch(self) -> None:
        """Agents that have been silent for too long."""
        if not self.alive or self._outside.over:
            return
        for link in list(self.links.values()):
            if link.open and link.ready and self._clock.now - link.heard > SILENCE_S:
                self._cut(link)
        self._clock.later(1.0, self._watch)
