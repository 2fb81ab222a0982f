"""Nodes given by name, whose agents are started along a tree and reached over it: by ssh, by srun, or by fork."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable

import msgspec

from pliant.drivers import Event, Tell
from pliant.launch.tree.interfaces import controller_at
from pliant.launch.tree.posting import Posting, Starting
from pliant.launch.tree.shell import TreeShell
from pliant.live.cluster import orders as o
from pliant.live.fleet.fleet import Site
from pliant.live.tree import messages as b
from pliant.model.errors import PliantError
from pliant.plan import tree
from pliant.protocol import codec
from pliant.protocol import messages as m

LEAVE_S = 30.0
"""A node that was given back has left the tree by then, or is lost."""
STAYS = "it does not leave"


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


def _site(hosts: Hosts) -> Site:
    begin_s = hosts.patience_s * (2 + tree.depth(tree.named(hosts.degree), len(hosts.names)))
    return Site(hosts=hosts.names, start_s=hosts.patience_s, begin_s=begin_s, stop_s=LEAVE_S, restarts=0)


class TreeNodes:
    """``hosts`` with ``slots`` slots each. A node whose agent is gone is lost for good. The agents below it are reached
    another way."""

    def __init__(self, hosts: Hosts, slots: int, run: str) -> None:
        self.env = hosts.env
        self.site = _site(hosts)
        self._hosts = hosts
        seat = b.Seat(
            0, "", -1, hosts.degree, hosts.degree, survive=True, patience_s=hosts.patience_s
        )  # fmt: skip
        secret = secrets.token_hex(32)
        posting = Posting(
            seat, "", run, secret, "", hosts.starting, slots, hosts.interface, hosts.warm, relays=True
        )
        self._tree = TreeShell(posting, self)
        self._tell: Tell = _nobody
        self._ranks: dict[str, int] = {}
        """Of the nodes whose agents are there, or on their way."""
        self._last = 0
        """The highest rank."""
        self._begun = False

    # ---- the port ------------------------------------------------------------------------------------

    async def open(self, tell: Tell) -> None:
        hosts = self._hosts
        self._tell = tell
        listen = controller_at(hosts.names[0], hosts.interface, hosts.starting)
        self._begun = True
        try:
            await self._tree.begin(listen)
        except OSError as error:
            raise PliantError(f"nobody can be reached from {listen}: {error.strerror or error}") from error

    def start(self, nodes: Iterable[str]) -> None:
        names = tuple(nodes)
        is_first = not self._last
        self._ranks |= {name: rank for rank, name in enumerate(names, self._last + 1)}
        self._last += len(names)
        self._tree.happened(b.Opened(names) if is_first else b.More(names))

    def send(self, node: str, envelope: m.To) -> None:
        if node in self._ranks:
            self._tree.happened(b.Send(envelope))

    def clear(self, node: str) -> None:
        """An agent that is reached is told to end. What one that is gone has left, nobody here can see."""
        stays = self._ranks.pop(node, None) is not None
        if stays:
            self._tree.happened(b.Send(m.To((node,), codec.raw(m.Shutdown()))))
        asyncio.get_running_loop().call_soon(self._tell, o.Cleared(node, STAYS if stays else ""))

    async def close(self) -> None:
        self._tell = _nobody
        self._ranks.clear()
        if self._begun:
            self._tree.happened(b.Finish())
            await self._tree.end()

    # ---- the tree ------------------------------------------------------------------------------------

    def arrived(self, envelope: b.Arrived) -> None:
        come = envelope.envelope
        if come.node in self._ranks:
            self._tell(o.Heard(come.node, come.message, come.number, come.after, come.obeyed))

    def gone(self, lost: b.Gone) -> None:
        if self._ranks.get(lost.node) == lost.rank:
            del self._ranks[lost.node]
            self._tell(o.Ended(lost.node, lost.why))

    def again(self, started: b.Again) -> None:
        self._last = started.rank
        if self._ranks.get(started.node) == started.lost:
            self._ranks[started.node] = started.rank

    def deliver(self, message: msgspec.Raw) -> None:
        """Nothing is for all here."""

    def local(self, envelope: b.Local) -> None:
        """No node is called as the controller."""

    def gathered(self, put: b.Gathered) -> None:
        """Fences here are of jobs, and each is of some nodes alone: they come as messages."""

    def adrift(self, *, on: bool) -> None:
        """At the nodes alone."""

    def phase(self, number: int) -> None:
        """An agent is used as soon as it has said hello."""

    def leave(self, why: str) -> None:
        """Only when told to, by ``close``."""


def _nobody(_event: Event) -> None:
    """Before the start, and after the end."""
