"""What MPI does between the processes of one job, as far as it shows: who waits for whom, and what a death leaves
behind.

A collective call is complete when those have made it whom it needs; one who has died before will not make it any more,
and nobody is told: the others wait. Accept and Connect are complete a while after all ranks of both sides are in them,
and never if one of them dies before; an Accept that has a time is left then, and its communicator is what it was.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import msgspec

from pliant.model.jobs import Bounds

CONNECT_S = (0.002, 0.2)
"""How long Accept and Connect take when both sides are there: the shortest and the longest."""
STORY_LINES = 200


class Peer(Protocol):
    """A process, as the fabric sees it."""

    over: bool

    def wake(self) -> None:
        """What it waits for may have happened."""

    def soon(self, low_s: float, high_s: float, call: Callable[[], None]) -> None:
        """Have ``call`` made after a time of between ``low_s`` and ``high_s``, unless the process has ended by then."""


class Span(NamedTuple):
    """``steps`` were done by ``groups`` groups in ``epoch``."""

    epoch: int
    groups: int
    steps: int


class Result(msgspec.Struct, frozen=True):
    """What a malleable job has done: the text of its Bye, and what the fabric has counted itself."""

    steps: int
    spans: tuple[Span, ...] = ()

    def text(self) -> str:
        return msgspec.json.encode(self).decode()


_RESULTS = msgspec.json.Decoder(Result)


def read_result(text: str) -> Result:
    """The result in a Bye; msgspec.DecodeError where it is none."""
    return _RESULTS.decode(text)


class Call:
    """One collective call of a communicator: complete when rank ``needs`` has made it, or all have if that is None."""

    def __init__(self, size: int, needs: int | None) -> None:
        self.values: dict[int, Any] = {}
        self.waiting: list[Peer] = []
        self.needs = needs
        self.size = size

    @property
    def done(self) -> bool:
        return len(self.values) == self.size if self.needs is None else self.needs in self.values

    def make(self, rank: int, value: Any) -> None:
        done = self.done
        self.values[rank] = value
        if self.done and not done:
            waiting, self.waiting = self.waiting, []
            for peer in waiting:
                peer.wake()


class Meeting:
    """One side of Accept and Connect: complete when ``joint`` is there. Only rank 0 knows the port."""

    def __init__(self, comm: Comm, *, accepts: bool) -> None:
        self.comm = comm
        self.accepts = accepts
        self.port = ""
        self.peers: dict[int, Peer] = {}
        self.joint: Comm | None = None
        self.offset = 0

    @property
    def complete(self) -> bool:
        """Whether all ranks of this side are in the call."""
        return len(self.peers) == self.comm.size

    @property
    def alive(self) -> bool:
        return not any(peer.over for peer in self.peers.values())


class Comm:
    """A communicator. Its ranks make the same calls in the same order, each at its own time."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.meeting: Meeting | None = None
        self._twin: Comm | None = None
        self._part: Comm | None = None
        self._made = [0] * size
        self._calls: dict[int, Call] = {}

    def twin(self) -> Comm:
        """The user's duplicate, so that messages of the user and of the library never meet."""
        if self._twin is None:
            self._twin = Comm(self.size)
        return self._twin

    def split(self, size: int) -> Comm:
        """The communicator of the ``size`` ranks that stay, the same for all who ask."""
        if self._part is None:
            self._part = Comm(size)
        return self._part

    def call(self, rank: int, value: Any, needs: int | None) -> Call:
        number = self._made[rank]
        self._made[rank] += 1
        call = self._calls.get(number)
        if call is None:
            call = self._calls[number] = Call(self.size, needs)
        call.make(rank, value)
        if len(call.values) == self.size:
            del self._calls[number]
        return call


class Seat(NamedTuple):
    """A process's place in a communicator."""

    comm: Comm
    rank: int

    @property
    def size(self) -> int:
        return self.comm.size

    def call(self, value: Any = None, needs: int | None = None) -> Call:
        """Make the next collective call, with this rank's ``value``; it does not wait."""
        return self.comm.call(self.rank, value, needs)

    def twin(self) -> Seat:
        return Seat(self.comm.twin(), self.rank)


class _Step:
    """Who has done one step."""

    def __init__(self, comm: Comm, epoch: int, groups: int) -> None:
        self.comm = comm
        self.epoch = epoch
        self.groups = groups
        self.ranks: set[int] = set()


