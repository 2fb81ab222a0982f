"""How the stand-in for a process runs: a script that gives up control where a process would wait.

A script is a generator of ``Wait``; what happens to the process is noted here, and the script goes on when that is what
it waits for. Nothing waits unseen: ``waiting`` says for what, until when, and why if there is no such time.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from math import inf
from random import Random
from typing import NamedTuple, Protocol, TypeVar

from pliant.job import environment
from pliant.job.errors import Stalled
from pliant.job.session import Session
from pliant.model.errors import ProtocolError
from pliant.protocol.codec import Lines
from pliant_lab.injection.standins.fabric import Call, Fabric

SIGTERM = 15
WAKE_S = 1e-3
"""What was waited for is noticed within this time, on each rank at its own moment."""
ROUNDING_S = 1e-9
PYTHON = "python3"
CARD = 4000
"""Characters of a long value: an address of a network card, say."""

PEERS = "peers may be in user code"
OWN = "this is user code"
AGENT = "the agent answers, and this process does not outlive it"
SCHEDULER = "the scheduler ends what is not joined"
FIRST = "rank 0 of the group waits with a deadline, and ends its group"
"""Why a wait has no deadline."""

T = TypeVar("T")


class Host(Protocol):
    """What a process has of the node it runs on. ``later`` calls nothing when the process has ended."""

    env: dict[str, str]
    argv: tuple[str, ...]
    token: str

    @property
    def now(self) -> float: ...
    @property
    def random(self) -> Random: ...
    def later(self, delay_s: float, call: Callable[[], None]) -> None: ...
    def connect(self) -> None: ...
    def say(self, data: bytes) -> None: ...
    def ask(self, data: bytes) -> None: ...
    def exit(self, code: int) -> None: ...
    def abort(self, code: int) -> None: ...


class Gone(BaseException):
    """The process has ended itself: nothing after that happens."""


@dataclass(slots=True)
class Wait:
    """``done`` tells whether it is over. At ``until`` a ``sleeps`` goes on, any other is Stalled, and one under a
    ``watchdog`` ends the process. While it lasts the session is read only if it ``polls``."""

    what: str
    done: Callable[[], bool]
    until: float | None = None
    limit_s: float = 0.0
    excuse: str = ""
    polls: bool = False
    watchdog: bool = False
    sleeps: bool = False
    times: float = 1


def own_words(command: tuple[str, ...]) -> tuple[str, ...]:
    """A command without the Python and its options that it may begin with: what runs in them is a stand-in too."""
    first = 0
    while command[first] == PYTHON or command[first].startswith("-"):
        first += 1
    return command[first:]


Script = Generator[Wait, None, T]


class Program(NamedTuple):
    """A command: its kind, the numbers behind it, and its ``name=value`` words."""

    kind: str
    numbers: tuple[float, ...]
    words: dict[str, str]

    @classmethod
    def parse(cls, argv: tuple[str, ...]) -> Program:
        """ValueError for a word that is neither a number nor ``name=value``."""
        kind, *rest = own_words(argv)
        words = dict(word.split("=", 1) for word in rest if "=" in word)
        return cls(kind, tuple(float(word) for word in rest if "=" not in word), words)

    def number(self, place: int, otherwise: float) -> float:
        return self.numbers[place] if place < len(self.numbers) else otherwise

    def word(self, name: str, otherwise: float) -> float:
        return float(self.words.get(name, otherwise))


class Running(ABC):
    """A process that runs a script. A kind of program is a ``script`` that gives its exit code."""

    def __init__(self, host: Host, fabric: Fabric) -> None:
        self.host = host
        self.fabric = fabric
        self.program = Program.parse(host.argv)
        self.limit_s = environment.deadline_s(host.env)
        self.session: Session | None = None
        self.waiting: Wait | None = None
        self.over = False
        self.in_mpi: bool | None = False
        """Whether it is between MPI_Init and MPI_Finalize; None while its launcher may know that or not."""
        self.replies: deque[str] = deque()
        self._script: Script[int] | None = None
        self._busy = False
        self._alarm = inf
        self._unread: list[bytes] = []
        self._closed = False
        self._lines = Lines()
        self._deaf = self.program.kind == "deaf" or self.program.word("deaf", 0) != 0

    @property
    def name(self) -> str:
        env = self.host.env
        return f"rank {env.get('PMI_RANK', '?')} of group {env['PLIANT_GROUP']} on {env['PLIANT_NODE']}"

    @abstractmethod
    def script(self) -> Script[int]:
        """What the process does; its exit code."""

    # ---- what happens to the process -----------------------------------------------------------------

    def begin(self) -> None:
        """It has been executed."""
        self._script = self.script()
        self._go()

    def on_session(self, data: bytes) -> None:
        if not self.over:
            self._unread.append(data)
            self._look()

    def on_session_closed(self) -> None:
        if not self.over:
            self._closed = True
            self._look()

    def on_launch(self, data: bytes) -> None:
        if not self.over:
            self.replies.extend(line.decode() for line in self._lines.feed(data))
            self._look()

    def signalled(self, number: int) -> None:
        """Of a ``tidy`` program it is the sign to end by itself, which takes a while."""
        if number != SIGTERM or self.over or self._deaf:
            return
        tidy = self.program.word("tidy", 0)
        if not tidy or (self.waiting is not None and "MPI_" in self.waiting.what):
            self.host.exit(-number)
        else:
            self._script = self.waiting = None
            self.host.later(tidy, lambda: self.host.exit(0))

    def ended(self) -> None:
        """Nothing of it is left; those who wait for it are not told."""
        self.over = True
        self._script = self.waiting = None

    # ---- what it does by itself ----------------------------------------------------------------------

    def wake(self) -> None:
        if not self.over:
            self.soon(0, WAKE_S, self._look)

    def soon(self, low_s: float, high_s: float, call: Callable[[], None]) -> None:
        self.host.later(self.host.random.uniform(low_s, high_s), call)

    def exit(self, code: int) -> None:
        self.host.exit(code)
        raise Gone

    def abort(self, why: str, code: int = 1) -> None:
        """MPI_Abort: what follows is never reached."""
        self.fabric.tell(f"{self.host.now:.3f} {self.name}: {why}")
        self.host.abort(code)
        raise Gone

    def _look(self) -> None:
        """Something has happened: whether it is what is waited for."""
        wait = self.waiting
        if wait is None or self._busy or self.over or (wait.sleeps and not wait.polls):
            return
        self._go()

    def _go(self, failure: Exception | None = None) -> None:
        """Run the script on to its next wait that is not over yet."""
        if self._script is None or self.over:
            return
        self._busy = True
        try:
            while failure is not None or not self._pauses():
                wait = next(self._script) if failure is None else self._script.throw(failure)
                failure, self.waiting = None, wait
        except StopIteration as end:
            self._script = self.waiting = None
            self.host.exit(end.value)
        except Gone:
            self._script = self.waiting = None
        finally:
            self._busy = False

    def _pauses(self) -> bool:
        """Whether there is something to wait for still."""
        wait = self.waiting
        if wait is None:
            return False
        if wait.polls:
            self.poll()
        if wait.done():
            return False
        if wait.until is not None and wait.until < self._alarm:
            self._alarm = wait.until
            self.host.later(max(0.0, wait.until - self.host.now), self._ring)
        return True

    def _ring(self) -> None:
        """The time of some wait has come: one alarm serves them all."""
        wait, now = self.waiting, self.host.now
        if self._alarm > now + ROUNDING_S:
            return  # an earlier one has been set since, and the later one is not due
        self._alarm = inf
        if wait is None or wait.until is None or self.over:
            return
        if wait.sleeps or wait.until > now + ROUNDING_S:
            self._go()
        elif wait.watchdog:
            self.fabric.tell(f"{now:.3f} {self.name}: ended by its watchdog in {wait.what}")
            self._script = self.waiting = None
            self.host.exit(1)
        else:
            self._go(Stalled(wait.what, wait.limit_s, wait.times))

    # ---- what scripts wait by ------------------------------------------------------------------------

    def sleep(self, seconds: float, what: str, *, polls: bool = False) -> Script[None]:
        """Let time pass."""
        until = self.host.now + seconds
        if seconds > 0:
            yield Wait(what, lambda: self.host.now >= until - ROUNDING_S, until, polls=polls, sleeps=True)

    def wait(  # noqa: PLR0913 - what for, how long, and what goes on meanwhile
        self,
        done: Callable[[], bool],
        what: str,
        *,
        excuse: str = "",
        polls: bool = True,
        watchdog: bool = False,
        times: float = 1,
    ) -> Script[None]:
        """Wait for what others do: Stalled after ``times`` the limit, unless there is an ``excuse`` for having none."""
        limit_s = self.limit_s * times
        until = None if excuse else self.host.now + limit_s
        yield Wait(what, done, until, limit_s, excuse, polls, watchdog, times=times)

    def complete(
        self, call: Call, what: str, *, excuse: str = "", polls: bool = True, watchdog: bool = False
    ) -> Script[dict[int, object]]:
        """Wait for a collective call; what each rank gave for it."""
        if not call.done:
            call.waiting.append(self)
        yield from self.wait(lambda: call.done, what, excuse=excuse, polls=polls, watchdog=watchdog)
        return call.values

    # ---- the session ---------------------------------------------------------------------------------

    def open(self, write: Callable[[bytes], object]) -> Session:
        """Connect to the agent; ``write`` gets what the session says."""
        self.host.connect()
        self.session = Session(write, on_lost=self._lost)
        return self.session

    def write(self, data: bytes) -> None:
        """Say it, if the connection still stands."""
        if not self._closed:
            self.host.say(data)

    def poll(self) -> None:
        """Take in what has come over the session."""
        if self.session is None:
            return
        unread, self._unread = self._unread, []
        for data in unread:
            self.session.receive(data)
        if self._closed and not self._unread:
            self.session.lose("it closed the connection")

    def _lost(self, why: str) -> None:
        self.abort(f"lost its agent: {why}")

    # ---- MPI_Init and MPI_Finalize -------------------------------------------------------------------

    def ask(self, line: str, what: str, excuse: str = AGENT) -> Script[dict[str, str]]:
        """A request to the launcher, and its reply."""
        self.host.ask(line.encode() + b"\n")
        yield from self.wait(lambda: bool(self.replies), what, excuse=excuse, polls=False)
        return dict(word.partition("=")[::2] for word in self.replies.popleft().split())

    def mpi_init(self) -> Script[str]:
        """What MPI_Init asks of the launcher; the name of this world's key-value space."""
        env, random = self.host.env, self.host.random
        rank, size = int(env["PMI_RANK"]), int(env["PMI_SIZE"])
        self.in_mpi = None
        yield from self.ask("cmd=init pmi_version=1 pmi_subversion=1", "MPI_Init")
        self.in_mpi = True
        yield from self.ask("cmd=get_maxes", "MPI_Init")
        space = (yield from self.ask("cmd=get_my_kvsname", "MPI_Init"))["kvsname"]
        address = f"cmd=put kvsname={space} key=address-{rank} value={space}/{rank}"
        yield from self.ask(address, "MPI_Init")
        cards = int(self.program.word("cards", 0))
        for card in range(cards):
            long = f"{rank}.{card}." + "x" * CARD
            yield from self.ask(f"cmd=put kvsname={space} key=card-{rank}-{card} value={long}", "MPI_Init")
        yield from self.fence("MPI_Init")
        mapping = yield from self.ask(f"cmd=get kvsname={space} key=PMI_process_mapping", "MPI_Init")
        if _mapped(mapping.get("value", "")) != size:
            self.fabric.problem(f"{self.name}, of {size} ranks, was told that they are on nodes as {mapping}")
            self.abort("MPI_Init: a wrong mapping")
        if cards:
            peer, card = random.randrange(size), random.randrange(cards)
            reply = yield from self.ask(f"cmd=get kvsname={space} key=card-{peer}-{card}", "MPI_Init")
            if reply.get("value", "")[:20] != (f"{peer}.{card}." + "x" * CARD)[:20]:
                self.fabric.problem(f"{self.name} got {str(reply)[:80]} for card {card} of rank {peer}")
                self.abort("MPI_Init: a wrong card")
        for peer in random.sample(range(size), min(size, 4)):
            reply = yield from self.ask(f"cmd=get kvsname={space} key=address-{peer}", "MPI_Init")
            if reply.get("value") != f"{space}/{peer}":
                self.fabric.problem(f"{self.name} got {reply} for the address of rank {peer} of {space}")
                self.abort("MPI_Init: a wrong address")
        return space

    def mpi_finalize(self) -> Script[None]:
        yield from self.fence("MPI_Finalize")
        self.in_mpi = None
        yield from self.ask("cmd=finalize", "MPI_Finalize")
        self.in_mpi = False

    def fence(self, what: str) -> Script[None]:
        reply = yield from self.ask("cmd=barrier_in", f"the others in {what}", PEERS)
        if reply.get("cmd") != "barrier_out":
            raise ProtocolError(f"{what}: the launcher answered {reply} to barrier_in")


def _mapped(text: str) -> int:
    """How many ranks PMI's text puts on nodes: runs of (first node, nodes, ranks each)."""
    runs = re.findall(r"\((\d+),(\d+),(\d+)\)", text)
    return sum(int(nodes) * int(each) for _, nodes, each in runs) if text.startswith("(vector,") else 0
