"""Nodes given by name, whose agents are started along a tree and reached over it: by ssh, by srun, or by fork."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable
from pathlib import Path

import msgspec

from pliant.drivers import Event, Tell
from pliant.drivers.kept import kept_secret
from pliant.launch.agent import SECRET
from pliant.launch.tree import kept, shell
from pliant.launch.tree.interfaces import controller_at
from pliant.launch.tree.posting import Posting, Starting
from pliant.launch.tree.shell import TreeShell
from pliant.live.cluster import orders as o
from pliant.live.fleet.fleet import Site
from pliant.live.tree import messages as b
from pliant.model.deadlines import AGENT_HELLO_S, AGENT_START_S, TREE_LEAVE_S, TREE_MARGIN_S
from pliant.model.errors import PliantError
from pliant.plan import tree
from pliant.protocol import codec
from pliant.protocol import messages as m

ROOT = "root.json"
"""In the run's directory: what the next controller has to know."""
STAYS = "it does not leave"


class Hosts(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes that there are, by name, with their ``labels``, and how agents are started there. ``degree`` is that of
    the tree, and ``patience_s`` how long one agent may take. ``interface``: where agents listen, if not where they face
    each other. ``env`` is what ranks find in their environment: that of the nodes themselves is not this machine's.
    ``allocation`` is the Slurm job that they are of, if they are of one."""

    names: tuple[str, ...]
    starting: Starting
    labels: dict[str, tuple[str, ...]] = {}
    interface: str = ""
    degree: str = "32"
    env: dict[str, str] = {}
    patience_s: float = AGENT_START_S
    warm: bool = False
    allocation: str = ""


def _site(hosts: Hosts, slots: int, grace: float) -> Site:
    begin_s = hosts.patience_s * (2 + tree.depth(tree.named(hosts.degree), len(hosts.names)))
    # The root starts no more than a window of agents at a time, and the last ones when those before have had theirs.
    each_s = hosts.patience_s / b.WINDOW
    return Site(
        hosts=hosts.names, slots=slots, labels=hosts.labels, source=hosts.starting.by,
        start_s=hosts.patience_s + AGENT_HELLO_S, begin_s=begin_s, each_s=each_s, stop_s=TREE_LEAVE_S, restarts=0,
        grace_s=grace, margin_s=TREE_MARGIN_S,
    )  # fmt: skip


class TreeNodes:
    """``hosts`` with ``slots`` slots each. A node whose agent is gone is lost for good. The agents below it are reached
    another way. For a ``grace``, in seconds, agents outlive their controller, and call the next one: it has the same
    ``run`` and directory ``runtime``, where this one keeps how it is reached.
    """

    def __init__(self, hosts: Hosts, slots: int, run: str, runtime: Path, *, grace: float = 0.0) -> None:
        self.env = hosts.env
        self.site = _site(hosts, slots, grace)
        self.secret = kept_secret(runtime) if grace else b""
        self._hosts = hosts
        self._path = runtime / ROOT if grace else None
        before = kept.read(self._path) if self._path is not None and self._path.exists() else None
        self._kept = before or kept.KeptRoot("", secrets.token_hex(32), hosts.degree, 0)
        self._resumed = before is not None
        seat = b.Seat(
            0, "", -1, self._kept.tree, hosts.degree, survive=True, patience_s=hosts.patience_s, grace_s=grace
        )  # fmt: skip
        posting = Posting(
            seat, "", run, self._kept.secret, "", hosts.starting, slots, hosts.interface, hosts.warm,
            relays=True,
        )  # fmt: skip
        self._tree = TreeShell(posting, self)
        self._tell: Tell = _nobody
        self._ranks = {node: rank for rank, node in self._kept.nodes.items()}
        """Of the nodes whose agents are there, or on their way."""
        self._clearing: dict[str, asyncio.TimerHandle] = {}
        """Nodes whose agents were told to end."""
        self._begun = False

    # ---- the port ------------------------------------------------------------------------------------

    async def open(self, tell: Tell) -> None:
        hosts = self._hosts
        self._tell = tell
        listen = self._kept.host or controller_at(hosts.names, hosts.interface, hosts.starting)
        resumed = self._kept.resumed() if self._resumed else None
        self._begun = True
        try:
            contact = self._tree.begin(
                asyncio.get_running_loop(), listen, port=self._kept.port if resumed else 0, resumed=resumed
            )
        except OSError as error:
            raise PliantError(f"nobody can be reached from {listen}: {error.strerror or error}") from error
        self._keep(msgspec.structs.replace(self._kept, contact=contact))

    def start(self, nodes: Iterable[str]) -> None:
        names = tuple(nodes)
        is_first = self._kept.following == 1 and not self._resumed
        new = self._kept if is_first else self._kept.more(names)
        if is_first:
            new = kept.KeptRoot.opened(new.contact, new.secret, new.tree, names)
        try:
            self._keep(new)
        except OSError as error:
            for name in names:
                why = f"{self._path} cannot be written: {error.strerror or error}"
                asyncio.get_running_loop().call_soon(self._tell, o.Ended(name, why))
            return
        self._ranks |= {node: rank for rank, node in new.nodes.items()}
        self._tree.happened(b.Opened(names) if is_first else b.More(names))

    def send(self, node: str, envelope: m.To) -> None:
        if node in self._ranks:
            self._tree.happened(b.Send(envelope))

    def clear(self, node: str) -> None:
        """An agent that is reached is told to end. What one that is gone has left, nobody here can see."""
        loop = asyncio.get_running_loop()
        if node in self._ranks:
            self._tree.happened(b.Send(m.To((node,), codec.raw(m.Shutdown()))))
            self._clearing[node] = loop.call_later(TREE_LEAVE_S, self._cleared, node, STAYS)
        else:
            loop.call_soon(self._cleared, node)

    async def close(self) -> None:
        self._tell = _nobody
        self._ranks.clear()
        for timer in self._clearing.values():
            timer.cancel()
        if self._begun:
            self._tree.happened(b.Finish())
            await shell.end(self._tree)
        if self._path is not None:
            for path in (self._path, self._path.with_name(SECRET)):
                path.unlink(missing_ok=True)

    def _keep(self, new: kept.KeptRoot) -> None:
        """Write down what the next controller has to know, before it takes effect."""
        if self._path is not None:
            kept.write(self._path, new)
        self._kept = new

    def _cleared(self, node: str, left: str = "") -> None:
        if (timer := self._clearing.pop(node, None)) is not None:
            timer.cancel()
        self._tell(o.Cleared(node, left))

    # ---- the tree ------------------------------------------------------------------------------------

    def arrived(self, envelope: b.Arrived) -> None:
        come = envelope.envelope
        if come.node in self._ranks:
            self._tell(o.Heard(come.node, come.message, come.number, come.after, come.obeyed))

    def gone(self, lost: b.Gone) -> None:
        self._keep_if_can(self._kept.gone(lost.rank))
        if self._ranks.get(lost.node) != lost.rank:
            return
        del self._ranks[lost.node]
        if lost.node in self._clearing:
            self._cleared(lost.node)
        else:
            self._tell(o.Ended(lost.node, lost.why))

    def again(self, started: b.Again) -> None:
        self._keep_if_can(self._kept.again(started))
        if self._ranks.get(started.node) == started.lost:
            self._ranks[started.node] = started.rank

    def _keep_if_can(self, new: kept.KeptRoot) -> None:
        """Keep the new root. If the file cannot be written, warn: the next controller would wait for an agent that is
        gone, or know one by its old rank."""
        try:
            self._keep(new)
        except OSError as error:
            why = f"{self._path} cannot be written: {error.strerror or error}"
            self._tell(o.Warned(f"{why}; a controller that begins again may not find all nodes"))
            self._kept = new

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