class Fabric:
    """What the processes of one job have between them. ``problems`` are what must not be, whatever fails;
    ``story`` is what the last of its processes said, for people."""

    def __init__(self, job: int) -> None:
        self.job = job
        self.problems: list[str] = []
        self.story: deque[str] = deque(maxlen=STORY_LINES)
        self.allowed: Bounds | None = None
        """The sizes that the job was submitted with, where they are known."""
        self.cpu_s = 0.0
        """What all its ranks have used that have ended."""
        self.tasks = 0
        """How many independent tasks have been done."""
        self.speakers: dict[int, Peer] = {}
        """The rank that speaks for each group of places."""
        self._worlds: dict[str, Comm] = {}
        self._ports: dict[str, Meeting] = {}
        self._opened = 0
        self._steps: dict[int, _Step] = {}
        self._spans: Counter[tuple[int, int]] = Counter()

    def tell(self, text: str) -> None:
        self.story.append(text)

    def problem(self, text: str) -> None:
        """Something is wrong that no fault excuses."""
        self.problems.append(f"job {self.job}: {text}")

    # ---- communicators -------------------------------------------------------------------------------

    def world(self, name: str, size: int, rank: int) -> Seat:
        """The world of the processes that got this name of a key-value space from their launcher."""
        comm = self._worlds.setdefault(name, Comm(size))
        if comm.size != size or rank not in range(size):
            self.problem(f"rank {rank} of {size} came to world {name}, which has {comm.size} ranks")
        return Seat(comm, rank)

    def open_port(self) -> str:
        """A name that no other port of the job has had."""
        self._opened += 1
        return f"port/{self.job}/{self._opened}"

    def meet(self, seat: Seat, peer: Peer, port: str, *, accepts: bool) -> Meeting:
        """Enter Accept, or Connect; ``port`` counts on rank 0. It does not wait: ``joint`` tells when it is over."""
        side = seat.comm.meeting
        if side is None:
            side = seat.comm.meeting = Meeting(seat.comm, accepts=accepts)
        if side.accepts != accepts or seat.rank in side.peers:
            self.problem(f"rank {seat.rank} of {seat.size} entered Accept or Connect out of turn")
        side.peers[seat.rank] = peer
        if seat.rank == 0:
            side.port = port
        if side.complete:
            self._complete(side, peer)
        return side

    def leave(self, seat: Seat, side: Meeting) -> None:
        """Accept is over, and the communicator may be used for another one."""
        if seat.comm.meeting is side:
            seat.comm.meeting = None

    def _complete(self, side: Meeting, last: Peer) -> None:
        other = self._ports.setdefault(side.port, side)
        if other is side:
            return
        if other.accepts == side.accepts:
            self.problem(f"two sides both {'accepted' if side.accepts else 'connected'} at {side.port}")
            return
        sides = (side, other) if side.accepts else (other, side)
        last.soon(*CONNECT_S, lambda: self._join(*sides))

    def _join(self, first: Meeting, second: Meeting) -> None:
        del self._ports[first.port]
        if not (first.alive and second.alive):
            return  # those who are left wait for as long as they have said, or until their watchdog ends them
        joint = Comm(first.comm.size + second.comm.size)
        second.offset = first.comm.size
        for side in (first, second):
            side.joint = joint
            for peer in side.peers.values():
                peer.wake()

    # ---- what was done -------------------------------------------------------------------------------

    def stepped(self, seat: Seat, step: int, epoch: int, groups: int) -> None:
        """A rank has done a step. It counts when all of them have."""
        entry = self._steps.setdefault(step, _Step(seat.comm, epoch, groups))
        if (entry.comm, entry.epoch, entry.groups) != (seat.comm, epoch, groups):
            self.problem(
                f"step {step} was done by {groups} groups in epoch {epoch}, and by {entry.groups} in {entry.epoch}"
            )
        elif seat.rank in entry.ranks:
            self.problem(f"rank {seat.rank} did step {step} twice in epoch {epoch}")
        else:
            entry.ranks.add(seat.rank)
            if len(entry.ranks) == seat.size:
                self._spans[epoch, groups] += 1

    def result(self) -> Result:
        """What all ranks together have done, whatever the root said in its Bye."""
        spans = tuple(Span(epoch, groups, steps) for (epoch, groups), steps in sorted(self._spans.items()))
        return Result(sum(span.steps for span in spans), spans)
