"""The nodes of a cluster, from when they are asked for until they are gone, and the links to their agents: one machine
without I/O, the same for nodes that are reached by fork, ssh or srun.

It stands between the machine that uses the nodes (``live/cluster``) and a driver, which starts agents, moves bytes, and
ends what is left on a node. The fleet alone decides what follows from a lost link, a restart of either end, and a
message that is lost or doubled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import count as counting
from itertools import islice

import msgspec

from pliant.live.cluster import orders as o
from pliant.live.fleet.channel import Numbered
from pliant.live.fleet.node import AgentLink, Node
from pliant.live.fleet.stages import Happens, NodeStage, moved
from pliant.model.deadlines import CHANNEL_AGAIN_S
from pliant.model.errors import ProtocolError
from pliant.model.limits import LIVE_NODES
from pliant.model.need import Need
from pliant.model.words import are, count
from pliant.protocol import VERSION, codec
from pliant.protocol import messages as m

KEY = "fleet"
"""The first word of its timers' keys."""
LONGEST = codec.MAX_LINE + codec.WRAPPING
"""Of a line in either direction, in bytes."""
CANNOT = 126
"""A shell's exit code for a command that cannot be executed."""
STOPPED_S = 0.3
"""A timer that is so late fires after a stop of this very process."""
WITHDRAWN = "it was withdrawn"
UNCLEAN = "what was left there could not be ended"
_LARGE = m.StartGroup | m.Deliver | m.Fenced | m.Answered
"""What may be too long for a line."""


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """Which nodes there may be, and how long things take there, in seconds.

    The nodes are ``hosts`` in their order, by default virtual ones n0, n1, ..., at most ``most`` at a time. Each has
    ``slots``; ``labels`` are by name. ``source`` tells people where they come from. An agent may take ``start_s`` to
    come, one that the run begins with ``begin_s``, and ``each_s`` more for each agent that is started with it. It may
    take ``stop_s`` to leave. A node gets ``restarts`` agents after its first.

    Agents go on for ``grace_s`` without a link. The controller gives one up ``margin_s`` later, where it cannot end it.
    ``hint`` tells people what to do where the run cannot begin.
    """

    hosts: tuple[str, ...] = ()
    most: int = LIVE_NODES
    slots: int = 1
    labels: dict[str, tuple[str, ...]] = {}
    source: str = ""
    start_s: float = 20.0
    begin_s: float = 20.0
    each_s: float = 0.0
    stop_s: float = 4.0
    restarts: int = 3
    grace_s: float = 0.0
    margin_s: float = 0.0
    hint: str = ""


def _strictest_first(need: Need | None) -> tuple[int, str]:
    """The key by which requests are sorted: those first that few nodes fit."""
    return (0 if need is None else -len(need.labels), str(need))


