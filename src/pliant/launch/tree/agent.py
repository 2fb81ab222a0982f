"""The process of one node of a launch tree: its part of the tree, and what the node's agent says and is told."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from pliant import recorder
from pliant.launch import pmix, processes, shm
from pliant.launch.agent import AgentShell, open_door
from pliant.launch.connection import CLOSED, Connection
from pliant.launch.loop import EventLoop, Timer
from pliant.launch.starter import ExecStarter, place_problem
from pliant.launch.tree.pipes import Pipes, Spill
from pliant.launch.tree.posting import Posting, code_folder
from pliant.launch.tree.shell import TreeShell
from pliant.live.fleet.channel import ROOM, at_node, is_next
from pliant.live.node.life import UNPREPARED
from pliant.live.node.messages import Home
from pliant.live.tree import messages as b
from pliant.live.tree.part import JOB, start_of
from pliant.model.deadlines import (
    AGENT_EXIT_S,
    AGENT_GRACE_S,
    AGENT_SILENCE_S,
    AGENT_STOP_S,
    CHANNEL_AGAIN_S,
    TREE_DEPART_S,
)
from pliant.model.errors import PliantError, ProtocolError
from pliant.protocol import codec
from pliant.protocol import launching as t
from pliant.protocol import messages as m

GIVEN_BACK = "it was given back"
BURIALS = 20
YOUNG_S = 10.0
"""A directory so young may belong to an agent that does not listen yet."""


END_LOOK_S = 5e-3
"""How often it is looked whether the node's agent has ended."""
SOCKET = "agent.sock"


class _Tagged(msgspec.Struct):
    type: str


def _temporary() -> Path:
    """Where temporary files go: the environment may have been that of another machine. As ``tempfile`` has it, which
    is slow to load."""
    named = os.environ.get("TMPDIR", "")
    return Path(named if os.access(named, os.W_OK | os.X_OK) else "/tmp").absolute()


def runtime(posting: Posting) -> Path:
    """The launch's directory on this node: pipes, sockets, tokens."""
    return _temporary() / f"pliant-{os.getuid()}-{posting.run}" / posting.node


def move_in(posting: Posting) -> socket.socket:
    """The door of the node's agent, in a directory that is made for it; PliantError if it cannot be there."""
    folder = runtime(posting)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return open_door(str(folder / SOCKET))
    except OSError as error:
        shm.remove(folder)
        raise PliantError(f"{posting.node}: {place_problem(error, folder / SOCKET)}") from error


def move_out(posting: Posting) -> None:
    """Leave no code of an agent that does not begin, unless another one is there that was started in its place."""
    if not runtime(posting).exists():
        shm.remove(_code(posting))
        _leave_no_folder(posting)


def _pipes(posting: Posting) -> Path:
    folder = runtime(posting)
    return folder.with_name(f"{folder.name}.io")


def _code(posting: Posting) -> Path:
    """The folder of the agent's own code, where that was sent."""
    folder = runtime(posting)
    return folder.with_name(Path(code_folder(posting.run, posting.node)).name)


def _leave_no_folder(posting: Posting) -> None:
    with suppress(OSError):
        runtime(posting).parent.rmdir()  # the last one out succeeds


def sweep_dead(posting: Posting) -> None:
    """Remove what earlier agents of this node have left that were killed with all that they had started, as by Slurm on
    a node that it takes out of a job: nobody could do that then. Nobody listens at their sockets."""
    node = posting.node
    for of_run in _temporary().glob(f"pliant-{os.getuid()}-*"):
        run, folder = of_run.name.rpartition("-")[2], of_run / node
        if (
            run != posting.run
            and of_run.lstat().st_uid == os.getuid()
            and folder.is_dir()
            and _is_dead(folder)
        ):
            shm.sweep(folder, run, node)
            shm.remove(folder)
            for kind in ("io", "code"):
                shm.remove(folder.with_name(f"{node}.{kind}"))
            with suppress(OSError):
                of_run.rmdir()  # the last one out succeeds


