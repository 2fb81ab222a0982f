"""How the entries of a fence are cut."""

from __future__ import annotations

from pliant.protocol import messages as m
from pliant.protocol.fence import PIECE
from pliant_lab.injection.audit.violation import Violation


class Pieces:
    """Entries of a fence go in as few pieces as they fit in."""

    def __init__(self) -> None:
        self._before: dict[object, int] = {}

    def look(self, order: m.Fence | m.Fenced) -> None:
        sizes = [len(key) + len(value) for key, value in order.entries.items()]
        key = type(order), order.job, order.group, order.round
        before = self._before.pop(key, PIECE)
        if before + next(iter(sizes), PIECE) <= PIECE or (len(sizes) > 1 and sum(sizes) > PIECE):
            raise Violation(
                "wrong", f"a piece of {sum(sizes)} characters goes to a fence, after one of {before}"
            )
        if order.more:
            self._before[key] = sum(sizes)
