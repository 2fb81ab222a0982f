"""Virtual time, and bytes that take some of it to arrive."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random

CUT = 0.05
"""The share of deliveries that bring a part of what was sent, cut anywhere."""


class Timer:
    """Something that is to happen; ``cancel`` and it does not."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None


class Clock:
    """What happens next, in order of time, and of one instant in the order in which it was asked for."""

    def __init__(self) -> None:
        self.now = 0.0
        self.happened = 0
        self._heap: list[tuple[float, int, Timer]] = []
        self._order = 0

    def later(self, delay_s: float, call: Callable[[], None]) -> Timer:
        return self.at(self.now + max(0.0, delay_s), call)

    def at(self, moment: float, call: Callable[[], None]) -> Timer:
        timer = Timer(call)
        self._order += 1
        heappush(self._heap, (max(moment, self.now), self._order, timer))
        return timer

    def step(self, until: float) -> bool:
        """Let the next thing happen; False if there is none before ``until``."""
        while self._heap:
            moment, _, timer = self._heap[0]
            if timer.call is None:
                heappop(self._heap)
                continue
            if moment > until:
                return False
            heappop(self._heap)
            self.now = moment
            self.happened += 1
            call, timer.call = timer.call, None
            call()
            return True
        return False


class Wire:
    """One direction of a connection: bytes arrive in order, after ``latency_s``, now and then in pieces; its end comes
    after all that was sent, unless it is cut."""

    def __init__(
        self,
        clock: Clock,
        random: Random,
        latency_s: float,
        receive: Callable[[bytes], None],
        closed: Callable[[], None],
    ) -> None:
        self.latency_s = latency_s
        self.open = True
        self._clock = clock
        self._random = random
        self._receive = receive
        self._closed = closed
        self._waiting = bytearray()
        self._timer: Timer | None = None
        self._stalled_until = 0.0

    def send(self, data: bytes) -> None:
        if self.open:
            self._waiting += data
            self._schedule()

    def close(self) -> None:
        """Nothing more is sent; the other end learns of it behind what was."""
        if self.open:
            self.open = False
            self._schedule()

    def cut(self) -> None:
        """Lose what is under way; the other end learns of it at once."""
        if self.open or self._timer is not None:
            self.open = False
            self._waiting.clear()
            self._schedule()

    def stall(self, seconds: float) -> None:
        """Nothing arrives for so long; nothing is lost."""
        self._stalled_until = self._clock.now + seconds

    def _schedule(self) -> None:
        if self._timer is None:
            moment = max(self._clock.now + self.latency_s, self._stalled_until)
            self._timer = self._clock.at(moment, self._deliver)

    def _deliver(self) -> None:
        self._timer = None
        if self._clock.now < self._stalled_until:
            self._schedule()
            return
        data = bytes(self._waiting)
        if len(data) > 1 and self._random.random() < CUT:
            data = data[: self._random.randrange(1, len(data))]
        del self._waiting[: len(data)]
        if self._waiting or not self.open:
            self._timer = self._clock.later(0.0, self._deliver if self._waiting else self._end)
        if data:
            self._receive(data)

    def _end(self) -> None:
        self._timer = None
        self._closed()
