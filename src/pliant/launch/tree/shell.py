"""The shell around one machine of a launch tree (`live/tree/branch.py`): its links, its timers, and the processes that
start agents. It decides nothing."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

import msgspec

from pliant import recorder
from pliant.launch.connection import Connection, Listener
from pliant.launch.loop import Loop, Timer
from pliant.launch.tree import arriving, links, posting
from pliant.launch.tree.links import TreeLink
from pliant.launch.tree.posting import Posting
from pliant.live.tree import messages as b
from pliant.live.tree import recording
from pliant.live.tree.branch import Branch
from pliant.model import hosts
from pliant.model.deadlines import CONTROLLER_STOPPED_S, LINK_BEAT_S, LINK_SILENCE_S, TREE_END_S, TREE_LATE_S
from pliant.model.errors import ProtocolError
from pliant.protocol import codec
from pliant.protocol.branches import Ended, LinkMessage
from pliant.protocol.messages import From, Heartbeat
from pliant.recorder import Recorder

BACKLOG = 1024
END_LOOK_S = 5e-3
"""How often it is looked whether those below have ended."""
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
        self._server: Listener | None = None
        self._queue: deque[tuple[b.AnyInput, ...]] = deque()
        self._busy = False
        self._links: dict[int, TreeLink] = {}
        self._timers: dict[str, tuple[Timer, Callable[[], None]]] = {}
        self._beating: Timer | None = None
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

    def begin(
        self,
        loop: Loop,
        host: str,
        parent: socket.socket | None = None,
        *,
        port: int = 0,
        resumed: b.Resumed | None = None,
    ) -> str:
        """Listen at ``host``, and take up the link to the parent, if there is one; how this agent is reached. A root
        that begins in place of an earlier one listens at that one's ``port`` and is ``resumed``. OSError if it cannot
        listen there."""
        self._loop = loop
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        server = socket.create_server((host, port), family=family, backlog=BACKLOG)
        contact = hosts.contact(host, server.getsockname()[1])
        self._server = Listener(loop, server, self._answer)
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
            self._stand(seat.parent, Connection(loop, parent, _nobody, _nobody))
            self.happened(b.Linked(seat.parent))
        return contact

    def end(self, done: Callable[[], object]) -> None:
        """Wait for those below to end, then hang up; then it is ``done``. Whoever has not ended by then is told by the
        end of its link, and so is at once whoever has been told nothing: all of them, if this one leaves by itself, and
        those that call now. Agents of an earlier root are told when they call.
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
        self._look_for_end(self._now() + TREE_END_S, late, done)

    def _look_for_end(self, limit: float, late: float, done: Callable[[], object]) -> None:
        """Poll until the processes and connections below have ended: that takes milliseconds."""
        awaited = self._children & self._links.keys() or self._waiting()
        if (awaited or (self._missing and self._now() < late)) and self._now() < limit:
            self._loop.call_later(END_LOOK_S, self._look_for_end, limit, late, done)
            return
        if self._server is not None:
            self._server.close()
        for starter in self._starters.values():
            starter.kill()
        for link in self._links.values():
            link.close()
        done()

    def _waiting(self) -> bool:
        """Whether a starter that lives as long as its agent has not ended."""
        return not self._mine.starting.leaves and any(each.runs for each in self._starters.values())

    def _now(self) -> float:
        return self._loop.time()

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
                self._reach(output)
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
        self._timers[key] = self._loop.call_later(seconds, due), due

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
            self._timers[key] = self._loop.call_at(timer.when() + stopped_s, due), due
        for link in self._links.values():
            link.heard_at = now
        return True

    # ---- links -------------------------------------------------------------------------------------------

    def _answer(self, sock: socket.socket) -> None:
        if self._ends and not self._missing:
            sock.close()
        else:
            links.Greeting(self._loop, sock, self._mine.secret, self._called, self._unknown)

    def _unknown(self, error: Exception) -> None:
        self.strangers += isinstance(error, links.StrangerError)

    def _called(self, connection: Connection, rank: int, heard: bytes) -> None:
        if self._ends:
            if rank in self._missing:
                self._missing.discard(rank)
                connection.write(codec.encode(Ended()))
            connection.close()  # else it is told nothing any more, and ends without its parent
            return
        self._stand(rank, connection, heard)

    def _reach(self, order: b.Reach) -> None:
        def made(sock: socket.socket | None, why: str) -> None:
            if self._ends:
                if sock is not None:
                    sock.close()
            elif sock is None:
                self.happened(b.Cut(order.rank, why))
            else:
                self._stand(order.rank, Connection(self._loop, sock, _nobody, _nobody))
                self.happened(b.Linked(order.rank))

        _call(
            self._loop, order.contact, self._mine.seat.rank, self._mine.secret, made, patient=not order.rank
        )

    def _stand(self, rank: int, connection: Connection, heard: bytes = b"") -> None:
        link = TreeLink(rank, connection, self._now())
        if (before := self._links.get(rank)) is not None:
            before.close()  # made anew by the other end, which has lost it
        self._links[rank] = link
        self.most_links = max(self.most_links, len(self._links))
        connection.heard = partial(self._hear, link)
        connection.ended = partial(self._cut, link)
        if heard:
            self._hear(link, heard)

    def _hear(self, link: TreeLink, data: bytes) -> None:
        link.heard_at = self._now()
        try:
            heard = [self._decoder.decode(line) for line in link.lines.feed(data)]
        except ProtocolError as error:
            self._cut(link, str(error))
            return
        self.happened(*(b.Heard(link.rank, each) for each in heard if not isinstance(each, Heartbeat)))

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
        self._beating = self._loop.call_later(LINK_BEAT_S, self._beat)

    # ---- agents ------------------------------------------------------------------------------------------

    def _start(self, order: b.StartAgent) -> None:
        mine = self._mine
        seat = msgspec.structs.replace(
            mine.seat, rank=order.rank, parent=mine.seat.rank, contact="", place=order.place
        )
        theirs = msgspec.structs.replace(mine, seat=seat, node=order.node)
        self._children.add(order.rank)
        try:
            starter = TreeStarter(
                self._loop,
                theirs,
                lambda: self.happened(b.Begun(order.rank)),
                lambda why: self._ended(order.rank, why),
            )
        except OSError as error:
            self.happened(b.NotStarted(order.rank, str(error)))
            return
        self._starters[order.rank] = starter

    def _ended(self, rank: int, why: str) -> None:
        """What was to start an agent has ended: well, if the agent goes on by itself."""
        if why or not self._mine.starting.leaves:
            self.happened(b.NotStarted(rank, why or "it ended at once"))


