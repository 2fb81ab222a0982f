"""Which ranks exchange data at a resize, for a program that moves its own: paper 3, section 5.

Rank r of n has the part [r/n, (r+1)/n) of the whole. Where one size is a multiple of the other this is the paper's
pattern: a rank sends to as many consecutive ranks as the factor says, or as many send to one.
"""

from __future__ import annotations

from typing import NamedTuple


class Mapping(NamedTuple):
    """One rank's part in a resize from ``before`` to ``after`` ranks.

    ``receivers`` are the new ranks that need something of what this rank, by its old number, had; ``senders`` the old
    ranks that had something of what it needs by its new number. ``done``: False if the resize was called off.
    """

    before: int
    after: int
    receivers: tuple[int, ...]
    senders: tuple[int, ...]
    done: bool = True


def partners(rank: int, of: int, others: int) -> tuple[int, ...]:
    """Of ``others`` ranks those whose parts overlap that of ``rank`` of ``of``, ascending. ValueError if there is no
    such rank."""
    if not 0 <= rank < of or others < 1:
        raise ValueError(f"there is no rank {rank} of {of} that exchanges data with {others} ranks")
    return tuple(range(rank * others // of, -(-(rank + 1) * others // of)))


def mapping(before: int, old: int, after: int, new: int, *, done: bool = True) -> Mapping:
    """The part of the rank that is ``old`` of ``before`` and then ``new`` of ``after``."""
    return Mapping(before, after, partners(old, before, after), partners(new, after, before), done)