class Fleet:
    """``take`` is told what happens to nodes, and ``request``, ``give_back`` and ``send`` what is wanted. What follows
    is in ``events``, for whoever uses the nodes, and ``outputs``, for the driver, until they are taken from there."""

    def __init__(self, site: Site) -> None:
        self.nodes: dict[str, Node] = {}
        self.events: list[o.OfCluster] = []
        self.outputs: list[o.Output] = []
        self.now = 0.0
        self.moves: Counter[tuple[NodeStage, Happens]] = Counter()
        """How often nodes have gone each way of the table."""
        self._site = site
        self._returned: dict[str, None] = {}
        """Names that were used and are free again."""
        self._spoilt: set[str] = set()
        """Names of nodes that are not used again."""
        self._strangers: set[str] = set()
        """Nodes that nobody has asked for and whose agents have called: they are being cleared."""
        self._waiting: Counter[Need | None] = Counter()
        """What was asked for and is to come when nodes have left that can be used again."""
        self._begun = False
        self._missing: dict[str, str] = {}
        """Nodes that the run cannot begin with, and why."""
        self._first = 0
        """How many nodes the run begins with."""
        self._unclean = False
        """Another controller was here: what it has started is ended before anything is."""
        self._owing: dict[str, None] = {}
        """Nodes whose agents have told something that they have no answer to."""
        self._unwritten: dict[str, None] = {}
        """And those that know that it has come, and not yet that it is recorded."""
        self._repeats = False
        self._words = codec.from_agent()

    def resume(self, there: Iterable[str], lost: Iterable[str]) -> None:
        """Go on with the nodes that another controller was granted: agents run there, but for those of ``lost``."""
        self._begun = self._unclean = True
        for name in there:
            self.nodes[name] = node = Node(name, self._labels(name), NodeStage.UNLINKED, is_known=True)
            node.why = "it ended with its controller"
            node.link = AgentLink(elsewhere=True)
            self._later("grace", node, self._site.grace_s + self._site.margin_s)
        for name in lost:
            self.nodes[name] = node = Node(name, self._labels(name), NodeStage.LOST, is_known=True)
            node.why = "it was lost before its controller began again"
            self._clear(node)

    def take(self, given: o.OfNodes | o.Fired) -> None:
        """What has happened to a node, or to a timer of the fleet."""
        match given:
            case o.Begin():
                self._begin(given.count)
            case o.Fired():
                self._fired(*map(str, given.key[1:]))
            case o.Warned():
                self.outputs.append(o.Notice(given.text))
            case _:
                self._befallen(given)

    def _befallen(self, given: o.Heard | o.Cut | o.Ended | o.Cleared | o.TakenAway) -> None:
        node = self.nodes.get(given.node)
        match given:
            case o.Heard():
                self._heard(node, given)
            case o.Cut() if node is not None:
                self._cut(node, given.why)
            case o.Ended() if node is not None:
                self._ended(node, given.why)
            case o.Cleared():
                self._strangers.discard(given.node)
                if node is not None:
                    self._cleared(node, given.left)
                elif given.left:
                    self._spoilt.add(given.node)
                    self._tell_spoilt(given.node, given.left)
            case o.TakenAway() if node is not None:
                self._forget(node)
                self.events.append(o.Returned((node.name,)))
            case _:
                pass  # of a node that is gone

    def _fired(self, what: str, name: str = "") -> None:
        node = self.nodes.get(name)
        if what == "again":
            self._again()
        elif node is None:
            pass
        elif (late_s := self.now - node.due) > STOPPED_S:
            self._later(what, node, late_s)  # what has come meanwhile has yet to be read
        elif what == "start" and node.stage is NodeStage.COMING:
            self._ended(node, f"no word from its agent within {self._patience_s:g} s")
        elif what == "grace" and node.stage is NodeStage.UNLINKED:
            self._ended(
                node, f"its agent was away for {self._site.grace_s:g} s" if self._site.grace_s else node.why
            )
        elif what == "leave" and node.stage is NodeStage.LEAVING:
            self._clear(node)

    # ---- nodes that come -----------------------------------------------------------------------------

    def _begin(self, wanted: int) -> None:
        """All of these nodes, or none."""
        self._first = wanted
        names = self._names(wanted)
        self._missing = {f"node {number}": "there is none" for number in range(len(names) + 1, wanted + 1)}
        self._add(names)

    def request(self, wanted: int, need: Need | None = None) -> None:
        """So many nodes more, each with this ``need``: Granted for each that comes, Refused for each that cannot. For
        nodes that are leaving it waits, as they may be used again."""
        names = self._names(wanted, need)
        if (later := min(wanted - len(names), self._will_leave(need))) > 0:
            self._waiting[need] += later
        if missing := wanted - len(names) - later:
            self.events.append(o.Refused(missing, self._why_not(need, len(names)), need))
        self._add(names, need)

    def _will_leave(self, need: Need | None) -> int:
        """How many of the nodes that are leaving fit this, when each other request that waits has one: of those, if it
        can, that do not fit this."""
        leaving = Counter(node.labels for node in self.nodes.values() if node.stage is NodeStage.LEAVING)
        kinds = sorted(leaving, key=lambda labels: self._meets(labels, need))
        for other in sorted(self._waiting, key=_strictest_first):
            lacking = self._waiting[other]
            for labels in kinds:
                if self._meets(labels, other):
                    taken = min(lacking, leaving[labels])
                    leaving[labels] -= taken
                    lacking -= taken
        return sum(number for labels, number in leaving.items() if self._meets(labels, need))

    def _meets(self, labels: tuple[str, ...], need: Need | None) -> bool:
        return need is None or need.met(self._site.slots, labels)

    def _labels(self, name: str) -> tuple[str, ...]:
        return self._site.labels.get(name, ())

    def _why_not(self, need: Need | None, found: int) -> str:
        """Why there are no more than those that were ``found``."""
        site, what = self._site, ""
        if need is not None and need.slots > site.slots:
            return f"nodes have {count(site.slots, 'slot')} here, and {need.slots} are asked for"
        if need is not None and need.labels:
            what = f" labelled {' and '.join(need.labels)}"
            hosts = sum(need.met(site.slots, labels) for labels in site.labels.values())
            if not hosts:
                known = (
                    ", ".join(sorted({each for labels in site.labels.values() for each in labels})) or "none"
                )
                return f"no node here is{what}; the labels are: {known}"
        else:
            hosts = len(site.hosts)
        if 0 < hosts <= site.most:
            return f"of {count(hosts, 'host' if site.hosts else 'node')}{what} {are(found)} there to be added"
        return f"{site.most:,} nodes are the most here"

    def _serve(self) -> None:
        """What waits may come now, or never will."""
        waiting, self._waiting = self._waiting, Counter()
        for need in sorted(waiting, key=_strictest_first):
            self.request(waiting[need], need)

    def withdraw(self, wanted: int) -> None:
        """Withdraw so many nodes that were asked for and have not come, first those that wait for leaving ones."""
        for need in reversed(list(self._waiting)):
            if fewer := min(wanted, self._waiting[need]):
                wanted -= fewer
                self._waiting[need] -= fewer
                self.events.append(o.Refused(fewer, WITHDRAWN, need))
        coming = [
            node for node in self.nodes.values() if not node.is_known and node.stage is not NodeStage.LEAVING
        ]
        for node in reversed(coming[len(coming) - min(wanted, len(coming)) :]):
            node.why = WITHDRAWN
            self._leave(node)

    def _names(self, wanted: int, need: Need | None = None) -> list[str]:
        """Of nodes that can be added and fulfil this, at most so many."""
        room = max(0, min(wanted, self._site.most - len(self.nodes)))
        names: Iterable[str] = (f"n{number}" for number in counting())
        if hosts := self._site.hosts:
            fresh = (name for name in hosts if name not in self._returned)
            names = (*fresh, *self._returned)
        elif need is not None:
            names = self._site.labels if need.labels else names
            room *= need.slots <= self._site.slots
        free = (name for name in names if name not in self.nodes and name not in self._spoilt)
        return list(islice((name for name in free if self._meets(self._labels(name), need)), room))

    def _add(self, names: list[str], need: Need | None = None) -> None:
        nodes = [Node(name, self._labels(name), need=need) for name in names]
        for node in nodes:
            self.nodes[node.name] = node
            if self._unclean or node.name in self._strangers:
                self._clear(node)
        self._start([node for node in nodes if not node.is_clearing])

    @property
    def _patience_s(self) -> float:
        """How long one agent may take to come."""
        return self._site.start_s if self._begun else self._site.begin_s

    def _start(self, nodes: list[Node]) -> None:
        for node in nodes:
            self._meet(node, Happens.STARTED)
            node.link = AgentLink()
            self._later("start", node, self._patience_s + len(nodes) * self._site.each_s)
        if nodes:
            self.outputs.append(o.StartAgents(tuple(node.name for node in nodes)))

    def _look(self) -> None:
        """Whether the run can begin."""
        if self._begun or any(node.waits_for_agent for node in self.nodes.values()):
            return
        self._begun = True
        if self._missing:
            told = "; ".join(f"{name}: {why}" for name, why in self._missing.items())
            hint = f"; {self._site.hint}" if self._site.hint else ""
            few = f"{len(self._missing)} of {count(self._first, 'node')} cannot be had"
            self.outputs.append(o.CannotBegin(f"{few}: {told}{hint}"))
            return
        self._grant(*self.nodes.values())

    def _grant(self, *nodes: Node) -> None:
        for node in nodes:
            self._meet(node, Happens.GRANT)
            node.is_known = True
        names, slots = tuple(node.name for node in nodes), tuple(node.slots for node in nodes)
        labels = tuple(node.labels for node in nodes) if any(node.labels for node in nodes) else ()
        need = nodes[0].need if nodes else None
        self.events.append(o.Granted(names, slots, None, labels, self._site.source, need))

    # ---- nodes that go -------------------------------------------------------------------------------

    def expire(self, names: Iterable[str]) -> None:
        """Their source wants these nodes back."""
        for name in names:
            node = self.nodes.get(name)
            if (
                node is not None
                and not node.expires
                and node.stage in (NodeStage.GRANTED, NodeStage.UNLINKED)
            ):
                node.expires = True
                self._meet(node, Happens.EXPIRE)

    def give_back(self, names: Iterable[str]) -> None:
        """Nobody uses these nodes any more: their agents are ended, and Returned is told."""
        for name in names:
            node = self.nodes.get(name)
            if node is not None and node.stage is not NodeStage.LEAVING:
                self._leave(node)

    def abandon(self, name: str) -> None:
        """Nobody can rely on this node: it is ended, and not tried again."""
        if (node := self.nodes.get(name)) is not None:
            node.restarts = self._site.restarts
            self._ended(node, UNCLEAN)

    def _leave(self, node: Node) -> None:
        was_here = node.is_here
        if node.stage is NodeStage.READY:
            return  # all that came is granted before anything else happens
        self._meet(node, Happens.LEAVE)
        if was_here:
            self.send((node.name,), m.Shutdown())
            self._later("leave", node, self._site.stop_s)
        else:
            self._clear(node)

    def _cut(self, node: Node, why: str) -> None:
        """The link is gone. What runs there goes on for the grace; the agent may come back."""
        if node.stage in (NodeStage.COMING, NodeStage.READY):
            self._ended(node, why)
        elif node.stage in (NodeStage.GRANTED, NodeStage.EXPIRING):
            self._meet(node, Happens.CUT)
            node.why = why
            if self._site.grace_s:
                self.events.append(o.Unlinked(node.name))
                self._later("grace", node, self._site.grace_s + self._site.margin_s)
            else:
                self._ended(node, why)

    def _ended(self, node: Node, why: str) -> None:
        """Its agent is gone, or cannot be relied on."""
        if node.stage is NodeStage.LEAVING:
            self._clear(node)
        elif node.stage not in (NodeStage.LOST, NodeStage.REQUESTED):
            node.why = why
            self._meet(node, Happens.ENDED)
            self._clear(node)

    def _clear(self, node: Node) -> None:
        """End its agent, and all that is left there."""
        if not node.is_clearing:
            node.is_clearing = True
            self._owing.pop(node.name, None)
            self._unwritten.pop(node.name, None)
            if node.name not in self._strangers:
                self.outputs.append(o.Clear(node.name))

    def _cleared(self, node: Node, left: str) -> None:
        if not node.is_clearing:
            return
        node.is_clearing = False
        if left:
            self._tell_spoilt(node.name, left)
        if node.stage is NodeStage.LEAVING:
            self._left(node, clean=not left)
        elif node.stage is NodeStage.REQUESTED and not left:
            self._start([node])
        elif node.is_known:
            self._lost(node, clean=not left)
        else:
            self._not_come(node, clean=not left)
        self._look()

    def _tell_spoilt(self, name: str, left: str) -> None:
        self.outputs.append(o.Notice(f"{name} is not used again: {left}"))

    def _left(self, node: Node, *, clean: bool) -> None:
        """It was given back, or withdrawn."""
        self._meet(node, Happens.CLEARED)
        self._forget(node, free=clean)
        if not node.is_known:
            self.events.append(o.Refused(1, f"{node.name}: {node.why}", node.need))
        elif clean:
            self.events.append(o.Returned((node.name,)))
        else:
            self.events.append(o.Lost(node.name, final=True, why=UNCLEAN))

    def _lost(self, node: Node, *, clean: bool) -> None:
        """Another agent is tried, if there may be one."""
        final = not clean or node.restarts >= self._site.restarts
        self.events.append(o.Lost(node.name, final, node.why or UNCLEAN))
        if final:
            self._meet(node, Happens.CLEARED)
            self._forget(node)
            return
        node.restarts += 1
        self._meet(node, Happens.AGAIN)
        self._start([node])

    def _not_come(self, node: Node, *, clean: bool) -> None:
        self._forget(node, free=clean)
        if self._begun:
            self.events.append(o.Refused(1, f"{node.name}: {node.why or UNCLEAN}", node.need))
        else:
            self._missing[node.name] = node.why or UNCLEAN

    def _forget(self, node: Node, *, free: bool = False) -> None:
        self.nodes.pop(node.name, None)
        self._owing.pop(node.name, None)
        self._unwritten.pop(node.name, None)
        self._returned.pop(node.name, None)
        if free:
            self._returned[node.name] = None  # behind the others
        else:
            self._spoilt.add(node.name)
        self._serve()

    # ---- what agents tell ----------------------------------------------------------------------------

    def _heard(self, node: Node | None, given: o.Heard) -> None:
        if given.number:
            if node is not None and node.link.pid and not node.is_clearing:
                self._said(node, given)
            return
        try:
            message = self._words.decode(given.message)
        except ProtocolError as error:
            self.outputs.append(o.Notice(f"from the agent of {given.node}: {error}"))
            return
        if node is not None and node.link.pid:
            node.link.obeyed(given.obeyed)
        if isinstance(message, m.Error):
            self.outputs.append(o.Notice(f"from the agent of {given.node}: {message.text}"))
        elif isinstance(message, m.Heard) and message.asks and node is not None and not node.is_clearing:
            self._owing[node.name] = None
        elif isinstance(message, m.AgentHello):
            self._greeted(node, message, given.node)

    def _said(self, node: Node, given: o.Heard) -> None:
        link = node.link
        link.obeyed(given.obeyed)
        self._owing[node.name] = None
        before = link.heard
        if link.takes(given.number, given.after):
            self.events.append(o.Said(node.name, given.message))
            if before < link.repeats <= link.heard:
                self.events.append(o.Repeated(node.name))

    def _greeted(self, node: Node | None, hello: m.AgentHello, name: str) -> None:
        """An agent is here, for the first time, or over another link, or says so once more."""
        if node is None:
            if name not in self._strangers:
                self._strangers.add(name)
                self.outputs.append(o.Clear(name))
        elif node.is_clearing:
            pass
        elif node.link.pid not in (0, hello.pid):
            self._ended(node, "another agent is there, and the one before is gone")
        elif hello.version != VERSION:
            problem = f"it speaks version {hello.version} of the protocol, and this is {VERSION}"
            self._post(node, Numbered(0, 0, m.Error(problem)))
            self._ended(node, problem)
        else:
            self._linked(node, hello)
            self._look()

    def _linked(self, node: Node, hello: m.AgentHello) -> None:
        was, elsewhere = node.stage, node.link.elsewhere
        if was in (NodeStage.COMING, NodeStage.UNLINKED):
            self._meet(node, Happens.HELLO)
        node.slots = hello.slots
        node.link.greeted(hello)
        self._owing[node.name] = None
        for told in node.link.flush():
            self._post(node, told)
            self._watch()
        if was is NodeStage.UNLINKED:
            self._here_again(node, hello, elsewhere=elsewhere)
        elif was is NodeStage.COMING and node.is_known:
            self._meet(node, Happens.GRANT)
            self.events.append(o.Back(node.name))
        elif was is NodeStage.COMING and self._begun:
            self._grant(node)
        if node.expires and node.stage is NodeStage.GRANTED:
            self._meet(node, Happens.EXPIRE)

    def _here_again(self, node: Node, hello: m.AgentHello, *, elsewhere: bool) -> None:
        # What ranks have used was told as it happened, but to another controller.
        told = hello if elsewhere else msgspec.structs.replace(hello, used={})
        self.events.append(o.Greeted(node.name, told))
        if node.link.heard >= node.link.repeats:
            self.events.append(o.Repeated(node.name))

    # ---- what agents are told ------------------------------------------------------------------------

    def send(self, names: Iterable[str], message: m.ControllerMessage) -> None:
        """An order for the agents of these nodes, once each: now, or when there is a link again. One that is lost gets
        nothing."""
        for name in names:
            node = self.nodes.get(name)
            if node is None or node.is_clearing or self._is_too_long(name, message):
                continue
            if node.stage is NodeStage.UNLINKED:
                node.link.unsent.append(message)
            elif node.is_here:
                self._post(node, node.link.sent.tell(message))
                self._watch()

    def _is_too_long(self, name: str, message: m.ControllerMessage) -> bool:
        """Whether a message is not to be sent, which is told then: an agent that got it would take its controller for
        mad, and end with all that runs there."""
        if not isinstance(message, _LARGE) or (size := len(codec.encode(message))) <= codec.MAX_LINE:
            return False
        why = f"{size:,} bytes as a message to {name}, and the most is {codec.MAX_LINE:,}"
        if isinstance(message, m.StartGroup):
            failed = m.StartFailed(message.job, message.group, f"command and environment: {why}", CANNOT)
            self.events.append(o.Said(name, codec.raw(failed)))
        else:
            self.outputs.append(o.Notice(f"a message is not sent: {why}"))
        return True

    def _post(self, node: Node, told: Numbered[m.ControllerMessage]) -> None:
        self.outputs.append(o.Send((node.name,), told.message, told.number, told.after))

    def _watch(self) -> None:
        if not self._repeats:
            self._repeats = True
            self.outputs.append(o.SetTimer((KEY, "again"), self.now + CHANNEL_AGAIN_S))

    def _again(self) -> None:
        """Tell again what may have been lost on its way."""
        self._repeats = False
        waiting = [node for node in self.nodes.values() if node.is_here and not node.link.sent.is_heard]
        for node in waiting:
            for told in node.link.sent.again():
                self._post(node, told)
        if waiting:
            self._watch()

    def owes(self, *, written: bool) -> bool:
        """Whether there is something to acknowledge, where what came is ``written``."""
        return bool(self._owing) or (written and bool(self._unwritten))

    def acknowledge(self, *, written: bool) -> None:
        """Tell agents that what they have told has come, and that it is ``written`` where that is so."""
        owing, self._owing = self._owing, {}
        if written:
            owing, self._unwritten = {**self._unwritten, **owing}, {}
        else:
            self._unwritten |= owing
        for name in owing:
            node = self.nodes[name]
            if written:
                node.link.written = node.link.heard
            if node.is_here:
                # Who is told that it may forget something has all orders first that have come of it.
                ack = m.Ack(node.link.written, node.link.heard)
                self._post(node, Numbered(0, node.link.sent.number, ack))

    def _meet(self, node: Node, happens: Happens) -> None:
        self.moves[node.stage, happens] += 1
        node.stage = moved(node.stage, happens)

    def _later(self, what: str, node: Node, delay_s: float) -> None:
        node.due = self.now + delay_s
        self.outputs.append(o.SetTimer((KEY, what, node.name), node.due))
