"""The agent: one process a node. It starts groups, answers their PMI requests, passes their sessions on,
reports their ends, and proves the node clean. When it loses its controller it ends everything and leaves.

    python -m pliant.launch.agent --node n0 --slots 1 --run ID --link FD --runtime DIR
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hmac
import os
import shutil
import signal
import socket
import struct
import sys
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Any

import msgspec

from pliant.launch import processes, shm
from pliant.launch.descriptors import open_standard
from pliant.launch.pmi import AtFence, PmiError, PmiGroup, Reply
from pliant.launch.starter import ExecStarter, Starter, StartError, write_secret
from pliant.model.errors import ProtocolError
from pliant.protocol import codec
from pliant.protocol import messages as m
from pliant.protocol.fence import pieces

HEARTBEAT_S = 2.0
LAUNCHERS = ("PMI_", "PMIX_", "HYDI_", "HYDRA_", "OMPI_")
CONTROL = "control.sock"
"""The controller's own socket in the run's directory: removed by the agents if it could not do that itself."""
KILL_S = 3.0
"""How long the kernel gets to remove a killed process before the node counts as not clean."""


class Group:
    """The ranks of one job on this node."""

    def __init__(self, order: m.StartGroup, run: str, node: str) -> None:
        self.job = order.job
        self.number = order.group
        self.token = order.token
        self.files = shm.GroupFiles(node, order.job, order.group, order.world.number, order.world.part)
        self.pids: dict[int, int] = {}
        self.pmi = PmiGroup(order.world, shm.kvsname(run, order.job, order.world.number))
        self.connections: dict[int, socket.socket] = {}
        self.sessions: dict[int, asyncio.StreamWriter] = {}
        self.broken = 0
        """The exit code of a group that we had to end, 0 for any other."""


class Agent:
    """Everything that happens on one node, driven by one event loop."""

    def __init__(self, node: str, slots: int, run: str, runtime: Path, starter: Starter) -> None:
        self._node = node
        self._slots = slots
        self._run = run
        self._runtime = runtime
        self._starter = starter
        self._groups: dict[tuple[int, int], Group] = {}
        self._ranks: dict[int, tuple[Group, int]] = {}
        self._link: asyncio.StreamWriter | None = None
        self._stop = asyncio.Event()
        self._left = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._sessions: set[asyncio.Task[None]] = set()
        self._last_session = 0
        self._orphaned = False
        self._socket = runtime / f"{node}.sock"
        self._shm = shm.directory(run, node)

    async def serve(self, link: socket.socket) -> None:
        """Work until the controller says Shutdown or goes away, or a SIGTERM comes."""
        loop = asyncio.get_running_loop()
        processes.adopt_orphans()
        loop.add_signal_handler(signal.SIGCHLD, self._reap)
        loop.add_signal_handler(signal.SIGTERM, self._stop.set)
        reader, self._link = await asyncio.open_connection(sock=link)
        try:
            server = await asyncio.start_unix_server(
                self._connected, path=str(self._socket), limit=codec.MAX_LINE
            )
        except FileNotFoundError:
            return  # the run has ended, and with it its directory: before we have made anything
        self._shm.mkdir(mode=0o700, exist_ok=True)
        self._socket.chmod(0o600)
        self._send(m.AgentHello(self._node, self._slots, os.getpid()))
        self._spawn(self._obey(reader))
        self._spawn(self._beat())
        await self._stop.wait()
        server.close()
        await self._end_everything()
        for task in self._tasks:
            task.cancel()

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            # A defect in the agent must not leave processes behind: say what it was, end all, leave.
            self._stop.set()
            with contextlib.suppress(OSError):  # nobody may read it any more
                sys.stderr.write(f"agent {self._node}: {task.exception()!r}\n")

    def _send(self, message: m.AgentMessage) -> None:
        if self._link is not None and not self._link.is_closing():
            self._link.write(codec.encode(message))

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            self._send(m.Heartbeat())

    # ---- the controller's orders ---------------------------------------------------------------------

    async def _obey(self, reader: asyncio.StreamReader) -> None:
        lines = codec.Lines(codec.MAX_LINE + codec.WRAPPING)
        decoder = codec.from_controller()
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                for line in lines.feed(data):
                    self._order(decoder.decode(line))
        self._orphaned = not self._stop.is_set()
        self._stop.set()

    def _order(self, order: m.ControllerMessage) -> None:
        match order:
            case m.StartGroup():
                try:
                    self._start(order)
                except (OSError, StartError) as error:
                    self._not_started(order, error)
            case m.Signal():
                self._signal(order)
            case m.Prove():
                self._spawn(self._prove(order))
            case m.Deliver():
                group = self._groups.get((order.job, order.group))
                if group is not None and (session := group.sessions.get(order.session)) is not None:
                    session.write(bytes(order.message) + b"\n")
            case m.Fenced():
                group = self._groups.get((order.job, order.group))
                if group is not None:
                    self._reply(group, group.pmi.fenced(order.entries, more=order.more))
            case m.Shutdown():
                self._stop.set()

    def _start(self, order: m.StartGroup) -> None:
        group = Group(order, self._run, self._node)
        token = group.files.token_file(self._runtime)
        write_secret(token, order.token)
        # A launcher around us is not the launcher of our ranks.
        outer = {key: value for key, value in os.environ.items() if not key.startswith(LAUNCHERS)}
        env = {
            **outer,
            "MPIR_CVAR_CH4_NETMOD": "ucx",
            "UCX_POSIX_DIR": str(self._shm),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            **order.env,
            processes.RUN: self._run,
            processes.JOB: str(order.job),
            processes.GROUP: str(order.group),
            processes.NODE: self._node,
            "PLIANT_SOCKET": str(self._socket),
            "PLIANT_TOKEN_FILE": str(token),
            "PMI_SIZE": str(order.world.size),
        }
        self._groups[order.job, order.group] = group
        loop = asyncio.get_running_loop()
        for rank in order.world.ranks:
            ours, theirs = socket.socketpair()
            ours.setblocking(False)
            rank_env = {**env, "PMI_RANK": str(rank), "PMI_ID": str(rank)}
            try:
                pid = self._starter.start(order.argv, rank_env, order.cwd, order.output, theirs)
            except (OSError, StartError):
                ours.close()
                raise
            finally:
                theirs.close()
            group.pids[rank] = pid
            group.connections[rank] = ours
            self._ranks[pid] = (group, rank)
            loop.add_reader(ours, self._pmi, group, rank, ours, codec.Lines(65536))
        self._send(m.Started(order.job, order.group, tuple(group.pids.values())))

    def _not_started(self, order: m.StartGroup, error: OSError | StartError) -> None:
        """A rank could not be started: the group's others end, and the controller learns why."""
        group = self._groups.get((order.job, order.group))
        if group is not None:
            self._end_group(group)
        if group is None or not group.pids:
            self._groups.pop((order.job, order.group), None)
        if group is not None and not group.pids:
            group.files.clear(self._runtime, self._run)
        code = error.code if isinstance(error, StartError) else 126
        self._send(m.StartFailed(order.job, order.group, str(error), code))

    def _signal(self, order: m.Signal) -> None:
        for (job, number), group in self._groups.items():
            if job != order.job or order.group not in (None, number):
                continue
            if order.number == signal.SIGKILL:
                self._end_group(group)  # the proof finds what the ranks have started
                continue
            for pid in group.pids.values():
                # A rank leads a session: what it started in the foreground gets the signal as well.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, order.number)

    async def _prove(self, order: m.Prove) -> None:
        """Wait for the job's groups to leave, end what does not, and look for anything left behind."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + order.patience_s
        kept = {str(number) for number in order.keep}
        while self._alive(order) and loop.time() < deadline:
            self._left.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._left.wait(), deadline - loop.time())
        began = loop.time()
        while True:
            found = processes.find(self._run, node=self._node, job=order.job)
            pids = tuple(pid for pid, cookie in found.items() if cookie.get(processes.GROUP) not in kept)
            pids += self._strays(set(pids))
            if not pids or loop.time() > began + KILL_S:
                break
            processes.end(pids, patient=loop.time() < began + processes.TRACKERS_S)
            await asyncio.sleep(0.02)
        if not pids:
            self._forget(order)
        self._send(m.Proof(order.job, not pids, pids))

    def _strays(self, known: set[int]) -> tuple[int, ...]:
        """Orphans that this agent has adopted: they belong to no rank, whatever their environment says now."""
        ranks = set(self._ranks)
        return tuple(pid for pid in processes.orphans(ranks) if pid not in known)

    def _alive(self, order: m.Prove) -> bool:
        return any(
            job == order.job and number not in order.keep and group.pids
            for (job, number), group in self._groups.items()
        )

    def _forget(self, order: m.Prove) -> None:
        for job, number in [key for key in self._groups if key[0] == order.job and key[1] not in order.keep]:
            group = self._groups.pop((job, number))
            group.files.clear(self._runtime, self._run)
            for session in group.sessions.values():
                session.close()

    # ---- ranks ---------------------------------------------------------------------------------------

    def _pmi(self, group: Group, rank: int, connection: socket.socket, lines: codec.Lines) -> None:
        loop = asyncio.get_running_loop()
        try:
            data = connection.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            loop.remove_reader(connection)
            connection.close()
            group.connections.pop(rank, None)
            return
        try:
            for line in lines.feed(data):
                self._reply(group, group.pmi.receive(rank, line.decode(errors="replace")))
        except (PmiError, ProtocolError) as error:
            self._break(group, error)

    def _reply(self, group: Group, answers: Iterable[Reply | AtFence]) -> None:
        for answer in answers:
            if isinstance(answer, AtFence):
                for piece, more in pieces(answer.entries):
                    self._send(m.Fence(group.job, group.number, answer.round, piece, more))
            elif (connection := group.connections.get(answer.rank)) is not None:
                with contextlib.suppress(OSError):  # a rank that has just died: its exit tells
                    connection.sendall(answer.line)

    def _break(self, group: Group, error: PmiError | ProtocolError) -> None:
        """The group cannot go on: say why, and end its ranks."""
        self._send(m.Relay(group.job, group.number, 0, codec.raw(m.Error(str(error)))))
        group.broken = error.code if isinstance(error, PmiError) else 1
        self._end_group(group)

    def _end_group(self, group: Group) -> None:
        for pid in group.pids.values():
            processes.kill(pid)

    def _reap(self) -> None:
        """Collect every ended child: ranks, and orphans that were adopted."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self._ranks:
                group, rank = self._ranks.pop(pid)
                del group.pids[rank]
                code = os.waitstatus_to_exitcode(status)
                if group.broken and code == -signal.SIGKILL:
                    code = group.broken  # ended by us because of an abort: that is the group's own failure
                self._send(m.Exited(group.job, group.number, rank, code, usage.ru_utime + usage.ru_stime))
                if code != 0:
                    self._end_group(group)  # as mpiexec does: a group cannot go on without a rank
                else:
                    self._rank_left(group, rank)
                self._left.set()

    def _rank_left(self, group: Group, rank: int) -> None:
        try:
            group.pmi.left(rank)
        except PmiError as error:
            self._break(group, error)

    # ---- sessions ------------------------------------------------------------------------------------

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._session(reader, writer))
        self._sessions.add(task)
        task.add_done_callback(self._sessions.discard)

    async def _session(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on what rank 0 of a group says, once it has shown its token."""
        decoder = codec.from_job()
        lines = codec.Lines()
        group: Group | None = None
        self._last_session += 1
        number = self._last_session
        try:
            if _peer_uid(writer) != os.getuid():
                raise ProtocolError("another user's process")
            while data := await reader.read(65536):
                for line in lines.feed(data):
                    message = decoder.decode(line)
                    if group is None:
                        group = self._admit(message)
                        group.sessions[number] = writer
                    # As it came: written anew it could be longer than the controller takes.
                    self._send(m.Relay(group.job, group.number, number, msgspec.Raw(line)))
        except ProtocolError as error:
            # A bad line closes its own connection and changes nothing else.
            writer.write(codec.encode(m.Error(str(error))))
        except ConnectionError:
            pass
        finally:
            if group is not None:
                group.sessions.pop(number, None)
            writer.close()

    def _admit(self, message: m.JobMessage) -> Group:
        if not isinstance(message, m.Hello):
            raise ProtocolError("a session begins with hello")
        group = self._groups.get((message.job, message.group))
        if group is None or not hmac.compare_digest(group.token, message.token):
            raise ProtocolError("no such group here, or a wrong token")
        return group

    # ---- the end -------------------------------------------------------------------------------------

    async def _end_everything(self) -> None:
        for group in self._groups.values():
            self._end_group(group)
        loop = asyncio.get_running_loop()
        began = loop.time()
        while (
            found := {*processes.find(self._run, node=self._node), *processes.orphans(set())}
        ) and loop.time() < began + KILL_S:
            processes.end(found, patient=loop.time() < began + processes.TRACKERS_S)
            await asyncio.sleep(0.02)
        for group in self._groups.values():
            group.files.clear(self._runtime, self._run)
        shutil.rmtree(self._shm, ignore_errors=True)
        if self._sessions:
            await asyncio.wait(self._sessions, timeout=KILL_S)  # their peers are dead: they read the end
        self._socket.unlink(missing_ok=True)
        if self._orphaned:
            (self._runtime / CONTROL).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._runtime.rmdir()  # the last one out succeeds


def _peer_uid(writer: asyncio.StreamWriter) -> int:
    peer: socket.socket = writer.get_extra_info("socket")
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])


def main() -> None:
    open_standard()
    parser = argparse.ArgumentParser(prog="pliant-agent")
    parser.add_argument("--node", required=True)
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--run", required=True)
    parser.add_argument("--link", type=int, required=True, help="file descriptor of the controller's socket")
    parser.add_argument("--runtime", type=Path, required=True)
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is the controller's to handle
    link = socket.socket(fileno=options.link)
    link.set_inheritable(False)
    agent = Agent(options.node, options.slots, options.run, options.runtime, ExecStarter())
    asyncio.run(agent.serve(link))


if __name__ == "__main__":
    main()
