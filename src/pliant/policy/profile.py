"""How many nodes will be free when, by the estimates of all that runs and all that is reserved."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from itertools import compress
from operator import ne

from pliant.policy.view import ClusterView


class Profile:
    """Free nodes as a step function: ``free[i]`` from ``times[i]`` on, the last for ever.

    Index 0 is what can be used at once. Where nodes are on their way back, or held by jobs that have outrun
    their estimate, a second entry with the same time counts them too: they may be free any moment, so that
    can be promised, but not used.
    """

    __slots__ = ("ends", "free", "times")

    def __init__(self, view: ClusterView) -> None:
        now, have = view.now, view.free
        self.ends = math.inf
        """When the first nodes expire."""
        self.times = times = [now]
        self.free = free = [have]
        if returning := view.returning():
            have += returning
            times.append(now)
            free.append(have)
        for end, _, job in view.running:
            at = max(end, now)
            have += job.target
            if len(times) > 1 and times[-1] == at:
                free[-1] = have
            else:
                times.append(at)
                free.append(have)
        for each in view.expiring:
            self.ends = min(self.ends, each.at)
            if each.at > now:
                self.come(each.at, -each.nodes)
            else:  # what runs there is being ended
                free[1:] = [nodes - each.nodes for nodes in free[1:]]

    def advance(self, now: float) -> None:
        """Forget what lies before ``now``."""
        past = bisect_right(self.times, now) - 1
        if past > 0:
            del self.times[:past]
            del self.free[:past]
        self.times[0] = now

    def earliest(
        self,
        nodes: int,
        length: float,
        first: int = 0,
        until: float = math.inf,
        place: float = math.inf,
    ) -> int | None:
        """The first entry, not before ``first``, from which ``nodes`` nodes stay free for ``length`` seconds: one that
        begins before ``until``; from ``place`` on who asks has them anyhow."""
        times, free = self.times, self.free
        count = len(times)
        last = count if until == math.inf else bisect_left(times, until)
        while first < last:
            if free[first] < nodes:
                first += 1
                continue
            end = times[first] + length
            if end > place:  # noqa: PLR1730 - a call of min would double what this costs
                end = place
            i = first + 1
            while i < count and times[i] < end and free[i] >= nodes:
                i += 1
            if i == count or times[i] >= end:
                return first
            first = i + 1
        return None

    def least(self, length: float) -> int:
        """How many nodes are free at once and stay so for ``length`` seconds."""
        end = self.times[0] + length
        least = self.free[0]
        for time, free in zip(self.times, self.free, strict=True):
            if time >= end:
                break
            least = min(least, free)
        return least

    def room(self, nodes: int, length: float, since: float, until: float, place: float) -> bool:
        """Whether ``nodes`` nodes stay free for ``length`` seconds from a time on that lies between ``since`` and
        ``until``, or up to ``place``, from where who asks has them."""
        return self.earliest(nodes, length, bisect_left(self.times, since), until, place) is not None

    def most(self, since: float, until: float) -> int:
        """The most nodes that are free at once between these times."""
        first = max(0, bisect_right(self.times, since) - 1)
        return max(self.free[first : max(first + 1, bisect_left(self.times, until))])

    def take(self, entry: int, nodes: int, length: float) -> None:
        """Reserve ``nodes`` nodes from ``entry`` on for ``length`` seconds, more than none."""
        last = self._split(self.times[entry] + length)
        free = self.free
        for i in range(entry, last):
            free[i] -= nodes

    def hold(self, at: float, nodes: int, length: float) -> tuple[float, int] | None:
        """Reserve from ``at`` on, or from the earliest time after it that what was reserved before allows.

        Gives that time, and 1 if it stands for nodes that may be free any moment, else 0. None if there is
        no such time.
        """
        entry = self.earliest(nodes, length, self._split(at))
        if entry is None:
            return None
        times = self.times
        place = times[entry], int(entry == 1 and times[0] == times[1])
        self.take(entry, nodes, length)
        return place

    def give_back(self, at: float, nodes: int, length: float, later: int) -> None:
        """Undo ``hold``, which gave ``at`` and ``later``."""
        first = self._split(at) + later
        for i in range(first, self._split(at + length)):
            self.free[i] += nodes

    def add(self, since: float, until: float, nodes: int) -> None:
        """So many nodes more are free between these times."""
        first = self._split(since)
        for i in range(first, self._split(until)):
            self.free[i] += nodes

    def come(self, at: float, nodes: int) -> None:
        """So many nodes more are there from ``at`` on."""
        for i in range(self._split(at), len(self.free)):
            self.free[i] += nodes

    def tidy(self) -> None:
        """Leave out entries that change nothing."""
        free, first = self.free, [True, *map(ne, self.free[1:], self.free)]
        self.times[:] = compress(self.times, first)
        free[:] = compress(free, first)

    def _split(self, at: float) -> int:
        """The entry that begins at ``at``, made if there is none; ``at`` is not before the first."""
        times = self.times
        i = bisect_left(times, at)
        if i == len(times) or times[i] != at:
            times.insert(i, at)
            self.free.insert(i, self.free[i - 1])
        return i
