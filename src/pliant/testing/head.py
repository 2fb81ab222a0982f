"""The controller of the world: the cluster's machine with its journal, its timers, and the links to the agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

from pliant.core import records as r
from pliant.core.journal import Header, header_line, read
from pliant.core.settings import Settings
from pliant.live import orders as o
from pliant.live.cluster import Cluster, Home
from pliant.model.errors import ProtocolError
from pliant.policy.view import Policy
from pliant.protocol import codec
from pliant.protocol import messages as m
from pliant.testing.clock import Timer, Wire
from pliant.testing.node import Node

if TYPE_CHECKING:
    from pliant.testing.world import World

SILENCE_S = 35.0
"""So long after its last word an agent is taken for dead."""
BURY_S = 2.0
"""What is left of a node's processes gets so long to be gone; then the node is given up."""
RESTARTS = 3
START_S = 20.0
NONE_LEFT = 0.2
"""The share of nodes asked for that cannot be had."""


class Disk:
    """What has been written for good; ``full`` ones take nothing more."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.full = False
        self._waiting = bytearray()

    def write(self, line: bytes) -> None:
        self._waiting += line
        self.flush()

    def flush(self) -> None:
        if not self.full:
            self.data += self._waiting
            self._waiting.clear()

    @property
    def problem(self) -> bool:
        return bool(self._waiting)

    def waiting(self) -> list[r.Record]:
        """What has not been written yet."""
        return [r.from_line(line) for line in bytes(self._waiting).splitlines()]

    def lose(self) -> None:
        """What waits in memory goes with the process."""
        self._waiting.clear()


class _Lost(msgspec.Struct):
    group: int


class Launch(Protocol):
    """What follows when a node has been cleared, or could not be."""

    def __call__(self, node: Node, *, clean: bool) -> None: ...


class Link:
    """The controller's end of the link to an agent."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.lines = codec.Lines(codec.MAX_LINE + codec.WRAPPING)
        self.ready = False
        self.heard = 0.0
        self.down: Wire
        self.up: Wire
        self.open = True


