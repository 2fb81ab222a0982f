"""What a rank knows of its job: shared by the job's public face, its loop and its resizes."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pliant.job import environment
from pliant.job.connection import Connection
from pliant.job.negotiation import Negotiation
from pliant.model.errors import PliantError
from pliant.model.jobs import Bounds
from pliant.model.speedup import Model
from pliant.model.words import count
from pliant.mpi.data.arrays import Array, ArrayForm, Seat
from pliant.mpi.data.delivery import CALL_NAMES, TAGS_EACH
from pliant.mpi.data.movable import Movable
from pliant.mpi.data.transport import Hook
from pliant.mpi.data.uses import Uses
from pliant.mpi.errors import NotJoined, Released
from pliant.mpi.inhibitor import Period
from pliant.mpi.resizer import NoResizer, Resizer
from pliant.mpi.resizing.begun import Begun
from pliant.mpi.resizing.parking import ParkedRank, ParkedRanks
from pliant.mpi.snapshot import LoopPlace, Snapshot
from pliant.mpi.team import Team, barrier
from pliant.mpi.wait import Wait

MAX_NODES = 1 << 16
"""The bound of programs that state none."""


class Value:
    """A value that is equal on all ranks: set it everywhere alike; a newcomer gets the job's.

    It travels pickled, so what is assigned is pickled and unpickled there and then: TypeError if that fails.
    That takes 1 us for a float and 1 ms for a MiB; what is large belongs in an array.
    """

    def __init__(self, name: str, initial: Any, context: Context) -> None:
        self.name = name
        self._context = context
        self._value = initial
        self.check(initial)

    @property
    def value(self) -> Any:
        """The value: the job's on a newcomer. Raises NotJoined before it has joined."""
        self._context.joined(f"the value {self.name!r}")
        return self._value

    @value.setter
    def value(self, value: Any) -> None:
        self._context.joined(f"the value {self.name!r}")
        self.check(value)
        self._value = value

    def check(self, value: Any) -> None:
        """TypeError if a newcomer could not be given ``value``."""
        try:
            # Some exceptions, for one, can be pickled and not unpickled.
            pickle.loads(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))  # noqa: S301 - made a moment ago
        except Exception as error:
            raise TypeError(
                f"the value {self.name!r} cannot be pickled, as it has to be for a rank that joins later: "
                f"{type(error).__name__}: {error}; give it numbers, texts, containers and arrays of them, or "
                "objects of classes that stand at the top of a module"
            ) from error

    def take(self, value: Any) -> None:
        """Hold the job's ``value``, which has come pickled."""
        self._value = value


