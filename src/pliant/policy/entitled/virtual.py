"""The virtual schedule: rigid EASY of the whole workload, as it would have gone if no job changed its size.

Every job has its preferred size here, and its user's estimate; how long it takes is known once it has really ended. As
nobody's real work is behind its virtual work, that is always before it ends here.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from heapq import heappop, heappush

from pliant.policy.easy import Reservation, earliest

SAME_S = 1e-5
"""Times that differ by less are the same: they were added up in another order."""

LATE_S = 1e-3
"""An end that becomes known no later than this counts as one of this instant."""


class VirtualJob:
    """Job ``id`` of the virtual schedule, in which it waits from ``since`` on. ``began`` is when it started there,
    ``length_s`` how long it takes, each None until it is known."""

    __slots__ = ("began", "estimate_s", "id", "length_s", "nodes", "since")

    def __init__(self, number: int, nodes: int, estimate_s: float, since: float = 0.0) -> None:
        self.id = number
        self.nodes = nodes
        self.estimate_s = estimate_s
        self.since = since
        self.began: float | None = None
        self.length_s: float | None = None


class Schedule:
    """Rigid EASY on ``total`` nodes. ``queue`` has who waits, in order of submission; ``head`` is the first who cannot
    start, and starts at ``reserved`` at the latest if all estimates are upper bounds."""

    def __init__(self, total: int) -> None:
        self.total = self.free = total
        self.queue: dict[int, VirtualJob] = {}
        self.head: VirtualJob | None = None
        self.reserved: float | None = None
        self._running: list[tuple[float, int, VirtualJob]] = []
        self._ends: list[tuple[float, int, VirtualJob]] = []
        self.at = 0.0
        """When it last made a pass."""
        self.horizon = 0.0
        """How far back it can go: nobody will turn out to have ended before."""
        self.recent: list[VirtualJob] = []
        """Those that have ended since."""
        self._coming: list[VirtualJob] = []
        """Those that wait only later, while the past is gone through again."""
        self._due = False
        """Whether something has happened since the last pass."""
        self.touched: list[VirtualJob] = []
        """Those that have begun, or have not after all, or whose length has become known, until somebody empties it."""

    # ---- what happens to it --------------------------------------------------------------------------

    def submit(self, entry: VirtualJob) -> None:
        self.queue[entry.id] = entry
        self._due = True

    def cancel(self, entry: VirtualJob) -> None:
        """It has not begun, and never will."""
        del self.queue[entry.id]
        self._due = True

    def stir(self) -> None:
        """Something has happened that is not known any more: who waits may start now."""
        self._due = True

    def ended(self, entry: VirtualJob, length_s: float) -> None:
        """The job has really ended, and takes so long here."""
        entry.length_s = length_s
        self.touched.append(entry)
        if entry.began is not None:
            self._will_end(entry, entry.began + length_s)

    def _will_end(self, entry: VirtualJob, at: float) -> None:
        heappush(self._ends, (at, entry.id, entry))

    def resize(self, total: int) -> None:
        """There are ``total`` nodes from now on."""
        if total != self.total:
            self.free += total - self.total
            self.total = total
            self._due = True

    def withdraw(self, entry: VirtualJob) -> None:
        """It has begun, and has not after all: it waits again."""
        if entry.began is None:
            raise ValueError(f"job {entry.id} has not begun")
        del self._running[bisect_left(self._running, (entry.began + entry.estimate_s, entry.id))]
        self.free += entry.nodes
        entry.began = None
        self.touched.append(entry)
        self.queue[entry.id] = entry
        self.queue = dict(sorted(self.queue.items()))
        self._due = True

    def place(self, entry: VirtualJob) -> None:
        """It runs already."""
        if entry.began is None:
            raise ValueError(f"job {entry.id} has not begun")
        insort(self._running, (entry.began + entry.estimate_s, entry.id, entry))
        self.free -= entry.nodes
        if entry.length_s is not None:
            self._will_end(entry, entry.began + entry.length_s)

    # ---- time ----------------------------------------------------------------------------------------

    def catch_up(self, now: float) -> tuple[list[VirtualJob], list[VirtualJob]]:
        """See to ends before ``now`` that became known only now, as what resizes take makes real work lag behind: all
        that has happened since happens again, as it would have if they had been known.

        Those that had ended, but may end later now, and those that have ended.
        """
        back: list[VirtualJob] = []
        over: list[VirtualJob] = []
        if (first := self.next_end()) < now - LATE_S and self.horizon - SAME_S <= first <= self.at + SAME_S:
            first = max(first, self.horizon)  # who has come before that is not remembered
            back = self._rewind(first)
            if self.next_end() > first:  # it took no time, and began at its end
                self._pass(first)
        while (at := min(self.next_end(), self._next_arrival())) < now - LATE_S or self._coming:
            over += self._end(at)
            while self._coming and self._coming[-1].since <= at:
                entry = self._coming.pop()
                self.queue[entry.id] = entry
            self._pass(at)
        return back, over

    def forget(self, before: float) -> None:
        """Nobody will turn out to have ended before this. What has been forgotten once stays so."""
        self.horizon = max(self.horizon, before)
        if self.recent:
            self.recent = [entry for entry in self.recent if _end_of(entry) > self.horizon]

    def _next_arrival(self) -> float:
        return self._coming[-1].since if self._coming else float("inf")

    def _rewind(self, at: float) -> list[VirtualJob]:
        """Back to the time ``at``, before its pass. Those that have not ended then."""
        back = [entry for entry in self.recent if _end_of(entry) > at + SAME_S]
        self.recent = [entry for entry in self.recent if _end_of(entry) <= at + SAME_S]
        running = [entry for _, _, entry in self._running] + back
        self.free -= sum(entry.nodes for entry in back)
        waiting = list(self.queue.values())
        self._running.clear()
        self._ends.clear()
        for entry in running:
            self.free += entry.nodes
            if entry.began is not None and entry.began >= at - SAME_S:
                entry.began = None
                self.touched.append(entry)
                waiting.append(entry)
            else:
                self.place(entry)
        waiting.sort(key=lambda entry: entry.id)
        self.queue = {entry.id: entry for entry in waiting if entry.since <= at}
        self._coming = sorted(
            (entry for entry in waiting if entry.since > at), key=lambda entry: (-entry.since, -entry.id)
        )
        return back

    def end(self, now: float) -> list[VirtualJob]:
        """Ends of this instant, before its pass. Those that have ended."""
        over = self._end(now)
        self._due = self._due or bool(over)
        return over

    def settle(self, now: float) -> list[VirtualJob]:
        """Ends of this instant, and a pass if anything has happened. Those that have ended."""
        over: list[VirtualJob] = []
        while self._due or (self._ends and self._ends[0][0] <= now + SAME_S):
            over += self._end(now)
            self._due = False
            self._pass(now)
        return over

    def next_end(self) -> float:
        """The next end that is known; infinity if there is none."""
        return self._ends[0][0] if self._ends else float("inf")

    def ghosts(self) -> list[tuple[float, int]]:
        """(virtual end, nodes) of the jobs that have really ended and still run here."""
        return [(end, entry.nodes) for end, _, entry in self._ends]

    def _end(self, at: float) -> list[VirtualJob]:
        over: list[VirtualJob] = []
        while self._ends and self._ends[0][0] <= at + SAME_S:
            _, _, entry = heappop(self._ends)
            began = entry.began if entry.began is not None else at
            del self._running[bisect_left(self._running, (began + entry.estimate_s, entry.id))]
            self.free += entry.nodes
            over.append(entry)
            self.recent.append(entry)
        return over

    def _pass(self, now: float) -> None:
        """``policy/easy.py``, of these jobs."""
        self.at = now
        reservation: Reservation | None = None
        head: VirtualJob | None = None
        for entry in list(self.queue.values()):
            if head is None and entry.nodes > self.free:
                head = entry
                reservation = self._reservation(head, now)
            elif entry.nodes <= self.free and _harmless(entry, now, reservation):
                self._start(entry, now)
            if self.free <= 0:
                break
        self.head, self.reserved = head, None
        if head is None and self.queue:
            self.head = next(iter(self.queue.values()))
            reservation = self._reservation(self.head, now)
        if reservation is not None:
            self.reserved = reservation.at

    def _reservation(self, entry: VirtualJob, now: float) -> Reservation | None:
        ends = ((end, other.nodes) for end, _, other in self._running)
        return earliest(now, self.free, entry.nodes, ends)

    def _start(self, entry: VirtualJob, now: float) -> None:
        del self.queue[entry.id]
        entry.began = now
        self.touched.append(entry)
        self.place(entry)


def _end_of(entry: VirtualJob) -> float:
    return (entry.began or 0.0) + (entry.length_s or 0.0)


def _harmless(entry: VirtualJob, now: float, reservation: Reservation | None) -> bool:
    """Whether it delays no reservation; where it outlasts that, it uses up some of its spare nodes."""
    if reservation is None or now + entry.estimate_s <= reservation.at:
        return True
    if entry.nodes > reservation.spare:
        return False
    reservation.spare -= entry.nodes
    return True
