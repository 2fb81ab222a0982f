"""Ranks that stand in a grid: a Cartesian communicator for a job of its present size."""

from __future__ import annotations

from typing import NamedTuple

from mpi4py import MPI

from pliant.model.errors import PliantError


class Cart(NamedTuple):
    """The ranks of a job in a grid, from ``job.cart`` or ``array.cart``: take it anew in each step, never keep it, as a
    resize makes another one and frees this.

    Rank numbers are those of ``job.comm``: row-major, as MPI_Cart_create makes them. ``lines[i]`` has the ranks that
    differ from this one along axis i of the grid alone, in their order.
    """

    comm: MPI.Cartcomm
    lines: tuple[MPI.Intracomm, ...]

    @property
    def dims(self) -> tuple[int, ...]:
        """How many ranks stand along each axis."""
        return tuple(self.comm.dims)

    @property
    def periods(self) -> tuple[bool, ...]:
        """Which axes are periodic."""
        return tuple(map(bool, self.comm.periods))

    @property
    def coords(self) -> tuple[int, ...]:
        """Where this rank stands."""
        return tuple(self.comm.coords)

    @property
    def row(self) -> MPI.Intracomm:
        """The ranks of this one's row, in a grid of two axes; PliantError in others: take ``lines``."""
        return self._two_axes()[1]

    @property
    def column(self) -> MPI.Intracomm:
        """The ranks of this one's column, in a grid of two axes; PliantError in others: take ``lines``."""
        return self._two_axes()[0]

    def _two_axes(self) -> tuple[MPI.Intracomm, ...]:
        if len(self.lines) != 2:
            raise PliantError(f"a grid of {len(self.lines)} axes has no rows and columns: take cart.lines")
        return self.lines

    def shift(self, axis: int, by: int = 1) -> tuple[int, int]:
        """The ranks from which and to which this one shifts data along an axis, PROC_NULL behind its ends: as
        MPI_Cart_shift."""
        return self.comm.Shift(axis, by)
