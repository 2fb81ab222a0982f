"""Sparse matrices in CSR form that are spread over the ranks by rows: row starts, columns and values move together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol
from weakref import ref

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pliant.model.errors import PliantError
from pliant.mpi.data.arrays import Part, Seat, parcels, row_numbers, shape_of, spoil
from pliant.mpi.data.movable import SUM, Copy, Movable, Parcel, Parcels, Way
from pliant.mpi.data.transport import deliver
from pliant.mpi.data.verify import elements
from pliant.plan.data.layouts import Contiguous
from pliant.plan.data.splits import Cuts, RowRange, Stripe, even
from pliant.plan.data.spreads import line
from pliant.plan.data.traffic import traffic


class Csr(NamedTuple):
    """Rows of a sparse matrix: row i has the columns ``indices[indptr[i]:indptr[i + 1]]``, with these of ``data``."""

    indptr: NDArray[Any]
    indices: NDArray[Any]
    data: NDArray[Any]


class Compressed(Protocol):
    """What SciPy's CSR matrices and arrays have, and :class:`Csr` too."""

    @property
    def indptr(self) -> NDArray[Any]: ...
    @property
    def indices(self) -> NDArray[Any]: ...
    @property
    def data(self) -> NDArray[Any]: ...


class HeldRows(NamedTuple):
    """What a rank has of the matrix: part ``part`` of ``split``."""

    split: Cuts
    part: int
    csr: Csr

    def check(self) -> None:
        """ValueError if the program has given some of it back, or made of it what is no matrix. Elements behind the
        last row are let be: SciPy leaves them there when it drops some in place."""
        indptr, indices, data = self.csr
        rows = self.split.size(self.part)
        if indptr.shape != (rows + 1,) or indptr[0] != 0 or (np.diff(indptr) < 0).any():
            shown = f"from {indptr[0]} to {indptr[-1]}" if indptr.ndim == 1 and len(indptr) else "gone"
            raise ValueError(
                f"the program has changed its memory: .local of {rows} rows has {indptr.size} row starts now, {shown}"
            )
        if indices.ndim != 1 or data.ndim != 1 or min(len(indices), len(data)) < indptr[-1]:
            raise ValueError(
                f"the program has given its memory back: .local of {indptr[-1]} elements has {indices.size} indices "
                f"and {data.size} data now"
            )


