"""Which method carries a stage: what was asked for, or what was quickest when it was tried. The same on all ranks."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import numpy as np
from mpi4py import MPI

from pliant.mpi.data.alltoall import AllToAll
from pliant.mpi.data.delivery import BALANCED, SLOWEST, Delivery, Stage, stage_of, unlike
from pliant.mpi.data.movable import Parcel, Parcels
from pliant.mpi.data.onesided import OneSided
from pliant.mpi.data.pointwise import PointToPoint
from pliant.mpi.data.shared import Neighbours, Shared
from pliant.mpi.errors import Undone
from pliant.mpi.team import gather_all
from pliant.mpi.wait import Wait
from pliant.plan.data.layouts import even
from pliant.plan.data.methods import AUTO, TRIED, TRY_FROM, MoveMethod, best, sample_bytes
from pliant.plan.data.traffic import traffic

TIMES = 3
"""Each method carries the sample so often: the first time makes connections."""
METHODS = tuple(MoveMethod)
UNKNOWN = -1

speeds: dict[MoveMethod, float] = {}
"""What was measured in this process, in bytes a second; a rank that tries has the figures of all."""


class Choice:
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

    def carry(self, stage: Stage, what: str, wrong: str) -> None:
        """Carry a stage out; collective. ``wrong``: what this rank cannot move. If any rank cannot, or expects what
        another does not send, Undone on all of them, before anything has moved in this stage."""
        method = self._agree(stage, wrong)
        delivery = self._make(method, stage)
        finish(delivery, self._wait, what, limited=True)

    def _agree(self, stage: Stage, wrong: str) -> MoveMethod:
        mine = np.array([self._word(), stage.sent, bool(wrong), stage.balance(self._comm.rank)], "i8")
        every = np.empty((self._comm.size, mine.size), "i8")
        self._wait.request(self._comm.Iallgather(mine, every), "all ranks to say what they send")
        if every[:, 2].any():
            said = gather_all(self._comm, wrong, self._wait, "what ranks cannot move")
            raise Undone(
                "data cannot be moved: "
                + "; ".join(f"on rank {rank} {text}" for rank, text in enumerate(said) if text)
            )
        if int(every[:, 3].sum()) % BALANCED:
            lengths = gather_all(self._comm, stage.lengths(), self._wait, "what ranks send and expect")
            raise Undone(f"data cannot be moved: {unlike(lengths, self._names)}")
        word, total = int(every[self._sources[0], 0]), int(every[:, 1].sum())
        if word != UNKNOWN:
            method = METHODS[word]
        elif total < TRY_FROM:
            method = MoveMethod.P2P
        else:
            method = self._try(total)
        return self._able(method)

    def _word(self) -> int:
        """What this rank would have: by name, or as it was measured before; UNKNOWN if it is to be tried."""
        if self._asked != AUTO:
            return METHODS.index(MoveMethod(self._asked))
        return METHODS.index(best(speeds)) if speeds else UNKNOWN

    def _able(self, method: MoveMethod) -> MoveMethod:
        """That, or messages where memory cannot be read."""
        if method is MoveMethod.SHARED and not self._looked:
            self._neighbours, self._looked = Neighbours.find(self._comm, self._wait), True
        return MoveMethod.P2P if method is MoveMethod.SHARED and self._neighbours is None else method

    def _make(self, method: MoveMethod, stage: Stage) -> Delivery:
        match method:
            case MoveMethod.P2P:
                return PointToPoint(self._comm, stage)
            case MoveMethod.ALLTOALL:
                return AllToAll(self._comm, stage)
            case MoveMethod.RMA:
                return OneSided(self._comm, stage, self._wait)
            case MoveMethod.SHARED:
                assert self._neighbours is not None  # noqa: S101 - _able() has found them
                return Shared(self._comm, stage, self._neighbours)

    # ---- trying -------------------------------------------------------------------------------------

    def _try(self, total: int) -> MoveMethod:
        """Carry a small sample by each method that may be taken, and keep what that took."""
        rows = sample_bytes(total)
        found: dict[MoveMethod, float] = {}
        for method in TRIED:
            if self._able(method) is method:
                found[method] = rows / self._sample_s(method, rows)
        speeds.clear()
        speeds.update(found)
        chosen = best(found)
        if self._comm.rank == self._sources[0]:
            figures = ", ".join(f"{each} {speed / 1e9:.1f}" for each, speed in found.items())
            sys.stderr.write(
                f"pliant: data of this job move by {chosen} from now on: it carried a sample of {rows >> 20} MiB at "
                f"(GB/s) {figures}; PLIANT_REDISTRIBUTE names another\n"
            )
        return chosen

    def _sample_s(self, method: MoveMethod, rows: int) -> float:
        """The least time that the slowest rank took, of a few."""
        old, new = even(rows, len(self._sources)), even(rows, len(self._targets))
        plan, rank = traffic(old, new, self._sources, self._targets), self._comm.rank
        took = []
        for _ in range(TIMES):
            sends = [Parcel(m.target, np.zeros(m.rows, "u1"), True) for m in plan.moves if m.source == rank]
            receives = [
                Parcel(m.source, np.empty(m.rows, "u1"), True) for m in plan.moves if m.target == rank
            ]
            self._wait.request(self._comm.Ibarrier(), "all ranks to try a method")
            began = time.perf_counter()
            made = self._make(method, stage_of(self._comm, [(0, Parcels(sends, receives))]))
            finish(made, self._wait, f"a sample by {method}", limited=True)
            slowest = np.array([time.perf_counter() - began])
            self._wait.request(self._comm.Iallreduce(MPI.IN_PLACE, slowest, MPI.MAX), "what a sample took")
            took.append(float(slowest[0]))
        return min(took)


def finish(delivery: Delivery, wait: Wait, what: str, *, limited: bool) -> None:
    """Until all of it is done."""
    delivery.copy()
    wait.work(delivery.poll, delivery, what, work_s=delivery.bytes / SLOWEST, limited=limited)
    delivery.end()
