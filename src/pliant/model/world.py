"""Which processes share an MPI_COMM_WORLD."""

from __future__ import annotations

import msgspec


class MpiWorld(msgspec.Struct, frozen=True):
    """An MPI_COMM_WORLD, seen from one of its groups.

    World ``number`` of its job has groups of ``sizes`` ranks, one a node, and the ranks are numbered in that
    order; this group is the one at ``part``. A job that may be resized has a world a node, others have one.
    """

    number: int
    sizes: tuple[int, ...]
    part: int = 0

    @property
    def ranks(self) -> range:
        """The ranks of this group."""
        first = sum(self.sizes[: self.part])
        return range(first, first + self.sizes[self.part])

    @property
    def size(self) -> int:
        """All ranks."""
        return sum(self.sizes)