class Head:
    """The controller's process, while it lives: ``crash`` ends it, and another one can begin with the same disk."""

    def __init__(
        self, world: World, policy: Policy, settings: Settings, disk: Disk, *, resumed: bool
    ) -> None:
        self.world = world
        self.disk = disk
        self.alive = True
        self.links: dict[str, Link] = {}
        self.told_lost: set[tuple[int, int]] = set()
        """The newcomers, by job and group, of whose loss a job has been told."""
        self.tearing = False
        """The process is killed while it writes what it makes next."""
        self._envelopes = codec.from_nodes()
        self._decoder = codec.from_agent()
        self._timers: dict[o.Key, Timer] = {}
        self._inputs: list[o.AnyInput] = []
        self._due = False
        self._restarts: dict[str, int] = {}
        self.granted: set[str] = set()
        self._held = False
        home = Home("/out", "/home", {}, b"secret")
        if resumed:
            journal = read(bytes(disk.data).splitlines(keepends=True))
            if journal.torn:
                del disk.data[disk.data.rindex(b"\n") + 1 :]
            self.cluster = Cluster.resume(policy, home, journal.header.settings, journal.records)
            self.granted = set(self.world.nodes) & set(self.cluster.core.state.names.values())
            self.tell(o.Resumed("its controller was killed, and its ranks with it"))
        else:
            self.cluster = Cluster(policy, settings, home)
            following = self.cluster.core.state.settings
            disk.write(
                header_line(Header(began="1970-01-01T00:00:00Z", policy=policy.name, settings=following))
            )

    # ---- life ----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Bring all nodes up."""
        for node in self.world.nodes.values():
            self._bury(node, self.world.clock.now, self._launch)
        self._watch()

    def grant_all(self) -> None:
        self._grant(*self.world.nodes.values())

    def crash(self) -> None:
        """SIGKILL: nothing more is done here, and the links end."""
        self.alive = False
        self.disk.lose()
        for timer in self._timers.values():
            timer.cancel()
        for link in self.links.values():
            link.open = False
            link.down.close()

    def shut_down(self) -> None:
        """All is over: every agent is to leave."""
        for name, link in self.links.items():
            if link.open:
                link.down.send(codec.encode(m.To((name,), codec.raw(m.Shutdown()))))

    def tell(self, given: o.AnyInput) -> None:
        if not self.alive:
            return
        self._inputs.append(given)
        self._handle_soon()

    def _handle_soon(self) -> None:
        if not self._due:
            self._due = True
            self.world.clock.later(0.0, self._handle)

    def _handle(self) -> None:
        self._due = False
        if not self.alive:
            return
        inputs, self._inputs = self._inputs, []
        world = self.world
        records, outputs = self.cluster.handle(inputs, world.clock.now)
        lines = [r.to_line(record) for record in records]
        if self.tearing:
            # The process ends in the midst of writing, before anything is done.
            data = b"".join(lines)
            self.disk.write(data[: world.random.randint(0, len(data))])
            world.head_crashed()
            return
        for line in lines:
            self.disk.write(line)
        self._heed_disk()
        world.recorded(records)
        for output in outputs:
            self._carry_out(output)
        if self.cluster.pending:
            self._handle_soon()
        world.checked()

    def _heed_disk(self) -> None:
        if self.disk.problem != self._held:
            self._held = self.disk.problem
            self.tell(o.Hold("journal", "the disk is full") if self._held else o.Release("journal"))

    def disk_changed(self) -> None:
        self.disk.flush()
        self._heed_disk()

    def _carry_out(self, output: o.Output) -> None:
        match output:
            case o.Send():
                if isinstance(output.message, m.StartGroup):
                    self.world.checks.starts(output.message)
                    self.world.checks.written(output.message.job, self.disk.waiting())
                for name in output.nodes:
                    link = self.links.get(name)
                    if isinstance(output.message, m.Deliver):
                        self._note_losses(output.message)
                        if b'"offer"' in bytes(output.message.message):
                            self.world.checks.written(output.message.job, self.disk.waiting())
                    if link is not None and link.open:
                        link.down.send(codec.encode(m.To((name,), codec.raw(output.message))))
            case o.SetTimer():
                if (earlier := self._timers.pop(output.key, None)) is not None:
                    earlier.cancel()
                key = output.key
                self._timers[key] = self.world.clock.at(output.at, lambda: self._fired(key))
            case o.Acquire():
                self._request(output.count)
            case o.GiveBack():
                for name in output.nodes:
                    self._give_back(name)
            case o.ReadTail() if output.job % 8:  # now and then the file system does not answer
                self.tell(o.Tail(output.job, "the last words of the job"))
            case _:
                pass

    def _note_losses(self, order: m.Deliver) -> None:
        if b'"grouplost"' in bytes(order.message):
            self.told_lost.add((order.job, msgspec.json.decode(order.message, type=_Lost).group))

    def _fired(self, key: o.Key) -> None:
        self._timers.pop(key, None)
        self.tell(o.Fired(key))

    @property
    def pending(self) -> bool:
        """Whether something has come that the machine has not been told."""
        return bool(self._inputs)

    @property
    def timers(self) -> set[o.Key]:
        return set(self._timers)

    # ---- the provider's half -------------------------------------------------------------------------

    def _launch(self, node: Node, *, clean: bool) -> None:
        """Start an agent, if all of the last one has gone."""
        if not self.alive:
            return
        name, clock = node.name, self.world.clock
        again = name in self._restarts
        if again or not clean:
            final = not clean or self._restarts[name] >= RESTARTS
            if name in self.granted:
                self.tell(o.Lost(name, final))
            elif final:
                self.tell(o.Refused(1, f"no agent could be started on {name}"))
            if final:
                return
        self._restarts[name] = self._restarts.get(name, -1) + 1
        link = self.links[name] = Link(node)
        latency = self.world.latency_s()
        link.up = Wire(
            clock, self.world.random, latency, lambda data: self._heard(link, data), lambda: self._lost(link)
        )
        agent = node.begin(link.up)
        link.down = Wire(
            clock, self.world.random, latency,
            lambda data: agent.tell(self.world.link_said(data)), lambda: agent.tell(self.world.link_lost()),
        )  # fmt: skip
        link.heard = clock.now
        clock.later(START_S, lambda: None if link.ready else self._lost(link))

    def _heard(self, link: Link, data: bytes) -> None:
        if not (self.alive and link.open):
            return
        link.heard = self.world.clock.now
        try:
            for line in link.lines.feed(data):
                envelope = self._envelopes.decode(line)
                message = self._decoder.decode(envelope.message)
                if isinstance(message, m.AgentHello):
                    self._ready(link)
                elif not isinstance(message, m.Heartbeat):
                    self.tell(o.Said(envelope.node, msgspec.Raw(bytes(envelope.message))))
        except ProtocolError:
            self._lost(link)

    def _ready(self, link: Link) -> None:
        link.ready = True
        node = link.node
        if node.name in self.granted:
            self.tell(o.Back(node.name))
        elif self.world.begun:
            self._grant(node)
        else:
            self.world.up(node)

    def _grant(self, *nodes: Node) -> None:
        self.granted.update(node.name for node in nodes)
        self.tell(o.Granted(tuple(node.name for node in nodes), tuple(node.slots for node in nodes)))

    def _request(self, count: int) -> None:
        """New nodes come one by one, and not all of them."""
        for _ in range(count):
            if self.world.random.random() < NONE_LEFT:
                self.tell(o.Refused(1, "there is none left"))
            else:
                self._bury(self.world.new_node(), self.world.clock.now, self._launch)

    def _give_back(self, name: str) -> None:
        link, node = self.links.pop(name), self.world.nodes.pop(name)
        link.open = False
        link.down.close()
        node.kill_agent()
        self.granted.discard(name)
        self.tell(o.Returned((name,)))

    def _lost(self, link: Link) -> None:
        """The agent is gone, or as good as gone: end all that is left on the node, then try a new one."""
        if not (self.alive and link.open):
            return
        link.open = False
        if self.world.over:
            return
        link.down.close()
        link.node.kill_agent()
        self._bury(link.node, self.world.clock.now, self._launch)

    def _bury(self, node: Node, since: float, then: Launch) -> None:
        if not self.alive:
            return
        if node.agent is not None and self.links.get(node.name) is None:
            node.kill_agent()  # of a controller that was killed: it has not heard of it yet
        for proc in list(node.processes.values()):
            proc.kill()
        if not node.processes:
            then(node, clean=True)
        elif self.world.clock.now - since > BURY_S:
            then(node, clean=False)
        else:
            self.world.clock.later(0.02, lambda: self._bury(node, since, then))

    def _watch(self) -> None:
        """Agents that have been silent for too long."""
        if not self.alive or self.world.over:
            return
        for link in list(self.links.values()):
            if link.open and link.ready and self.world.clock.now - link.heard > SILENCE_S:
                self._lost(link)
        self.world.clock.later(1.0, self._watch)