async def end(tree: TreeShell) -> None:
    """As :meth:`TreeShell.end`, where the loop is asyncio's."""
    import asyncio  # which agents do not load

    over = asyncio.Event()
    tree.end(over.set)
    await over.wait()


def _nobody(_said: object) -> None:
    """Until the link stands."""


def _call(  # noqa: PLR0913 - whom, as whom, and what then
    loop: Loop,
    contact: str,
    rank: int,
    secret: str,
    made: Callable[[socket.socket | None, str], object],
    *,
    patient: bool,
) -> None:
    """``links.call`` in a thread that nobody waits for at the end of the process: it may take its time. ``made`` gets
    the link, or why there is none."""
    import threading  # seldom needed

    reading, writing = os.pipe()
    result: list[tuple[socket.socket | None, str]] = []

    def call() -> None:
        try:
            result.append((links.call(contact, rank, secret, patient=patient), ""))
        except Exception as error:  # noqa: BLE001 - told to whoever waits
            result.append((None, str(error)))
        os.close(writing)

    def done() -> None:
        loop.remove_reader(reading)
        os.close(reading)
        made(*result[0])

    loop.add_reader(reading, done)
    threading.Thread(target=call, daemon=True).start()


def _environment() -> dict[str, str]:
    """This process' environment, without a variable that has no name: the system starts nothing with one."""
    return {name: value for name, value in os.environ.items() if name}


class TreeStarter:
    """A process that starts an agent. ``began`` is called when it is known that the agent runs on its node, and
    ``ended`` at the end of this process, with what went wrong, or nothing."""

    def __init__(
        self, loop: Loop, theirs: Posting, began: Callable[[], None], ended: Callable[[str], None]
    ) -> None:
        """OSError if it cannot be started."""
        command = theirs.starting.command(theirs.node, theirs.seat.patience_s, theirs.run)
        self._loop = loop
        self._name = command[0] if theirs.starting.by != "fork" else "the agent"
        self._leaves = theirs.starting.leaves
        self._began = began
        self._ended = ended
        self._said = b""
        ours, theirs_end = socket.socketpair()
        self._errors, telling = os.pipe()
        try:
            self._pid = os.posix_spawnp(
                command[0], command, _environment(), setsid=True, setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),
                file_actions=(
                    (os.POSIX_SPAWN_DUP2, theirs_end.fileno(), 0),
                    (os.POSIX_SPAWN_DUP2, theirs_end.fileno(), 1)
                    if theirs.starting.ships
                    else (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                    (os.POSIX_SPAWN_DUP2, telling, 2),
                ),
            )  # fmt: skip
        except BaseException:
            ours.close()
            os.close(self._errors)
            raise
        finally:
            theirs_end.close()
            os.close(telling)
        self.runs = True
        self._asked = b""
        """The end of what was said on standard output."""
        self._is_there = False
        self._given = Connection(loop, ours, self._answer, lambda _why: self._given.close())
        self._given.write(posting.line(theirs))
        if not theirs.starting.ships:
            ours.shutdown(socket.SHUT_WR)
        os.set_blocking(self._errors, False)
        self._watch = os.pidfd_open(self._pid)
        loop.add_reader(self._errors, self._read)
        loop.add_reader(self._watch, self._over)

    def _answer(self, data: bytes) -> None:
        """The first program on the node (`arriving.py`) says that it runs, and asks for code that it does not find. A
        login shell may say more, which is skipped."""
        self._asked = (self._asked + data)[-WORDS:]
        if not self._is_there and arriving.HERE in self._asked:
            self._is_there = True
            self._began()
        if arriving.NEEDED in self._asked:
            from pliant.launch.tree import shipping  # seldom needed

            self._asked = b""
            self._given.write(shipping.message())

    def _read(self) -> None:
        """Keep the last words of its standard error."""
        try:
            data = os.read(self._errors, 65536)
        except BlockingIOError:
            return
        self._said = (self._said + data)[-WORDS:]
        if not data:
            self._loop.remove_reader(self._errors)

    def _over(self) -> None:
        code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        self._read()
        for each in (self._errors, self._watch):
            self._loop.remove_reader(each)
            os.close(each)
        self._given.close()
        self.runs = False
        said = self._said.decode(errors="replace").strip()
        self._ended(f"{self._name} ended with code {code}{': ' if said else ''}{said}" if code else "")

    def kill(self) -> None:
        """With all that helps it, such as a proxy, unless an agent is below it, which cleans up after itself."""
        if self.runs and self._leaves:
            os.killpg(self._pid, signal.SIGKILL)
        elif self.runs:
            os.kill(self._pid, signal.SIGKILL)
