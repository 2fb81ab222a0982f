"""When a finish is over: counts of tasks sent and received, by pairs of places. No I/O, no threads.

Each place counts, for each finish, the tasks that it has sent to and received from each other place, and tells the
finish's home whenever none is left at it (Mattern, "Algorithms for distributed termination detection", 1987, vector
counters). The finish is over when none is left at home and all that was sent was received: a task that is left
somewhere must have come by one that its sender has told of and its receiver has not. What a dead place sent or
received is left out, once every other place has told of the finish knowing of that death.
"""

from __future__ import annotations

from collections import Counter

from pliant.apgas.place.messages import FinishId, Tally


class Part:
    """What one place knows of a finish: the tasks that are left there, and what it has not told its home yet."""

    def __init__(self) -> None:
        self.active = 0
        self.sent: Counter[int] = Counter()
        self.received: Counter[int] = Counter()
        self.raised: list[bytes] = []
        """Exceptions of its tasks, pickled."""
        self.told = True
        """Whether home knows all this."""
        self.asked = False
        """Whether home wants to hear of it in any case."""

    def begin(self, sender: int | None = None) -> None:
        """A task that ``sender`` has sent, or one spawned here, is here."""
        if sender is not None:
            self.received[sender] += 1
        self.active += 1
        self.told = False

    def send(self, place: int, count: int = 1) -> None:
        self.sent[place] += count
        self.told = False

    def end(self, raised: bytes | None) -> None:
        """A task is over."""
        self.active -= 1
        if raised is not None:
            self.raised.append(raised)

    @property
    def due(self) -> bool:
        """Whether its home is to be told now."""
        return not self.active and (self.asked or not self.told)

    def tell(self, finish: FinishId, deaths: int) -> tuple[Tally, list[bytes]]:
        """What home is told, and the exceptions."""
        tally = Tally(finish, dict(self.sent), dict(self.received), deaths)
        raised, self.raised = self.raised, []
        self.sent.clear()
        self.received.clear()
        self.told, self.asked = True, False
        return tally, raised


class Home:
    """A finish at the place that waits for it."""

    def __init__(self, finish: FinishId) -> None:
        self.finish = finish
        self.part = Part()
        self.over = False
        self.raised: list[bytes] = []
        self.lost: set[int] = set()
        """Dead places that had tasks of it."""
        self.members: set[int] = set()
        """The other places that have had a part in it."""
        self._open: dict[tuple[int, int], int] = {}
        """By (sender, receiver) how many more tasks were sent than received, where that is not 0."""
        self._knows: dict[int, int] = {}
        """By place of how many deaths it knew when it last told."""

    def take(self, place: int, tally: Tally) -> None:
        """What ``place`` tells."""
        for receiver, count in tally.sent.items():
            self._count((place, receiver), count)
        for sender, count in tally.received.items():
            self._count((sender, place), -count)
        self.members.add(place)
        self._knows[place] = max(tally.deaths, self._knows.get(place, 0))

    def look(self, dead: set[int], deaths: int, living: set[int]) -> list[int]:
        """Notice if it is over. If that hangs on the dead, the living places that have not told since the last death,
        to be asked."""
        if self.over or self.part.active:
            return []
        own, raised = self.part.tell(self.finish, deaths)
        self.take(self.finish.home, own)
        self.raised += raised
        broken = {pair for pair in self._open if dead.intersection(pair)} if dead and self._open else set()
        if len(broken) < len(self._open):
            return []
        if broken and (unheard := [place for place in sorted(living) if self._knows.get(place, 0) < deaths]):
            return unheard
        # Fewer sent than received: a call, and its caller has been told.
        self.lost = {pair[1] for pair in broken if pair[1] in dead and self._open[pair] > 0}
        self.lost |= {sender for sender, _ in broken if sender in dead}
        self.over = True
        return []

    def _count(self, pair: tuple[int, int], more: int) -> None:
        self.members.update(pair)
        total = self._open.get(pair, 0) + more
        if total:
            self._open[pair] = total
        else:
            self._open.pop(pair, None)
