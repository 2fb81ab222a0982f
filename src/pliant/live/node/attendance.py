"""Which ranks of a group have called MPI_Init and MPI_Finalize, and which have ended."""

from __future__ import annotations


class Attendance:
    """A rank that ends between the two has left the others: they wait for it in MPI, or will."""

    def __init__(self) -> None:
        self._there: set[int] = set()
        self._through: set[int] = set()
        self._ended: set[int] = set()

    def initialized(self, rank: int) -> None:
        """A process of ``rank`` is in MPI_Init; an earlier one may have been through."""
        self._there.add(rank)
        self._through.discard(rank)

    def finalized(self, rank: int) -> None:
        self._through.add(rank)

    def ended(self, rank: int) -> None:
        self._ended.add(rank)

    def is_early(self, rank: int) -> bool:
        """Whether ``rank``, if it ends now, has called MPI_Init and not MPI_Finalize."""
        return rank in self._there and rank not in self._through

    def missing(self, *, at_barrier: bool = False) -> str:
        """Why those that have called MPI_Init wait in vain, as others have ended; nothing if they do not. Ranks of one
        node wait for each other in memory that they share before they come to a barrier: ``at_barrier``."""
        never = self._ended - self._there if self._there else set()
        if not (missed := self._ended if at_barrier else never):
            return ""
        ranks = ", ".join(map(str, sorted(missed)))
        return (
            f"rank {ranks} has ended, and others wait for it in MPI_Init or MPI_Finalize: "
            "all ranks of a world have to call both, or none"
        )
