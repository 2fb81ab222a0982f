"""What a place needs to do several things at once: a lock that can be waited on, and threads. The other
implementation, where one thread runs at a time and a seed says which, is ``together.py``."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Protocol


class Monitor(Protocol):
    """A lock, and waiting for what happens under it."""

    def __enter__(self) -> object: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> object: ...

    def wait_for(self, done: Callable[[], bool], timeout_s: float | None) -> bool:
        """Let others have the lock until ``done()`` or the time is over; returns ``done()``."""

    def notify_all(self) -> None:
        """Something has changed: let all that wait look again."""


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


class _Condition(threading.Condition):
    def wait_for(self, done: Callable[[], bool], timeout_s: float | None = None) -> bool:  # type: ignore[override]
        return super().wait_for(done, timeout_s)


class SystemThreads:
    """Those of the operating system."""

    def monitor(self) -> Monitor:
        return _Condition(threading.RLock())

    def start(self, run: Callable[[], object], name: str) -> None:
        threading.Thread(target=run, name=name, daemon=True).start()

    def now(self) -> float:
        return time.monotonic()

    def cpu(self) -> float:
        return time.thread_time()

    def pause(self) -> None:
        """Python itself changes threads."""
