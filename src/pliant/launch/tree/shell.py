"""The shell around one machine of a launch tree (`live/tree/branch.py`): its links, its timers, and the processes that
start agents. It decides nothing."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol

import msgspec

from pliant import recorder
from pliant.launch.tree import links, posting
from pliant.launch.tree.links import TreeLink
from pliant.launch.tree.posting import Posting
from pliant.live.tree import messages as b
from pliant.live.tree import recording
from pliant.live.tree.branch import Branch
from pliant.model.deadlines import CONTROLLER_STOPPED_S, LINK_BEAT_S, LINK_SILENCE_S, TREE_END_S, TREE_LATE_S
from pliant.model.errors import ProtocolError
from pliant.protocol import codec
from pliant.protocol.branches import Ended, LinkMessage
from pliant.protocol.messages import From, Heartbeat
from pliant.recorder import Recorder

WORDS = 2000
"""Of what a starter says, the last bytes are kept."""


class House(Protocol):
    """Who lives at this node: what comes for it, and what becomes of the launch."""

    def deliver(self, message: msgspec.Raw) -> None: ...

    def local(self, envelope: b.Local) -> None: ...

    def arrived(self, envelope: b.Arrived) -> None: ...

    def gathered(self, put: b.Gathered) -> None: ...

    def phase(self, number: int) -> None: ...

    def gone(self, lost: b.Gone) -> None: ...

    def again(self, started: b.Again) -> None: ...

    def adrift(self, *, on: bool) -> None: ...

    def leave(self, why: str) -> None: ...


class TreeShell:
    """One agent's part of the tree, or the controller's. The posting is its own; those of its children follow."""

    def __init__(self, mine: Posting, house: House) -> None:
        self._mine = mine
        self._house = house
        self._decoder: codec.Decoder[LinkMessage] = codec.Decoder(LinkMessage)
        self._branch: Branch | None = None
        self._server: asyncio.Server | None = None
        self._queue: deque[tuple[b.AnyInput, ...]] = deque()
        self._busy = False
        self._links: dict[int, TreeLink] = {}
        self._timers: dict[str, tuple[asyncio.TimerHandle, Callable[[], None]]] = {}
        self._beating: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._starters: dict[int, TreeStarter] = {}
        self._children: set[int] = set()
        self._beaten = 0.0
        self._recorder = Recorder(recorder.directory(), f"tree-{mine.node or 'root'}-{os.getpid()}")
        self._is_over = False
        """The machine has left, and has told those below of it."""
        self._ends = False
        self._missing: set[int] = set()
        """Those of an earlier root that have not called this one, which is over."""
        self.strangers = 0
        """How many have called that do not belong to this launch."""
        self.most_links = 0
        self.stops: list[tuple[float, float]] = []
        """When this very process was stopped for longer than LINK_BEAT_S: seconds since the epoch, from and to, as
        exact as that."""

    async def begin(
        self,
        host: str,
        parent: socket.socket | None = None,
        *,
        port: int = 0,
        resumed: b.Resumed | None = None,
    ) -> str:
        """Listen at ``host``, and take up the link to the parent, if there is one; how this agent is reached. A root
        that begins in place of an earlier one listens at that one's ``port`` and is ``resumed``. OSError if it cannot
        listen there."""
        self._server = await asyncio.start_server(self._answer, host, port, backlog=1024)
        contact = f"{host}:{self._server.sockets[0].getsockname()[1]}"
        seat = msgspec.structs.replace(self._mine.seat, contact=contact)
        self._mine = msgspec.structs.replace(self._mine, seat=seat, parent=contact)
        self._branch = Branch(seat)
        self._recorder.write(recording.head(seat))
        self._beaten = self._now()
        self._beat()
        if resumed is not None:
            self._queue.appendleft((resumed,))  # some may have called
            self.happened()
        if parent is not None:
            reader, writer = await asyncio.open_connection(sock=parent)
            self._stand(TreeLink(seat.parent, reader, writer, self._now()))
            self.happened(b.Linked(seat.parent))
        return contact

    async def end(self) -> None:
        """Wait for those below to end, then hang up. Whoever has not ended by then is told by the end of its link, and
        so is at once whoever has been told nothing: all of them, if this one leaves by itself, and those that call
        now. They find a server: that of asyncio, once closed, may keep a connection and answer nothing. Agents of an
        earlier root are told when they call.
        """
        self._ends, late = True, self._now() + TREE_LATE_S
        if not self._is_over:
            self._leave_alone()
        told = self._branch.links if self._is_over and self._branch is not None else set[int]()
        for rank in self._links.keys() - told:
            self._links.pop(rank).close()
        for timer, _ in self._timers.values():
            timer.cancel()
        if self._beating is not None:
            self._beating.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TREE_END_S):
                while (  # noqa: ASYNC110 - see below
                    self._children & self._links.keys()
                    or self._waiting()
                    or (self._missing and self._now() < late)
                ):
                    # What ends here are processes and connections: that is polled, a matter of milliseconds.
                    await asyncio.sleep(0.005)
        if self._server is not None:
            self._server.close()
        for starter in self._starters.values():
            starter.kill()
        for link in self._links.values():
            link.close()
        for task in self._tasks:
            task.cancel()

    def _waiting(self) -> bool:
        """Whether a starter that lives as long as its agent has not ended."""
        return not self._mine.starting.leaves and any(each.runs for each in self._starters.values())

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    # ---- the machine -------------------------------------------------------------------------------------

    def happened(self, *inputs: b.AnyInput) -> None:
        """Tell the machine, and do what it asks. What follows from that is told when all of it is done."""
        self._queue.append(inputs)
        if self._busy or self._branch is None:
            return
        self._busy = True
        try:
            while self._queue:
                inputs = self._queue.popleft()
                outputs = self._branch.handle(inputs)
                if self._recorder.on:
                    self._recorder.write(recording.line(inputs, outputs))
                for output in outputs:
                    self._carry_out(output)
        finally:
            self._busy = False

    def _carry_out(self, output: b.AnyOutput) -> None:  # noqa: C901, PLR0912 - a table: a case for each output
        match output:
            case b.StartAgent():
                self._start(output)
            case b.Tell():
                self._say(output)
            case b.Reach():
                self._spawn(self._reach(output))
            case b.Close():
                self._close(output.rank)
            case b.SetTimer():
                self.wait(output.key, output.seconds, partial(self.happened, b.Due(output.key)))
            case b.CancelTimer():
                self.forget(output.key)
            case b.Deliver():
                self._house.deliver(output.message)
            case b.Local():
                self._house.local(output)
            case b.Arrived():
                self._house.arrived(output)
            case b.Gathered():
                self._house.gathered(output)
            case b.Phase():
                self._house.phase(output.number)
            case b.Gone():
                self._house.gone(output)
            case b.Again():
                self._house.again(output)
            case b.Adrift():
                self._house.adrift(on=output.on)
            case b.Leave():
                self._is_over = True
                if output.alone:
                    self._leave_alone()
                elif self._branch is not None:
                    self._children |= self._branch.children  # also those that others have started
                    self._missing = self._branch.missing
                self._house.leave(output.why)

    def _leave_alone(self) -> None:
        """Those below go on without this one, which does not wait for them."""
        self._children.clear()
        self._starters.clear()

    def _say(self, order: b.Tell) -> None:
        """What is repeated until it has come is not kept for a parent that does not read."""
        link = self._links.get(order.rank)
        if link is not None and not (
            isinstance(order.message, From) and self._mine.seat.survive and link.is_full
        ):
            link.tell(order.message)

    def wait(self, key: str, seconds: float, call: Callable[[], None]) -> None:
        """``call`` after so long, for what others have not done by then: the time for which this very process was
        stopped does not count."""

        def due() -> None:
            if not self._was_stopped():  # else it waits on
                del self._timers[key]
                call()

        self.forget(key)
        self._timers[key] = asyncio.get_running_loop().call_later(seconds, due), due

    def forget(self, key: str) -> None:
        """Do not wait for it any more."""
        if key in self._timers:
            timer, _ = self._timers.pop(key)
            timer.cancel()

    def _was_stopped(self) -> bool:
        """Whether this very process has just been stopped, as its heart should have beaten long before. Then nobody
        was silent, and all waits begin where they were."""
        now = self._now()
        stopped_s = now - self._beaten - LINK_BEAT_S
        if stopped_s < LINK_BEAT_S:
            return False
        self._beaten = now
        self.stops.append((time.time() - stopped_s, time.time()))
        for key, (timer, due) in list(self._timers.items()):
            timer.cancel()
            self._timers[key] = asyncio.get_running_loop().call_at(timer.when() + stopped_s, due), due
        for link in self._links.values():
            link.heard_at = now
        return True

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ---- links -------------------------------------------------------------------------------------------

    def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._ends and not self._missing:
            writer.close()
        else:
            self._spawn(self._called(reader, writer))

    async def _called(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            rank = await links.accept(reader, writer, self._mine.secret)
        except (links.StrangerError, OSError, ValueError) as error:
            self.strangers += isinstance(error, links.StrangerError)
            writer.close()
            return
        if self._ends:
            if rank in self._missing:
                self._missing.discard(rank)
                writer.write(codec.encode(Ended()))
            writer.close()  # else it is told nothing any more, and ends without its parent
            return
        self._stand(TreeLink(rank, reader, writer, self._now()))

    async def _reach(self, order: b.Reach) -> None:
        seat = self._mine.seat
        try:
            sock = await _called(order.contact, seat.rank, self._mine.secret, patient=not order.rank)
        except (links.StrangerError, OSError) as error:
            self.happened(b.Cut(order.rank, str(error)))
            return
        reader, writer = await asyncio.open_connection(sock=sock)
        self._stand(TreeLink(order.rank, reader, writer, self._now()))
        self.happened(b.Linked(order.rank))

    def _stand(self, link: TreeLink) -> None:
        if (before := self._links.get(link.rank)) is not None:
            before.close()  # made anew by the other end, which has lost it
        self._links[link.rank] = link
        self.most_links = max(self.most_links, len(self._links))
        self._spawn(self._listen(link))

    async def _listen(self, link: TreeLink) -> None:
        why = "the connection was closed"
        try:
            while data := await link.reader.read(1 << 18):
                link.heard_at = self._now()
                heard = [self._decoder.decode(line) for line in link.lines.feed(data)]
                self.happened(
                    *(b.Heard(link.rank, each) for each in heard if not isinstance(each, Heartbeat))
                )
        except (OSError, ProtocolError) as error:
            why = str(error)
        self._cut(link, why)

    def _cut(self, link: TreeLink, why: str) -> None:
        link.close()
        if self._links.get(link.rank) is link:
            del self._links[link.rank]
            self.happened(b.Cut(link.rank, why))

    def _close(self, rank: int) -> None:
        if (link := self._links.pop(rank, None)) is not None:
            link.close()
        elif (starter := self._starters.pop(rank, None)) is not None:
            starter.kill()

    def _beat(self) -> None:
        """Say that the links stand, and see whether the others do."""
        self._was_stopped()
        now = self._beaten = self._now()
        for link in list(self._links.values()):
            link.tell(Heartbeat())
            silent_s = now - link.heard_at
            # The controller alone may be stopped by who has called it.
            may_be_stopped = not link.rank and link.answers(LINK_SILENCE_S)
            patience_s = CONTROLLER_STOPPED_S if may_be_stopped else LINK_SILENCE_S
            if silent_s > patience_s:
                self._cut(link, f"nothing was heard of it for {patience_s:g} s")
        self._beating = asyncio.get_running_loop().call_later(LINK_BEAT_S, self._beat)

    # ---- agents ------------------------------------------------------------------------------------------

    def _start(self, order: b.StartAgent) -> None:
        mine = self._mine
        seat = msgspec.structs.replace(
            mine.seat, rank=order.rank, parent=mine.seat.rank, contact="", place=order.place
        )
        theirs = msgspec.structs.replace(mine, seat=seat, node=order.node)
        self._children.add(order.rank)
        try:
            starter = TreeStarter(theirs, lambda why: self._ended(order.rank, why))
        except OSError as error:
            self.happened(b.NotStarted(order.rank, str(error)))
            return
        self._starters[order.rank] = starter

    def _ended(self, rank: int, why: str) -> None:
        """What was to start an agent has ended: well, if the agent goes on by itself."""
        if why or not self._mine.starting.leaves:
            self.happened(b.NotStarted(rank, why or "it ended at once"))


async def _called(contact: str, rank: int, secret: str, *, patient: bool) -> socket.socket:
    """``links.call`` in a thread that nobody waits for at the end of the process: it may take its time."""
    loop = asyncio.get_running_loop()
    made: asyncio.Future[socket.socket] = loop.create_future()

    def done(link: socket.socket | None, error: Exception | None) -> None:
        if made.cancelled():
            if link is not None:
                link.close()
        elif link is not None:
            made.set_result(link)
        elif error is not None:
            made.set_exception(error)

    def call() -> None:
        result: tuple[socket.socket | None, Exception | None]
        try:
            result = links.call(contact, rank, secret, patient=patient), None
        except Exception as error:  # noqa: BLE001 - told to whoever waits
            result = None, error
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(done, *result)

    threading.Thread(target=call, daemon=True).start()
    return await made


class TreeStarter:
    """A process that starts an agent. ``ended`` is called at its end with what went wrong, or nothing."""

    def __init__(self, theirs: Posting, ended: Callable[[str], None]) -> None:
        command = theirs.starting.command(theirs.node, theirs.seat.patience_s)
        self._name = command[0] if theirs.starting.by != "fork" else "the agent"
        self._ended = ended
        self._said = b""
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pipesize=posting.LONGEST,
        )
        self.runs = True
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        assert self._process.stderr is not None  # noqa: S101 - as above
        with contextlib.suppress(BrokenPipeError):  # then it has ended, and says why
            self._process.stdin.write(posting.line(theirs))
            self._process.stdin.close()
        self._errors = self._process.stderr.fileno()
        os.set_blocking(self._errors, False)
        self._watch = os.pidfd_open(self._process.pid)
        loop = asyncio.get_running_loop()
        loop.add_reader(self._errors, self._read)
        loop.add_reader(self._watch, self._over)

    def _read(self) -> None:
        try:
            data = os.read(self._errors, 65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._said = (self._said + data)[-WORDS:]
        if not data:
            asyncio.get_running_loop().remove_reader(self._errors)

    def _over(self) -> None:
        loop = asyncio.get_running_loop()
        code = self._process.wait()
        self._read()
        loop.remove_reader(self._errors)
        loop.remove_reader(self._watch)
        os.close(self._watch)
        if self._process.stderr is not None:
            self._process.stderr.close()
        self.runs = False
        said = self._said.decode(errors="replace").strip()
        self._ended(f"{self._name} ended with code {code}{': ' if said else ''}{said}" if code else "")

    def kill(self) -> None:
        if self.runs:
            self._process.kill()
