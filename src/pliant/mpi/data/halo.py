"""Halos under way: what neighbours own is received where it belongs, while the program may compute on its own cells."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from pliant.mpi.data.alike import LookMaker
from pliant.mpi.data.delivery import as_bytes
from pliant.mpi.wait import Wait
from pliant.plan.data.spreads import HaloMove, HaloMoves


class HaloView(NamedTuple):
    """Cells that ``peer`` sends, or is sent. ``message``: as MPI takes them; None where they lie in pieces."""

    peer: int
    cells: NDArray[Any]
    message: list[Any] | None

    @classmethod
    def of(cls, data: NDArray[Any], move: HaloMove) -> HaloView:
        cells = data[move.at]
        return cls(move.peer, cells, as_bytes(cells) if cells.flags.c_contiguous else None)


class HaloViews(NamedTuple):
    """What one array receives, sends and copies, as (from, to), to fill its halo."""

    received: list[HaloView]
    sent: list[HaloView]
    copied: list[tuple[NDArray[Any], NDArray[Any]]]

    @classmethod
    def of(cls, data: NDArray[Any], moves: HaloMoves) -> HaloViews:
        return cls(
            [HaloView.of(data, move) for move in moves.received],
            [HaloView.of(data, move) for move in moves.sent],
            [(data[source], data[target]) for source, target in moves.copied],
        )


class HaloExchange:
    """The halo of the array ``name`` on its way, from ``array.iexchange_halo()``.

    Until it is complete the program must not read the halo, nor write the halo or the cells that neighbours receive.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what goes where, and how it is waited for
        self,
        name: str,
        views: HaloViews,
        comm: MPI.Intracomm,
        tag: int,
        wait: Wait,
        alike: LookMaker,
    ) -> None:
        self._name, self._wait, self._alike = name, wait, partial(alike, comm, tag)
        self._received = views.received
        self._buffers: list[tuple[NDArray[Any], NDArray[Any]]] = []
        self._requests: list[MPI.Request] = []
        for peer, cells, message in views.received:
            if message is None:
                buffer = np.empty(cells.shape, cells.dtype)
                self._buffers.append((cells, buffer))
                message = as_bytes(buffer)  # noqa: PLW2901 - it has none of its own
            self._requests.append(comm.Irecv(message, peer, tag))
        for peer, cells, message in views.sent:
            self._requests.append(comm.Isend(message or as_bytes(np.ascontiguousarray(cells)), peer, tag))
        for source, target in views.copied:
            target[...] = source
        self.complete = False

    def _awaited(self) -> list[int]:
        both = zip(self._received, self._requests, strict=False)
        return [view.peer for view, request in both if not request.Test()]

    def test(self) -> bool:
        """Whether it is complete; the halo may be read then."""
        if not self.complete and bool(MPI.Request.Testall(self._requests)):
            self._land()
        return self.complete

    def wait(self) -> None:
        """Until it is complete; PliantError if a neighbour is in a call of another array."""
        if not self.test():
            what, look = f"the halo of array {self._name!r}", self._alike(self._awaited)
            self._wait.requests(self._requests, what, limited=False, look=look)
            self._land()

    def _land(self) -> None:
        for cells, buffer in self._buffers:
            cells[...] = buffer
        # The program may keep this object over a resize, and an old block must not live by it.
        self._received, self._buffers, self._requests = [], [], []
        self.complete = True


class _Nothing(HaloExchange):
    """Where no halo is."""

    def __init__(self) -> None:
        self.complete = True


NOTHING = _Nothing()
