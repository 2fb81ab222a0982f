"""Nodes given by name, whose agents are started along a tree and reached over it: by ssh, by srun, or by fork."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import sys
from collections.abc import Iterable, Sequence
from enum import Enum
from functools import partial

import msgspec

from pliant.launch.tree.interfaces import controller_at
from pliant.launch.tree.posting import Posting, Starting
from pliant.launch.tree.shell import TreeShell
from pliant.live.cluster import orders as o
from pliant.live.tree import messages as b
from pliant.live.tree.channel import AGAIN_S, at_controller
from pliant.model.errors import PliantError, ProtocolError
from pliant.model.limits import LIVE_NODES
from pliant.model.words import are, count
from pliant.plan import tree
from pliant.protocol import codec
from pliant.protocol import messages as m
from pliant.providers import Event, Tell
from pliant.providers.local import is_too_long, wrong_version

RETURN_S = 30.0
"""A node that was given back has left the tree by then, or is lost."""


class Hosts(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes that there are, by name, and how agents are started there; ``degree`` is that of the tree, and
    ``patience_s`` how long one agent may take. ``interface``: where agents listen, if not where they face each other.
    ``env`` is what ranks find in their environment: that of the nodes themselves is not this machine's. ``allocation``
    is the Slurm job that they are of, if they are of one."""

    names: tuple[str, ...]
    starting: Starting
    interface: str = ""
    degree: str = "32"
    env: dict[str, str] = {}
    patience_s: float = 30.0
    warm: bool = False
    allocation: str = ""


class _Stage(Enum):
    COMING, READY, HERE, LEAVING = range(4)
    """READY: its agent is there, and the node not granted yet."""


class _Node:
    def __init__(self, name: str, rank: int) -> None:
        self.name = name
        self.rank = rank
        self.stage = _Stage.COMING
        self.channel = at_controller(name, rank)
        self.owed = False
        """Whether the agent is to be told what has come of it."""