def _is_dead(folder: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as link:
        link.setblocking(False)
        try:
            link.connect(str(folder / SOCKET))
        except ConnectionRefusedError:
            return True
        except FileNotFoundError:
            with suppress(OSError):
                return time.time() - folder.stat().st_mtime > YOUNG_S
        except OSError:
            pass  # it may only be busy
    return False


def home(posting: Posting) -> Home:
    folder = runtime(posting)
    return Home(
        node=posting.node,
        slots=posting.slots,
        run=posting.run,
        pid=os.getpid(),
        uid=os.getuid(),
        runtime=str(folder),
        socket=str(folder / SOCKET),  # short: it may have 107 letters in all
        shm=str(shm.directory(posting.run, posting.node)),
        orphan_grace=posting.seat.grace_s,
        warm=posting.warm,
        programs={"pmix": pmix.command()},
        base=posting.seat.rank * ROOM,
    )


def serve_node(posting: Posting, link: socket.socket, door: socket.socket, tree: int) -> None:
    """Be the node's agent, over ``link`` to process ``tree``, until it is told to go or the link ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    AgentShell(home(posting), ExecStarter(), recorder.directory(), dials=False).serve(link, door)
    if os.getppid() != tree:  # it was killed, and what it had made is left to us
        for folder in (_pipes(posting), runtime(posting), _code(posting)):
            shm.remove(folder)
    _leave_no_folder(posting)


class NodeHouse:
    """Between the tree and the node's agent, process ``pid`` at the other end of ``link``."""

    def __init__(self, posting: Posting, pid: int, link: socket.socket) -> None:
        self._posting = posting
        self._number = posting.seat.number
        """The number of the group that is launched here."""
        self._pid = pid
        self._loop = EventLoop()
        self._tree = TreeShell(posting, self)
        self._is_leaving = self._has_hung_up = self._has_gone = False
        self._link = Connection(self._loop, link, self._listen, self._hung_up)
        self._lines, self._envelopes = codec.Lines(codec.MAX_LINE + codec.WRAPPING), codec.from_nodes()
        self._silence: Timer | None = None
        self._stopping: Timer | None = None
        """For the node's agent to end, when it has been told to."""
        self._pipes: dict[int, Pipes] = {}
        """By group, of those that are started here."""
        self._spill = Spill()
        self._running = 0
        """Processes of a launched world here that may come to a fence."""
        self._channel = at_node(posting.node, posting.seat.rank)
        self._owes = False
        """Whether the controller is to be told what has come of it."""
        self._taken = posting.seat.rank * ROOM
        """Up to this number the node's agent has been heard, in a launch."""
        self._began = time.time()
        self._phases: dict[int, float] = {}
        self._for_all: codec.Decoder[t.ForAll] = codec.Decoder(t.ForAll)
        self._inputs: codec.Decoder[t.Input] = codec.Decoder(t.Input)
        self._tags: codec.Decoder[_Tagged] = codec.Decoder(_Tagged)
        self._again: Timer | None = None
        self._has_ended = False
        self._why = "the node's agent has ended"
        """Why the node leaves the tree when that has happened."""

    def serve(self, host: str, parent: socket.socket) -> None:
        """Until the node has left the tree, and nothing of it is left."""
        for number in (signal.SIGTERM, signal.SIGHUP):
            self._loop.add_signal_handler(number, self.leave, "it was told to end")
        processes.adopt_orphans()
        self._tree.begin(self._loop, host, parent)
        self._listen(b"")
        self._repeat()
        with suppress(OSError):
            sweep_dead(self._posting)
        self._loop.run()

    def leave(self, why: str) -> None:
        """Have the node's agent end, then go."""
        del why  # who has to know it knows it
        if self._is_leaving:
            return
        self._is_leaving = True
        if self._again is not None:
            self._again.cancel()
        self._write(m.To((self._posting.node,), codec.raw(m.Shutdown())))
        if self._has_ended:
            self._loop.call_soon(self._go)
        else:
            self._stopping = self._loop.call_later(AGENT_STOP_S + AGENT_EXIT_S, self._go)

    def _go(self) -> None:
        """End and remove all that the node's agent has left, then leave the tree."""
        if self._has_gone:
            return
        self._has_gone = self._has_hung_up = True
        for timer in (self._silence, self._stopping):
            if timer is not None:
                timer.cancel()
        if not self._has_ended:
            self._bury()
        for pipes in reversed(self._pipes.values()):
            pipes.close()
        self._spill.close()
        shm.remove(
            runtime(self._posting)
        )  # who ends without a controller leaves tokens, for which nobody will ask
        shm.remove(_code(self._posting))
        _leave_no_folder(self._posting)
        self._tree.end(self._loop.stop)

    def _look_for_end(self, until: float) -> None:
        """The node's agent has hung up, and is about to end. In good order it has seen that nothing is left here."""
        if self._has_ended:
            return
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if not pid and self._loop.time() < until:
            self._loop.call_later(END_LOOK_S, self._look_for_end, until)
            return
        self._has_ended = bool(pid)
        if not pid or status:
            self._bury()
        if self._is_leaving:
            self._go()
            return
        self._loop.call_later(TREE_DEPART_S, self.leave, self._why)
        self._tree.happened(b.Depart(self._why))

    def _bury(self) -> None:
        """End what the node's agent has left, if it did not end in time or was killed."""
        self._kill()
        with suppress(ChildProcessError):
            os.waitpid(self._pid, 0)
        self._has_ended = True
        for _ in range(BURIALS):
            found = processes.find(self._posting.run, node=self._posting.node)
            if not found:
                break
            processes.end(found, patient=False)
            time.sleep(0.01)  # nothing else is left to do here
        shm.sweep(runtime(self._posting), self._posting.run, self._posting.node)
        shm.remove(runtime(self._posting))

    def _kill(self) -> None:
        if not self._has_ended:
            processes.kill(self._pid)

    # ---- the node's agent ----------------------------------------------------------------------------------

    def _listen(self, data: bytes) -> None:
        if self._silence is not None:
            self._silence.cancel()
        self._silence = self._loop.call_later(AGENT_SILENCE_S, self._is_silent)
        try:
            for line in self._lines.feed(data):
                self._hears(self._envelopes.decode(line))
        except ProtocolError as error:
            self._hung_up(str(error))

    def _is_silent(self) -> None:
        """This process may have been stopped itself: then there is something to be read now."""
        why = f"silent for {AGENT_SILENCE_S + AGENT_GRACE_S:g} s"
        self._silence = self._loop.call_later(AGENT_GRACE_S, self._hung_up, why)

    def _hung_up(self, why: str) -> None:
        """Nothing will be heard of the node's agent any more."""
        if self._has_hung_up:
            return
        self._has_hung_up = True
        if self._silence is not None:
            self._silence.cancel()
        if why != CLOSED:
            self._why = f"the node's agent: {why}"
        self._look_for_end(self._loop.time() + AGENT_EXIT_S)

    def _give_back(self) -> None:
        """The agent is told to go: then this leaves the tree."""
        self._why = GIVEN_BACK
        self._loop.call_later(AGENT_STOP_S, self._kill)

    def _hears(self, envelope: m.From) -> None:
        """Of the node's agent. What concerns a launch is answered here: the channel to the controller has more ends."""
        kind = self._tags.decode(envelope.message).type
        if kind == "heartbeat":
            return  # the tree has its own
        if self._posting.relays:
            self._tree.happened(b.Say(envelope))
            return
        is_new = kind != "heard"
        if envelope.number:
            is_new = is_next(envelope.number, envelope.after, self._taken)
            self._taken = max(self._taken, envelope.number)
            self._order(codec.raw(m.Ack(self._taken, self._taken)))
        if is_new:
            self._said(envelope.message)

    def _said(self, message: msgspec.Raw) -> None:
        match self._tags.decode(message).type:
            case "started":
                self._phases.setdefault(3, time.time())
            case "fence" if self._running:
                put = msgspec.json.decode(message, type=m.Fence)
                if put.group == self._number:
                    self._tree.happened(b.Put(put.round, put.group, put.entries, put.more))
                    return
            case "startfailed":
                if msgspec.json.decode(message, type=m.StartFailed).group == self._number:
                    self._ended_here(self._running)
            case "exited":
                end = msgspec.json.decode(message, type=m.Exited)
                if (pipes := self._pipes.get(end.group)) is not None:
                    pipes.ended(end.rank)
                if end.group == self._number:
                    self._ended_here(1)
                self._spill.put(0, message)  # behind what it has written
                self._pour()
                return
        self._tell(message)

    def _ended_here(self, count: int) -> None:
        """So many processes of a launched world: without any nobody waits for this node at a fence."""
        if self._running:
            self._running -= count
            if not self._running:
                self._tree.happened(b.Absent())

    def _tell(self, message: msgspec.Raw, size: int = 0) -> None:
        self._tree.happened(b.Say(self._channel.tell(message, size)))

    # ---- output --------------------------------------------------------------------------------------------

    def _read(self, total: int) -> None:
        self._tell(codec.raw(t.Read(total)))

    def _put(self, output: t.Output) -> None:
        self._spill.put(len(output.data), codec.raw(output))
        self._pour()

    def _pour(self) -> None:
        """Send what there is room for."""
        while self._spill and (self._channel.room > 0 or not self._spill.peek()):
            size = self._spill.peek()
            self._tell(msgspec.Raw(self._spill.get()), size)
        for pipes in self._pipes.values():
            pipes.pause(on=self._spill.is_full)

    def _repeat(self) -> None:
        """What was told and has not come may have been lost with an agent in between."""
        if self._posting.seat.survive:
            if self._again is not None:
                self._tree.happened(*map(b.Say, self._channel.again()))
            self._again = self._loop.call_later(CHANNEL_AGAIN_S, self._repeat)

    # ---- the tree ------------------------------------------------------------------------------------------

    def deliver(self, message: msgspec.Raw) -> None:
        match self._for_all.decode(message):
            case t.Launch() as launch:
                self._launch(launch)
            case t.Tally():
                self._tell(codec.raw(t.Counted(self._began, dict(self._phases), self._tree.most_links)))
            case m.Fenced() as fenced:
                if not fenced.more:
                    self._tree.happened(b.Passed(fenced.round))
                self._order(codec.raw(msgspec.structs.replace(fenced, group=self._number)))
            case m.Signal():
                self._order(message)

    def _launch(self, launch: t.Launch) -> None:
        folder = _pipes(self._posting)
        self._spill.limit = launch.spill
        start = start_of(launch, self._number, f"{folder}/", os.urandom(16).hex())
        is_world = launch.is_world
        if start is None:
            if is_world:
                self._tree.happened(b.Absent())
            return
        self._running = len(start.world.ranks) if is_world else 0
        if not self._begin(start, folder, launch.stdin, self._put):
            self._ended_here(self._running)

    def _begin(self, start: m.StartGroup, folder: Path, stdin: int, put: Callable[[t.Output], None]) -> bool:
        """Have the node's agent start these processes, whose output is put so; whether it could be asked."""
        try:
            self._pipes[start.group] = Pipes(self._loop, folder, start.world.ranks, stdin, put, self._read)
        except OSError as error:
            shm.remove(folder)
            self._tell(codec.raw(m.StartFailed(JOB, start.group, place_problem(error, folder), UNPREPARED)))
            return False
        self._order(codec.raw(start))
        return True

    def _spawn(self, order: t.Start) -> None:
        """Processes of a world that was spawned. Their pipes are in the folder of the others'."""

        def put(output: t.Output) -> None:
            self._put(msgspec.structs.replace(output, rank=order.first + output.rank))

        folder = _pipes(self._posting) / str(order.start.group)
        token = os.urandom(16).hex()
        start = msgspec.structs.replace(order.start, output=f"{folder}/", token=token)
        self._begin(start, folder, -1, put)

    def _order(self, message: msgspec.Raw) -> None:
        self._write(m.To((self._posting.node,), message))

    def _write(self, envelope: m.To) -> None:
        self._link.write(codec.encode(envelope))

    def local(self, envelope: b.Local) -> None:
        number, after, message = envelope.envelope.id, envelope.envelope.after, envelope.envelope.message
        if self._posting.relays:
            if self._tags.decode(message).type == "shutdown":
                self._give_back()
            self._write(envelope.envelope)
            return
        if number and not self._owes:
            self._owes = True
            self._loop.call_soon(self._answer)
        if self._channel.came(number, after, message):
            self._take(message)
        self._pour()

    def _take(self, message: msgspec.Raw) -> None:
        match self._tags.decode(message).type:
            case "input":
                if (pipes := self._pipes.get(self._number)) is not None:
                    pipes.type(self._inputs.decode(message).data)
            case "start":
                self._spawn(msgspec.json.decode(message, type=t.Start))
            case _:
                self._order(message)

    def _answer(self) -> None:
        """Once for all that has come by now."""
        self._owes = False
        self._tree.happened(b.Say(self._channel.answer()))

    def arrived(self, envelope: b.Arrived) -> None:
        """At the controller alone."""

    def gathered(self, put: b.Gathered) -> None:
        """At the controller alone."""

    def gone(self, lost: b.Gone) -> None:
        """At the controller alone."""

    def again(self, started: b.Again) -> None:
        """At the controller alone."""

    def adrift(self, *, on: bool) -> None:
        self._order(codec.raw(m.Adrift(on)))

    def phase(self, number: int) -> None:
        self._phases[number] = time.time()
