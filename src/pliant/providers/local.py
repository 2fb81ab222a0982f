"""Virtual nodes on this machine: one agent process each, linked by a socket pair."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Container, Coroutine, Iterable
from pathlib import Path
from typing import Any, Protocol

from pliant.launch import processes, reading, shm
from pliant.live.cluster import orders as o
from pliant.live.node.proof import TRACKERS_S
from pliant.model.errors import PliantError, ProtocolError
from pliant.model.limits import LIVE_NODES
from pliant.model.nodes import hostlist
from pliant.protocol import VERSION, codec
from pliant.protocol import messages as m
from pliant.providers import Event, Tell

START_S = 20.0
SILENCE_S = 30.0
"""An agent that has not even sent a heartbeat for so long is taken for dead and ended."""
GRACE_S = 5.0
STOP_S = 4.0
RESTARTS = 3
UNCLEAN = "what was left there could not be ended"
BURIALS = 100
"""How often what is left of a node is looked for and killed, 20 ms apart: what is there then cannot be removed."""
LONGEST = codec.MAX_LINE + codec.WRAPPING
"""Of a line in either direction, in bytes."""

LOOPBACK = dict.fromkeys(
    ("UCX_NET_DEVICES", "FI_TCP_IFACE", "FI_SOCKETS_IFACE", "OMPI_MCA_btl_tcp_if_include"), "lo"
)
"""For the ranks: all nodes are on this machine, so nobody listens where others could connect, but for
Open MPI, which listens on all addresses whatever it is told."""


def trouble(error: Exception) -> str:
    """What ended the link to an agent, in words: many errors of connections have none of their own."""
    if isinstance(error, TimeoutError):
        return f"silent for {SILENCE_S + GRACE_S:g} s"
    return str(error) or f"the connection broke ({type(error).__name__})"


def wrong_version(hello: m.AgentHello) -> str:
    """Why this agent cannot be understood, or nothing."""
    if hello.version == VERSION:
        return ""
    return f"it speaks version {hello.version} of the protocol, and this is {VERSION}"


def is_too_long(node: str, message: m.ControllerMessage, size: int, tell: Tell) -> bool:
    """Whether a message of so many bytes is not to be sent, which is told then: an agent that got it would take its
    controller for mad, and end with all that runs there."""
    if size <= LONGEST:
        return False
    why = f"{size:,} bytes as a message to {node}, and the most is {LONGEST:,}"
    if isinstance(message, m.StartGroup):
        failed = m.StartFailed(message.job, message.group, f"command and environment: {why}", 126)
        asyncio.get_running_loop().call_soon(tell, o.Said(node, codec.raw(failed)))
    else:
        sys.stderr.write(f"pliant: a message is not sent: {why}\n")
    return True


def _nobody(_event: Event) -> None:
    """Before the start."""


class Process(Protocol):
    """As much of a child, or of somebody else's, as is used."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def kill(self) -> None: ...

    def wait(self) -> int: ...


class Link:
    """The controller's end of one agent."""

    def __init__(self, process: Process, writer: asyncio.StreamWriter) -> None:
        self.process = process
        self.writer = writer
        self.heard = asyncio.get_running_loop().time()
        self.ready = asyncio.Event()
        """The agent has said hello, or has gone before it could."""


