"""A driver without processes, for tests: its agents are the shipped ends of the channel (`live/node/uplink.py`), and
what befalls them is called from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from pliant.drivers import Tell
from pliant.live.cluster import orders as o
from pliant.live.fleet.fleet import Site
from pliant.live.node import messages as n
from pliant.live.node.outbox import Outbox
from pliant.live.node.uplink import Uplink
from pliant.protocol import codec
from pliant.protocol import messages as m


class FakeAgent:
    """``obeyed`` are the orders that it has had. ``tell`` has it say something."""

    def __init__(self, node: str, pid: int, post: Callable[[m.From], None]) -> None:
        self.node = node
        self.pid = pid
        self.obeyed: list[m.ControllerMessage] = []
        self.repeats = False
        """It wants to be asked whether something was lost: ``again``."""
        self._post = post
        home = n.Home(node, 1, "run", pid, 0, "", "", "")
        self._box = Outbox()
        self._uplink = Uplink(home, self._box, self._do, lambda: ((), ()))

    def greet(self) -> None:
        """A link was made."""
        self._uplink.greet()

    def cut(self) -> None:
        """The link is gone."""
        self._uplink.lost(cut=True)

    def tell(self, message: m.AgentMessage) -> None:
        self._uplink.tell(message)

    def again(self) -> None:
        """A second has gone by."""
        self.repeats = False
        self._uplink.again()

    def hear(self, envelope: m.To) -> None:
        order = self._uplink.opened(codec.encode(envelope).strip())
        if isinstance(order, m.Ack):
            self._uplink.acknowledged(order)
        elif order is not None:
            self.obeyed.append(order)
        self._uplink.answer()

    def _do(self, output: n.AnyOutput) -> None:
        match output:
            case n.Tell():
                raw = codec.raw(output.message)
                self._post(m.From(self.node, raw, output.number, output.after, output.obeyed))
            case n.SetTimer():
                self.repeats = True
            case n.CancelTimer():
                self.repeats = False


class FakeNodes:
    """``tell`` and what is sent wait in ``up`` and ``down`` until ``carry`` brings them, or loses or doubles them."""

    def __init__(self, site: Site) -> None:
        self.env: dict[str, str] = {}
        self.secret = b""
        self.site = site
        self.agents: dict[str, FakeAgent] = {}
        self.linked: set[str] = set()
        self.starting: set[str] = set()
        """Nodes whose agents were started, and have not come."""
        self.clearing: list[str] = []
        """Nodes that are to be cleared."""
        self.up: list[m.From] = []
        self.down: list[tuple[str, m.To]] = []
        self._tell: Tell = lambda _: None
        self._pids = 0

    # ---- the port ------------------------------------------------------------------------------------

    async def open(self, tell: Tell) -> None:
        self.begin(tell)

    def begin(self, tell: Tell) -> None:
        """Tell a controller, the first or the next one."""
        self._tell = tell
        self.linked.clear()
        self.starting.clear()
        self.clearing.clear()
        self.down.clear()
        self.up.clear()

    def start(self, nodes: Iterable[str]) -> None:
        self.starting.update(nodes)

    def send(self, node: str, envelope: m.To) -> None:
        if node in self.linked:
            self.down.append((node, envelope))

    def clear(self, node: str) -> None:
        self.clearing.append(node)

    async def close(self) -> None:
        self.agents.clear()

    # ---- what happens --------------------------------------------------------------------------------

    def come(self, node: str) -> None:
        """The agent that was started is there."""
        self.starting.remove(node)
        self._pids += 1
        self.agents[node] = FakeAgent(node, self._pids, self._post)
        self.link(node)

    def fail(self, node: str) -> None:
        """It cannot be started."""
        self.starting.remove(node)
        self._tell(o.Ended(node, "no disk"))

    def link(self, node: str) -> None:
        """The agent has a link, its first or another one."""
        self.linked.add(node)
        self.agents[node].greet()

    def cut(self, node: str) -> None:
        """The link is gone, with what is on its way."""
        self.linked.discard(node)
        self._forget(node)
        self.agents[node].cut()
        self._tell(o.Cut(node, "cut"))

    def end(self, node: str) -> None:
        """The agent is gone."""
        self.linked.discard(node)
        self._forget(node)
        del self.agents[node]
        self._tell(o.Ended(node, "its agent is gone"))

    def cleared(self, *, clean: bool = True) -> None:
        """The first node that is to be cleared is."""
        node = self.clearing.pop(0)
        self.linked.discard(node)
        self.starting.discard(node)
        self._forget(node)
        self.agents.pop(node, None)
        self._tell(o.Cleared(node, "" if clean else "process 7 cannot be ended"))

    def carry(self, *, lose: bool = False, double: bool = False) -> bool:
        """Bring the oldest message of each direction; False if there is none."""
        copies = 0 if lose else 2 if double else 1
        was_any = bool(self.up or self.down)
        if self.up:
            envelope = self.up.pop(0)
            told = o.Heard(
                envelope.node, msgspec.Raw(bytes(envelope.message)), envelope.number, envelope.after, envelope.obeyed
            )  # fmt: skip
            for _ in range(copies):
                self._tell(told)
        if self.down:
            node, order = self.down.pop(0)
            for _ in range(copies):
                if (agent := self.agents.get(node)) is not None and node in self.linked:
                    agent.hear(order)
        return was_any

    def _post(self, envelope: m.From) -> None:
        if envelope.node in self.linked:
            self.up.append(envelope)

    def _forget(self, node: str) -> None:
        self.up = [each for each in self.up if each.node != node]
        self.down = [(name, each) for name, each in self.down if name != node]
