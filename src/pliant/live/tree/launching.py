"""A program that is launched over a tree: what the controller makes of what it hears of it. The agents' end is in
``part.py``. Without I/O or clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

import msgspec

from pliant.live.job.rendezvous import Asker, Letter, Rendezvous, answer, refusal
from pliant.live.tree.part import JOB, part_of
from pliant.model.errors import ProtocolError
from pliant.model.flavours import OPEN
from pliant.model.world import MpiWorld
from pliant.protocol import codec
from pliant.protocol import launching as t
from pliant.protocol import messages as m
from pliant.protocol.fence import Rounds, pieces

LOST = 255
"""The exit code of a process whose node is gone."""
SIGKILL = 9
PEER_FAILED = frozenset({75, 76, 77})
"""Open MPI's error classes for whoever has to do with a process that has failed. With these a rank fails after another,
though word of it may come first."""


class Cause(IntEnum):
    """Why a process has failed: by itself, as its MPI says that another has, or after the first of its world."""

    ITSELF = 0
    ANOTHER = 1
    AFTERWARDS = 2


class ProcessEnd(NamedTuple):
    """How a process has ended, where, and what it has used of the processors."""

    node: str
    code: int
    cpu_s: float = 0.0


class Print(NamedTuple):
    """To be done: write this where output goes, then say Taken."""

    node: str
    message: t.Output


class ForAll(NamedTuple):
    """To be done: tell every agent."""

    message: msgspec.Raw


class ForOne(NamedTuple):
    """To be done: tell the agent of this node."""

    node: str
    message: msgspec.Raw


class Note(NamedTuple):
    """To be done: a line for people."""

    text: str


Output = Print | ForAll | ForOne | Note


class _Group:
    """The processes of one node, as they meet others; ``alive`` are those that have not ended."""

    def __init__(self, number: int, world: MpiWorld, alive: set[int]) -> None:
        self.number = number
        self.world = world
        self.alive = alive


class Launching:
    """The controller's end. ``is_over`` when every process has ended, and ``ended`` says how."""

    def __init__(self, launch: t.Launch, nodes: Sequence[str]) -> None:
        self._launch = launch
        self._nodes = {number: node for number, node in enumerate(nodes) if launch.sizes[number]}
        self._of = {node: list(part_of(launch, number).ranks) for number, node in self._nodes.items()}
        self._numbers = {node: number for number, node in self._nodes.items()}
        self._open = {node: set(ranks) for node, ranks in self._of.items()}
        self._decoder: codec.Decoder[m.AgentMessage | t.FromTree] = codec.Decoder(m.AgentMessage | t.FromTree)
        self._rounds = Rounds(tuple(self._nodes))
        self._rendezvous: Rendezvous | None = None
        """Once a node has asked for something of others."""
        self.fences = 0
        """How many its world has passed."""
        self.killed = False
        """Whether its processes were ended, as one of their world had failed."""
        self._causes: dict[int, Cause] = {}
        """Of all that have failed."""
        self._missed = ""
        """Why its processes were ended though none had failed."""
        self._errors: dict[int, str] = {}
        """By process: what has kept it from its end."""
        self.ended: dict[int, ProcessEnd] = {}
        self.started: set[str] = set()
        """The nodes where all processes have been started."""
        self.read = 0
        """How many bytes of input have been passed on."""
        self.counted: dict[str, t.Counted] = {}
        self._out: list[Output] = []

    @property
    def is_over(self) -> bool:
        return not any(self._open.values())

    def is_open(self, node: str) -> bool:
        """Whether a process there has not ended."""
        return bool(self._open.get(node))

    @property
    def ranks(self) -> int:
        return sum(map(len, self._of.values()))

    @property
    def code(self) -> int:
        """The exit code, as a shell has it: 128 more than the number of a signal. Of a world it is that of the first
        process that has failed, else the highest."""
        return max(self._codes().values(), default=0)

    @property
    def why(self) -> str:
        """What the code is that of: a process, where it was, and how it has ended. Nothing if that is 0."""
        failed = {rank: code for rank, code in sorted(self._codes().items()) if code}
        if not failed or self._missed:
            return self._missed if failed else ""
        rank = max(failed, key=lambda each: failed[each])  # the first of them
        others = f"; {len(failed) - 1} more have failed" if len(failed) > 1 else ""
        return f"process {rank} on {self.ended[rank].node} {self._how(rank)}{others}"

    def _how(self, rank: int) -> str:
        code = self.ended[rank].code
        ended = f"has ended with {code}" if code > 0 else f"has ended by signal {-code}"
        return self._errors.get(rank, ended)

    def _codes(self) -> dict[int, int]:
        """By process, of those that have failed only the nearest to the cause."""
        codes = {rank: 128 - end.code if end.code < 0 else end.code for rank, end in self.ended.items()}
        nearest = min(self._causes.values(), default=Cause.ITSELF)
        return {rank: code for rank, code in codes.items() if self._causes.get(rank, nearest) == nearest}

    def node_of(self, rank: int) -> str | None:
        return next((node for node, ranks in self._of.items() if rank in ranks), None)

    def arrived(self, envelope: m.From) -> list[Output]:
        """An agent says something."""
        self._out = []
        try:
            self._heard(envelope.node, self._decoder.decode(envelope.message))
        except ProtocolError as error:
            self._out.append(Note(f"{envelope.node}: {error}"))
        return self._out

    def gathered(self, parts: Iterable[int], number: int, entries: Mapping[str, str]) -> list[Output]:
        """Of ``parts``, nodes by their numbers, all has come that they put before the fence of round ``number``, with
        these ``entries``; perhaps not for the first time."""
        self._out = []
        try:
            merged = self._rounds.gathered(parts, number, entries)
        except ProtocolError as error:
            return [Note(str(error))]
        self._check_fence()
        if merged is not None:
            self.fences += 1
            for piece, more in pieces(merged):
                self._out.append(ForAll(codec.raw(m.Fenced(JOB, 0, number, piece, more))))
        return self._out

    def gone(self, node: str, why: str) -> list[Output]:
        """The node is lost, and what ran there with it."""
        self._out = [Note(f"{node} is lost: {why}")]
        for rank in sorted(self._open.get(node, ())):
            self._errors[rank] = f"is lost with its node: {why}"
            self._end(node, rank, LOST, 0.0)
        return self._out

    def signal(self, number: int) -> list[Output]:
        """Send a signal to all processes."""
        return [ForAll(codec.raw(m.Signal(JOB, number)))]

    def _heard(self, node: str, message: m.AgentMessage | t.FromTree) -> None:
        match message:
            case t.Output():
                self._out.append(Print(node, message))
            case t.Counted():
                self.counted[node] = message
            case t.Read():
                self.read = max(self.read, message.total)
            case m.Started():
                self.started.add(node)
            case m.StartFailed():
                self._not_started(node, message)
            case m.Exited():
                if message.early:
                    self._errors.setdefault(message.rank, message.how)
                self._end(node, message.rank, 1 if message.early else message.code, message.cpu_s)
            case m.Asked():
                self._asked(node, message)
            case m.Relay() | m.Error():
                self._out.append(Note(f"{node}: {_words(message)}"))
            case _:
                pass  # hellos, proofs and heartbeats change nothing here

    def _not_started(self, node: str, failed: m.StartFailed) -> None:
        self._out.append(Note(f"{node}: {failed.error}"))
        for rank in sorted(self._open.get(node, ())):
            self._errors[rank] = f"was not started: {failed.error}"
            self._end(node, rank, failed.code, 0.0)

    def _asked(self, node: str, message: m.Asked) -> None:
        if self._rendezvous is None:
            sizes = tuple(self._launch.sizes[number] for number in self._nodes)
            worlds = {number: MpiWorld(0, sizes, part) for part, number in enumerate(self._nodes)}
            self._rendezvous = Rendezvous(
                {
                    number: _Group(number, worlds[number], self._open[each])
                    for number, each in self._nodes.items()
                }
            )
        asker = Asker(self._numbers[node], message.number)
        try:
            self._post(self._rendezvous.ask(asker, message.ask))
        except ProtocolError:
            self._post([refusal(asker)])

    def _post(self, letters: Iterable[Letter]) -> None:
        for letter in letters:
            node = self._nodes[letter.to.group]
            self._out.append(ForOne(node, codec.raw(answer(JOB, letter))))

    def _end(self, node: str, rank: int, code: int, cpu_s: float) -> None:
        if rank not in self._open.get(node, ()):
            return
        self._open[node].discard(rank)
        self.ended[rank] = ProcessEnd(node, code, cpu_s)
        if code:
            self._causes[rank] = self._cause(code)
        if not self._open[node] and self._rendezvous is not None:
            self._post(self._rendezvous.ended(self._numbers[node], lost=code != 0))
        if self._launch.is_world:
            if code and not self.killed:  # as mpiexec does: its world cannot go on without it
                self.killed = True
                self._out.append(Note(f"process {rank} on {node} {self._how(rank)}, and the others with it"))
                self._out += self.signal(SIGKILL)
            elif not self._open[node]:
                self._rounds.left(self._numbers[node])
                self._check_fence()

    def _cause(self, code: int) -> Cause:
        if not self._launch.is_world:
            return Cause.ITSELF
        if (self.killed and code == -SIGKILL) or Cause.ITSELF in self._causes.values():
            return Cause.AFTERWARDS
        return Cause.ANOTHER if self._launch.dialect == OPEN and code in PEER_FAILED else Cause.ITSELF

    def _check_fence(self) -> None:
        """One that can never be passed, as others have ended, ends the program."""
        if (missed := self._rounds.missed()) and not self.killed:
            self.killed = True
            names = ", ".join(self._nodes[number] for number in missed)
            self._missed = f"{names}: ended while others wait for it in MPI"
            self._out += [Note(self._missed), *self.signal(SIGKILL)]


def _words(message: m.Relay | m.Error) -> str:
    if isinstance(message, m.Relay):
        try:
            return codec.Decoder[m.Error](m.Error).decode(message.message).text
        except ProtocolError:
            return "something that is no error"
    return message.text
