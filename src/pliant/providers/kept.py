"""Virtual nodes whose agents outlive their controller: they come to its socket in the run's directory, and to that of
the next one."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
import secrets
import select
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from pliant.launch import processes, reading, shm
from pliant.launch.agent import AGENTS, SECRET, peer
from pliant.launch.starter import write_secret
from pliant.live.cluster import orders as o
from pliant.live.node.register import JOB, NODE, RUN
from pliant.model.errors import PliantError, ProtocolError
from pliant.model.nodes import hostlist
from pliant.protocol import codec
from pliant.protocol import messages as m
from pliant.providers import Tell
from pliant.providers.local import (
    LONGEST,
    RESTARTS,
    START_S,
    UNCLEAN,
    Link,
    LocalNodes,
    Process,
    trouble,
    wrong_version,
)

LOOK_S = 0.1


def kept_secret(runtime: Path) -> bytes:
    """The secret of a run that outlives its controllers: that of the file, which is made if there is none."""
    path = runtime / SECRET
    if not path.exists():
        write_secret(path, secrets.token_hex(16))
    return path.read_bytes()


class Adopted:
    """An agent that another controller has started."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._descriptor = os.pidfd_open(pid)

    def poll(self) -> int | None:
        return 0 if select.select([self._descriptor], [], [], 0)[0] else None

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

    def wait(self) -> int:
        select.select([self._descriptor], [], [])
        return 0


class TakenUp(NamedTuple):
    """Nodes that were granted to an earlier controller. Their agents run already, but for those of ``lost``, which are
    begun anew."""

    names: Sequence[str]
    lost: Sequence[str] = ()


