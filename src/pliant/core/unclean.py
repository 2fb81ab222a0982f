"""Nodes that nobody can use yet, as jobs have left them or have them reserved: how many node-seconds that takes."""

from __future__ import annotations


class Unclean:
    """Told when a job leaves (or reserves) nodes, and when they are proved clean (or joined), lost or back; all by bit
    masks.

    A lost node is waited for no longer, also where it is lost before its job leaves it.
    """

    def __init__(self) -> None:
        self.node_s = 0.0
        self._left: dict[int, list[tuple[int, float]]] = {}
        self._lost = 0

    def leave(self, job: int, mask: int, now: float) -> None:
        if waited_for := mask & ~self._lost:
            self._left.setdefault(job, []).append((waited_for, now))

    def clean(self, job: int, mask: int, now: float) -> None:
        if job not in self._left:
            return
        rest: list[tuple[int, float]] = []
        for left, since in self._left[job]:
            self.node_s += (left & mask).bit_count() * (now - since)
            if left & ~mask:
                rest.append((left & ~mask, since))
        if rest:
            self._left[job] = rest
        else:
            del self._left[job]

    def lose(self, mask: int, now: float) -> None:
        self._lost |= mask
        for job in list(self._left):
            self.clean(job, mask, now)

    def back(self, mask: int) -> None:
        self._lost &= ~mask
