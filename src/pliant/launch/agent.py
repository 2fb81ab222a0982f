"""The agent: one process a node. What is decided, `live/node/life.py` decides; this is the shell around
it, which turns descriptors, signals and timers into inputs, and carries out what is asked.

    python -m pliant.launch.agent --node n0 --slots 1 --run ID --link FD --runtime DIR

With ``--orphan-grace S`` it outlives a lost link for S seconds, and tries to connect to the controller's socket in the
run's directory.

With PLIANT_RECORD=DIR every input and output is appended to DIR/agent-NODE-PID.ndjson, which `live/node/recording.py`
plays again. It holds the tokens of the run's sessions and the environment of its jobs: only its user may read it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import sys
from collections import deque
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pliant import recorder
from pliant.launch import CONTROL, pmix, processes, shm
from pliant.launch.connection import Connection, Listener
from pliant.launch.descriptors import open_standard
from pliant.launch.loop import EventLoop, Timer
from pliant.launch.starter import ExecStarter, Starter, StartError, Streams, place_problem, write_secret
from pliant.live.node import messages as n
from pliant.live.node import recording
from pliant.live.node.life import CANNOT, UNPREPARED, NodeLife
from pliant.live.node.warmth import SWITCH
from pliant.protocol import codec
from pliant.protocol import messages as m
from pliant.recorder import Recorder

if TYPE_CHECKING:
    from pliant.launch.warming import WarmProcess

AGENTS = "agents.sock"
"""Where a controller listens for agents that may outlive it."""
SECRET = "secret"  # noqa: S105 - the name of a file
"""In the run's directory: the run's secret, which these agents show first."""
DIAL_S = 0.1
BACKLOG = 1024

Rank = tuple[int, int, int]
"""Job, group and number."""


class AgentShell:
    """The shell around a node's machine, driven by one event loop. ``dials``: it makes a lost link anew; else it ends
    with the link."""

    def __init__(
        self, home: n.Home, starter: Starter, record: Path | None = None, *, dials: bool = True
    ) -> None:
        self._home = home
        self._life = NodeLife(home)
        self._starter = starter
        self._recorder = Recorder(record, f"agent-{home.node}-{home.pid}")
        self._recorder.write(recording.head(home))
        self._queue: deque[tuple[n.AnyInput, ...]] = deque()
        self._busy = False
        self._failed = False
        self._loop = EventLoop()
        self._link: Connection | None = None
        self._dials = dials
        self._left: bool | None = None
        """Whether it has left as an orphan; None before."""
        self._error: BaseException | None = None
        self._timers: dict[str, Timer] = {}
        self._connections: dict[Rank, socket.socket] = {}
        self._unsent: dict[Rank, bytearray] = {}
        self._warm: dict[int, WarmProcess] = {}
        self._sessions: dict[int, Connection] = {}
        self._last_session = 0

    def serve(self, link: socket.socket, door: socket.socket | None = None) -> None:
        """Work until the machine leaves, over ``link`` at first. Sessions call at ``door``, which is opened here if it
        has not been."""
        loop = self._loop
        processes.adopt_orphans()
        loop.add_signal_handler(signal.SIGCHLD, self._reap)
        loop.add_signal_handler(signal.SIGTERM, self._happened, n.StopAsked())
        self._stand(link)
        try:
            door = door or open_door(self._home.socket)
        except FileNotFoundError:
            return  # the run has ended, and with it its directory: before we have made anything
        listener = Listener(loop, door, self._connected)
        self._move_in()
        self._happened(n.Began())
        loop.run()
        listener.close()
        if self._error is not None:
            raise self._error
        self._clean_up(orphaned=bool(self._left))

    def _leave(self, *, orphaned: bool = False, error: BaseException | None = None) -> None:
        if self._left is None:
            self._left, self._error = orphaned, error
            self._loop.stop()

    def _move_in(self) -> None:
        Path(self._home.shm).mkdir(mode=0o700, exist_ok=True)
        Path(self._home.socket).chmod(0o600)

    def _clean_up(self, *, orphaned: bool) -> None:
        runtime = Path(self._home.runtime)
        shm.remove(Path(self._home.shm))
        Path(self._home.socket).unlink(missing_ok=True)
        if orphaned:
            (runtime / CONTROL).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            runtime.rmdir()  # the last one out succeeds

    # ---- in and out ----------------------------------------------------------------------------------

    def _happened(self, *inputs: n.AnyInput) -> None:
        """Tell the machine, and do what it asks. What follows from that is told when all of it is done."""
        self._queue.append(inputs)
        if self._busy:
            return
        self._busy = True
        try:
            while self._queue:
                self._step(self._queue.popleft())
        finally:
            self._busy = False

    def _step(self, inputs: tuple[n.AnyInput, ...]) -> None:
        now = self._loop.time()
        try:
            outputs = self._life.handle(inputs, now)
            if self._recorder.on:
                self._recorder.write(recording.line(inputs, now, outputs))
            for output in outputs:
                self._carry_out(output)
        except Exception as error:  # noqa: BLE001 - whatever it is
            self._defect(error)

    def _defect(self, error: BaseException) -> None:
        """A defect in the agent must not leave processes behind: say what it was, end all, leave. If not even that
        works, our ranks die with us, and the controller ends the rest."""
        if not self._failed:
            self._failed = True
            self._queue.append((n.StopAsked(repr(error)),))
        else:
            self._leave(error=error)

    def _carry_out(self, output: n.AnyOutput) -> None:  # noqa: C901, PLR0912 - a table: a case for each output
        match output:
            case n.Tell():
                self._tell(output)
            case n.Connect() if self._dials:
                self._dial()
            case n.Say():
                with contextlib.suppress(OSError):  # nobody may read it any more
                    sys.stderr.write(f"agent {self._home.node}: {output.text}\n")
            case n.WriteToken():
                self._write_token(output)
            case n.Spawn():
                self._start(output)
            case n.StartHelper():
                self._start_helper(output)
            case n.Kill():
                processes.end(output.pids, patient=output.patient)
            case n.SignalGroup():
                with contextlib.suppress(OSError):  # it has ended, or there is no such signal
                    os.killpg(output.pid, output.number)
            case n.SayToRank():
                self._say_to_rank(output)
            case n.SayToSession():
                if (session := self._sessions.get(output.session)) is not None:
                    session.write(output.data)
            case n.CloseSession():
                if (session := self._sessions.pop(output.session, None)) is not None:
                    session.close()
                    self._loop.call_soon(self._happened, n.SessionClosed(output.session))
            case n.Scan():
                self._scan(output)
            case n.ClearFiles():
                for path in map(Path, output.paths):
                    try:
                        path.unlink()
                    except IsADirectoryError:
                        shm.remove(path)
                    except OSError:
                        pass
            case n.SetTimer():
                self._set_timer(output)
            case n.CancelTimer():
                self._cancel(output.key)
            case n.Leave():
                self._leave(orphaned=output.orphaned)

    def _tell(self, output: n.Tell) -> None:
        if self._link is not None:
            message = codec.raw(output.message)
            line = m.From(self._home.node, message, output.number, output.after, output.obeyed)
            self._link.write(codec.encode(line))

    def _scan(self, order: n.Scan) -> None:
        home = self._home
        found = processes.scan(home.run, home.node, order.job, order.keep, order.known)
        self._happened(n.Found(order.key, tuple(found)))

    def _set_timer(self, timer: n.SetTimer) -> None:
        self._cancel(timer.key)
        self._timers[timer.key] = self._loop.call_later(timer.seconds, self._fired, timer.key)

    def _cancel(self, key: str) -> None:
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()

    def _fired(self, key: str) -> None:
        del self._timers[key]
        self._happened(n.TimerFired(key))

    def _stand(self, link: socket.socket) -> None:
        """The link is this one now."""
        if self._link is not None:
            self._link.close()
        self._link = Connection(self._loop, link, lambda data: self._happened(n.LinkSaid(data)), self._cut)

    def _cut(self, _why: str) -> None:
        self._happened(n.LinkLost())
        if self._home.orphan_grace and not self._dials:
            self._happened(n.StopAsked("its node's part of the launch tree has ended"))

    def _dial(self) -> None:
        """Make a link to the controller; where there is none, try again soon."""
        runtime, link = Path(self._home.runtime), socket.socket(socket.AF_UNIX)
        try:
            link.setblocking(False)
            link.connect(str(runtime / AGENTS))
            if peer(link)[1] == self._home.uid:
                secret = (runtime / SECRET).read_bytes()
                self._stand(link)
                if self._link is not None:
                    self._link.write(secret + b"\n")
                self._happened(n.LinkMade())
                return
        except OSError:
            pass
        link.close()
        self._loop.call_later(DIAL_S, self._dial)

    # ---- ranks ---------------------------------------------------------------------------------------

    def _write_token(self, order: n.WriteToken) -> None:
        try:
            write_secret(Path(order.path), order.token)
        except FileExistsError:
            # Its ranks have ended with the agent that started them, or are about to.
            why = "it was started here before, by an agent that is gone"
            self._happened(n.NotSpawned(order.job, order.group, why, CANNOT))
        except OSError as error:
            why = place_problem(error, order.path)
            self._happened(n.NotSpawned(order.job, order.group, why, UNPREPARED))
        else:
            self._happened(n.TokenWritten(order.job, order.group))

    def _start(self, order: n.Spawn) -> None:
        env = _environment(order)
        try:
            ours, theirs = socket.socketpair() if order.connect else (None, None)
            streams = Streams(order.output, order.errors, order.stdin)
            try:
                pid = forked = self._fork(order, env, streams, theirs)
                if not forked:
                    pid = self._starter.start(order.argv, env, order.cwd, streams, theirs)
            except (OSError, StartError):
                if ours is not None:
                    ours.close()
                raise
            finally:
                if theirs is not None:
                    theirs.close()
        except (OSError, StartError) as error:
            code = error.code if isinstance(error, StartError) else CANNOT
            self._happened(n.NotSpawned(order.job, order.group, str(error), code))
            return
        if ours is not None:
            rank = (order.job, order.group, order.rank)
            ours.setblocking(False)
            self._connections[rank] = ours
            self._loop.add_reader(ours, self._read_rank, rank, ours)
        self._happened(n.Spawned(order.job, order.group, order.rank, pid, forked > 0))

    def _fork(self, order: n.Spawn, env: dict[str, str], streams: Streams, pmi: socket.socket | None) -> int:
        """Have the order's helper start the rank; its pid, 0 if it did not."""
        if (warm := self._warm.get(order.helper)) is None:
            return 0
        from pliant.launch.warming import NotWarm

        try:
            return warm.start(order.argv, env, order.cwd, streams, pmi)
        except NotWarm as error:
            if error.broken:
                processes.kill(warm.pid)
            return 0

    def _start_helper(self, order: n.StartHelper) -> None:
        from pliant.launch.warming import WarmProcess  # slow to load, and most agents need none

        try:
            warm = WarmProcess(self._starter, order, _environment(order))
        except (OSError, StartError):
            self._happened(n.HelperFailed(order.name))
            return
        self._warm[warm.pid] = warm
        self._loop.add_reader(warm.orders, self._read_helper, warm)
        self._happened(n.HelperStarted(warm.pid, order.name))

    def _read_helper(self, warm: WarmProcess) -> None:
        """It is ready, or has gone."""
        try:
            said = warm.orders.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            said = b""
        if said:
            self._happened(n.HelperReady(warm.pid))
            return
        self._loop.remove_reader(warm.orders)
        warm.close()
        del self._warm[warm.pid]

    def _read_rank(self, rank: Rank, connection: socket.socket) -> bool:
        """Take in what has come; whether there may be more."""
        try:
            data = connection.recv(65536)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if data:
            self._happened(n.RankSaid(*rank, data))
            return True
        self._loop.remove_reader(connection)
        if self._connections.get(rank) is connection:
            self._stop_sending(rank, connection)
        connection.close()
        if self._connections.get(rank) is connection:
            del self._connections[rank]
            self._happened(n.RankClosed(*rank))
        return False

    def _say_to_rank(self, output: n.SayToRank) -> None:
        rank = (output.job, output.group, output.rank)
        if (connection := self._connections.get(rank)) is None:
            return
        if unsent := self._unsent.get(rank):
            unsent += output.data
            return
        self._unsent[rank] = bytearray(output.data)
        self._loop.add_writer(connection, self._send, rank, connection)
        self._send(rank, connection)

    def _send(self, rank: Rank, connection: socket.socket) -> None:
        """What a world of many nodes has put may be more than a socket takes at once."""
        unsent = self._unsent[rank]
        try:
            while unsent:
                del unsent[: connection.send(unsent)]
        except BlockingIOError:
            return
        except OSError:  # a rank that has just died: its exit tells
            pass
        self._stop_sending(rank, connection)

    def _stop_sending(self, rank: Rank, connection: socket.socket) -> None:
        if self._unsent.pop(rank, None) is not None:
            self._loop.remove_writer(connection)

    def _reap(self) -> None:
        """Collect every ended child: ranks, helpers, and orphans that were adopted."""
        ended: list[n.AnyInput] = []
        with contextlib.suppress(ChildProcessError):
            while (child := os.wait4(-1, os.WNOHANG))[0]:
                pid, status, usage = child
                code = os.waitstatus_to_exitcode(status)
                ended.append(n.Exited(pid, code, usage.ru_utime + usage.ru_stime))
        if ended:
            for rank, connection in list(self._connections.items()):
                while self._read_rank(rank, connection):  # what was said before an end is told before it
                    pass
            self._happened(*ended)

    # ---- sessions ------------------------------------------------------------------------------------

    def _connected(self, sock: socket.socket) -> None:
        self._last_session += 1
        number, uid = self._last_session, peer(sock)[1]
        self._sessions[number] = Connection(
            self._loop,
            sock,
            lambda data: self._happened(n.SessionSaid(number, data)),
            partial(self._closed, number),
        )
        self._happened(n.SessionOpened(number, uid))

    def _closed(self, number: int, _why: str) -> None:
        if (session := self._sessions.pop(number, None)) is not None:
            session.close()
        self._happened(n.SessionClosed(number))


