"""A program that is launched over a tree: what the controller makes of what it hears of it. The agents' end is in
``part.py``. Without I/O or clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

import msgspec

from pliant.live.job.rendezvous import Asker, Letter, Rendezvous, answer, outcome, refusal
from pliant.live.tree.part import JOB, part_of
from pliant.live.tree.spawned import MOST, SpawnedWorld, placed
from pliant.model.errors import ProtocolError
from pliant.model.flavours import OPEN
from pliant.model.world import MpiWorld
from pliant.protocol import codec, pmix
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
        """By group: one a node, then those of worlds that were spawned."""
        self._of = {node: list(part_of(launch, number).ranks) for number, node in self._nodes.items()}
        self._numbers = {node: number for number, node in self._nodes.items()}
        self._open = {number: set(self._of[node]) for number, node in self._nodes.items()}
        """The processes of each group that have not ended."""
        self._spawned: dict[int, SpawnedWorld] = {}
        """By group."""
        self._first_spawned = self._next_group = len(launch.sizes)
        self._next_process, self._next_world = sum(launch.sizes), 1
        self._decoder: codec.Decoder[m.AgentMessage | t.FromTree] = codec.Decoder(m.AgentMessage | t.FromTree)
        self._rounds = Rounds(tuple(self._nodes))
        self._parties: dict[int, _Group] = {}
        self._rendezvous = Rendezvous(self._parties)
        """It has parties once one of them has asked for something of others."""
        self._asks: codec.Decoder[pmix.HubAsk] = codec.Decoder(pmix.HubAsk)
        self.fences = 0
        """How many its world has passed."""
        self.killed = False
        """Whether its processes were ended, as one of their world had failed."""
        self._causes: dict[int, Cause] = {}
        """By process, of all that have failed."""
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
        """Whether a process there, of those that were launched, has not ended."""
        return bool(self._open.get(self._numbers.get(node, -1)))

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
        for group in [number for number, where in self._nodes.items() if where == node]:
            for process in sorted(self._open.get(group, ())):
                self._errors[process] = f"is lost with its node: {why}"
                self._end(group, process, LOST, 0.0)
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
            case m.Started() | m.StartFailed() | m.Exited() | m.Asked() | m.Fence() if node in self._numbers:
                group = message.group if message.group >= self._first_spawned else self._numbers[node]
                if group in self._open:  # else its world is over
                    self._heard_of(group, message)
            case m.Relay() | m.Error():
                self._out.append(Note(f"{node}: {_words(message)}"))
            case _:
                pass  # hellos, proofs and heartbeats change nothing here

    def _heard_of(self, group: int, message: m.AgentMessage) -> None:
        world = self._spawned.get(group)
        match message:
            case m.Started() if world is not None:
                self._has_started(group, world)
            case m.Started():
                self.started.add(self._nodes[group])
            case m.StartFailed() if world is not None:
                self._fail(world, f"{self._nodes[group]}: {message.error}")
                for process in sorted(self._open[group]):
                    self._end(group, process, message.code, 0.0)
            case m.StartFailed():
                self._not_started(group, message)
            case m.Exited():
                process = message.rank + (world.first if world is not None else 0)
                if message.early:
                    self._errors.setdefault(process, message.how)
                self._end(group, process, 1 if message.early else message.code, message.cpu_s)
            case m.Asked():
                self._asked(group, message)
            case m.Fence() if world is not None:
                self._at_fence(group, world, message)
            case _:
                pass

    def _not_started(self, group: int, failed: m.StartFailed) -> None:
        self._out.append(Note(f"{self._nodes[group]}: {failed.error}"))
        for process in sorted(self._open[group]):
            self._errors[process] = f"was not started: {failed.error}"
            self._end(group, process, failed.code, 0.0)

    # ---- what a group asks of others -----------------------------------------------------------------------

    def _asked(self, group: int, message: m.Asked) -> None:
        if not self._parties:
            sizes = tuple(self._launch.sizes[number] for number in self._nodes)
            for part, number in enumerate(self._nodes):
                self._parties[number] = _Group(number, MpiWorld(0, sizes, part), self._open[number])
        asker = Asker(group, message.number)
        try:
            ask = self._asks.decode(message.ask)
            if isinstance(ask, pmix.Spawn):
                self._spawn(asker, ask)
            else:
                self._post(self._rendezvous.ask(asker, message.ask))
        except ProtocolError:
            self._post([refusal(asker)])

    def _spawn(self, asker: Asker, ask: pmix.Spawn) -> None:
        """Start a world where the fewest processes are: the asker is told when all of it has been started."""
        ranks = sum(program.ranks for program in ask.programs)
        if self.killed or not 0 < ranks <= MOST or not all(program.ranks > 0 for program in ask.programs):
            self._post([outcome(asker, pmix.BAD_PARAM)])
            return
        load = dict.fromkeys(self._numbers, 0)
        for number, processes in self._open.items():
            load[self._nodes[number]] += len(processes)
        parts = placed(ask.programs, load)
        groups = tuple(range(self._next_group, self._next_group + len(parts)))
        world = SpawnedWorld(asker, self._next_process, groups)
        for group, (node, start) in world.starts(self._launch, self._next_world, ask, parts).items():
            self._nodes[group], self._spawned[group] = node, world
            self._open[group] = {world.first + rank for rank in start.start.world.ranks}
            self._parties[group] = _Group(group, start.start.world, self._open[group])
            self._out.append(ForOne(node, codec.raw(start)))
        self._next_group += len(parts)
        self._next_process += ranks
        self._next_world += 1

    def _has_started(self, group: int, world: SpawnedWorld) -> None:
        world.waiting.discard(group)
        if self.killed:  # the order to start it has come behind the signal to all
            self._kill(group)
        elif not world.waiting and not world.failed:
            self._post([outcome(world.asker)])

    def _kill(self, group: int) -> None:
        self._out.append(ForOne(self._nodes[group], codec.raw(m.Signal(JOB, SIGKILL, group))))

    def _fail(self, world: SpawnedWorld, why: str) -> None:
        """One of its groups cannot be started: the others are ended, and whoever has spawned it goes on."""
        if world.failed:
            return
        world.failed = True
        self._out.append(Note(why))
        for group in world.groups:
            self._kill(group)
        self._post([outcome(world.asker, pmix.FAILED)])

    def _at_fence(self, group: int, world: SpawnedWorld, fence: m.Fence) -> None:
        """The fence of a spawned world does not go along the tree."""
        merged = world.rounds.arrive(group, fence.round, fence.entries, more=fence.more)
        self._check_fence()
        for piece, more in pieces(merged) if merged is not None else ():
            for each in world.groups:
                fenced = m.Fenced(JOB, each, fence.round, piece, more)
                self._out.append(ForOne(self._nodes[each], codec.raw(fenced)))

    def _post(self, letters: Iterable[Letter]) -> None:
        for letter in letters:
            if (node := self._nodes.get(letter.to.group)) is not None:  # who has asked may be over
                self._out.append(ForOne(node, codec.raw(answer(JOB, letter))))

    def _end(self, group: int, process: int, code: int, cpu_s: float) -> None:
        here, world = self._open[group], self._spawned.get(group)
        if process not in here:
            return
        here.discard(process)
        if world is None or not world.failed:
            self._ended(group, process, code, cpu_s)
        if world is not None and not any(self._open[each] for each in world.groups):
            for each in world.groups:  # nothing will be heard of it any more
                del self._nodes[each], self._open[each], self._spawned[each], self._parties[each]

    def _ended(self, group: int, process: int, code: int, cpu_s: float) -> None:
        here, world, node = self._open[group], self._spawned.get(group), self._nodes[group]
        self.ended[process] = ProcessEnd(node, code, cpu_s)
        if code:
            self._causes[process] = self._cause(code)
        if not here and group in self._parties:
            self._post(self._rendezvous.ended(group, lost=code != 0))
        if self._launch.is_world:
            if code and not self.killed:  # as mpiexec does: its world cannot go on without it
                self.killed = True
                self._out.append(
                    Note(f"process {process} on {node} {self._how(process)}, and the others with it")
                )
                self._out += self.signal(SIGKILL)
            elif not here:
                (self._rounds if world is None else world.rounds).left(group)
                self._check_fence()

    def _cause(self, code: int) -> Cause:
        if not self._launch.is_world:
            return Cause.ITSELF
        if (self.killed and code == -SIGKILL) or Cause.ITSELF in self._causes.values():
            return Cause.AFTERWARDS
        return Cause.ANOTHER if self._launch.dialect == OPEN and code in PEER_FAILED else Cause.ITSELF

    def _check_fence(self) -> None:
        """One that can never be passed, as others have ended, ends the program."""
        worlds = (self._rounds, *(world.rounds for world in self._spawned.values()))
        missed = next(filter(None, (rounds.missed() for rounds in worlds)), ())
        if missed and not self.killed:
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
