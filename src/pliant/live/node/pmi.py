"""A PMI-1 server for the ranks of one group, without I/O.

PMI-1 is what an MPI library asks its launcher while MPI_Init runs: lines of ``key=value`` pairs, a request
and a reply each, and a barrier. That the kvsname is unique is what lets groups connect to each other later.
In a world of several groups the barrier is a fence: what was put on one node is then known on all of them.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import NamedTuple

import msgspec

from pliant.live.node.attendance import Attendance
from pliant.live.node.spawning import POOL, SpawnCall, refusal
from pliant.model.world import MpiWorld
from pliant.protocol import codec, pmix
from pliant.protocol.fence import Entries

MOST_CHARACTERS = 1 << 23
"""What the ranks of a group may put in all: MPICH needs about 5,000 characters a rank."""
NAMES = {
    "publish_name": "publish_result",
    "lookup_name": "lookup_result",
    "unpublish_name": "unpublish_result",
}
"""By what is asked of a name, what answers it."""


class PmiError(Exception):
    """A rank sent something that is not PMI-1, asked for an abort, or is missing where the others wait. ``code`` is the
    exit code that this makes."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


class Reply(NamedTuple):
    """A line for a rank."""

    rank: int
    line: bytes


class AtFence(NamedTuple):
    """All ranks of this group have come to fence ``round``; ``entries`` are what they have put since the last."""

    round: int
    entries: Entries


class Remark(NamedTuple):
    """A line for people: the ranks go on."""

    text: str


class Asking(NamedTuple):
    """The server asks, under a number of its own, what other groups can answer."""

    number: int
    ask: msgspec.Raw


Answers = list[Reply | AtFence | Remark | Asking]


class _Waiting(NamedTuple):
    """A rank that waits for this result of what was asked of others; for its ``call``, if it spawns."""

    rank: int
    result: str
    call: pmix.Spawn | None = None