def open_door(path: str) -> socket.socket:
    """Where the sessions of a node's jobs call; OSError if it cannot be there."""
    door = socket.socket(socket.AF_UNIX)
    try:
        if Path(path).is_socket():
            Path(path).unlink()  # of an agent that was killed
        door.bind(path)
        door.listen(BACKLOG)
    except OSError:
        door.close()
        raise
    return door


def _environment(order: n.Spawn | n.StartHelper) -> dict[str, str]:
    """The agent's own, but for what must not reach the process, and what is ordered over and under it."""
    own = {key: value for key, value in os.environ.items() if key and not key.startswith(order.without)}
    return order.defaults | own | order.env


def peer(end: socket.socket) -> tuple[int, int]:
    """The process and the user at the other end of a Unix socket."""
    pid, uid, _ = struct.unpack(
        "3i", end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    )
    return int(pid), int(uid)


def main() -> None:
    import argparse  # not needed where agents are started in another way

    open_standard()
    parser = argparse.ArgumentParser(prog="pliant-agent")
    parser.add_argument("--node", required=True)
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--run", required=True)
    parser.add_argument("--link", type=int, required=True, help="file descriptor of the controller's socket")
    parser.add_argument(
        "--orphan-grace", type=float, default=0.0, help="seconds to go on without a controller"
    )
    parser.add_argument("--runtime", type=Path, required=True)
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is the controller's to handle
    link = socket.socket(fileno=options.link)
    link.set_inheritable(False)
    home = n.Home(
        node=options.node,
        slots=options.slots,
        run=options.run,
        pid=os.getpid(),
        uid=os.getuid(),
        runtime=str(options.runtime),
        socket=str(options.runtime / f"{options.node}.sock"),
        shm=str(shm.directory(options.run, options.node)),
        orphan_grace=options.orphan_grace,
        warm=os.environ.get(SWITCH) != "0",
        programs={"pmix": pmix.command()},
    )
    agent = AgentShell(home, ExecStarter(), recorder.directory())
    agent.serve(link)


if __name__ == "__main__":
    main()
