"""Virtual nodes on this machine: an agent process each, linked by a socket pair. After that link was lost the agent
comes back over a socket in the run's directory."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Coroutine, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pliant.drivers import Event, Tell
from pliant.drivers.kept import kept_secret
from pliant.launch import processes, reading, shm
from pliant.launch.agent import AGENTS, SECRET, peer
from pliant.live.cluster import orders as o
from pliant.live.fleet.fleet import Site
from pliant.live.node.register import JOB, NODE, RUN
from pliant.model.deadlines import (
    AGENT_GRACE_S,
    AGENT_SILENCE_S,
    AGENT_STOP_S,
    AGENT_TRACKERS_S,
    FORK_KILL_S,
)
from pliant.model.errors import ProtocolError
from pliant.model.limits import LIVE_NODES
from pliant.protocol import codec
from pliant.protocol import messages as m

SOURCE = "virtual"
"""What these nodes are called by their source."""
LAST_S = 1.0
"""How long the end of an agent's link may be behind that of its process."""
EACH_S = 0.5
"""What the start of an agent may take of a machine that has one processor for all of them."""
OF_A_NODE, OTHERS = 3, 200
"""Descriptors: of each node, two sockets at most and its process, and of all else."""
GONE = "its agent is gone"
BURIALS = 100
"""How often what is left of a node is looked for and killed, 20 ms apart: what is there then cannot be removed."""
LONGEST = codec.MAX_LINE + codec.WRAPPING
"""Of a line in either direction, in bytes."""

LOOPBACK = dict.fromkeys(
    ("UCX_NET_DEVICES", "FI_TCP_IFACE", "FI_SOCKETS_IFACE", "OMPI_MCA_btl_tcp_if_include"), "lo"
)
"""For the ranks: all nodes are on this machine, so nobody listens where others could connect, but for
Open MPI, which listens on all addresses whatever it is told."""


def _nobody(_event: Event) -> None:
    """Before the start."""


class ForkedAgent:
    """One agent's process: a child of ours, or of an earlier controller."""

    def __init__(self, pid: int, child: subprocess.Popen[bytes] | None = None) -> None:
        self.pid = pid
        self.has_ended = asyncio.Event()
        self.writer: asyncio.StreamWriter | None = None
        self.unlinked = asyncio.Event()
        """There is no link to it."""
        self.unlinked.set()
        self._child = child
        self._watch = os.pidfd_open(pid)
        asyncio.get_running_loop().add_reader(self._watch, self._over)

    def _over(self) -> None:
        asyncio.get_running_loop().remove_reader(self._watch)
        os.close(self._watch)
        if self._child is not None:
            self._child.wait()
        self.has_ended.set()

    def kill(self) -> None:
        if not self.has_ended.is_set():
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._watch, signal.SIGKILL)

    def send(self, data: bytes) -> None:
        if self.writer is not None and not self.writer.is_closing():
            self.writer.write(data)

    def hang_up(self) -> None:
        if self.writer is not None:
            self.writer.close()


