"""Which ranks exchange data at a resize, for a program that moves its own: Iserte et al. 2018, section 5.

Rank r of n has the part [r/n, (r+1)/n) of the whole. Where one size is a multiple of the other this is the paper's
pattern: a rank sends to as many consecutive ranks as the factor says, or as many send to one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Mapping(NamedTuple):
    """One rank's part in a resize from ``before`` to ``after`` ranks.

    ``receivers`` are the new ranks that need something of what this rank, by its old number, had; ``senders`` the old
    ranks that had something of what it needs by its new number. ``done``: False if the resize was called off. ``old``
    and ``new`` are its numbers, -1 before it has joined and after it leaves.

    In a hook that is called during a resize, receivers and senders are ranks of the communicator that comes with it;
    those of ``receivers`` have the new numbers ``to``, and those of ``senders`` had the old numbers ``of``.
    """

    before: int
    after: int
    receivers: tuple[int, ...]
    senders: tuple[int, ...]
    done: bool = True
    old: int = -1
    new: int = -1

    @property
    def to(self) -> tuple[int, ...]:
        """The new numbers of the receivers."""
        return partners(self.old, self.before, self.after) if self.old >= 0 else ()

    @property
    def of(self) -> tuple[int, ...]:
        """The old numbers of the senders."""
        return partners(self.new, self.after, self.before) if self.new >= 0 else ()


def partners(rank: int, of: int, others: int) -> tuple[int, ...]:
    """Of ``others`` ranks those whose parts overlap that of ``rank`` of ``of``, ascending. ValueError if there is no
    such rank."""
    if not 0 <= rank < of or others < 1:
        raise ValueError(f"there is no rank {rank} of {of} that exchanges data with {others} ranks")
    return tuple(range(rank * others // of, -(-(rank + 1) * others // of)))


def mapping(before: int, old: int, after: int, new: int, *, done: bool = True) -> Mapping:
    """The part of the rank that is ``old`` of ``before`` and then ``new`` of ``after``."""
    return Mapping(before, after, partners(old, before, after), partners(new, after, before), done, old, new)


def among(rank: int, sources: Sequence[int], targets: Sequence[int]) -> Mapping:
    """The part of ``rank`` of a communicator in which the old ranks are ``sources`` and the new ones ``targets``, in
    the order of their numbers; its partners are ranks of that as well."""
    old = sources.index(rank) if rank in sources else -1
    new = targets.index(rank) if rank in targets else -1
    bare = Mapping(len(sources), len(targets), (), (), old=old, new=new)
    return bare._replace(
        receivers=tuple(targets[number] for number in bare.to),
        senders=tuple(sources[number] for number in bare.of),
    )
