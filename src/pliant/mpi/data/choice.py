"""Chooses the method that carries a stage of a redistribution. All ranks use the one that the first source names."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mpi4py import MPI

from pliant.mpi.data.alltoall import AllToAll
from pliant.mpi.data.delivery import BALANCED, SLOWEST, Delivery, MoveStage, unlike
from pliant.mpi.data.pointwise import PointToPoint
from pliant.mpi.data.shared import Neighbours, Shared
from pliant.mpi.errors import Undone
from pliant.mpi.team import gather_all
from pliant.mpi.wait import Look, Wait
from pliant.plan.data.methods import MoveMethod

METHODS = tuple(MoveMethod)
LONGEST = 1000
"""Characters of what a rank says that is wrong."""


class MethodChoice:
    """The method of one redistribution, from ``sources`` to ``targets``, ranks of ``comm``. What the first source was
    asked for counts. ``names`` are those of what moves, in the order of the tags."""

    def __init__(  # noqa: PLR0913, PLR0917 - what goes from where to where, and how
        self,
        comm: MPI.Intracomm,
        sources: Sequence[int],
        targets: Sequence[int],
        wait: Wait,
        asked: str,
        names: Sequence[str],
    ) -> None:
        self._comm, self._sources, self._targets, self._wait = comm, sources, targets, wait
        self._asked, self._names = asked, names
        self._neighbours: Neighbours | None = None
        self._looked = False

    def carry(self, stage: MoveStage, what: str, wrong: str) -> None:
        """Carry a stage out; collective. ``wrong``: what this rank cannot move. If any rank cannot, or expects what
        another does not send, Undone on all of them, before anything has moved in this stage."""
        method = self._agree(stage, wrong)
        delivery = self._make(method, stage)
        finish(delivery, self._wait, what, limited=True)

    def _agree(self, stage: MoveStage, wrong: str) -> MoveMethod:
        word = METHODS.index(MoveMethod(self._asked))
        mine = np.array([word, bool(wrong), stage.balance(self._comm.rank)], "i8")
        every = np.empty((self._comm.size, mine.size), "i8")
        self._wait.request(self._comm.Iallgather(mine, every), "all ranks to say what they send")
        if every[:, 1].any():
            said = gather_all(self._comm, wrong, self._wait, "what ranks cannot move")
            raise Undone(f"data cannot be moved: {_told(said)}")
        if int(every[:, 2].sum()) % BALANCED:
            lengths = gather_all(self._comm, stage.lengths(), self._wait, "what ranks send and expect")
            raise Undone(f"data cannot be moved: {unlike(lengths, self._names)}")
        return self._able(METHODS[int(every[self._sources[0], 0])])

    def _able(self, method: MoveMethod) -> MoveMethod:
        """That, or messages where memory cannot be read."""
        if method is MoveMethod.SHARED and not self._looked:
            self._neighbours, self._looked = Neighbours.find(self._comm, self._wait), True
        return MoveMethod.P2P if method is MoveMethod.SHARED and self._neighbours is None else method

    def _make(self, method: MoveMethod, stage: MoveStage) -> Delivery:
        match method:
            case MoveMethod.P2P:
                return PointToPoint(self._comm, stage)
            case MoveMethod.ALLTOALL:
                return AllToAll(self._comm, stage)
            case MoveMethod.SHARED:
                assert self._neighbours is not None  # noqa: S101 - _able() has found them
                return Shared(self._comm, stage, self._neighbours)


def _told(said: list[str]) -> str:
    """What each rank has said, once, with the ranks that have said the same."""
    ranks: dict[str, list[str]] = {}
    for rank, text in enumerate(said):
        if text:
            ranks.setdefault(text, []).append(str(rank))
    return "; ".join(
        f"on rank{'s' * (len(who) > 1)} {', '.join(who)} {text[:LONGEST]}{'...' * (len(text) > LONGEST)}"
        for text, who in ranks.items()
    )


def finish(delivery: Delivery, wait: Wait, what: str, *, limited: bool, look: Look | None = None) -> None:
    """Until all of it is done."""
    delivery.copy()
    wait.work(delivery.poll, delivery, what, work_s=delivery.bytes / SLOWEST, limited=limited, look=look)
    delivery.end()
