"""Arrays that are spread over the ranks in blocks of one axis, and follow the job through its resizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple
from weakref import ReferenceType, WeakValueDictionary, ref

import numpy as np
from mpi4py import MPI
from numpy.typing import DTypeLike, NDArray

from pliant.mpi.team import Team
from pliant.mpi.wait import Wait
from pliant.plan.redistribute import Span, block, traffic

_TAGS_EACH = 3
_UP, _DOWN, _WHOLE = range(_TAGS_EACH)


class Block(NamedTuple):
    """Consecutive blocks of ``axis``, the first ones a row longer where it does not divide evenly.

    ``halo`` rows of each neighbour's block are kept beside a rank's own.
    """

    axis: int = 0
    halo: int = 0


class Array:
    """One distributed array; made by ``job.array``, never directly.

    A rank *owns* a block of rows (of the block axis); ``local`` is that block and, beyond it, up to ``halo``
    rows of each neighbour. At the two ends of the whole array there is no neighbour and no halo.
    """

    def __init__(
        self, name: str, shape: tuple[int, ...], dtype: DTypeLike, spread: Block, seat: Seat
    ) -> None:
        self.name = name
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.spread = spread
        self._seat = seat
        self._data: NDArray[Any] | None = None
        self._owned: WeakValueDictionary[int, NDArray[Any]] = WeakValueDictionary()
        self._before: ReferenceType[NDArray[Any]] | None = None
        if not 0 <= spread.axis < len(shape):
            raise ValueError(f"array {name!r} of shape {shape} has no axis {spread.axis}")
        if spread.halo < 0:
            raise ValueError(f"array {name!r}: halo is {spread.halo}; it must be 0 or more")
        if self.dtype.hasobject:
            raise ValueError(f"array {name!r}: dtype {self.dtype} holds Python objects, which cannot be sent")

    @property
    def rows(self) -> int:
        """The length of the block axis of the whole array."""
        return self.shape[self.spread.axis]

    @property
    def most_ranks(self) -> int:
        """The most ranks that can each own a row, and as many rows as the halo is deep; at least 1."""
        return max(1, self.rows // max(1, self.spread.halo))

    def check_ranks(self, ranks: int, advice: str) -> None:
        """ValueError if ``ranks`` ranks cannot each own a row, and as many rows as the halo is deep."""
        if ranks > self.most_ranks or self.rows < 1:
            raise ValueError(
                f"array {self.name!r} has {self.rows} rows along axis {self.spread.axis} and a halo of "
                f"{self.spread.halo}: at most {self.most_ranks} ranks can each hold a block, and there may be "
                f"{ranks}; {advice}"
            )

    # ---- where things are ---------------------------------------------------------------------------

    def owned_rows(self, parts: int | None = None, part: int | None = None) -> Span:
        """The rows this rank owns, as numbers of the whole array."""
        team = self._seat.team(f"the block of array {self.name!r}")
        return block(
            self.rows,
            team.own.size if parts is None else parts,
            team.own.rank if part is None else part,
        )

    def _with_halo(self, owned: Span) -> Span:
        halo = self.spread.halo
        return Span(max(0, owned.start - halo), min(self.rows, owned.stop + halo))

    def _cut(self, start: int, stop: int) -> tuple[slice, ...]:
        """Index of rows ``start`` .. ``stop`` of the block axis, all of the others."""
        axis = self.spread.axis
        return tuple(slice(start, stop) if i == axis else slice(0, n) for i, n in enumerate(self.shape))

    @property
    def local(self) -> NDArray[Any]:
        """This rank's rows with the halo: writable, and a new array after every resize, so take it in each step.

        One that is kept over a resize is no part of the array any more: see :meth:`retire`.
        """
        self._seat.team(f"{self.name}.local")
        if self._data is None:
            raise RuntimeError(f"array {self.name!r} has no data on this rank")
        return self._data

    @property
    def index(self) -> tuple[slice, ...]:
        """Where ``local`` lies in the whole array: ``whole[a.index]`` has the shape of ``a.local``."""
        return self._cut(*self._with_halo(self.owned_rows()))

    @property
    def owned(self) -> NDArray[Any]:
        """The part of ``local`` that this rank owns: a view without the halo. As ``local``, it is not to be kept."""
        mine = self.owned_rows()
        first = self._with_halo(mine).start
        view = self.local[self._cut(mine.start - first, mine.stop - first)]
        self._owned[id(view)] = view
        return view

    @property
    def owned_index(self) -> tuple[slice, ...]:
        """Where ``owned`` lies in the whole array."""
        return self._cut(*self.owned_rows())

    # ---- moving data --------------------------------------------------------------------------------

    def allocate(self) -> None:
        """Zeros for this rank's block."""
        mine = self._with_halo(self.owned_rows())
        self._data = np.zeros([s.stop - s.start for s in self._cut(*mine)], self.dtype)

    def exchange_halo(self) -> None:
        """Fill the halo with the neighbours' own rows; collective over the job."""
        team, halo = self._seat.team(f"{self.name}.exchange_halo"), self.spread.halo
        comm, rank, local = team.own, team.own.rank, self.local
        if halo == 0 or comm.size == 1:
            return
        rows, tag = local.shape[self.spread.axis], self._seat.tag(self)
        mail = Mail(comm)
        if rank > 0:
            mail.receive(local[self._cut(0, halo)], rank - 1, tag + _DOWN)
        if rank < comm.size - 1:
            mail.receive(local[self._cut(rows - halo, rows)], rank + 1, tag + _UP)
        if rank > 0:
            mail.send(local[self._cut(halo, 2 * halo)], rank - 1, tag + _UP)
        if rank < comm.size - 1:
            mail.send(local[self._cut(rows - 2 * halo, rows - halo)], rank + 1, tag + _DOWN)
        mail.finish(self._seat.wait, f"the halo of array {self.name!r}", limited=False)

    def gather(self) -> NDArray[Any] | None:
        """The whole array on rank 0 of ``job.comm``, None elsewhere; collective over the job."""
        comm = self._seat.team(f"{self.name}.gather").own
        tag, mail = self._seat.tag(self) + _WHOLE, Mail(comm)
        whole: NDArray[Any] | None = None
        if comm.rank == 0:
            whole = np.empty(self.shape, self.dtype)
            whole[self.owned_index] = self.owned
            for rank in range(1, comm.size):
                mail.receive(whole[self._cut(*self.owned_rows(part=rank))], rank, tag)
        else:
            mail.send(self.owned, 0, tag)
        mail.finish(self._seat.wait, f"the blocks of array {self.name!r}", limited=False)
        return whole

    def describe(self) -> tuple[str, tuple[int, ...], str, Block]:
        """What has to be equal on all ranks."""
        return (self.name, self.shape, self.dtype.str, self.spread)

    def move(self, mail: Mail, sources: Sequence[int], targets: Sequence[int], tag: int) -> None:
        """Post what takes this array from ``sources`` to ``targets``, ranks of the mail's communicator.

        Receives and local copies are made here, sends are left to ``mail.finish``. Halos are not filled.
        """
        rank = mail.comm.rank
        plan = traffic(self.rows, sources, targets)
        old, self._data = self._data, None
        self._before = None if old is None else ref(old)
        old_first = 0
        if rank in sources:
            old_first = self._with_halo(block(self.rows, len(sources), sources.index(rank))).start
        if rank in targets:
            mine = self._with_halo(block(self.rows, len(targets), targets.index(rank)))
            self._data = np.empty([s.stop - s.start for s in self._cut(*mine)], self.dtype)
            first = mine.start
            for source, target, start, stop in plan.moves:
                if target == rank:
                    mail.receive(self._data[self._cut(start - first, stop - first)], source, tag)
            for keeper, start, stop in plan.kept:
                if keeper == rank and old is not None:
                    here = self._data[self._cut(start - first, stop - first)]
                    here[...] = old[self._cut(start - old_first, stop - old_first)]
        if old is not None:
            for source, target, start, stop in plan.moves:
                if source == rank:
                    mail.send_later(old[self._cut(start - old_first, stop - old_first)], target, tag)

    def retire(self) -> bool:
        """Whether the program still holds the block of before the last move, when its mail is finished.

        It would compute with old data, and write where nobody reads. So that this is seen, the block is filled
        with :func:`filler`, and what was handed out as ``local`` or ``owned`` is made read-only.
        """
        old = None if self._before is None else self._before()
        views, self._before, self._owned = [*self._owned.values()], None, WeakValueDictionary()
        if old is None:
            return False
        old.flags.writeable = True  # the program itself may have locked it
        if (value := filler(old.dtype)) is not None:
            old.fill(value)
        for view in (old, *views):
            view.flags.writeable = False
        return True


