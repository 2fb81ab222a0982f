"""Stand-ins for who lives in a launch tree: the launcher at its root, and at each node what starts and ends processes.
What they decide is decided by the machines that are shipped (`live/tree/launching.py`)."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

import msgspec

from pliant.live.fleet.channel import ChannelEnd, at_controller, at_node
from pliant.live.tree import messages as b
from pliant.live.tree.launching import ForAll, ForOne, Launching, Note, Print
from pliant.live.tree.launching import Output as Outcome
from pliant.live.tree.part import JOB, LineCutter, start_of
from pliant.model.deadlines import CHANNEL_AGAIN_S
from pliant.protocol import codec, pmix
from pliant.protocol import launching as t
from pliant.protocol import messages as m
from pliant_lab.injection.audit.violation import Violation

FENCES = 3
"""How many a world passes."""
PUBLISH, LOOK_UP, SPAWN = 1, 2, 3
"""The numbers of what the agents of a world ask of each other."""
BAD = 0.1
"""How often a program that is spawned is not there."""
WINDOW = 64
"""Bytes: so little that output has to wait."""


def lines_of(rank: int) -> bytes:
    """What process ``rank`` writes; the last line has no end."""
    return b"".join(b"%d says %d\n" % (rank, i) for i in range(rank % 7)) + b"%d" % rank


def complaint_of(rank: int) -> str:
    """What the agent of ``rank`` says when it has started its part."""
    return f"rank {rank} is not content"


def code_of(rank: int) -> int:
    return -15 if rank % 11 == 10 else rank % 5 % 3


Order = t.ForAll | t.Input | t.Start | m.Answered


class Agent(Protocol):
    """A stand-in for an agent, as those who live with it see it."""

    @property
    def seat(self) -> b.Seat: ...
    @property
    def alive(self) -> bool: ...


class Ground(Protocol):
    """The forest, as those who live in it see it."""

    random: random.Random
    sizes: tuple[int, ...]
    missing: int | None
    gone: dict[int, str]
    again: dict[int, int]

    @property
    def nodes(self) -> Sequence[str]: ...
    @property
    def agents(self) -> Mapping[int, Agent]: ...
    def rank_of(self, node: str) -> int: ...
    def later(self, seconds: float, call: Callable[[], None]) -> int: ...
    def happened(self, rank: int, *inputs: b.AnyInput) -> None: ...


class Tenant:
    """At the agent of ``rank``."""

    def __init__(self, forest: Ground, rank: int) -> None:
        self._forest = forest
        self._rank = rank
        self._channel = at_node(forest.nodes[rank - 1] if rank else "", rank, WINDOW)
        self.typed: list[bytes] = []
        """What it was sent alone."""
        self._waiting: deque[tuple[int, msgspec.Raw]] = deque()
        self._orders: codec.Decoder[Order] = codec.Decoder(Order)
        self._fenced: dict[str, str] = {}
        """What all have put, as it has come here."""
        self._is_world = False
        self._group: m.StartGroup | None = None
        self._spawned: dict[int, m.StartGroup] = {}
        """Groups of worlds that were spawned, while their processes run."""
        self._repeats = False

    def deliver(self, message: msgspec.Raw) -> None:
        match self._orders.decode(message):
            case t.Launch() as launch:
                self._group = start_of(launch, self._forest.agents[self._rank].seat.number, "", "token")
                self._is_world = launch.is_world
                if self._group is None:
                    self._absent()
                self._later(self._start)
            case t.Tally():
                self._tell(codec.raw(t.Counted(0.0, {}, 1)))
            case m.Fenced() as fenced:
                self._fenced.update(fenced.entries)
                if not fenced.more:
                    self._forest.happened(self._rank, b.Passed(fenced.round))
                    # Some are back at the next fence before others know that this one is passed.
                    self._later(partial(self._through, fenced.round), self._forest.random.choice((0.0, 0.3)))
            case m.Signal():
                for group in list(self._spawned.values()):
                    self._end_spawned(group, -9)
                self._end(-9)

    def local(self, envelope: m.To) -> None:
        is_new = self._channel.came(envelope.id, envelope.after, envelope.message)
        if envelope.id:
            self._forest.happened(self._rank, b.Say(self._channel.answer()))
        match self._orders.decode(envelope.message) if is_new else None:
            case t.Input() as given:
                self.typed.append(given.data)
            case m.Answered() as answered:
                self._answered(answered)
            case t.Start() as order:
                self._spawned[order.start.group] = order.start
                self._later(partial(self._start_spawned, order.start))
            case m.Fenced() as fenced:
                self._fenced_spawned(fenced)
            case m.Signal() as signal if (group := self._spawned.get(signal.group or 0)) is not None:
                self._end_spawned(group, -9)
            case _:
                pass
        self._pour()

    def _later(self, call: Callable[[], None], most_s: float = 0.3) -> None:
        def at_home() -> None:
            if self._forest.agents[self._rank].alive:
                call()

        self._forest.later(self._forest.random.uniform(0.0, most_s), at_home)

    def _start(self) -> None:
        if (group := self._group) is None:
            return
        self._tell(codec.raw(m.Started(JOB, group.group, tuple(group.world.ranks))))
        self._tell(codec.raw(m.Error(complaint_of(self._rank))))
        if self._is_world:
            name = f"name of {group.group}"
            item = pmix.Item(name, 0, group.world.ranks.start, pmix.STRING, f"port of {group.group}")
            self._ask(PUBLISH, pmix.Publish((item,), new=True))
            self._put(0)
        else:
            self._run()

    def _put(self, number: int) -> None:
        """All processes here are at a fence; or they have ended, of a node that never comes there."""
        if (group := self._group) is None:
            return
        if self._forest.missing == group.group:
            self._run()
            return
        cards = [{f"card {number} of {group.group}": "x"}, {f"other {number} of {group.group}": "y"}]
        for piece in cards:
            put = b.Put(number, group.group, piece, more=piece is not cards[-1])
            self._forest.happened(self._rank, put)

    def _through(self, number: int) -> None:
        """They have what all have put before fence ``number``."""
        if self._group is not None:
            for part in [each for each, size in enumerate(self._forest.sizes) if size]:
                if (
                    f"card {number} of {part}" not in self._fenced
                    or f"other {number} of {part}" not in self._fenced
                ):
                    raise Violation(
                        "lost", f"rank {self._rank} is through fence {number} without what {part} has put"
                    )
        if number + 1 < FENCES:
            self._put(number + 1)
        else:
            self._look_up()

    def _ask(self, number: int, ask: pmix.HubAsk) -> None:
        if self._group is not None:
            self._tell(codec.raw(m.Asked(JOB, self._group.group, number, codec.raw(ask))))

    def _look_up(self) -> None:
        """The processes wait until they know where the next ones are, if they are there already."""
        if self._group is not None:
            self._ask(LOOK_UP, pmix.Lookup((f"name of {self._next}",)))

    @property
    def _next(self) -> int:
        parts = [each for each, size in enumerate(self._forest.sizes) if size]
        own = self._group.group if self._group is not None else 0
        return parts[(parts.index(own) + 1) % len(parts)]

    def _start_spawned(self, group: m.StartGroup) -> None:
        """Its processes pass a fence, if it is on several nodes, and end."""
        if group.group not in self._spawned:
            return  # they were ended
        if self._forest.random.random() < BAD:
            del self._spawned[group.group]
            self._tell(codec.raw(m.StartFailed(JOB, group.group, "no such program", 127)))
            return
        self._tell(codec.raw(m.Started(JOB, group.group, tuple(group.world.ranks))))
        if len(group.world.sizes) > 1:
            card = {f"card of {group.world.part}": "x"}
            self._tell(codec.raw(m.Fence(JOB, group.group, 0, card)))
        else:
            self._later(partial(self._end_spawned, group, 0))

    def _fenced_spawned(self, fenced: m.Fenced) -> None:
        if (group := self._spawned.get(fenced.group)) is not None:
            if fenced.entries.keys() != {f"card of {part}" for part in range(len(group.world.sizes))}:
                raise Violation("lost", f"rank {self._rank} is through a fence with {fenced.entries}")
            self._later(partial(self._end_spawned, group, 0))

    def _end_spawned(self, group: m.StartGroup, code: int) -> None:
        if self._spawned.pop(group.group, None) is not None:
            for rank in group.world.ranks:
                self._waiting.append((0, codec.raw(m.Exited(JOB, group.group, rank, code))))
            self._pour()

    def _answered(self, answered: m.Answered) -> None:
        if self._group is None or bytes(answered.answer) == b"null":
            return  # they were ended, or a name has gone with its node
        done = msgspec.json.decode(answered.answer, type=pmix.Done)
        if done.id == SPAWN:
            self._run()
        elif done.id == LOOK_UP:
            if done.items and done.items[0].blob != f"port of {self._next}":
                raise Violation("wrong", f"rank {self._rank} was told {done.items}")
            ranks = self._forest.random.choice((0, 0, 1, 2, 5))
            if ranks:
                self._ask(
                    SPAWN, pmix.Spawn((pmix.Program(("a",), ranks), pmix.Program(("b",), 1)), {"key": "x"})
                )
            else:
                self._run()
        elif done.status:
            raise Violation("wrong", f"what rank {self._rank} has published was refused with {done.status}")

    def _absent(self) -> None:
        if self._is_world:
            self._forest.happened(self._rank, b.Absent())

    def _run(self) -> None:
        """All processes write what they have to, and end."""
        if self._group is None:
            return
        for rank in self._group.world.ranks:
            cutter, text = LineCutter(40), lines_of(rank)
            parts = [text[at : at + 13] for at in range(0, len(text), 13)]
            for lines in [*(lines for part in parts for lines in cutter.feed(part)), cutter.rest()]:
                self._waiting.append((len(lines), codec.raw(t.Output(rank, lines, rank % 2 == 1))))
        self._end(None)

    def _end(self, code: int | None) -> None:
        if (group := self._group) is not None:
            self._group = None
            for rank in group.world.ranks:
                ended = m.Exited(JOB, group.group, rank, code_of(rank) if code is None else code)
                self._waiting.append((0, codec.raw(ended)))
            self._absent()
        self._pour()

    def _pour(self) -> None:
        while self._waiting and (self._channel.room > 0 or not self._waiting[0][0]):
            size, message = self._waiting.popleft()
            self._tell(message, size)

    def _tell(self, message: msgspec.Raw, size: int = 0) -> None:
        self._forest.happened(self._rank, b.Say(self._channel.tell(message, size)))
        if not self._repeats:
            self._repeats = True
            self._forest.later(CHANNEL_AGAIN_S, self._again)

    def _again(self) -> None:
        """As long as there is something that has not come."""
        self._repeats = not self._channel.is_quiet and self._forest.agents[self._rank].alive
        if self._repeats:
            for envelope in self._channel.again():
                self._forest.happened(self._rank, b.Say(envelope))
            self._forest.later(CHANNEL_AGAIN_S, self._again)


class Landlord:
    """At the root: launches a program, and takes what comes of it."""

    def __init__(self, forest: Ground, launch: t.Launch, nodes: tuple[str, ...]) -> None:
        self._forest = forest
        self._launch = launch
        self._channels: dict[str, ChannelEnd[m.To]] = {}
        self._repeats = False
        self._random = random.Random(0)  # noqa: S311 - to be repeated
        self.launching = Launching(launch, nodes)
        self.printed: dict[int, bytes] = {}
        self.notes: list[str] = []
        """For people."""
        self.told: list[bytes] = []
        """What was for all, in order."""
        self.typed: dict[str, list[bytes]] = {}
        """What was for one node alone."""
        self._has_counted = False
        self._lost: set[str] = set()

    @property
    def is_one_world(self) -> bool:
        return self._launch.is_world

    def begin(self) -> None:
        self._tell_all(codec.raw(self._launch))
        for rank, why in self._forest.gone.items():
            if rank in self._forest.again:
                continue
            self.gone(self._forest.nodes[rank - 1], why)
            if self._forest.rank_of(self._forest.nodes[rank - 1]) > rank:
                self._lost.discard(self._forest.nodes[rank - 1])

    def arrived(self, envelope: m.From) -> None:
        channel = self._channel(envelope.node)
        if channel.came(envelope.number, envelope.after, envelope.message):
            self._do(self.launching.arrived(envelope))
        if envelope.number:
            self._send(channel.answer())

    def _channel(self, node: str) -> ChannelEnd[m.To]:
        if node not in self._channels:
            self._channels[node] = at_controller(node, self._forest.rank_of(node))
        return self._channels[node]

    def gathered(self, put: b.Gathered) -> None:
        self._do(self.launching.gathered(put.parts, put.round, put.entries))

    def added(self, nodes: tuple[str, ...]) -> None:
        """These are there too, perhaps once more."""
        for node in nodes:
            self._channels.pop(node, None)
            self.typed.pop(node, None)
            self._lost.discard(node)

    def type(self, node: str) -> None:
        """Send something to this node alone."""
        typed = self.typed.setdefault(node, [])
        typed.append(b"%d" % len(typed))
        self._tell_one(node, codec.raw(t.Input(typed[-1])))

    def _tell_one(self, node: str, message: msgspec.Raw) -> None:
        self._send(self._channel(node).tell(message))
        if not self._repeats:
            self._repeats = True
            self._forest.later(CHANNEL_AGAIN_S, self._again)

    def _again(self) -> None:
        """As long as there is a node that has not taken all."""
        waiting = [
            each for node, each in self._channels.items() if node not in self._lost and not each.is_quiet
        ]
        self._repeats = bool(waiting) and self._forest.agents[0].alive
        if self._repeats:
            for channel in waiting:
                for envelope in channel.again():
                    self._send(envelope)
            self._forest.later(CHANNEL_AGAIN_S, self._again)

    def gone(self, node: str, why: str) -> None:
        self._lost.add(node)
        self._do(self.launching.gone(node, why))

    def _do(self, outputs: list[Outcome]) -> None:
        for output in outputs:
            match output:
                case Print():
                    self._forest.later(self._random.uniform(0.0, 0.5), partial(self._write, output))
                    rank = output.message.rank
                    self.printed[rank] = self.printed.get(rank, b"") + output.message.data
                case ForAll():
                    self._tell_all(output.message)
                case ForOne():
                    self._tell_one(output.node, output.message)
                case Note():
                    self.notes.append(output.text)
        if self.launching.is_over and not self._has_counted:
            self._has_counted = True
            self._tell_all(codec.raw(t.Tally()))

    def _write(self, output: Print) -> None:
        channel = self._channel(output.node)
        channel.written(len(output.message.data))
        self._send(channel.answer())

    def _tell_all(self, message: msgspec.Raw) -> None:
        self.told.append(bytes(message))
        self._forest.happened(0, b.Announce(message))

    def _send(self, envelope: m.To) -> None:
        self._forest.happened(0, b.Send(envelope))