@dataclass
class Context:
    """``team`` is None on a newcomer that is not joined yet, and on a rank that has been released.

    ``bounds`` are the program's own, ``agreed`` those that the submission allows as well.

    ``connection`` and ``negotiation`` are there on rank 0 of every group that an agent started. ``started`` are the
    groups that were started together with this one, the leader first. ``named`` are the arrays of which the program was
    told that it holds an old block. ``group`` and ``node`` are those of this rank where an agent has started it.
    ``resizer`` is the way to other sizes. ``before``, ``during`` and ``after`` are what the program wants called at
    each resize; ``stopped``: the first have been, and the others not yet. ``begun`` is an expansion whose constant data
    move beside the steps. For ``inhibit`` after a check no other one asks. ``sleepers`` are those of this group, on its
    rank 0; ``bed`` is there on one of them. ``catching_up``: the job's snapshot, while this rank has still to reach the
    loop that the job is in. ``watches``: ranks compare after each resize what newcomers miss; ``uses`` are told which
    arrays the program uses then.
    """

    bounds: Bounds
    wait: Wait
    group: int = 0
    node: str = ""
    connection: Connection | None = None
    negotiation: Negotiation | None = None
    started: tuple[int, ...] = (0,)
    team: Team | None = None
    epoch: int = 0
    fresh: bool = True
    released: bool = False
    model: Model | None = None
    agreed: Bounds | None = None
    result: str | None = None
    resizer: Resizer = field(default_factory=NoResizer)
    sleepers: ParkedRanks = field(default_factory=ParkedRanks)
    bed: ParkedRank | None = None
    named: set[str] = field(default_factory=set)
    arrays: dict[str, Movable] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)
    before: list[Callable[[], object]] = field(default_factory=list)
    during: list[Hook] = field(default_factory=list)
    after: list[Callable[[], object]] = field(default_factory=list)
    stopped: bool = False
    begun: Begun | None = None
    inhibit: Period = field(default_factory=Period)
    watches: bool = True
    uses: Uses = field(default_factory=Uses)
    catching_up: Snapshot | None = None

    def joined(self, what: str) -> Team:
        """The team; NotJoined or Released where there is none, and NotJoined on a rank that is not in its loop yet."""
        if self.team is None:
            raise Released if self.released else NotJoined(what)
        if self.catching_up is not None:
            raise NotJoined(what, self.catching_up.loop.number)
        return self.team

    def seat(self) -> Seat:
        """What a distributed array needs of this job."""
        return Seat(
            self.joined,
            self.wait,
            lambda name: list(self.arrays).index(name) * TAGS_EACH,
            self.uses,
            self._call,
        )

    def _call(self, tag: int) -> str:
        """The collective call whose messages have this tag; what is behind those of all arrays says that a rank has
        left its loop."""
        number, call = divmod(tag, TAGS_EACH)
        if number >= len(self.arrays):
            return "the end of its loop"
        return f"{CALL_NAMES[call]} of {list(self.arrays)[number]!r}"

    @property
    def broken(self) -> str:
        """Why the open resize cannot be done, as far as this rank has been told; empty if it can."""
        return "" if self.negotiation is None else self.negotiation.broken

    @property
    def speaks(self) -> bool:
        """Whether this rank is the root of a job that has a scheduler."""
        return self.connection is not None and self.team is not None and self.team.own.rank == 0

    def signature(self) -> str:
        """The arrays and values of this program, and how many functions take part in its resizes; equal on newcomers
        and on those they join."""
        arrays = [array.describe() for array in self.arrays.values()]
        verified = " with PLIANT_VERIFY" if environment.verifies() else ""
        hooks = f" and functions of during_resize: {len(self.during)}" if self.during else ""
        unwatched = "" if self.watches else " with watch=False"
        return f"arrays {arrays} and values {sorted(self.values)}{hooks}{verified}{unwatched}"

    def most_nodes(self, ranks: int) -> int:
        """The most nodes of ``ranks`` ranks each that the job grows to: where the program states no ``max``, no more
        than each rank has a share of every array on."""
        if self.bounds.max < MAX_NODES:
            return MAX_NODES
        most = [array.most_ranks for array in self.arrays.values()]
        return max(1, min((ranks_ // ranks for ranks_ in most if ranks_ is not None), default=MAX_NODES))

    def snapshot(self, step: int, loop: LoopPlace, should_s: float, paced_s: float) -> Snapshot:
        values = {name: replicated.value for name, replicated in self.values.items()}
        return Snapshot(step, loop, should_s, paced_s, self.model, values, self._forms())

    def _forms(self) -> dict[str, ArrayForm]:
        arrays = [each for each in self.arrays.values() if isinstance(each, Array)]
        return {each.name: each.changed for each in arrays if each.changed is not None}

    def restore(self, snapshot: Snapshot) -> None:
        """Take over what the job has; the team must be set."""
        self.model = snapshot.model
        for name, value in snapshot.values.items():
            self.values[name].take(value)
        for name, form in snapshot.forms.items():
            array = self.arrays[name]
            assert isinstance(array, Array)  # noqa: S101 - the ranks have registered the same
            array.take_form(form)

    def unsendable(self, slots: dict[int, int]) -> str:
        """Why newcomers, or ranks that wake for so many ``slots`` of groups, cannot be given rows, or the values as
        they are now; empty if they can.

        What was assigned has been checked, but a list, say, may have been changed since.
        """
        awake, most = self.joined("the job").awake, self.most_nodes(1)
        ranks = sum((awake | slots).values())
        if slots and ranks > most:
            return f"the program's arrays have rows for {count(most, 'rank')}, not for {ranks}"
        try:
            for replicated in self.values.values():
                replicated.check(replicated.value)
        except TypeError as error:
            return str(error)
        return ""

    def abandon(self) -> None:
        """The expansion that has begun comes to nothing. What moves is kept: MPI may yet write there."""
        if self.begun is not None:
            self.wait.keep(self.begun)
            self.begun = None

    def stop(self, snapshot: Snapshot) -> Snapshot:
        """Call what the program wants called before a resize, and wait for that on all ranks, as long as it takes: it
        is user code. The job's state as it is then; collective over the job."""
        self.stopped = True
        for hook in self.before:
            hook()
        barrier(self.joined("the job").own, self.wait, "what is called before a resize", limited=False)
        values = {name: each.value for name, each in self.values.items()}
        return snapshot._replace(values=values, forms=self._forms())

    def go_on(self) -> None:
        """Call what the program wants called after a resize."""
        self.stopped = False
        for hook in self.after:
            hook()

    def begin_catching_up(self, snapshot: Snapshot) -> None:
        """This rank has joined the job, and the job is in a loop that this rank has still to reach."""
        self.go_on()
        self.catching_up = snapshot
        for each in self.arrays.values():
            if isinstance(each, Array):
                each.hide()

    def end_catching_up(self) -> None:
        """This rank begins the loop that the job is in."""
        if self.catching_up is not None:
            self.catching_up = None
            for each in self.arrays.values():
                if isinstance(each, Array):
                    each.show()

    def before_loop(self, what: str, *, looping: bool) -> None:
        """Check that newcomers will register it as well."""
        if self.released:
            raise Released
        if looping:
            raise PliantError(
                f"{what} is registered inside or after the steps() loop, where a newcomer would not: "
                "move it before the loop"
            )

    def register(self, name: str, what: str, *, looping: bool) -> None:
        """Check that ``name`` is free for ``what`` and that newcomers will register it as well."""
        if not isinstance(name, str):
            raise TypeError(f"{name!r} is no name: {what} is registered under a text of its own")
        self.before_loop(repr(name), looping=looping)
        if name in self.arrays or name in self.values:
            has = "a value" if name in self.values else str(self.arrays[name].describe())
            raise PliantError(
                f"the name {name!r} is taken by another array or value of this job: {what} cannot have it "
                f"as well as {has}"
            )