def filler(dtype: np.dtype[Any]) -> Any:
    """What nobody takes for data: NaN, NaT, the integer furthest from 0; None where a type has no such value."""
    match dtype.kind:
        case "f" | "c":
            return np.nan
        case "m" | "M":
            return np.array("NaT", dtype)[()]
        case "i":
            return np.iinfo(dtype).min
        case "u":
            return np.iinfo(dtype).max
        case _:
            return None


class Seat(NamedTuple):
    """What an array needs of its job: the team (or NotJoined), its waits, its message tags."""

    team: Callable[[str], Team]
    wait: Wait
    tag: Callable[[Array], int]


class Mail:
    """A set of messages that are completed together; views need not be contiguous."""

    def __init__(self, comm: MPI.Intracomm) -> None:
        self.comm = comm
        self._requests: list[MPI.Request] = []
        self._kept: list[NDArray[Any]] = []
        self._landings: list[tuple[NDArray[Any], NDArray[Any]]] = []
        self._later: list[tuple[NDArray[Any], int, int]] = []

    def send(self, view: NDArray[Any], target: int, tag: int) -> None:
        data = np.ascontiguousarray(view)
        self._kept.append(data)
        self._requests.append(self.comm.Isend(_bytes(data), target, tag))

    def send_later(self, view: NDArray[Any], target: int, tag: int) -> None:
        """Send once all receives are posted: large messages then go straight to their place."""
        self._later.append((view, target, tag))

    def receive(self, view: NDArray[Any], source: int, tag: int) -> None:
        data = view
        if not view.flags.c_contiguous:
            data = np.empty(view.shape, view.dtype)
            self._landings.append((view, data))
        self._requests.append(self.comm.Irecv(_bytes(data), source, tag))

    def finish(self, wait: Wait, what: str, *, limited: bool = True) -> None:
        """Complete everything. The wait is not limited where a peer may still be in user code."""
        for view, target, tag in self._later:
            self.send(view, target, tag)
        wait.requests(self._requests, what, limited=limited)
        for view, data in self._landings:
            view[...] = data


def _bytes(data: NDArray[Any]) -> list[Any]:
    return [data, prod(data.shape) * data.itemsize, MPI.BYTE]


def redistribute(
    arrays: Sequence[Array], comm: MPI.Intracomm, sources: Sequence[int], targets: Sequence[int], wait: Wait
) -> None:
    """Take all arrays from ``sources`` to ``targets``, ranks of ``comm``; collective over ``comm``."""
    mail = Mail(comm)
    for i, array in enumerate(arrays):
        array.move(mail, sources, targets, i * _TAGS_EACH)
    mail.finish(wait, "the redistribution of the arrays")


def first_tag(position: int) -> int:
    """The first of the tags of the array registered at ``position``."""
    return position * _TAGS_EACH
