"""Constant data that go to their new ranks while the program computes: it reads what it has, and what is to be is made
beside that."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from math import inf

from mpi4py import MPI

from pliant.mpi.data.delivery import SLOWEST, TAGS_EACH, Delivery, stage_of
from pliant.mpi.data.movable import Movable, Parcels, Way, checked
from pliant.mpi.data.pointwise import PointToPoint
from pliant.mpi.wait import Wait

FROM_BYTES = 16 << 20
"""On the root. Less moves in a few milliseconds, and a job that stops twice for it gains nothing."""
LONGEST_S = 10.0
"""Then the job stops, and the rest of it moves."""
SHARE = 0.1
"""Of the time between two steps, at most, that they give to it; a piece is copied as a whole."""


def worthwhile(movables: Iterable[Movable]) -> bool:
    """Whether so much of them is constant that it should move beside the steps."""
    return sum(each.held_bytes for each in movables if _may(each)) >= FROM_BYTES


def _may(movable: Movable) -> bool:
    return movable.constant and movable.moves_ahead


class Ahead:
    """The constant ones of ``movables`` on their way from the first ``sources`` ranks of ``comm`` to all of them;
    nothing is sent before :meth:`begin`."""

    def __init__(self, comm: MPI.Intracomm, sources: int, movables: Sequence[Movable]) -> None:
        self._comm = comm
        way = Way(comm.rank, range(sources), range(comm.size))
        # What moves is a copy of each, so that the program goes on to see what is there before.
        self._made = {each.name: copy(each) for each in movables if _may(each)}
        self._moves = [
            (number * TAGS_EACH, self._made[each.name].move(way))
            for number, each in enumerate(movables)
            if _may(each)
        ]
        self._first: list[tuple[int, Parcels]] | None = None
        self._delivery: Delivery | None = None
        self._copies: Iterator[None] = iter(())
        self._bytes = 0
        self._arrived: MPI.Request | None = None
        self._turned = self._began = time.perf_counter()

    def objection(self) -> str:
        """Why it cannot move on this rank; empty if it can. To be asked first, and once."""
        try:
            self._first = self._stage()
        except Exception as error:  # noqa: BLE001 - a program's memory may be gone in many ways
            names = ", ".join(map(repr, self._made))
            return f"of the constant data ({names}): {type(error).__name__}: {error}"
        return ""

    def _stage(self) -> list[tuple[int, Parcels]]:
        return [
            (tag, checked(parcels, self._comm.size))
            for tag, move in self._moves
            if (parcels := next(move, None)) is not None
        ]

    def begin(self) -> None:
        """All ranks can."""
        stage, self._first = self._first, None
        self._carry(stage or [])

    def _carry(self, stage: list[tuple[int, Parcels]]) -> None:
        if stage:
            self._delivery = PointToPoint(self._comm, stage_of(self._comm, stage))
            self._bytes += self._delivery.bytes
            self._copies = self._delivery.copying()
        else:
            self._delivery = None
            self._arrived = self._comm.Ibarrier()

    def poll(self, until: float = inf) -> bool:
        """Go on, and begin nothing more after ``until`` (perf_counter); whether all is there on all ranks."""
        while self._arrived is None:
            assert self._delivery is not None  # noqa: S101 - there is one, or all is on its way
            for _ in self._copies:
                self._delivery.poll()
                if time.perf_counter() > until:
                    return False
            if not self._delivery.poll():
                return False
            self._delivery.end()
            self._carry(self._stage())
        return bool(self._arrived.Test())

    def turn(self) -> None:
        """Between two steps."""
        now = time.perf_counter()
        self.poll(now + SHARE * (now - self._turned))
        self._turned = time.perf_counter()

    @property
    def there(self) -> bool:
        """Whether the job should stop for the rest: all has come, or it has had its time."""
        arrived = self._arrived is not None and self._arrived.Test()
        return bool(arrived) or time.perf_counter() - self._began > LONGEST_S

    def finish(self, wait: Wait, *, limited: bool = True) -> None:
        """Until all is there on all ranks; ``limited``: they do nothing else."""
        wait.work(self.poll, self, "the constant data to move", work_s=self._bytes / SLOWEST, limited=limited)

    def take(self, movable: Movable) -> bool:
        """Have it hold what has moved, as after a move of its own; whether it has."""
        made = self._made.pop(movable.name, None)
        if made is None:
            return False
        vars(movable).update(vars(made))
        return True

    def close(self) -> None:
        """What it has of the blocks of before is let go of."""
        self._moves.clear()
        self._delivery = None
