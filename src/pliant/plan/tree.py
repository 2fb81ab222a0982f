"""Trees over the agents of a launch: who starts whom, and which way a message goes.

The controller is rank 0, the agents are ranks 1 to n, in the order of their nodes. Below every rank lie consecutive
ranks; a tree says how these are cut into spans, the first of each a child and the others below that child. So an agent
needs to know no more than its own span, and a message finds its way by comparing numbers (Bosilca et al. 2011,
Algorithm 1: ``direct`` and ``offsprings``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import msgspec


class Subtree(NamedTuple):
    """Ranks ``child`` <= r < ``end``: the child, and those below it."""

    child: int
    end: int

    def __contains__(self, rank: object) -> bool:
        return isinstance(rank, int) and self.child <= rank < self.end


class TreeShape(Protocol):
    """A shape, for any number of ranks."""

    def spans(self, first: int, end: int) -> Iterator[Subtree]:
        """Cut the ranks ``first`` <= r < ``end``, all that are below one, into its children with what is below each."""


class KAry(msgspec.Struct, frozen=True):
    """Every rank has at most ``degree`` children, and what is below them is as equal as can be: so no tree of this
    degree is less deep."""

    degree: int

    def __post_init__(self) -> None:
        if self.degree < 1:
            raise ValueError(f"a tree of degree {self.degree}: every inner agent has at least one child")

    def spans(self, first: int, end: int) -> Iterator[Subtree]:
        parts = min(self.degree, end - first)
        for part in range(parts):
            size, more = divmod(end - first, parts - part)
            begin, first = first, first + size + (more > 0)
            yield Subtree(begin, first)


class Binomial(msgspec.Struct, frozen=True):
    """The half of what is there with each child in turn: the root has log2 n children, and no agent is further away."""

    def spans(self, first: int, end: int) -> Iterator[Subtree]:
        while first < end:
            begin, first = first, first + (end - first + 1) // 2
            yield Subtree(begin, first)


class Direct(msgspec.Struct, frozen=True):
    """All agents are children of the root."""

    def spans(self, first: int, end: int) -> Iterator[Subtree]:
        return (Subtree(rank, rank + 1) for rank in range(first, end))


def span_of(tree: TreeShape, rank: int, whole: Subtree) -> tuple[tuple[int, ...], Subtree]:
    """The ranks from the root of ``whole`` down to the parent of ``rank``, and the rank's own span; ValueError if it is
    not in there."""
    if rank not in whole:
        raise ValueError(f"rank {rank} is not among {whole.child} to {whole.end - 1}")
    path: list[int] = []
    while whole.child != rank:
        path.append(whole.child)
        whole = next(span for span in tree.spans(whole.child + 1, whole.end) if rank in span)
    return tuple(path), whole


def depth(tree: TreeShape, agents: int) -> int:
    """How many steps the furthest of ``agents`` agents is from the root."""
    deepest, level = 0, [Subtree(0, agents + 1)]
    while level := [span for above in level for span in tree.spans(above.child + 1, above.end)]:
        deepest += 1
    return deepest


TREES = ("binomial", "direct")


def named(text: str) -> TreeShape:
    """A tree by its name: binomial, direct, or a degree such as 32; ValueError for others."""
    if text == "binomial":
        return Binomial()
    if text == "direct":
        return Direct()
    if text.isascii() and text.isdigit() and int(text):
        return KAry(int(text))
    raise ValueError(f"{text!r} is no tree: write {', '.join(TREES)} or a degree such as 32")