class ForkedNodes:
    """Nodes with ``slots`` slots each, and ``labels`` by name. For a ``grace``, in seconds, agents outlive a lost link,
    and come back: to this controller, or to the next one of the same ``run`` and directory ``runtime``."""

    def __init__(
        self,
        slots: int,
        run: str,
        runtime: Path,
        *,
        grace: float = 0.0,
        labels: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    ) -> None:
        self.env = {key: value for key, value in LOOPBACK.items() if key not in os.environ}
        self.site = Site(
            most=_most(), slots=slots, labels=dict(labels), source=SOURCE, each_s=EACH_S, stop_s=AGENT_STOP_S,
            grace_s=grace, hint="try fewer nodes",
        )  # fmt: skip
        self._slots = slots
        self._run = run
        self._runtime = runtime
        self._tell: Tell = _nobody
        self._agents: dict[str, ForkedAgent] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.secret = kept_secret(runtime) if grace else b""
        self._envelopes = codec.from_nodes()
        self._others: set[int] | None = None
        """The children of this process that were there before any of ours; None before it is open."""

    # ---- the port ------------------------------------------------------------------------------------

    async def open(self, tell: Tell) -> None:
        self._tell = tell
        # What outlives a killed agent falls to us: it may have left its session and its environment behind.
        self._others = processes.children()
        processes.adopt_orphans()
        if self.site.grace_s:
            path = self._runtime / AGENTS
            path.unlink(missing_ok=True)
            self._server = await reading.serve_unix(self._connected, path)
            path.chmod(0o600)

    def start(self, nodes: Iterable[str]) -> None:
        self._spawn(self._start(list(nodes)))

    def send(self, node: str, envelope: m.To) -> None:
        if (agent := self._agents.get(node)) is not None:
            agent.send(codec.encode(envelope))

    def clear(self, node: str) -> None:
        self._spawn(self._clear(node))

    async def close(self) -> None:
        self._tell = _nobody
        for name, agent in self._agents.items():
            agent.send(codec.encode(m.To((name,), codec.raw(m.Shutdown()))))
        ends = [asyncio.ensure_future(agent.has_ended.wait()) for agent in self._agents.values()]
        if ends:
            await asyncio.wait(ends, timeout=AGENT_STOP_S)
        for task in (*ends, *self._tasks):
            task.cancel()
        if self._server is not None:
            self._server.close()
        await _end(*self._agents.values(), *self._unknown(None))
        names, self._agents = list(self._agents), {}
        await self._bury()
        processes.adopt_orphans(on=False)
        shm.sweep(self._runtime, self._run)
        for path in (AGENTS, SECRET, *(f"{name}.sock" for name in names)):
            (self._runtime / path).unlink(missing_ok=True)

    # ---- agents --------------------------------------------------------------------------------------

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _start(self, nodes: list[str]) -> None:
        _make_room(len(self._agents) + len(nodes))
        for name in nodes:
            try:
                await self._launch(name)
            except OSError as error:
                self._tell(o.Ended(name, f"an agent cannot be started: {error.strerror or error}"))

    async def _launch(self, name: str) -> None:
        ours, theirs = socket.socketpair()
        command = [
            sys.executable, "-m", "pliant.launch.agent", "--node", name, "--slots", str(self._slots),
            "--run", self._run, "--link", str(theirs.fileno()), "--runtime", str(self._runtime),
            "--orphan-grace", str(self.site.grace_s),
        ]  # fmt: skip
        with theirs, contextlib.ExitStack() as unused:
            unused.enter_context(ours)
            child = subprocess.Popen(  # noqa: ASYNC220 - starting takes a few milliseconds, and nobody waits
                command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True,
                env={**os.environ, RUN: self._run, NODE: name},
            )  # fmt: skip
            unused.pop_all()
        self._agents[name] = agent = ForkedAgent(child.pid, child)
        self._spawn(self._watch(name, agent))
        self._spawn(self._listen(name, agent, *await reading.over(ours)))

    async def _watch(self, name: str, agent: ForkedAgent) -> None:
        """Tell the agent's end, behind all that it has said."""
        await agent.has_ended.wait()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(agent.unlinked.wait(), LAST_S)
        if self._agents.get(name) is agent:
            self._tell(o.Ended(name, GONE))

    async def _listen(
        self, name: str, agent: ForkedAgent, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Tell what comes over a link, and its end."""
        agent.writer = writer
        agent.unlinked.clear()
        lines, why = codec.Lines(LONGEST), GONE
        try:
            while data := await _read(reader):
                for line in lines.feed(data):
                    if self._agents.get(name) is agent:  # else it is being ended, and there may be another
                        self._heard(name, line)
        except (TimeoutError, ConnectionError, ProtocolError) as error:
            why = f"its agent: {trouble(error)}"
        finally:
            writer.close()
        if agent.writer is writer:
            agent.unlinked.set()
            if self._agents.get(name) is agent:
                self._tell(o.Cut(name, why))

    def _heard(self, name: str, line: bytes) -> None:
        try:
            envelope = self._envelopes.decode(line)
            if envelope.node != name:
                raise ProtocolError(f"a message of {envelope.node!r}")
        except ProtocolError as error:  # it costs nobody a node
            self._tell(o.Warned(f"from the agent of {name}: {error}"))
            return
        self._tell(o.Heard(name, envelope.message, envelope.number, envelope.after, envelope.obeyed))

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Somebody has come: an agent of this run, if it is the same user's and shows the secret."""
        pid, uid = peer(writer.get_extra_info("socket"))
        try:
            async with asyncio.timeout(AGENT_GRACE_S):
                secret, hello = await reader.readline(), await reader.readline()
            if uid != os.getuid() or not hmac.compare_digest(secret, self.secret + b"\n"):
                raise ProtocolError("another user, or a wrong secret")
            name = self._envelopes.decode(hello).node
            agent = self._agents.get(name)
            if agent is None or agent.pid != pid:
                agent = ForkedAgent(pid)
                self._spawn(self._watch(name, agent))
                self._agents.setdefault(name, agent)
        except (OSError, TimeoutError, ValueError) as error:
            self._tell(o.Warned(f"agent of process {pid}: {trouble(error)}"))
            writer.close()
            return
        agent.hang_up()
        self._heard(name, hello)
        await self._listen(name, agent, reader, writer)

    # ---- what is left of a node ----------------------------------------------------------------------

    async def _clear(self, name: str) -> None:
        known = self._agents.pop(name, None)
        await _end(*([known] if known else ()), *self._unknown(name))
        # Its ranks died with it; what they had started has not.
        left = await self._bury(name)
        # The tokens tell for ever what was started here: the loss of the node may not have been recorded, and then
        # whoever begins again has its groups started once more.
        shm.sweep(self._runtime, self._run, name, tokens=False)
        (self._runtime / f"{name}.sock").unlink(missing_ok=True)
        pids = ", ".join(map(str, sorted(left)))
        self._tell(o.Cleared(name, f"process {pids} there cannot be ended" if left else ""))

    def _unknown(self, name: str | None) -> Iterable[ForkedAgent]:
        """Agents of this run, of one node or of all, that an earlier controller has started: by their cookie, that of a
        node without a job."""
        known = {agent.pid for agent in self._agents.values()} | {os.getpid()}
        for entry in os.scandir("/proc") if self.site.grace_s else ():
            if not entry.name.isdigit() or int(entry.name) in known:
                continue
            cookie = processes.cookie_of(int(entry.name)) or {}
            if cookie.get(RUN) == self._run and JOB not in cookie and name in (None, cookie.get(NODE)):
                with contextlib.suppress(ProcessLookupError):
                    yield ForkedAgent(int(entry.name))

    async def _bury(self, node: str | None = None) -> set[int]:
        """End what agents that are gone, of one node or of all, have left behind, with or without its cookie. What
        cannot be ended is returned."""
        if self._others is None:
            return set()
        began = asyncio.get_running_loop().time()
        found: set[int] = set()
        for _ in range(BURIALS):
            known = self._others | {agent.pid for agent in self._agents.values()}
            found = {*processes.find(self._run, node=node), *processes.orphans(known)}
            waited = asyncio.get_running_loop().time() - began
            processes.end(found, patient=waited < AGENT_TRACKERS_S)
            processes.reap(known)
            if not found:
                break
            await asyncio.sleep(0.02)
        return found


def _descriptors() -> tuple[int, int]:
    """How many this process may have open, now and at most."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    without = LIVE_NODES * OF_A_NODE + OTHERS
    soft, hard = (without if each == resource.RLIM_INFINITY else each for each in limits)
    return soft, hard


def _most() -> int:
    """How many nodes can be reached."""
    return max(1, min(LIVE_NODES, (_descriptors()[1] - OTHERS) // OF_A_NODE))


def _make_room(nodes: int) -> None:
    """Let this process open as many descriptors as these nodes take. Its children inherit that, so that it is done
    where there are many nodes alone."""
    soft, hard = _descriptors()
    if (wanted := min(nodes * OF_A_NODE + OTHERS, hard)) > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def trouble(error: Exception) -> str:
    """What ended the link to an agent, in words: many errors of connections have none of their own."""
    if isinstance(error, TimeoutError):
        return f"silent for {AGENT_SILENCE_S + AGENT_GRACE_S:g} s"
    return str(error) or f"the connection broke ({type(error).__name__})"


async def _read(reader: asyncio.StreamReader) -> bytes:
    """What the agent sends next; TimeoutError if it is silent for too long.

    After a stop of this very process (Ctrl-Z), what the agent sent meanwhile waits in the socket: so a
    time-out counts only when it is not followed by a word.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(AGENT_SILENCE_S):
            return await reader.read(65536)
    async with asyncio.timeout(AGENT_GRACE_S):
        return await reader.read(65536)


async def _end(*agents: ForkedAgent) -> None:
    """Kill these agents, and wait for their ends; one that cannot be ended is found by who looks for what is left."""
    for agent in agents:
        agent.hang_up()
        agent.kill()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(FORK_KILL_S):
            for agent in agents:
                await agent.has_ended.wait()
