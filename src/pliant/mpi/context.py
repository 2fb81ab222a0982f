"""What a rank knows of its job: shared by the job's public face, its loop and its resizes."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pliant.job.connection import Connection
from pliant.job.decisions import Nothing, Source
from pliant.job.environment import Environment
from pliant.job.negotiation import Negotiation
from pliant.model.errors import PliantError
from pliant.model.jobs import Bounds
from pliant.model.speedup import Model
from pliant.mpi.arrays import Array, Seat, first_tag
from pliant.mpi.errors import NotJoined, Released
from pliant.mpi.team import Team
from pliant.mpi.wait import Wait

MAX_NODES = 1 << 16
"""The bound of programs that state none."""


class Replicated:
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


class Snapshot(NamedTuple):
    """What a newcomer gets besides the arrays' rows."""

    step: int
    total: int
    lag: int
    should_s: float
    paced_s: float
    model: Model | None
    values: dict[str, Any]


@dataclass
class Context:
    """``team`` is None on a newcomer that is not joined yet, and on a rank that has been released.

    ``bounds`` are the program's own, ``agreed`` those that the submission allows as well.

    ``connection`` and ``negotiation`` are there on rank 0 of every group that an agent started. ``started`` are
    the groups that were started together with this one, the leader first. ``joining``, on the root, are the
    newcomers that the job is being connected to right now: their loss cannot be undone any more. ``named`` are
    the arrays of which the program was told that it holds an old block. ``source`` decides where no agent is.
    """

    bounds: Bounds
    wait: Wait
    place: Environment | None = None
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
    joining: tuple[int, ...] = ()
    source: Source = field(default_factory=Nothing)
    named: set[str] = field(default_factory=set)
    arrays: dict[str, Array] = field(default_factory=dict)
    values: dict[str, Replicated] = field(default_factory=dict)

    def joined(self, what: str) -> Team:
        """The team; NotJoined or Released where there is none."""
        if self.team is None:
            raise Released if self.released else NotJoined(what)
        return self.team

    def seat(self) -> Seat:
        """What a distributed array needs of this job."""
        return Seat(self.joined, self.wait, lambda array: first_tag(list(self.arrays).index(array.name)))

    @property
    def speaks(self) -> bool:
        """Whether this rank is the root of a job that has a scheduler."""
        return self.connection is not None and self.team is not None and self.team.own.rank == 0

    def signature(self) -> str:
        """The arrays and values of this program; equal on newcomers and on those they join."""
        arrays = [array.describe() for array in self.arrays.values()]
        return f"arrays {arrays} and values {sorted(self.values)}"

    def most_nodes(self, ranks: int) -> int:
        """The most nodes of ``ranks`` ranks each on which every rank gets its share of every array."""
        return min((array.most_ranks // ranks for array in self.arrays.values()), default=MAX_NODES)

    def snapshot(self, step: int, total: int, lag: int, should_s: float, paced_s: float) -> Snapshot:
        values = {name: replicated.value for name, replicated in self.values.items()}
        return Snapshot(step, total, lag, should_s, paced_s, self.model, values)

    def restore(self, snapshot: Snapshot) -> None:
        """Take over what the job has; the team must be set."""
        self.model = snapshot.model
        for name, value in snapshot.values.items():
            self.values[name].take(value)

    def unsendable(self) -> str:
        """Why a newcomer cannot be given the values as they are now; empty if it can.

        What was assigned has been checked, but a list, say, may have been changed since.
        """
        try:
            for replicated in self.values.values():
                replicated.check(replicated.value)
        except TypeError as error:
            return str(error)
        return ""

    def register(self, name: str, *, looping: bool) -> None:
        """Check that ``name`` is free and that newcomers will register it as well."""
        if self.released:
            raise Released
        if looping:
            raise PliantError(
                f"{name!r} is registered inside or after the steps() loop, where a newcomer would not: "
                "move it before the loop"
            )
        if name in self.arrays or name in self.values:
            raise PliantError(f"the name {name!r} is taken by another array or value of this job")
