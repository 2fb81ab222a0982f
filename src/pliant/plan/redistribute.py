"""Block partitions of an axis, and the traffic that takes data from one partition to another.

Pure data: the executor in ``pliant.mpi`` turns every move into one send and one receive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Span(NamedTuple):
    """Rows ``start`` up to, not including, ``stop`` of the whole axis."""

    start: int
    stop: int

    @property
    def rows(self) -> int:
        return self.stop - self.start


class Move(NamedTuple):
    """Rows ``start`` .. ``stop`` go from ``source`` to ``target``, both ranks of the joint communicator."""

    source: int
    target: int
    start: int
    stop: int


class Kept(NamedTuple):
    """Rows ``start`` .. ``stop`` stay on ``rank``: a local copy."""

    rank: int
    start: int
    stop: int


class Traffic(NamedTuple):
    """What one redistribution moves: every row of the axis occurs once, in ``moves`` or in ``kept``.

    Both are sorted by their first row.
    """

    rows: int
    moves: tuple[Move, ...]
    kept: tuple[Kept, ...]


def block(rows: int, parts: int, part: int) -> Span:
    """The rows of one part; the first ``rows % parts`` parts have one more (as numpy.array_split).

    Raises ValueError if there is no such part.
    """
    if rows < 0 or parts < 1 or not 0 <= part < parts:
        raise ValueError(f"no part {part} of {rows} rows in {parts} parts")
    size, longer = divmod(rows, parts)
    start = part * size + min(part, longer)
    return Span(start, start + size + (part < longer))


def traffic(rows: int, sources: Sequence[int], targets: Sequence[int]) -> Traffic:
    """What has to move when ``sources`` hold the axis in blocks and ``targets`` are to hold it.

    Both are lists of ranks of the joint communicator, in the order of the blocks: in an expansion the sources
    are the first ranks and the targets all of them; in a shrink the sources are all ranks and the targets any
    of them. A rank occurs at most once in either. One sweep over both partitions, so the cost is
    O(sources + targets).
    """
    for name, ranks in (("sources", sources), ("targets", targets)):
        if not ranks or len(set(ranks)) != len(ranks):
            raise ValueError(f"{name} must be one or more different ranks, not {list(ranks)}")
    moves: list[Move] = []
    kept: list[Kept] = []
    i = j = row = 0
    while row < rows:
        old, new = block(rows, len(sources), i), block(rows, len(targets), j)
        stop = min(old.stop, new.stop)
        if stop > row:
            if sources[i] == targets[j]:
                kept.append(Kept(sources[i], row, stop))
            else:
                moves.append(Move(sources[i], targets[j], row, stop))
            row = stop
        i += old.stop == stop
        j += new.stop == stop
    return Traffic(rows, tuple(moves), tuple(kept))
