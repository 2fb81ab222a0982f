"""A program launched over a tree, in the foreground: the controller's shell of ``pliant launch``."""

from __future__ import annotations

import asyncio
import queue
import secrets
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from pliant.daemon.typed import Typed
from pliant.launch.tree import shell
from pliant.launch.tree.posting import Posting, Starting
from pliant.launch.tree.shell import TreeShell
from pliant.live.fleet.channel import at_controller
from pliant.live.tree import messages as b
from pliant.live.tree.launching import ForAll, ForOne, Launching, Note, Output, Print
from pliant.model.deadlines import AGENT_START_S, CHANNEL_AGAIN_S, LAUNCH_START_S
from pliant.plan import tree
from pliant.protocol import codec
from pliant.protocol import launching as t

COUNT_S = 5.0
LAST_S = 2.0
"""How long whoever reads our output may take for the rest of it, when the launch was ended."""
TIMED_OUT, INTERRUPTED = 124, 128
"""Exit codes, as of timeout and of a shell."""


def unwritten(error: OSError) -> str:
    return f"its output cannot be written: {error.strerror}"


def unwritten_code(error: OSError) -> int:
    """As of whoever is ended by its reader's leaving, which is no failure of its own, or 1."""
    return INTERRUPTED + signal.SIGPIPE if isinstance(error, BrokenPipeError) else 1


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is launched: ``launch`` on ``nodes``, over agents that are started so. ``listen`` is the controller's
    address; ``interface`` which of theirs the agents are reached at, if it is not the one that faces their parent."""

    nodes: tuple[str, ...]
    launch: t.Launch
    listen: str
    starting: Starting = Starting()
    interface: str = ""
    spawning: str = "32"
    routing: str = "32"
    window: int = b.WINDOW
    survive: bool = False
    patience_s: float = AGENT_START_S
    timeout_s: float = 0.0


class LaunchOutcome(msgspec.Struct, frozen=True):
    """How it went: an exit ``code``, ``why`` if that is not 0, and ``is_whole`` if the program ran to its end, well or
    not. ``phases``: seconds from the start until all agents had called, all knew how all others are reached, every
    process was started, the last fence of their world was passed, all had ended, and everything was cleaned up.
    ``ended`` is by process: node, exit code, seconds of processor time."""

    code: int
    why: str
    is_whole: bool
    phases: dict[str, float]
    connections_max: int
    depth: int
    ended: dict[int, tuple[str, int, float]]
    lost: dict[str, str]
    counted: dict[str, t.Counted]
    began: float
    strangers: int
    stops: tuple[tuple[float, float], ...]
    """From and to when this very process was stopped, as by Ctrl-Z: seconds since the epoch. ``phases`` have it too."""
    cpu_s: float
    """What the controller itself has taken of its processor."""


class Launcher:
    """One launch. ``write`` gets what processes write, in a thread of its own, and may take its time; ``note`` gets
    lines for people; ``reached`` is told on how many nodes the program has started, and when cleaning up begins."""

    def __init__(
        self,
        plan: Plan,
        write: Callable[[str, t.Output], object],
        note: Callable[[str], object],
        reached: Callable[[str, int], object] = lambda _phase, _nodes: None,
    ) -> None:
        self._plan = plan
        self._write = write
        self._note = note
        self._reached = reached
        self._loop = asyncio.get_running_loop()
        secret, run = secrets.token_hex(32), secrets.token_hex(4)
        seat = b.Seat(
            0, "", -1, plan.spawning, plan.routing, plan.window, plan.survive, plan.patience_s
        )  # fmt: skip
        posting = Posting(seat, "", run, secret, "", plan.starting, listen=plan.interface)
        self._tree = TreeShell(posting, self)
        self._launching = Launching(plan.launch, plan.nodes)
        self._channels = {node: at_controller(node, rank) for rank, node in enumerate(plan.nodes, 1)}
        self._told: set[str] = set()
        """Nodes that were told something alone."""
        self._owed: set[str] = set()
        """Nodes that are to be told what has come of them."""
        self._left: asyncio.Future[str] = self._loop.create_future()
        self._printing: queue.SimpleQueue[Print | None] = queue.SimpleQueue()
        self._printed: asyncio.Future[None] = self._loop.create_future()
        """Done when everything is written, or nobody waits for that any more."""
        self._unwritable = ""
        """Why output could not be written."""
        self._began, self._cpu_s = time.time(), time.process_time()
        self._phases: dict[str, float] = {}
        self._fences = 0
        self._code = 0
        self._interrupts = 0
        self._passed_on = ""
        """What the program was told by whoever has called this."""
        self._reader = self._launching.node_of(plan.launch.stdin)
        """The node of the process that reads our input."""
        self._typed = Typed(self._type)
        self._counting: asyncio.TimerHandle | None = None
        self._lost: dict[str, str] = {}
        self._timers: list[asyncio.TimerHandle] = []
        self._repeating: asyncio.TimerHandle | None = None

    async def run(self) -> LaunchOutcome:
        """Launch, wait for the end, clean up; everything has a deadline but the program itself."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._loop.add_signal_handler(number, self._interrupted, number)
        threading.Thread(target=self._print, name="output", daemon=True).start()
        self._tree.begin(self._loop, self._plan.listen)
        if self._plan.timeout_s:
            self._timers.append(self._loop.call_later(self._plan.timeout_s, self._timed_out))
        if self._plan.survive:
            self._repeat()
        self._tree.happened(b.Opened(self._plan.nodes))
        self._tree.happened(b.Announce(codec.raw(self._plan.launch)))
        why = await self._left
        self._typed.end()
        for timer in [*self._timers, *([self._repeating] if self._repeating else [])]:
            timer.cancel()
        await shell.end(self._tree)
        self._phase("over")
        self._printing.put(None)
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_S if why else None):
                await self._printed
        return self._outcome(why or self._unwritable)

    def _outcome(self, why: str) -> LaunchOutcome:
        launching, counted = self._launching, self._launching.counted
        ended = {rank: (end.node, end.code, end.cpu_s) for rank, end in sorted(launching.ended.items())}
        return LaunchOutcome(
            code=self._code or (1 if why else launching.code),
            why=why or "; ".join(filter(None, (self._passed_on, launching.why))),
            is_whole=not why,
            phases=self._phases,
            connections_max=max([self._tree.most_links, *(each.connections for each in counted.values())]),
            depth=tree.depth(tree.named(self._plan.spawning), len(self._plan.nodes)),
            ended=ended,
            lost=self._lost,
            counted=counted,
            began=self._began,
            strangers=self._tree.strangers,
            stops=tuple(self._tree.stops),
            cpu_s=time.process_time() - self._cpu_s,
        )

    def _phase(self, name: str) -> None:
        self._phases.setdefault(name, time.time() - self._began)

    # ---- what ends it before its time ------------------------------------------------------------------

    def _interrupted(self, number: int) -> None:
        """The first signal is the program's, if it runs; the second one ends everything."""
        self._interrupts += 1
        self._code = INTERRUPTED + number
        if self._left.done():
            self._has_printed()
        elif self._interrupts == 1 and self._launching.started:
            self._passed_on = f"the program was sent {signal.Signals(number).name}"
            self._do(self._launching.signal(number))
        else:
            self._finish(f"ended by {signal.Signals(number).name}")

    def _timed_out(self) -> None:
        self._code = TIMED_OUT
        self._finish(f"it was not over within {self._plan.timeout_s:g} s")

    def _check_started(self) -> None:
        missing = [node for node in self._plan.nodes if not self._has_begun(node)]
        if missing:
            self._finish(f"on {', '.join(missing)} the program was not started within {LAUNCH_START_S:g} s")

    def _has_begun(self, node: str) -> bool:
        launching = self._launching
        return node in launching.started or node in self._lost or not launching.is_open(node)

    def _finish(self, why: str) -> None:
        self._tree.happened(b.Finish(why))

    # ---- what comes ----------------------------------------------------------------------------------------

    def arrived(self, envelope: b.Arrived) -> None:
        message = envelope.envelope
        if (channel := self._channels.get(message.node)) is None:
            return
        if message.number:
            self._owe(message.node)
        if channel.came(message.number, message.after, message.message):
            self._do(self._launching.arrived(message))
            self._typed.read(self._launching.read)
        self._look()

    def gathered(self, put: b.Gathered) -> None:
        self._do(self._launching.gathered(put.parts, put.round, put.entries))
        self._look()

    def gone(self, lost: b.Gone) -> None:
        self._lost[lost.node] = lost.why
        if self._plan.survive:
            self._do(self._launching.gone(lost.node, lost.why))
            self._look()

    def again(self, started: b.Again) -> None:
        self._channels[started.node] = at_controller(started.node, started.rank)
        self._note(f"{started.node} is started anew: {started.why}")

    def _do(self, outputs: Sequence[Output]) -> None:
        for output in outputs:
            match output:
                case Print():
                    self._printing.put(output)
                case ForAll():
                    self._tree.happened(b.Announce(output.message))
                case ForOne():
                    self._tell(output.node, output.message)
                case Note():
                    self._note(output.text)

    def _look(self) -> None:
        """Whether all is started, or over."""
        launching = self._launching
        if self._reader in launching.started and not self._typed.begun:
            self._typed.begin()
        if "started" not in self._phases:
            begun = sum(map(self._has_begun, self._plan.nodes))
            self._reached("starting", begun)
            if begun == len(self._plan.nodes):
                self._phase("started")
        if launching.fences > self._fences:
            self._fences = launching.fences
            self._phases["fence"] = time.time() - self._began  # the last one
        if launching.is_over and self._counting is None:
            self._phase("ended")
            self._reached("cleaning up", 0)
            self._counting = self._loop.call_later(COUNT_S, self._finish, "")
            self._timers.append(self._counting)
            self._tree.happened(b.Announce(codec.raw(t.Tally())))
        if launching.is_over and launching.counted.keys() | self._lost.keys() >= set(self._plan.nodes):
            self._finish("")

    # ---- output and input ------------------------------------------------------------------------------------

    def _print(self) -> None:
        with suppress(RuntimeError):  # the loop has ended
            while (output := self._printing.get()) is not None:
                try:
                    self._write(output.node, output.message)
                except OSError as error:
                    self._loop.call_soon_threadsafe(self._unwritten, error)
                    break
                self._loop.call_soon_threadsafe(self._written, output.node, len(output.message.data))
            self._loop.call_soon_threadsafe(self._has_printed)

    def _has_printed(self) -> None:
        if not self._printed.done():
            self._printed.set_result(None)

    def _unwritten(self, error: OSError) -> None:
        """As other commands do, it ends with its reader, and where there is no room."""
        self._code = self._code or unwritten_code(error)
        self._unwritable = unwritten(error)
        self._finish(self._unwritable)

    def _written(self, node: str, size: int) -> None:
        self._channels[node].written(size)
        self._owe(node)

    def _owe(self, node: str) -> None:
        """Say what has been taken, once for all that has come by now."""
        if not self._owed:
            self._loop.call_soon(self._pay)
        self._owed.add(node)

    def _pay(self) -> None:
        owed, self._owed = self._owed, set()
        for node in owed:
            self._tree.happened(b.Send(self._channels[node].answer()))

    def _type(self, data: bytes) -> None:
        if (node := self._reader) is not None:
            self._tell(node, codec.raw(t.Input(data)))

    def _tell(self, node: str, message: msgspec.Raw) -> None:
        self._told.add(node)
        self._tree.happened(b.Send(self._channels[node].tell(message)))

    def _repeat(self) -> None:
        """A message to one node may have been lost with an agent in between."""
        for node in sorted(self._told):
            self._tree.happened(*map(b.Send, self._channels[node].again()))
        self._repeating = self._loop.call_later(CHANNEL_AGAIN_S, self._repeat)

    # ---- the tree ------------------------------------------------------------------------------------------

    def deliver(self, message: msgspec.Raw) -> None:
        """What is for all agents is nothing to the controller."""

    def local(self, envelope: b.Local) -> None:
        """No node is called as the controller."""

    def adrift(self, *, on: bool) -> None:
        """At the nodes alone."""

    def phase(self, number: int) -> None:
        if number == 2:
            self._phase("contacts")
            self._tree.wait("started", LAUNCH_START_S, self._check_started)

    def leave(self, why: str) -> None:
        if not self._left.done():
            self._left.set_result(why)
