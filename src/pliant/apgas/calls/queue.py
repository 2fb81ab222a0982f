"""Which calls wait, which are at which place, and which go where next. No I/O, no threads.

A place gets as many calls as it can make at a time. Where calls are short it gets more, so that it need not wait for
the next: about ``AHEAD_S`` of work. A place that has none takes back what another has not begun.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

AHEAD_S = 0.01
"""How much work waits at a place, in seconds, by what calls have taken so far."""
MOST_AHEAD = 1000
SHORTEST_S = 1e-6
NEWEST = 0.5
"""The weight of the newest calls when the mean falls; a rise counts whole."""


class Batch(NamedTuple):
    """Calls for a place, which makes ``limit`` at a time."""

    place: int
    limit: int
    numbers: list[int]


class CallQueue:
    """The calls of one executor, by number. Each place makes ``workers`` at a time, all together ``most``."""

    def __init__(self, workers: int, most: int | None = None) -> None:
        self.workers, self.most = workers, most
        self.waiting: deque[int] = deque()
        self._held: dict[int, dict[int, None]] = {}
        """By place the calls that are there, the oldest first."""
        self._idle: Counter[int] = Counter()
        """By place how many of them wait for others."""
        self._full: Sequence[int] = ()
        """The places of which none could take a call, if nothing has changed since."""
        self._cost_s: float | None = None
        self._asked: set[int] = set()
        """Places that were asked to give calls back. They have not answered, or had none, and have got none since."""

    @property
    def is_empty(self) -> bool:
        return not self.waiting and not any(self._held.values())

    def is_full(self, places: Sequence[int]) -> bool:
        """Whether it is known that none of ``places`` can take a call."""
        return bool(places) and self._full == places

    @property
    def busy(self) -> list[int]:
        """The places that hold calls."""
        return [place for place, held in self._held.items() if held]

    def held(self, place: int) -> int:
        """How many calls are at ``place``."""
        return len(self._held.get(place, ()))

    def idle(self, place: int, by: int) -> None:
        """So many more calls at ``place`` wait for others: as many can be made there meanwhile."""
        self._full = ()
        self._idle[place] += by

    def _active(self, place: int) -> int:
        return self.held(place) - self._idle[place]

    def backlog(self, places: Sequence[int]) -> int:
        """How many calls are to be made that no runner has."""
        limits = self.limits(places)
        return len(self.waiting) + sum(
            max(0, self._active(place) - limits.get(place, 0)) for place in self._held
        )

    def limits(self, places: Sequence[int]) -> dict[int, int]:
        """How many calls each of ``places`` may make at a time: the lower ids get what does not divide."""
        if self.most is None or not places:
            return dict.fromkeys(places, self.workers)
        each, rest = divmod(self.most, len(places))
        return {place: min(self.workers, each + (rank < rest)) for rank, place in enumerate(sorted(places))}

    def add(self, number: int) -> None:
        self.waiting.append(number)

    def withdraw(self) -> list[int]:
        """All that wait; they do no more."""
        numbers = list(self.waiting)
        self.waiting.clear()
        return numbers

    def batch(self, places: Sequence[int], *, ahead: bool) -> Batch | None:
        """What is sent next, and to which of ``places``: to those with the fewest calls; ``ahead`` also to one that
        has enough for now. None where all have enough, or nothing waits."""
        limits = {place: limit for place, limit in self.limits(places).items() if limit}
        if not self.waiting or not limits:
            return None
        place = min(limits, key=lambda each: (self._active(each) - limits[each], each))
        room = limits[place] - self._active(place) + (self._ahead(limits[place]) if ahead else 0)
        self._full = () if room > 0 else places
        if self._full:
            return None
        count = min(room, -(-len(self.waiting) // len(limits)))
        numbers = [self.waiting.popleft() for _ in range(count)]
        self._held.setdefault(place, {}).update(dict.fromkeys(numbers))
        self._asked.discard(place)
        return Batch(place, limits[place], numbers)

    def _ahead(self, limit: int) -> int:
        if self._cost_s is None:
            return 0
        return min(MOST_AHEAD, int(limit * AHEAD_S / max(self._cost_s, SHORTEST_S)))

    def back(self, place: int, numbers: Iterable[int]) -> None:
        """``numbers`` are not at ``place`` any more, and were not begun: they wait again, before all others."""
        self._full = ()
        held = self._held.get(place, {})
        again = [number for number in numbers if number in held]
        for number in again:
            del held[number]
        self.waiting.extendleft(reversed(again))
        if again:  # with none to give, the place is not asked again before something has changed there
            self._asked.discard(place)

    def ended(self, place: int, numbers: Sequence[int], seconds: float) -> None:
        """These calls have ended at ``place``, and have taken so long together."""
        self._full = ()
        self._asked.discard(place)
        held = self._held.get(place, {})
        for number in numbers:
            held.pop(number, None)
        if numbers:
            each = seconds / len(numbers)
            before = each if self._cost_s is None else self._cost_s
            self._cost_s = max(each, NEWEST * each + (1 - NEWEST) * before)

    def drop(self, place: int, number: int) -> None:
        """This call was cancelled before it went to ``place``."""
        self._full = ()
        self._held.get(place, {}).pop(number, None)

    def lost(self, place: int) -> list[int]:
        """``place`` is dead: the calls that were there."""
        self._full = ()
        self._asked.discard(place)
        del self._idle[place]
        return list(self._held.pop(place, ()))

    def surplus(self, places: Sequence[int]) -> tuple[int, int] | None:
        """Where nothing waits and some place could make more: the place to ask for calls that it has not begun, and
        how many."""
        limits = self.limits(places)
        if self.waiting or not any(self._active(place) < limit for place, limit in limits.items()):
            return None
        over = {
            place: self._active(place) - limits.get(place, 0)
            for place in self._held
            if place not in self._asked
        }
        place = max(over, key=lambda each: (over[each], -each), default=0)
        if over.get(place, 0) < 1:
            return None
        self._asked.add(place)
        return place, -(-over[place] // 2)
