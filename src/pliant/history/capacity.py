"""How many node-seconds there were: nodes are granted, lost and come back while jobs run."""

from __future__ import annotations


class Capacity:
    """Told when nodes are granted, lost or back, by bit masks; times in seconds, never decreasing.

    A node counts from when it is granted until it is lost or given back, and again once it is back. What lies before
    ``begin`` does not count. Where nothing changes after that, ``until`` is nodes times time, to the last digit.
    """

    def __init__(self) -> None:
        self.lost = 0
        """Those of the granted nodes that are lost now."""
        self._granted = 0
        self._nodes = 0
        self._area = 0.0
        self._since = 0.0
        self._begun = False
        self._kept = 0.0

    def begin(self, now: float) -> None:
        """Count from ``now`` on; only the first time counts."""
        if not self._begun:
            self._begun, self._since = True, now

    def grant(self, mask: int, now: float, last_end: float) -> None:
        """Nodes are there, for the first time or again; ``last_end`` as for ``until``."""
        self._change(self._granted | mask, self.lost & ~mask, now, last_end)

    def lose(self, mask: int, now: float, last_end: float) -> None:
        """Those of the nodes that were granted are there no more; ``last_end`` as for ``until``."""
        self._change(self._granted, self.lost | (mask & self._granted), now, last_end)

    def give_back(self, mask: int, now: float, last_end: float) -> None:
        """These nodes are granted no more; ``last_end`` as for ``until``."""
        self._change(self._granted & ~mask, self.lost & ~mask, now, last_end)

    def until(self, at: float) -> float:
        """The node-seconds up to ``at``, which is now or the ``last_end`` that the last change was told."""
        return self._area + self._nodes * (at - self._since) if at >= self._since else self._kept

    def _change(self, granted: int, lost: int, now: float, last_end: float) -> None:
        if self._begun:
            # Nobody knows yet whether another job will end: what there was up to the last one is kept.
            self._kept = self.until(last_end)
            self._area, self._since = self.until(now), now
        self._granted, self.lost = granted, lost
        self._nodes = (granted & ~lost).bit_count()