class TreeNodes:
    """The first ``count`` of ``hosts`` with ``slots`` slots each; those that are requested are the others, then those
    that were given back. A node whose agent is gone is lost for good. Another loss hurts nobody: agents below it are
    reached another way.
    """

    def __init__(self, hosts: Hosts, count: int, slots: int, run: str) -> None:
        self.names = hosts.names[:count]
        self.env = hosts.env
        self.slots = slots
        self._hosts = hosts
        seat = b.Seat(
            0, "", -1, hosts.degree, hosts.degree, survive=True, patience_s=hosts.patience_s
        )  # fmt: skip
        secret = secrets.token_hex(32)
        posting = Posting(seat, "", run, secret, "", hosts.starting, slots, hosts.interface, hosts.warm)
        self._tree = TreeShell(posting, self)
        self._tell: Tell = _nobody
        self._nodes: dict[str, _Node] = {}
        self._free = list(hosts.names[count:])
        self._last = 0
        """The highest rank."""
        self._why: dict[str, str] = {}
        """Of nodes that have not come: why."""
        self._begun = self._granted = False
        self._news = asyncio.Event()
        self._messages = codec.from_agent()
        self._repeating: asyncio.TimerHandle | None = None

    # ---- the port ------------------------------------------------------------------------------------

    async def start(self, tell: Tell) -> None:
        """Start all agents; PliantError that names the nodes whose agents are not there in time, and says why."""
        self._tell = tell
        hosts = self._hosts
        listen = controller_at(self.names[0], hosts.interface, hosts.starting)
        self._begun = True
        try:
            await self._tree.begin(listen)
        except OSError as error:
            raise PliantError(f"nobody can be reached from {listen}: {error.strerror or error}") from error
        self._repeat()
        self._add(self.names)
        self._tree.happened(b.Opened(self.names))
        patience_s = hosts.patience_s * (2 + tree.depth(tree.named(hosts.degree), len(self.names)))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                while any(node.stage is _Stage.COMING for node in self._nodes.values()):
                    self._news.clear()
                    await self._news.wait()
        late = [name for name, node in self._nodes.items() if node.stage is _Stage.COMING]
        why = self._why | dict.fromkeys(late, f"no word from it within {patience_s:g} s")
        if why:
            told = "; ".join(f"{name}: {why[name]}" for name in self.names if name in why)
            raise PliantError(f"{len(why)} of {count(len(self.names), 'node')} cannot be had: {told}")
        self._granted = True
        for node in self._nodes.values():
            node.stage = _Stage.HERE
        tell(o.Granted(self.names, (self.slots,) * len(self.names)))

    def request(self, count: int) -> None:
        """Start agents on hosts that are not in use, and grant the nodes of those that come."""
        room = min(len(self._free), max(0, LIVE_NODES - len(self._nodes)))
        if count > room:
            self._tell(
                o.Refused(count - room, f"of {len(self._hosts.names)} hosts {are(room)} there to be added")
            )
        names, self._free = tuple(self._free[: min(count, room)]), self._free[min(count, room) :]
        if names:
            self._add(names)
            self._tree.happened(b.More(names))

    def give_back(self, nodes: Iterable[str]) -> None:
        """End the agents of these nodes, where nothing runs any more, and return each when it has left the tree."""
        for name in nodes:
            node = self._nodes.get(name)
            if node is not None and node.stage is _Stage.HERE:
                node.stage = _Stage.LEAVING
                self._order(node, m.Shutdown())
                self._tree.wait(_leaving(name), RETURN_S, partial(self._lose, node, "it does not leave"))

    def send(self, nodes: Iterable[str], message: m.ControllerMessage, order: int = 0) -> None:
        """Send to the agents of these nodes; one that is lost gets nothing. There are no ids but the channel's own:
        agents do not outlive their controller."""
        del order
        for name in nodes:
            node = self._nodes.get(name)
            if node is None or node.stage is not _Stage.HERE:
                continue
            if not is_too_long(name, message, len(codec.encode(message)), self._tell):
                self._order(node, message)

    async def stop(self) -> None:
        """End all agents and all that they started; nothing is left afterwards on any node that is reached."""
        if self._repeating is not None:
            self._repeating.cancel()
        self._tell = _nobody
        self._nodes.clear()
        if self._begun:
            self._tree.happened(b.Finish())
            await self._tree.end()

    # ---- nodes ---------------------------------------------------------------------------------------

    def _add(self, names: Sequence[str]) -> None:
        for name in names:
            self._last += 1
            self._nodes[name] = _Node(name, self._last)

    def _came(self, node: _Node, hello: m.AgentHello) -> None:
        if problem := wrong_version(hello):
            self._order(node, m.Error(problem))
            self._order(node, m.Shutdown())
            self._lose(node, problem)
        elif self._granted:
            node.stage = _Stage.HERE
            self._tell(o.Granted((node.name,), (self.slots,)))
        else:
            node.stage = _Stage.READY
        self._news.set()

    def _lose(self, node: _Node, why: str) -> None:
        """It is gone, or will not be used any more."""
        del self._nodes[node.name]
        self._tree.forget(_leaving(node.name))
        if not self._granted:
            self._why[node.name] = why
        elif node.stage is _Stage.COMING:
            self._tell(o.Refused(1, f"{node.name}: {why}"))
        else:
            sys.stderr.write(f"pliant: {node.name} is lost: {why}\n")
            self._tell(o.Lost(node.name, final=True, why=why))
        self._news.set()

    # ---- messages ------------------------------------------------------------------------------------

    def _order(self, node: _Node, message: m.ControllerMessage) -> None:
        self._tree.happened(b.Send(node.channel.tell(codec.raw(message))))

    def _repeat(self) -> None:
        """What was sent may have been lost with an agent in between."""
        for node in list(self._nodes.values()):
            self._tree.happened(*map(b.Send, node.channel.again()))
        self._repeating = asyncio.get_running_loop().call_later(AGAIN_S, self._repeat)

    def _owe(self, node: _Node) -> None:
        """Answer, once for all that has come by now."""
        if not node.owed:
            node.owed = True
            asyncio.get_running_loop().call_soon(self._pay, node)

    def _pay(self, node: _Node) -> None:
        node.owed = False
        self._tree.happened(b.Send(node.channel.answer()))

    def _heard(self, node: _Node, message: msgspec.Raw) -> None:
        told = self._messages.decode(message)
        if isinstance(told, m.Error):
            sys.stderr.write(f"pliant: from the agent of {node.name}: {told.text}\n")
        elif isinstance(told, m.AgentHello) and node.stage is _Stage.COMING:
            self._came(node, told)
        elif node.stage in (_Stage.HERE, _Stage.LEAVING):
            self._tell(o.Said(node.name, message))

    # ---- the tree ------------------------------------------------------------------------------------

    def arrived(self, envelope: b.Arrived) -> None:
        come = envelope.envelope
        if (node := self._nodes.get(come.node)) is None:
            return
        if come.number:
            self._owe(node)
        try:
            if node.channel.came(come.number, come.message):
                self._heard(node, come.message)
        except ProtocolError as error:
            sys.stderr.write(f"pliant: from the agent of {come.node}: {error}\n")

    def gone(self, lost: b.Gone) -> None:
        node = self._nodes.get(lost.node)
        if node is None or node.rank != lost.rank:
            return
        if node.stage is not _Stage.LEAVING:
            self._lose(node, lost.why)
            return
        del self._nodes[node.name]
        self._tree.forget(_leaving(node.name))
        self._free.append(node.name)
        self._tell(o.Returned((node.name,)))

    def again(self, started: b.Again) -> None:
        self._last = started.rank
        node = self._nodes.get(started.node)
        if node is not None and node.rank == started.lost:
            node.rank, node.channel = started.rank, at_controller(node.name, started.rank)

    def deliver(self, message: msgspec.Raw) -> None:
        """Nothing is for all here."""

    def local(self, envelope: b.Local) -> None:
        """No node is called as the controller."""

    def gathered(self, put: b.Gathered) -> None:
        """Fences here are of jobs, and each is of some nodes alone: they come as messages."""

    def phase(self, number: int) -> None:
        """An agent is used as soon as it has said hello."""

    def leave(self, why: str) -> None:
        """Only when told to, by ``stop``."""


def _leaving(node: str) -> str:
    """The timer of a node that was given back."""
    return f"leaving {node}"


def _nobody(_event: Event) -> None:
    """Before the start, and after the end."""