class LocalNodes:
    """``count`` nodes n0, n1, ... with ``slots`` slots each; those that are requested go on from there.

    An agent that dies takes its node with it: what ran there is ended, Lost is told with whether that is final,
    and the agent is started again (up to three times a node), then Back told. A node where something lives on that
    cannot be ended is lost for good.
    """

    def __init__(self, count: int, slots: int, run: str, runtime: Path) -> None:
        self.names = tuple(f"n{i}" for i in range(count))
        self.env = {key: value for key, value in LOOPBACK.items() if key not in os.environ}
        self.slots = slots
        self._run = run
        self._runtime = runtime
        self._tell: Tell = _nobody
        self._links: dict[str, Link] = {}
        self._restarts = dict.fromkeys(self.names, 0)
        """Of the nodes that are granted."""
        self._next = count
        self._coming: set[str] = set()
        self._leaving: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False
        self._envelopes = codec.from_nodes()
        self._messages = codec.from_agent()
        self._agents: set[int] = set()
        self._others: set[int] = set()  # children of this process that are none of ours

    async def start(self, tell: Tell) -> None:
        """Start all agents; PliantError if one is not there in time."""
        self._tell = tell
        # What outlives a killed agent falls to us: it may have left its session and its environment behind.
        self._others = processes.children()
        processes.adopt_orphans()
        for name in self.names:
            await self._launch(name)
        waits = [asyncio.ensure_future(link.ready.wait()) for link in self._links.values()]
        try:
            _, missing = await asyncio.wait(waits, timeout=START_S)
        finally:
            for wait in waits:
                wait.cancel()
        if missing:
            late = hostlist(name for name, link in self._links.items() if not link.ready.is_set())
            raise PliantError(f"no word from the agents of {late} within {START_S:g} s; try fewer nodes")
        tell(o.Granted(self.names, (self.slots,) * len(self.names)))

    def request(self, count: int) -> None:
        """Start so many agents more, and grant the nodes of those that come."""
        most = max(0, LIVE_NODES - len(self._restarts))
        if count > most:
            self._tell(o.Refused(count - most, f"{LIVE_NODES} virtual nodes are the most on one machine"))
        names = tuple(f"n{i}" for i in range(self._next, self._next + min(count, most)))
        self._next += len(names)
        if names:
            self._restarts |= dict.fromkeys(names, 0)
            self._coming.update(names)  # nothing is told of them before they are there
            self._spawn(self._add(names))

    async def _add(self, names: tuple[str, ...]) -> None:
        why = ""
        links: dict[str, Link] = {}
        try:
            for name in names:
                links[name] = await self._launch(name)
        except OSError as error:
            why = f"an agent cannot be started: {error.strerror or error}"
        waits = [asyncio.ensure_future(link.ready.wait()) for link in links.values()]
        if waits:
            await asyncio.wait(waits, timeout=START_S)
        for wait in waits:
            wait.cancel()
        came = tuple(n for n, link in links.items() if link.ready.is_set() and self._links.get(n) is link)
        late = [name for name in names if name not in came]
        for name in late:
            self._restarts.pop(name, None)
            if (link := self._links.get(name)) is not None:
                link.process.kill()  # and then it is buried as any other
        if came:
            self._coming.difference_update(came)
            self._tell(o.Granted(came, (self.slots,) * len(came)))
        if late:
            why = why or f"the agents of {hostlist(late)} did not come up within {START_S:g} s"
            self._tell(o.Refused(len(late), why))

    def give_back(self, nodes: Iterable[str]) -> None:
        """End the agents of these nodes, where nothing runs any more, and return each when it is gone."""
        for name in nodes:
            if name in self._restarts:
                self._leaving.add(name)
                link = self._links.get(name)
                if link is not None and link.ready.is_set():  # else it is being started again
                    self._spawn(self._dismiss(name, link))

    async def _dismiss(self, name: str, link: Link) -> None:
        self.send([name], m.Shutdown())
        if not await self._ended(link):
            link.process.kill()

    async def _ended(self, *links: Link) -> bool:
        """Wait for the end of agents that were told to go; False if it does not come in time."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + STOP_S
        while (  # noqa: ASYNC110 - the end of a process is polled: it is a matter of milliseconds
            any(link.process.poll() is None for link in links) and loop.time() < deadline
        ):
            await asyncio.sleep(0.01)
        return all(link.process.poll() is not None for link in links)

    def send(self, nodes: Iterable[str], message: m.ControllerMessage, order: int = 0) -> None:
        """Send to the agents of these nodes, under an id if there is one; one that is lost gets nothing."""
        for node in nodes:
            self._send(node, message, order)

    def _send(self, node: str, message: m.ControllerMessage, order: int) -> None:
        link = self._links.get(node)
        if link is None or link.writer.is_closing():
            return
        line = codec.encode(m.To((node,), codec.raw(message), order))
        if not is_too_long(node, message, len(line), self._tell):
            link.writer.write(line)

    async def stop(self) -> None:
        """End all agents and everything they started; nothing is left afterwards."""
        self._stopping = True
        self.send(list(self._links), m.Shutdown())
        await self._ended(*self._links.values())
        for task in self._tasks:
            task.cancel()
        for link in self._links.values():
            link.writer.close()
        self._end_late()
        self._agents.clear()
        await self._bury()
        processes.adopt_orphans(on=False)
        shm.sweep(self._runtime, self._run)

    def _end_late(self) -> None:
        """End the agents that have not gone in time."""
        for link in self._links.values():
            if link.process.poll() is None:
                link.process.kill()
                link.process.wait()

    async def _bury(self, node: str | None = None) -> set[int]:
        """End what agents that are gone, of one node or of all, have left behind, with or without its cookie. What
        cannot be ended is returned."""
        began = asyncio.get_running_loop().time()
        found: set[int] = set()
        for _ in range(BURIALS):
            known = self._others | self._agents
            found = {*processes.find(self._run, node=node), *processes.orphans(known)}
            waited = asyncio.get_running_loop().time() - began
            processes.end(found, patient=waited < TRACKERS_S)
            processes.reap(known)
            if not found:
                break
            await asyncio.sleep(0.02)
        return found

    async def _launch(self, name: str) -> Link:
        ours, theirs = socket.socketpair()
        command = [
            sys.executable, "-m", "pliant.launch.agent", "--node", name, "--slots", str(self.slots),
            "--run", self._run, "--link", str(theirs.fileno()), "--runtime", str(self._runtime),
        ]  # fmt: skip
        process = subprocess.Popen(  # noqa: ASYNC220 - starting takes a few milliseconds, and nobody waits
            command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
        )
        self._agents.add(process.pid)  # before anyone looks for children that nobody knows
        theirs.close()
        reader, writer = await reading.over(ours)
        self._links[name] = link = Link(process, writer)
        self._spawn(self._listen(name, reader, link))
        return link

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _listen(self, name: str, reader: asyncio.StreamReader, link: Link) -> None:
        lines = codec.Lines(LONGEST)
        why = "its agent is gone"
        try:
            while data := await self._read(reader):
                for line in lines.feed(data):
                    self._opened(name, link, line)
        except (TimeoutError, ConnectionError, ProtocolError) as error:
            why = f"its agent: {trouble(error)}"
            if not self._stopping:
                sys.stderr.write(f"pliant: agent of {name}: {trouble(error)}\n")
        if not self._stopping:
            await self._lose(name, link, why)

    def _opened(self, name: str, link: Link, line: bytes) -> None:
        """An envelope has come over the link to ``name``."""
        if (said := self._understood(name, line, self._links)) is None:
            return
        envelope, message = said
        if isinstance(message, m.AgentHello):
            if problem := wrong_version(message):
                self.send([name], m.Error(problem))
                raise ProtocolError(problem)
            link.ready.set()
        else:
            self._tell(o.Said(envelope.node, envelope.message))

    def _understood(
        self, name: str, line: bytes, nodes: Container[str]
    ) -> tuple[m.From, m.AgentMessage] | None:
        """The envelope that the agent of ``name`` has sent for one of ``nodes``, and the message in it. None if nothing
        follows: a heartbeat, or what is told on standard error, as it is an error or cannot be read."""
        try:
            envelope = self._envelopes.decode(line)
            message = self._messages.decode(envelope.message)
        except ProtocolError as error:
            sys.stderr.write(f"pliant: from the agent of {name}: {error}\n")
            return None
        if isinstance(message, m.Error) or envelope.node not in nodes:
            said = message.text if isinstance(message, m.Error) else f"a message of {envelope.node!r}"
            sys.stderr.write(f"pliant: from the agent of {name}: {said}\n")
            return None
        return None if isinstance(message, m.Heartbeat) else (envelope, message)

    async def _read(self, reader: asyncio.StreamReader) -> bytes:
        """What the agent sends next; TimeoutError if it is silent for too long.

        After a stop of this very process (Ctrl-Z), what the agent sent meanwhile waits in the socket: so a
        time-out counts only when it is not followed by a word.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SILENCE_S):
                return await reader.read(65536)
        async with asyncio.timeout(GRACE_S):
            return await reader.read(65536)

    async def _lose(self, name: str, link: Link, why: str) -> None:
        """The agent is gone: make sure that nothing of its node lives on, then try a new one."""
        link.writer.close()
        if name not in self._leaving or not await self._ended(link):
            link.process.kill()
        await asyncio.to_thread(link.process.wait)
        self._agents.discard(link.process.pid)
        # Its ranks died with it; what they had started has not.
        left = await self._bury(name)
        shm.sweep(self._runtime, self._run, name)
        (self._runtime / f"{name}.sock").unlink(missing_ok=True)
        del self._links[name]
        if left:
            pids = ", ".join(map(str, sorted(left)))
            sys.stderr.write(f"pliant: {name} is not used again: process {pids} there cannot be ended\n")
        if name in self._coming:
            self._coming.discard(name)
            link.ready.set()
            return
        if name in self._leaving:
            self._leaving.discard(name)
            del self._restarts[name]
            self._tell(o.Lost(name, final=True, why=UNCLEAN) if left else o.Returned((name,)))
            return
        final = bool(left) or self._restarts[name] >= RESTARTS
        self._tell(o.Lost(name, final, why))
        if self._stopping or final:
            return
        self._restarts[name] += 1
        try:
            await self._launch(name)
            await asyncio.wait_for(self._links[name].ready.wait(), START_S)
        except (OSError, TimeoutError):
            self._tell(o.Lost(name, final=True, why="no agent could be started there again"))
            return
        if name in self._leaving:
            await self._dismiss(name, self._links[name])
        else:
            self._tell(o.Back(name))