class KeptNodes(LocalNodes):
    """``LocalNodes`` with an orphan grace, in seconds: so many new ``nodes``, or those of an earlier controller. None
    can be added.

    A link that is lost is told as Unlinked. An agent that has ended, or is not back within the grace, takes its node
    with it as any other.
    """

    def __init__(self, nodes: int | TakenUp, slots: int, run: str, runtime: Path, *, grace: float) -> None:
        super().__init__(nodes if isinstance(nodes, int) else 0, slots, run, runtime)
        self._grace = grace
        self._taken_up = nodes if isinstance(nodes, TakenUp) else None
        if self._taken_up is not None:
            self.names = tuple(self._taken_up.names)
            self._restarts = dict.fromkeys(self.names, 0)
        self._known: dict[str, Process] = {}
        self._here = {name: asyncio.Event() for name in self.names}
        self._server: asyncio.Server | None = None
        self.secret = kept_secret(runtime)
        """The run's, for its controllers."""

    async def start(self, tell: Tell) -> None:
        """Start all agents, or wait for those that run; PliantError if one that is new is not there in time."""
        self._tell = tell
        self._others = processes.children()
        processes.adopt_orphans()
        path = self._runtime / AGENTS
        path.unlink(missing_ok=True)
        self._server = await reading.serve_unix(self._connected, path)
        path.chmod(0o600)
        for name in self.names:
            if self._taken_up is None:
                self._begin_agent(name)
            else:
                self._spawn(self._anew(name) if name in self._taken_up.lost else self._back_or_lost(name))
        if self._taken_up is not None:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_S):
                for event in self._here.values():
                    await event.wait()
        if late := [name for name, event in self._here.items() if not event.is_set()]:
            raise PliantError(
                f"no word from the agents of {hostlist(late)} within {START_S:g} s; try fewer nodes"
            )
        tell(o.Granted(self.names, (self.slots,) * len(self.names)))

    def request(self, count: int) -> None:
        """Refused: whoever begins again has to know all nodes that there are."""
        self._tell(o.Refused(count, "nodes that outlive their controller cannot be added while it runs"))

    def give_back(self, nodes: Iterable[str]) -> None:
        """End the agents of these nodes, where nothing runs any more, and return each when it is gone."""
        for name in nodes:
            if name in self._restarts and name not in self._leaving:
                self._leaving.add(name)
                self._spawn(self._return(name))

    async def _return(self, name: str) -> None:
        if (link := self._links.get(name)) is not None:
            self.send([name], m.Shutdown())
            await self._ended(link)
        left = await self._clear(name)
        self._leaving.discard(name)
        del self._restarts[name]
        self._tell(o.Lost(name, final=True, why=UNCLEAN) if left else o.Returned((name,)))

    async def _clear(self, name: str) -> set[int]:
        """End all that is left of a node; what cannot be ended is returned."""
        self._end_agents(name)
        left = await self._bury(name)
        # The tokens tell for ever what was started here: the loss of the node may not have been recorded, and then
        # whoever begins again has its groups started once more.
        shm.sweep(self._runtime, self._run, name, tokens=False)
        (self._runtime / f"{name}.sock").unlink(missing_ok=True)
        if left:
            pids = ", ".join(map(str, sorted(left)))
            sys.stderr.write(f"pliant: {name} is not used again: process {pids} there cannot be ended\n")
        return left

    async def stop(self) -> None:
        """End all agents and everything they started; nothing is left afterwards."""
        await super().stop()
        for path in (AGENTS, SECRET, *(f"{name}.sock" for name in self.names)):
            (self._runtime / path).unlink(missing_ok=True)

    def _end_late(self) -> None:
        if self._server is not None:
            self._server.close()
        for name in self.names:
            self._end_agents(name)

    def _end_agents(self, name: str) -> None:
        """Whether they have come to us or not: by their cookie, that of a node without a job."""
        if (process := self._known.pop(name, None)) is not None and process.poll() is None:
            process.kill()
            process.wait()
        for entry in os.scandir("/proc"):
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                cookie = processes.cookie_of(int(entry.name)) or {}
                if cookie.get(RUN) == self._run and cookie.get(NODE) == name and JOB not in cookie:
                    processes.kill(int(entry.name))

    def _begin_agent(self, name: str) -> None:
        command = [
            sys.executable, "-m", "pliant.launch.agent", "--node", name, "--slots", str(self.slots),
            "--run", self._run, "--orphan-grace", str(self._grace), "--runtime", str(self._runtime),
        ]  # fmt: skip
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, start_new_session=True,
            env={**os.environ, RUN: self._run, NODE: name},
        )  # fmt: skip
        self._agents.add(process.pid)
        self._known[name] = process

    # ---- links ---------------------------------------------------------------------------------------

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Somebody has come: an agent of this run, if it is the same user's and shows the secret."""
        pid, uid = peer(writer)
        name = ""
        try:
            secret = await asyncio.wait_for(reader.readline(), START_S)
            if uid != os.getuid() or not hmac.compare_digest(secret, self.secret + b"\n"):
                writer.write(codec.encode(m.Error("another user, or a wrong secret")))
                return
            lines = codec.Lines(LONGEST)
            while data := await self._read(reader):
                for line in lines.feed(data):
                    name = name or self._greeted(line, pid, writer)
                    self._said(name, line)
        except (TimeoutError, ConnectionError, ProtocolError, ValueError) as error:
            if not self._stopping:
                sys.stderr.write(f"pliant: agent of {name or pid}: {trouble(error)}\n")
        finally:
            writer.close()
            link = self._links.get(name)
            if link is not None and link.writer is writer and not self._stopping:
                del self._links[name]
                self._here[name].clear()
                if name not in self._leaving:
                    self._tell(o.Unlinked(name))
                    self._spawn(self._back_or_lost(name))

    def _greeted(self, line: bytes, pid: int, writer: asyncio.StreamWriter) -> str:
        """The node whose agent begins a link by this line; ProtocolError if it is none of ours."""
        envelope = self._envelopes.decode(line)
        hello = self._messages.decode(envelope.message)
        name = envelope.node
        if not isinstance(hello, m.AgentHello) or name not in self._restarts or name in self._links:
            raise ProtocolError(f"a link for {name!r} that is not due")
        if problem := wrong_version(hello):
            raise ProtocolError(problem)
        process = self._known.get(name)
        if process is None:
            process = self._known[name] = Adopted(pid)
        elif process.pid != pid:
            raise ProtocolError(f"another agent for {name}, before what the one there was has left is ended")
        self._links[name] = Link(process, writer)
        self._here[name].set()
        return name

    def _said(self, name: str, line: bytes) -> None:
        if (said := self._understood(name, line, (name,))) is not None:
            envelope, _ = said
            self._tell(o.Said(name, envelope.message, envelope.number, envelope.obeyed))

    async def _back_or_lost(self, name: str) -> None:
        """Wait for the node's agent, as long as it may be there; then the node is lost, and tried anew."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._grace
        while loop.time() < deadline and self._stays(name):
            process = self._known.get(name)
            if process is not None and process.poll() is not None:
                break
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._here[name].wait(), LOOK_S)
                return
        await self._anew(name)

    async def _anew(self, name: str) -> None:
        """End what is left of a node, and try a new agent there."""
        while self._stays(name):
            left = await self._clear(name)
            if not self._stays(name):
                return
            final = bool(left) or self._restarts[name] >= RESTARTS
            self._tell(o.Lost(name, final, "its agent is gone"))
            if final:
                return
            self._restarts[name] += 1
            self._begin_agent(name)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._here[name].wait(), START_S)
                self._tell(o.Back(name))
                return

    def _stays(self, name: str) -> bool:
        """Whether the node is ours, and is not about to be given back."""
        return not self._stopping and name in self._restarts and name not in self._leaving
