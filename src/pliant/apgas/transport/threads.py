"""What a place needs to do several things at once: a lock that can be waited on, and threads. The other
implementation, where one thread runs at a time and a seed says which, is ``together.py``."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable
from types import TracebackType
from typing import Protocol


class Monitor(Protocol):
    """A lock, and waiting for what happens under it."""

    def __enter__(self) -> object: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> object: ...

    def wait_for(
        self, done: Callable[[], bool], timeout_s: float | None, topic: Hashable | None = None
    ) -> bool:
        """Let others have the lock until ``done()`` or the time is over; returns ``done()``. With a ``topic`` it is
        looked at only when that was notified."""

    def notify_all(self) -> None:
        """Something has changed: let all that wait without a topic look again."""

    def notify(self, topic: Hashable, count: int = 1) -> None:
        """Let ``count`` of those that wait for this topic look again."""


class Threads(Protocol):
    """Where threads, locks and the time come from."""

    def monitor(self) -> Monitor: ...

    def start(self, run: Callable[[], object], name: str) -> None:
        """Run it in a thread of its own, which does not keep the program from ending."""

    def now(self) -> float:
        """Seconds since some moment."""

    def cpu(self) -> float:
        """Processor time of the calling thread, in seconds."""

    def pause(self) -> None:
        """A long computation is at a point where others may go on."""


class _Monitor:
    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._all = threading.Condition(self._lock)
        self._topics: dict[Hashable, threading.Condition] = {}
        self._waiters: Counter[Hashable] = Counter()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def wait_for(
        self, done: Callable[[], bool], timeout_s: float | None = None, topic: Hashable | None = None
    ) -> bool:
        if topic is None:
            return self._all.wait_for(done, timeout_s)
        condition = self._topics.setdefault(topic, threading.Condition(self._lock))
        self._waiters[topic] += 1
        try:
            return condition.wait_for(done, timeout_s)
        finally:
            self._waiters[topic] -= 1
            if not self._waiters[topic]:
                del self._topics[topic], self._waiters[topic]

    def notify_all(self) -> None:
        self._all.notify_all()

    def notify(self, topic: Hashable, count: int = 1) -> None:
        if (condition := self._topics.get(topic)) is not None:
            condition.notify(count)


class SystemThreads:
    """Those of the operating system."""

    def monitor(self) -> Monitor:
        return _Monitor()

    def start(self, run: Callable[[], object], name: str) -> None:
        threading.Thread(target=run, name=name, daemon=True).start()

    def now(self) -> float:
        return time.monotonic()

    def cpu(self) -> float:
        return time.thread_time()

    def pause(self) -> None:
        """Python itself changes threads."""
