"""Many places in one process, of whose threads one runs at a time: a seed says which, and which message arrives next.
The same seed gives the same run, so that a failure can be looked at again. Time passes only when nothing else can."""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable, Hashable
from types import TracebackType
from typing import TypeVar

from pliant.apgas.place.messages import AnyMessage, Codec, Hello, Payload
from pliant.apgas.runtime import Runtime
from pliant.model.errors import PliantError

T = TypeVar("T")
START_S = 60.0
GIVE_UP_S = 60.0
"""A thread that computes for so long without letting others run is given up, in real seconds."""


class StuckError(PliantError):
    """Everybody waits, and nothing can come any more."""


class _Killed(BaseException):
    """Unwinds the threads of a place that was killed."""


class _Thread:
    def __init__(self, place: int, name: str, number: int) -> None:
        self.place, self.name, self.number = place, name, number
        self.go = threading.Semaphore(0)
        self.done: Callable[[], bool] | None = None
        """What it waits for."""
        self.until: float | None = None
        self.topic: Hashable | None = None
        self.killed = False


class Together:
    """The scheduler of them all."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - to be repeated, not to be secret
        self.time = 0.0
        self.steps = 0
        self.runtimes: dict[int, Runtime] = {}
        self._able: list[_Thread] = []
        self._waiting: dict[_Thread, None] = {}
        self._links: dict[tuple[int, int], deque[Callable[[], None]]] = {}
        self._full: list[tuple[int, int]] = []
        """The links that have something on them."""
        self._back = threading.Semaphore(0)
        self._running: _Thread | None = None
        self._count = 0
        self._dead: set[int] = set()

    def place(self, here: int, workers: int) -> Runtime:
        """A new place, which nobody knows yet."""
        threads = _Threads(self, here)
        runtime = Runtime(here, threads, workers)
        runtime.transport = _Transport(self, runtime)
        self.runtimes[here] = runtime
        return runtime

    def newcomer(self, here: int, workers: int) -> None:
        """A new place, which says hello to place 0."""
        runtime = self.place(here, workers)
        runtime.machine.members.join({0: self.address(0)})
        runtime.machine.out.append((0, Hello(self.address(here)), ()))
        runtime.flush()

    @staticmethod
    def address(place: int) -> str:
        return f"together:{place}"

    def begin(self, main: Callable[[], T], places: int = 1, workers: int = 2) -> T:
        """The value of ``main``, run at place 0 of ``places``; PliantError if they do not all come."""
        zero = self.runtimes.get(0) or self.place(0, workers)
        for number in range(1, places):
            self.newcomer(number, workers)

        def first() -> T:
            if missing := zero.await_arrival(range(1, places), START_S):
                raise PliantError(f"places {sorted(missing)} did not come")
            zero.admit(range(1, places))
            try:
                return zero.main(main)
            finally:
                zero.stop_all("the program is over")
                self._await_ends()

        return self.run(first)

    def _await_ends(self) -> None:
        """Each place has to be told to end, also one that has left."""
        self.wait(lambda: not self._endless(), START_S)
        if endless := self._endless():
            raise StuckError(f"places {endless} were never told to end")

    def _endless(self) -> list[int]:
        ended = self._dead | {
            number for number, each in self.runtimes.items() if each.machine.stopped is not None
        }
        return sorted(self.runtimes.keys() - ended)

    def run(self, main: Callable[[], T]) -> T:
        """Run ``main`` as a thread of place 0, and everything else, until it returns. StuckError if that cannot be."""
        values: list[T] = []
        errors: list[BaseException] = []

        def first() -> None:
            try:
                values.append(main())
            except BaseException as error:  # noqa: BLE001 - raised again below, in the caller's thread
                errors.append(error)

        self.start(0, first, "main")
        try:
            while not values and not errors:
                self._step()
        finally:
            self._end()
        for error in errors:
            raise error
        return values[0]

    def kill(self, place: int) -> None:
        """The place dies: of what it has sent some arrives still, and the others notice at different times."""
        self._dead.add(place)
        for thread in [*self._able, *self._waiting]:
            thread.killed |= thread.place == place
        for (sender, receiver), link in self._links.items():
            if sender == place:
                while link and self.random.random() < 0.5:
                    link.pop()
                self.put(sender, receiver, self._notice(receiver, place))
            elif receiver == place:
                link.clear()
        for other in set(self.runtimes) - self._dead:
            if (place, other) not in self._links:
                self.put(place, other, self._notice(other, place))
        self._full = [pair for pair, link in self._links.items() if link]

    def _notice(self, place: int, dead: int) -> Callable[[], None]:
        return lambda: self.runtimes[place].lost(dead, "it was killed")

    # ---- what threads and transports ask for -----------------------------------------------------------

    def start(self, place: int, run: Callable[[], object], name: str) -> None:
        self._count += 1
        thread = _Thread(place, name, self._count)
        thread.killed = place in self._dead

        def body() -> None:
            thread.go.acquire()
            try:
                if not thread.killed:
                    run()
            except _Killed:
                pass
            finally:
                self._running = None
                self._back.release()

        threading.Thread(target=body, name=name, daemon=True).start()
        self._able.append(thread)

    def wait(self, done: Callable[[], bool], timeout_s: float | None, topic: Hashable | None = None) -> bool:
        """The thread that runs waits."""
        thread = self._mine()
        thread.topic = topic
        thread.done = done
        thread.until = None if timeout_s is None else self.time + timeout_s
        self._give_way(thread, self._waiting.__setitem__)
        return done()

    def pause(self) -> None:
        thread = self._mine()
        self._give_way(thread, lambda able, _none: self._able.append(able))

    def _mine(self) -> _Thread:
        if self._running is None:
            raise PliantError("only a thread that belongs to a place can wait here")
        return self._running

    def _give_way(self, thread: _Thread, into: Callable[[_Thread, None], object]) -> None:
        if thread.killed:
            raise _Killed
        into(thread, None)
        self._running = None
        self._back.release()
        thread.go.acquire()
        if thread.killed:
            raise _Killed

    def notify(self, place: int, topic: Hashable | None = None, count: int | None = None) -> None:
        """What the threads of ``place`` wait for, under this ``topic`` or none, may have happened; ``count`` of them
        look."""
        for thread in [each for each in self._waiting if (each.place, each.topic) == (place, topic)][:count]:
            del self._waiting[thread]
            self._able.append(thread)

    def put(self, sender: int, receiver: int, arrive: Callable[[], None]) -> None:
        if receiver not in self._dead:
            link = self._links.setdefault((sender, receiver), deque())
            if not link:
                self._full.append((sender, receiver))
            link.append(arrive)

    # ---- the loop ----------------------------------------------------------------------------------------

    def _step(self) -> None:
        self.steps += 1
        chosen = self.random.randrange(len(self._able) + len(self._full)) if self._able or self._full else -1
        if chosen < 0:
            self._let_time_pass()
        elif chosen < len(self._able):
            self._resume(chosen)
        else:
            pair = self._full[chosen - len(self._able)]
            arrive = self._links[pair].popleft()
            if not self._links[pair]:
                self._full.remove(pair)
            arrive()

    def _resume(self, chosen: int) -> None:
        self._able[chosen], self._able[-1] = self._able[-1], self._able[chosen]
        thread = self._able.pop()
        late = thread.until is not None and self.time >= thread.until
        if thread.done is not None and not thread.killed and not late and not thread.done():
            self._waiting[thread] = None
            return
        thread.done = thread.until = None
        self._running = thread
        thread.go.release()
        if not self._back.acquire(timeout=GIVE_UP_S):
            raise StuckError(
                f"thread {thread.name!r} has computed for {GIVE_UP_S:.0f} s without letting others run"
            )

    def _let_time_pass(self) -> None:
        times = [thread.until for thread in self._waiting if thread.until is not None]
        if not times:
            names = ", ".join(sorted(thread.name for thread in self._waiting if not thread.killed))
            raise StuckError(f"everybody waits, and nothing can come any more: {names}")
        self.time = max(self.time, min(times))
        for thread in [t for t in self._waiting if t.until is not None and t.until <= self.time]:
            del self._waiting[thread]
            self._able.append(thread)

    def _end(self) -> None:
        """Unwind all threads, so that none is left behind."""
        for thread in [*self._able, *self._waiting]:
            thread.killed = True
            self._running = thread
            thread.go.release()
            self._back.acquire(timeout=GIVE_UP_S)


class _Monitor:
    """Nobody else runs, so there is nothing to lock."""

    def __init__(self, world: Together, place: int) -> None:
        self._world, self._place = world, place

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def wait_for(
        self, done: Callable[[], bool], timeout_s: float | None, topic: Hashable | None = None
    ) -> bool:
        return done() or self._world.wait(done, timeout_s, topic)

    def notify_all(self) -> None:
        self._world.notify(self._place)

    def notify(self, topic: Hashable, count: int = 1) -> None:
        self._world.notify(self._place, topic, count)


class _Threads:
    def __init__(self, world: Together, place: int) -> None:
        self._world, self._place = world, place

    def monitor(self) -> _Monitor:
        return _Monitor(self._world, self._place)

    def start(self, run: Callable[[], object], name: str) -> None:
        self._world.start(self._place, run, name)

    def now(self) -> float:
        return self._world.time

    def cpu(self) -> float:
        return 0.0

    def pause(self) -> None:
        self._world.pause()


class _Transport:
    """Messages cross as bytes, and buffers as copies, as they would over sockets."""

    def __init__(self, world: Together, runtime: Runtime) -> None:
        self.address = world.address(runtime.here)
        self._world, self._here = world, runtime.here
        self._codec = Codec()
        self._connected: set[int] = set()

    def connect(self, place: int, address: str) -> None:
        if address != self._world.address(place):
            raise PliantError(f"place({place}) is not reached at {address}")
        self._connected.add(place)

    def send(self, place: int, message: AnyMessage, payload: Payload) -> None:
        data, copies = self._codec.encode(message), [bytearray(part) for part in payload]
        world, here = self._world, self._here

        def arrive() -> None:
            world.runtimes[place].receive(here, self._codec.decode(data), copies)

        if place in self._connected and place in world.runtimes and here not in world._dead:  # noqa: SLF001
            world.put(here, place, arrive)

    def disconnect(self, place: int) -> None:
        self._connected.discard(place)

    def close(self) -> None:
        pass

    def forked(self) -> None:
        pass
