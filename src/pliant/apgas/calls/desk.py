"""What makes an executor's calls at one place: a queue, and as many runners as it may have."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from pliant.apgas.place.messages import Buffer
from pliant.apgas.place.payload import LARGE, beside, copied, name_of, pack, pack_error, told, unpack
from pliant.apgas.runtime import Runtime, lent_worker
from pliant.apgas.transport import forks


class Asked(NamedTuple):
    """A call, by its executor's number: the pickle of function, arguments and keywords, and its buffers."""

    number: int
    parts: Sequence[Buffer]


class Answered(NamedTuple):
    """What came of a call: a pickle and its buffers."""

    number: int
    raised: bool
    parts: Sequence[Buffer]


class Reports(NamedTuple):
    """What an executor's home place is told, each by a task there."""

    answers: Callable[[str, int, list[Answered], float], None]
    returned: Callable[[str, int, list[Asked]], None]
    idle: Callable[[str, int, int], None]
    broke: Callable[[str, str, bytes], None]


class _AtDesk(threading.local):
    desk: Desk | None = None
    """Whose call this thread makes."""


_here = _AtDesk()


@contextlib.contextmanager
def lending() -> Iterator[None]:
    """``with``: this thread waits for a future. Another call may be made meanwhile, and another task may run."""
    desk = _here.desk
    if desk is not None:
        desk.change(-1)
    try:
        with lent_worker():
            yield
    finally:
        if desk is not None:
            desk.change(+1)


class Desk:
    """Makes the calls of the executor ``key`` here; at its home place beside the workers, whose only one may wait for a
    future. An ``initializer`` runs before the first call; where it raises, no call is made."""

    def __init__(
        self, runtime: Runtime, key: str, reports: Reports, initializer: Sequence[Buffer] | None
    ) -> None:
        self._runtime, self._key, self._reports = runtime, key, reports
        self._initializer = initializer
        self._queue: deque[Asked] = deque()
        self._limit = 0
        self._pending = 0
        """Runners that have not begun."""
        self._runners = 0
        """Runners, but those that wait for a future."""
        self._done: list[Answered] = []
        self._seconds = 0.0
        self._sending = False
        self._broken = False

    def take(self, asked: Sequence[Asked], limit: int) -> None:
        """Make these calls as well, ``limit`` at a time."""
        with self._runtime.monitor:
            self._queue.extend(asked)
            self._limit = limit
            self._start()

    def give_back(self, count: int) -> None:
        """Up to ``count`` calls that have not begun, the newest, are not made here."""
        with self._runtime.monitor:
            given = [self._queue.pop() for _ in range(min(count, len(self._queue)))]
        given.reverse()
        away = self._runtime.here != 0  # at home nothing is pickled
        sent = [Asked(number, beside(parts)) for number, parts in given] if away else given
        self._runtime.tell(0, self._reports.returned, self._key, self._runtime.here, sent)

    def change(self, by: int) -> None:
        """A runner waits for a future, or no longer does."""
        with self._runtime.monitor:
            self._runners += by
            self._start()
        self._runtime.tell(0, self._reports.idle, self._key, self._runtime.here, -by)

    def _start(self) -> None:
        """Start the runners that are missing. The lock is held."""
        most = 1 if self._initializer is not None else self._limit
        while not self._broken and self._runners < most and self._pending < len(self._queue):
            self._runners += 1
            self._pending += 1
            with self._runtime.within(None):
                if self._runtime.here == 0:
                    self._runtime.spawn_apart(self._run)
                else:
                    self._runtime.spawn(self._runtime.here, self._run, (), counted=False, urgent=False)

    def _run(self) -> None:
        runtime = self._runtime
        with runtime.monitor:
            self._pending -= 1
        before, _here.desk = _here.desk, self
        try:
            self._initialize()
            while (asked := self._next()) is not None:
                self._note(*self._make(asked))
                del asked
        finally:
            _here.desk = before

    def _next(self) -> Asked | None:
        """What this runner makes next; None where it is to end."""
        with self._runtime.monitor:
            if self._broken or not self._queue or self._runners > self._limit:
                self._runners -= 1
                return None
            return self._queue.popleft()

    def _initialize(self) -> None:
        """The first runner is alone until this is over."""
        if self._initializer is None:
            return
        where = f"place({self._runtime.here})"
        try:
            fn, args = unpack(self._initializer)
            fn(*args)
        except BaseException as error:  # noqa: BLE001 - it is that of all futures
            self._broken = True
            why = f"its initializer failed at {where}: {told(error)}"
            self._runtime.tell(
                0, self._reports.broke, self._key, why, pack_error(error, f"{where}, initializer")
            )
        with self._runtime.monitor:
            self._initializer = None
            self._start()

    def _make(self, asked: Asked) -> tuple[Answered, float]:
        """What comes of one call, and how long it took. Whatever it raises is its answer, also what ends a program."""
        threads = self._runtime.threads
        begun, name = threads.now(), "a call"
        parts: Sequence[Buffer]
        try:
            fn, args, kwargs = unpack(asked.parts)
            name = name_of(fn)
            parts, raised = pack(forks.perform(fn, *args, **kwargs)), False
        except BaseException as error:  # noqa: BLE001 - it is the future's
            parts, raised = [pack_error(error, f"place({self._runtime.here}), task {name}")], True
        return Answered(asked.number, raised, parts), threads.now() - begun

    def _note(self, answered: Answered, seconds: float) -> None:
        """Home hears of it: at once if it is large, or with what else has come by then."""
        number, raised, parts = answered
        if self._runtime.here and sum(map(len, parts)) >= LARGE:
            large = [Answered(number, raised, beside(parts))]
            self._runtime.tell(0, self._reports.answers, self._key, self._runtime.here, large, seconds)
            return
        with self._runtime.monitor:
            self._done.append(Answered(number, raised, copied(parts)))
            self._seconds += seconds
            if self._sending:
                return
            self._sending = True
        self._runtime.tell(self._runtime.here, self._send)

    def _send(self) -> None:
        with self._runtime.monitor:
            done, self._done = self._done, []
            seconds, self._seconds = self._seconds, 0.0
            self._sending = False
        self._runtime.tell(0, self._reports.answers, self._key, self._runtime.here, done, seconds)