class PmiGroup:
    """The key-value space and the barrier of one group's ranks, which are numbered as in their world."""

    def __init__(self, world: MpiWorld, kvsname: str) -> None:
        self._world = world
        self._kvsname = kvsname
        self.appnum = 0
        """Which program of those that were spawned together this is."""
        self._values = {"PMI_process_mapping": process_mapping(world)}
        self._new: Entries = {}
        self._characters = 0
        self._at_barrier: set[int] = set()
        self._waiting: dict[int, _Waiting] = {}
        """By the number of what was asked of others."""
        self._last_ask = 0
        self._decoder: codec.Decoder[pmix.Done] = codec.Decoder(pmix.Done)
        self._spawning: dict[int, SpawnCall] = {}
        self.attendance = Attendance()
        self._round = 0
        self._commands: dict[str, Callable[[int, Mapping[str, str]], Answers]] = {
            "init": self._init,
            "get_maxes": lambda rank, _: _reply(
                rank, "maxes", kvsname_max="256", keylen_max="64", vallen_max="4096"
            ),
            "get_appnum": lambda rank, _: _reply(rank, "appnum", appnum=str(self.appnum)),
            "get_universe_size": lambda rank, _: _reply(rank, "universe_size", size=str(world.size)),
            "get_my_kvsname": lambda rank, _: _reply(rank, "my_kvsname", kvsname=self._kvsname),
            "put": self._put,
            "get": self._get,
            "barrier_in": self._barrier,
            "finalize": self._finalize,
        }

    def preset(self, values: Mapping[str, str]) -> None:
        """Put these values into its key-value space before it starts."""
        self._values.update(values)

    def receive(self, rank: int, line: str) -> Answers:
        """What follows because ``rank`` sent ``line``; PmiError on abort or nonsense."""
        if rank in self._spawning or line.startswith("mcmd=spawn"):
            return self._spawn(rank, line)
        words = dict(word.partition("=")[::2] for word in line.split() if "=" in word)
        command = words.get("cmd", "")
        if command == "abort":
            text = words.get("exitcode", "")
            code = int(text) % 256 if text.isdecimal() and len(text) < 10 else 1
            raise PmiError(f"rank {rank} called MPI_Abort", code or 1)
        if command in NAMES:
            return self._ask(rank, command, line.partition(" service=")[2])
        handler = self._commands.get(command)
        if handler is None:
            return _reply(rank, command or "unknown", rc="-1", msg="unknown_command")
        return handler(rank, words)

    def fenced(self, number: int, entries: Mapping[str, str], *, more: bool) -> list[Reply]:
        """Take a piece of what all groups have put at fence ``number``; after the last one the ranks go on.

        One that comes again, when they have gone on or are not all there yet, lets nobody pass.
        """
        if number != self._round:
            return []
        self._values.update(entries)
        if more or len(self._at_barrier) < len(self._world.ranks):
            return []
        self._round += 1
        self._at_barrier.clear()
        return [reply for rank in self._world.ranks for reply in _lines(rank, "barrier_out")]

    def answered(self, answer: msgspec.Raw) -> Answers:
        """Take the answer of other groups, which may be none. PmiError if the group cannot go on."""
        if bytes(answer) == b"null":
            return []
        done = self._decoder.decode(answer)
        waiting = self._waiting.pop(done.id, None)
        if waiting is None:
            return []
        if waiting.call is not None:
            return self._spawned(waiting.rank, waiting.call, done.status)
        if done.status:
            why = "service_taken" if done.status == pmix.TAKEN else "no_service"
            return _reply(waiting.rank, waiting.result, rc="-1", msg=why)
        ports = [b64decode(item.blob).decode() for item in done.items]
        return _reply(waiting.rank, waiting.result, **({"port": ports[0]} if ports else {}))

    def left(self, rank: int) -> None:
        """``rank`` has ended well; PmiError if others wait for it, who would do so for ever."""
        self.attendance.ended(rank)
        self._check_ended()

    def _check_ended(self) -> None:
        if why := self.attendance.missing(at_barrier=bool(self._at_barrier)):
            raise PmiError(why)

    def _init(self, rank: int, _words: Mapping[str, str]) -> Answers:
        self.attendance.initialized(rank)
        self._check_ended()
        return _reply(rank, "response_to_init", pmi_version="1", pmi_subversion="1")

    def _finalize(self, rank: int, _words: Mapping[str, str]) -> Answers:
        self.attendance.finalized(rank)
        return _reply(rank, "finalize_ack")

    def _put(self, rank: int, words: Mapping[str, str]) -> Answers:
        if "key" not in words or "value" not in words:
            raise PmiError(f"rank {rank} sent a put without key or value")
        key, value = words["key"], words["value"]
        self._characters += len(key) + len(value)
        if self._characters > MOST_CHARACTERS:
            raise PmiError(f"rank {rank} put more than {MOST_CHARACTERS} characters: that is no MPI_Init")
        self._values[key] = self._new[key] = value
        return _reply(rank, "put_result", msg="success")

    def _get(self, rank: int, words: Mapping[str, str]) -> Answers:
        value = self._values.get(words.get("key", ""))
        if value is None:
            return _reply(rank, "get_result", rc="-1", msg="key_not_found", value="unknown")
        return _reply(rank, "get_result", msg="success", value=value)

    def _ask(self, rank: int, command: str, service: str) -> Answers:
        """A name may have any characters, and be on any node: it is asked for as Open MPI's server asks."""
        ask: pmix.HubAsk = pmix.Lookup((service,))
        if command == "publish_name":
            name, _, port = service.rpartition(" port=")
            item = pmix.Item(name, self._world.number, rank, pmix.STRING, b64encode(port.encode()).decode())
            ask = pmix.Publish((item,), new=True)
        elif command == "unpublish_name":
            ask = pmix.Unpublish((service,), anybodys=True)
        return [self._wait(_Waiting(rank, NAMES[command]), ask)]

    def _wait(self, waiting: _Waiting, ask: pmix.HubAsk) -> Asking:
        self._last_ask += 1
        self._waiting[self._last_ask] = waiting
        return Asking(self._last_ask, codec.raw(ask))

    def _spawn(self, rank: int, line: str) -> Answers:
        lines = self._spawning.setdefault(rank, SpawnCall())
        try:
            call = lines.take(line)
        except ValueError as error:
            raise PmiError(f"rank {rank} sent {error}") from error
        if call is None:
            return []
        del self._spawning[rank]
        if lines.is_broken:
            told = (
                f"rank {rank} called MPI_Comm_spawn with a line break in an argument, which PMI-1 cannot tell"
            )
            return [*_reply(rank, "spawn_result", rc="-1", msg="not_understood"), Remark(told)]
        return [self._wait(_Waiting(rank, "spawn_result", call), call)]

    @staticmethod
    def _spawned(rank: int, call: pmix.Spawn, status: int) -> Answers:
        """MPI returns an error where it is refused, but a pool of mpi4py waits for its workers all the same: that ends
        here."""
        if not status:
            ranks = sum(program.ranks for program in call.programs)
            return _reply(rank, "spawn_result", errcodes=",".join("0" * ranks))
        if any(POOL in program.argv for program in call.programs):
            raise PmiError(refusal(rank))
        answers = _reply(rank, "spawn_result", rc="-1", msg="not_spawned")
        if status == pmix.NOT_SUPPORTED:
            what = ", ".join(f"{program.argv[0]} on {program.ranks} ranks" for program in call.programs)
            answers.append(Remark(refusal(rank, f" of {what}")))
        return answers

    def _barrier(self, rank: int, _words: Mapping[str, str]) -> Answers:
        if rank in self._at_barrier:
            raise PmiError(f"rank {rank} came to a barrier in which it was already")
        self._at_barrier.add(rank)
        self._check_ended()
        if len(self._at_barrier) < len(self._world.ranks):
            return []
        new, self._new, self._characters = self._new, {}, 0
        if len(self._world.sizes) > 1:
            return [AtFence(self._round, new)]
        return [*self.fenced(self._round, {}, more=False)]


def process_mapping(world: MpiWorld) -> str:
    """PMI's text for which ranks are on which node: (first node, nodes, ranks each), run by run."""
    runs: list[str] = []
    first = 0
    for size, equal in groupby(world.sizes):
        count = len(list(equal))
        runs.append(f"({first},{count},{size})")
        first += count
    return f"(vector,{','.join(runs)})"


def _lines(rank: int, command: str, rc: str = "0", **values: str) -> list[Reply]:
    words = [f"cmd={command}", f"rc={rc}", *(f"{key}={value}" for key, value in values.items())]
    return [Reply(rank, (" ".join(words) + "\n").encode())]


def _reply(rank: int, command: str, rc: str = "0", **values: str) -> Answers:
    return [*_lines(rank, command, rc, **values)]