class Rows(Movable):
    """One distributed sparse matrix; made by ``job.csr``, never directly. It has no elements at first: see :meth:`put`.

    A rank owns consecutive rows, which may be none. Row starts are int64, columns int64 or what was asked for.
    """

    moves_ahead = True

    def __init__(  # noqa: PLR0913, PLR0917 - what a matrix is
        self,
        name: str,
        shape: tuple[int, int],
        dtype: DTypeLike,
        index: DTypeLike,
        layout: Contiguous,
        seat: Seat,
        *,
        constant: bool = False,
    ) -> None:
        self.name = name
        lengths = shape_of(shape, f"matrix {name!r}")
        if len(lengths) != 2 or min(lengths) < 0:
            raise ValueError(f"matrix {name!r}: {shape} is no shape of a matrix")
        self.shape = (lengths[0], lengths[1])
        self.dtype, self.index = np.dtype(dtype), np.dtype(index)
        self.layout = layout
        self.constant = constant
        self._seat = seat
        self._held: HeldRows | None = None
        self._before: HeldRows | None = None
        if not hasattr(layout, "halo") or layout.halo or layout.axis or not isinstance(self._cut(1), Cuts):
            raise ValueError(
                f"matrix {name!r}: {layout} spreads no rows; use Block(), Irregular(...) or Weighted(...), without halo"
            )
        if self.dtype.hasobject or self.dtype.subdtype or self.index.kind not in "iu":
            raise ValueError(
                f"matrix {name!r} cannot have elements of {self.dtype} and columns of {self.index}"
            )
        if self.shape[1] - 1 > np.iinfo(self.index).max:
            raise ValueError(f"matrix {name!r} has {self.shape[1]} columns, too many for {self.index}")
        try:
            layout.check(self.shape[0])
        except ValueError as error:
            raise ValueError(f"matrix {name!r} of shape {self.shape}: {error}") from None

    def _cut(self, parts: int) -> Cuts:
        return self.layout.split(self.shape[0], parts)

    @property
    def most_ranks(self) -> int | None:
        return max(1, self.shape[0])

    def describe(self) -> tuple[object, ...]:
        """What has to be equal on all ranks."""
        constant = ["constant"] if self.constant else []
        return (self.name, self.shape, "csr", str(self.dtype), str(self.index), self.layout, *constant)

    # ---- what the program has of it -----------------------------------------------------------------

    def _mine(self) -> HeldRows:
        self._seat.team(f"the rows of matrix {self.name!r}")
        if self._held is None:
            raise RuntimeError(f"matrix {self.name!r} has no data on this rank")
        return self._held

    def owned_rows(self) -> RowRange:
        """The rows this rank owns, as numbers of the whole matrix."""
        held = self._mine()
        return held.split.span(held.part)

    @property
    def local(self) -> Csr:
        """This rank's rows: new ones after every resize, so take them in each step. Row 0 is its first."""
        if self._seat.uses.on:
            self._seat.uses.note(self.name)
        return self._mine().csr

    def matrix(self) -> Any:
        """This rank's rows as a SciPy CSR array, which shares ``local``'s memory where SciPy can take it as it is;
        PliantError without SciPy."""
        try:
            from scipy.sparse import csr_array
        except ModuleNotFoundError:
            raise PliantError(
                "matrix() needs SciPy: pip install scipy; local has its three arrays without"
            ) from None
        indptr, indices, data = self.local
        return csr_array((data, indices, indptr), shape=(len(indptr) - 1, self.shape[1]))

    def put(self, matrix: Compressed) -> None:
        """Take these as this rank's rows: a SciPy CSR matrix, or a :class:`Csr`. They are copied.

        ValueError if they are not as many, or if the three arrays do not belong together.
        """
        held = self._mine()
        rows = held.split.size(held.part)
        indptr = np.array(matrix.indptr, "i8")
        indices, data = np.asarray(matrix.indices), np.asarray(matrix.data)
        what = f"matrix {self.name!r}"
        if indptr.shape != (rows + 1,):
            raise ValueError(f"{what}: {len(indptr) - 1} rows were put where this rank owns {rows}")
        if indptr[0] != 0 or (np.diff(indptr) < 0).any() or not len(indices) == len(data) == indptr[-1]:
            raise ValueError(f"{what}: indptr goes from {indptr[0]} to {indptr[-1]}, with {len(indices)} indices and {len(data)} elements")  # fmt: skip # noqa: E501
        if len(indices) and not 0 <= indices.min() <= indices.max() < self.shape[1]:
            raise ValueError(
                f"{what} has {self.shape[1]} columns, and indices are {indices.min()} to {indices.max()}"
            )
        self._held = held._replace(csr=Csr(indptr, indices.astype(self.index), data.astype(self.dtype)))

    def gather(self) -> Csr | None:
        """The whole matrix on rank 0 of ``job.comm``, None elsewhere; collective over the job."""
        held, comm = self._mine(), self._seat.team(f"{self.name}.gather").own
        try:
            held.check()
        except ValueError as error:
            raise ValueError(f"matrix {self.name!r}: {error}") from None
        way, one = Way(comm.rank, range(comm.size), [0]), even(self.shape[0], 1)
        whole: list[Csr] = []
        moves = self._stages(held, one, way, whole)
        what = f"the rows of matrix {self.name!r}"
        deliver(comm, self._seat.tag(self.name), moves, self._seat.wait, what, self._seat.alike)
        return whole[0] if whole else None

    # ---- moving -------------------------------------------------------------------------------------

    def begin(self) -> None:
        """No elements."""
        own = self._seat.team(f"matrix {self.name!r}").own
        split = self._cut(own.size)
        self._held = HeldRows(split, own.rank, self._room(np.zeros(split.size(own.rank), "i8")))

    def _room(self, lengths: NDArray[Any]) -> Csr:
        """For rows of so many elements each."""
        indptr = np.zeros(len(lengths) + 1, "i8")
        np.cumsum(lengths, out=indptr[1:])
        return Csr(indptr, np.empty(indptr[-1], self.index), np.empty(indptr[-1], self.dtype))

    def move(self, way: Way) -> Iterator[Parcels]:
        self._before, self._held = self._held, None
        split, made = self._cut(len(way.targets)), list[Csr]()
        yield from self._stages(self._before, split, way, made)
        if way.new_part is not None:
            self._held = HeldRows(split, way.new_part, made[0])

    def _stages(self, held: HeldRows | None, new_split: Cuts, way: Way, made: list[Csr]) -> Iterator[Parcels]:
        """First how long the rows are, then what is in them; targets find theirs in ``made``."""
        if held is not None:
            held.check()
        old_split = self._cut(len(way.sources))
        lengths = None if held is None else np.diff(held.csr.indptr)
        old = None if held is None or lengths is None else Part(lengths, line(old_split), held.part)
        coming = None if way.new_part is None else np.empty(new_split.size(way.new_part), "i8")
        new = None if way.new_part is None or coming is None else Part(coming, line(new_split), way.new_part)
        yield parcels(old, new, way, line(old_split), line(new_split))
        if coming is not None:
            made.append(self._room(coming))
        yield self._contents(held, made, way, old_split, new_split)

    def _contents(
        self, held: HeldRows | None, made: list[Csr], way: Way, old_split: Cuts, new_split: Cuts
    ) -> Parcels:
        def of(csr: Csr, split: Cuts, part: int, stripe: Stripe) -> Iterator[NDArray[Any]]:
            first, width, _, _ = split.place(part, stripe)
            elements = slice(csr.indptr[first], csr.indptr[first + width])
            yield from (csr.indices[elements], csr.data[elements])

        def old(stripe: Stripe) -> Iterator[NDArray[Any]]:
            return iter(()) if held is None else of(held.csr, old_split, held.part, stripe)

        def new(stripe: Stripe) -> Iterator[NDArray[Any]]:
            return iter(()) if way.new_part is None else of(made[0], new_split, way.new_part, stripe)

        plan = traffic(line(old_split), line(new_split), way.sources, way.targets, way.rank)
        sends = [
            Parcel(m.target, v, plain=True)
            for m in plan.moves
            if m.source == way.rank
            for (s,) in m.patches
            for v in old(s)
        ]
        receives = [
            Parcel(m.source, v, plain=True)
            for m in plan.moves
            if m.target == way.rank
            for (s,) in m.patches
            for v in new(s)
        ]
        kept = [s for m in plan.kept for (s,) in m.patches]
        copies = [Copy(one, other) for s in kept for one, other in zip(old(s), new(s), strict=True)]
        return Parcels(sends, receives, copies)

    @property
    def held_bytes(self) -> int:
        return 0 if self._held is None else sum(each.nbytes for each in self._held.csr)

    def undo(self) -> None:
        self._held, self._before = self._before, None

    def settle(self) -> bool:
        """As that of an array: what the program still holds of before is filled and locked."""
        held, self._before = self._before, None
        seen = [] if held is None else [ref(each) for each in held.csr]
        del held
        still = [old for each in seen if (old := each()) is not None]
        for old in still:
            spoil(old, [])
        return bool(still)

    def checksum(self) -> int:
        """Of all elements with row and column, and of where they are within their row."""
        if self._held is None:
            return 0
        self._held.check()
        split, part, (indptr, indices, data) = self._held
        indices, data = indices[: indptr[-1]], data[: indptr[-1]]
        lengths, rows = np.diff(indptr), row_numbers(split, part)
        within = np.arange(len(indices)) - np.repeat(indptr[:-1], lengths)
        place = (np.repeat(rows, lengths) * 0x1F123BB5 + within).astype("u8")
        total = elements(lengths, rows.astype("u8"))
        return (total + 3 * elements(indices, place) + 5 * elements(data, place)) % SUM
