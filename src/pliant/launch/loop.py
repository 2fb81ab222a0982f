"""An event loop for agents, with asyncio's names. asyncio is slow to load, and loading modules is most of an agent's
processor time."""

from __future__ import annotations

import heapq
import os
import select
import signal
import sys
import time
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any, Protocol

WOKEN = 4096
"""Signals that are read at a time."""


class Timer(Protocol):
    def cancel(self) -> object: ...

    def when(self) -> float: ...


class HasNumber(Protocol):
    def fileno(self) -> int: ...


Descriptor = int | HasNumber


class Loop(Protocol):
    """The methods that asyncio's event loop and :class:`EventLoop` have in common."""

    def time(self) -> float: ...

    def call_soon(self, call: Callable[..., object], /, *args: Any) -> object: ...

    def call_later(self, seconds: float, call: Callable[..., object], /, *args: Any) -> Timer: ...

    def call_at(self, when: float, call: Callable[..., object], /, *args: Any) -> Timer: ...

    def add_reader(self, descriptor: Any, call: Callable[..., object], /, *args: Any) -> object: ...

    def remove_reader(self, descriptor: Any, /) -> object: ...

    def add_writer(self, descriptor: Any, call: Callable[..., object], /, *args: Any) -> object: ...

    def remove_writer(self, descriptor: Any, /) -> object: ...

    def add_signal_handler(self, number: int, call: Callable[..., object], /, *args: Any) -> object: ...


Call = tuple[Callable[..., object], tuple[Any, ...]]


class _Alarm:
    """A call at a time."""

    def __init__(self, when: float, call: Call) -> None:
        self._when = when
        self.call: Call | None = call

    def when(self) -> float:
        return self._when

    def cancel(self) -> None:
        self.call = None


class EventLoop:
    """Calls what was asked for until it is told to stop. An exception of a call is written to standard error, and ends
    nothing else."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._readers: dict[int, Call] = {}
        self._writers: dict[int, Call] = {}
        self._masks: dict[int, int] = {}
        self._soon: deque[Call] = deque()
        self._alarms: list[tuple[float, int, _Alarm]] = []
        self._order = count()
        self._signals: dict[int, Call] = {}
        self._stopped = False

    def run(self) -> None:
        """Until :meth:`stop` has been called."""
        while not self._stopped:
            for calls, number, call in self._ready(self._wait()):
                if calls.get(number) is call:  # else an earlier one has removed it
                    self._call(call)
            now = self.time()
            while self._alarms and self._alarms[0][0] <= now:
                self._call(heapq.heappop(self._alarms)[2].call)
            for _ in range(len(self._soon)):
                self._call(self._soon.popleft())

    def stop(self) -> None:
        self._stopped = True

    def _wait(self) -> list[tuple[int, int]]:
        while self._alarms and self._alarms[0][2].call is None:
            heapq.heappop(self._alarms)
        seconds = -1.0
        if self._soon:
            seconds = 0.0
        elif self._alarms:
            seconds = max(0.0, self._alarms[0][0] - self.time())
        return self._poll.poll(seconds)

    def _ready(self, events: list[tuple[int, int]]) -> list[tuple[dict[int, Call], int, Call | None]]:
        """The calls for these events, each with the table in which it stands."""
        return [
            (calls, number, calls.get(number))
            for number, mask in events
            for calls, other in ((self._readers, select.EPOLLOUT), (self._writers, select.EPOLLIN))
            if mask & ~other
        ]

    @staticmethod
    def _call(what: Call | None) -> None:
        if what is None:
            return
        try:
            what[0](*what[1])
        except Exception:  # noqa: BLE001 - as asyncio does
            import traceback  # slow to load

            traceback.print_exc(file=sys.stderr)

    # ---- times -------------------------------------------------------------------------------------------

    @staticmethod
    def time() -> float:
        return time.monotonic()

    def call_soon(self, call: Callable[..., object], /, *args: Any) -> None:
        self._soon.append((call, args))

    def call_later(self, seconds: float, call: Callable[..., object], /, *args: Any) -> Timer:
        return self.call_at(self.time() + seconds, call, *args)

    def call_at(self, when: float, call: Callable[..., object], /, *args: Any) -> Timer:
        alarm = _Alarm(when, (call, args))
        heapq.heappush(self._alarms, (when, next(self._order), alarm))
        return alarm

    # ---- descriptors -------------------------------------------------------------------------------------

    def add_reader(self, descriptor: Descriptor, call: Callable[..., object], /, *args: Any) -> None:
        self._readers[number := _number(descriptor)] = call, args
        self._watch(number)

    def add_writer(self, descriptor: Descriptor, call: Callable[..., object], /, *args: Any) -> None:
        self._writers[number := _number(descriptor)] = call, args
        self._watch(number)

    def remove_reader(self, descriptor: Descriptor, /) -> None:
        """Before it is closed."""
        self._readers.pop(number := _number(descriptor), None)
        self._watch(number)

    def remove_writer(self, descriptor: Descriptor, /) -> None:
        """Before it is closed."""
        self._writers.pop(number := _number(descriptor), None)
        self._watch(number)

    def _watch(self, number: int) -> None:
        mask = (select.EPOLLIN if number in self._readers else 0) | (
            select.EPOLLOUT if number in self._writers else 0
        )
        before = self._masks.get(number, 0)
        if mask == before:
            return
        if not mask:
            self._poll.unregister(number)
            del self._masks[number]
            return
        if before:
            self._poll.modify(number, mask)
        else:
            self._poll.register(number, mask)
        self._masks[number] = mask

    # ---- signals -----------------------------------------------------------------------------------------

    def add_signal_handler(self, number: int, call: Callable[..., object], /, *args: Any) -> None:
        if not self._signals:
            woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
            signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
            self.add_reader(woken, self._signalled, woken)
        self._signals[number] = call, args
        signal.signal(number, _nothing)
        signal.siginterrupt(number, False)

    def _signalled(self, woken: int) -> None:
        for number in {*os.read(woken, WOKEN)}:
            self._call(self._signals.get(number))


def _number(descriptor: Descriptor) -> int:
    return descriptor if isinstance(descriptor, int) else descriptor.fileno()


def _nothing(*_: object) -> None:
    """The loop hears of the signal by its pipe."""
