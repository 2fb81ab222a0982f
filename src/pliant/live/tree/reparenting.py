"""Who is below whom in a launch tree, after losses: the tree says it of all but those that have been adopted."""

from __future__ import annotations

from collections.abc import Iterator

from pliant.plan.tree import Subtree


class Reparenting:
    """As the agent of rank ``here`` knows it. Whoever loses its parent calls one further up, each time a lower rank:
    of several that have adopted an agent it is below the lowest."""

    def __init__(self, here: int) -> None:
        self._here = here
        self._moved: dict[int, tuple[Subtree, int]] = {}
        """By rank: it and what is below it by the tree, and who has adopted it."""

    def note(self, subtree: Subtree, parent: int) -> bool:
        """``parent`` has adopted the first of ``subtree``. Whether that is news."""
        _, before = self._moved.get(subtree.child, (subtree, subtree.child))
        if parent < before:
            self._moved[subtree.child] = subtree, parent
        return parent < before

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Those that were adopted here, or below, each with its parent."""
        return ((rank, parent) for rank, (_, parent) in self._moved.items() if parent >= self._here)

    def under(self, rank: int, top: int) -> bool:
        """Whether ``rank``, of those that the tree has below ``top`` or ``top`` itself, is still there."""
        while rank > top:
            moved = self._last(rank)
            if moved <= top:
                return True
            rank = self._moved[moved][1]
        return rank == top

    def way(self, rank: int, children: dict[int, Subtree]) -> int | None:
        """The child of this one by which ``rank`` is reached."""
        while True:
            moved = self._last(rank)
            child = max((each for each, subtree in children.items() if rank in subtree), default=self._here)
            if child >= moved:
                return child if child > self._here else None
            rank = self._moved[moved][1]
            if rank <= self._here:
                return None

    def _last(self, rank: int) -> int:
        """Of those above ``rank`` by the tree, and itself, the lowest one that was adopted; -1 for none."""
        return max((each for each, (subtree, _) in self._moved.items() if rank in subtree), default=-1)
