"""Futures over places: what ``concurrent.futures`` has, on as many places as the scheduler gives."""

from __future__ import annotations

import uuid
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, NamedTuple, TypeVar

from pliant.apgas.api import Place
from pliant.apgas.errors import BadPlaceException, DeadPlaceException
from pliant.apgas.malleable import elastic
from pliant.apgas.malleable.handler import of
from pliant.apgas.place.messages import Buffer
from pliant.apgas.place.payload import name_of, pack, pack_error, unpack, unpack_error
from pliant.apgas.runtime import current
from pliant.model.errors import PliantError

T = TypeVar("T")


class _Item(NamedTuple):
    future: Future[Any]
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class PlaceExecutor(Executor):
    """Runs what is submitted at the places of this program, each ``workers`` at a time; at place 0.

    Places that come get work, places that are to leave get no more and go when theirs is done (``malleable=False`` for
    a program that has a handler of its own). A future whose place dies raises DeadPlaceException; the others go on.

    With ``follow_load`` it asks the scheduler for places when many calls wait, and gives them back when few are left,
    as ``follow_load()`` does by default.
    """

    def __init__(self, *, malleable: bool = True, follow_load: bool = False) -> None:
        runtime = current()
        if runtime.here != 0:
            raise PliantError(f"a PlaceExecutor belongs to place(0), this is place({runtime.here})")
        self._runtime = runtime
        self._key = f"executor {uuid.uuid4().hex}"
        self._waiting: deque[_Item] = deque()
        self._sent: dict[int, tuple[Future[Any], int]] = {}
        """By number the futures that are being worked on, and where."""
        self._numbers = 0
        self._closed = False
        self._leaving: set[int] = set()
        self._malleable = malleable
        with runtime.monitor:
            runtime.objects[self._key] = self
            runtime.on_death[self._key] = self._look
            runtime.on_load[self._key] = lambda: len(self._waiting)
        if malleable:
            of(runtime).define(self)
        self._follower = elastic.follow_load() if follow_load else None

    @property
    def num_workers(self) -> int:
        """How many calls run at a time now."""
        with self._runtime.monitor:
            return self._runtime.workers * len(self._places())

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """A future of ``fn(*args, **kwargs)``. Its exception is a TypeError if the call cannot be pickled."""
        with self._runtime.monitor:
            if self._closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            future: Future[T] = Future()
            self._waiting.append(_Item(future, fn, args, kwargs))
        self._dispatch()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002
        """As everywhere. The program keeps its places from then on, if this executor was its malleable handler."""
        runtime = self._runtime
        with runtime.monitor:
            first, self._closed = not self._closed, True
            dropped = list(self._waiting) if cancel_futures else []
            if cancel_futures:
                self._waiting.clear()
        if self._follower is not None:
            self._follower.stop()
        for item in dropped:
            item.future.cancel()
            item.future.set_running_or_notify_cancel()
        if wait:
            with runtime.monitor:
                runtime.wait(lambda: not self._waiting and not self._sent)
        if first and self._malleable:
            of(runtime).disable()
        if wait:
            with runtime.monitor:
                runtime.objects.pop(self._key, None)
                runtime.on_death.pop(self._key, None)
                runtime.on_load.pop(self._key, None)

    # ---- sending ------------------------------------------------------------------------------------------

    def _places(self) -> list[int]:
        return [place for place in self._runtime.machine.members.places() if place not in self._leaving]

    def _dispatch(self) -> None:
        """Send as much as the places can work on."""
        while (chosen := self._choose()) is not None:
            number, place, item = chosen
            try:
                self._start(number, place, item)
            except (BadPlaceException, DeadPlaceException):  # it has gone this moment
                with self._runtime.monitor:
                    del self._sent[number]
                    self._waiting.appendleft(item)
            except TypeError as error:
                self.settle(number, error=error)

    def _choose(self) -> tuple[int, int, _Item] | None:
        """The next call that can be sent, and to the place that has least to do."""
        with self._runtime.monitor:
            busy = Counter(place for _, place in self._sent.values())
            while self._waiting:
                place = min(self._places(), key=lambda each: (busy[each], each))
                if busy[place] >= self._runtime.workers:
                    return None
                item = self._waiting.popleft()
                if item.future.running() or item.future.set_running_or_notify_cancel():
                    self._numbers += 1
                    self._sent[self._numbers] = item.future, place
                    return self._numbers, place, item
        return None

    def _start(self, number: int, place: int, item: _Item) -> None:
        runtime = self._runtime
        with runtime.within(None):
            if place == runtime.here:  # whoever waits for a future may have the only worker
                runtime.spawn_apart(lambda: _perform(self._key, number, item.fn, item.args, item.kwargs))
            else:
                call = (self._key, number, item.fn, item.args, item.kwargs)
                runtime.spawn(place, _perform, call, counted=False, urgent=False)

    def settle(self, number: int, value: Any = None, error: BaseException | None = None) -> None:
        """A call is over."""
        with self._runtime.monitor:
            future, _ = self._sent.pop(number, (None, 0))
            self._runtime.flush()
        if future is None:
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)
        self._dispatch()

    def _look(self) -> None:
        """Places have died, and what they were working on with them. The lock is held."""
        dead = self._runtime.machine.members.dead
        lost = [(number, place) for number, (_, place) in self._sent.items() if place in dead]
        with self._runtime.within(None):
            for number, place in lost:
                error = DeadPlaceException(place, dead[place])
                self._runtime.spawn_apart(partial(self.settle, number, error=error))

    # ---- as a malleable handler -----------------------------------------------------------------------------

    def pre_shrink(self, count: int) -> Sequence[Place]:
        """Those that have least to do; they go when it is done."""
        with self._runtime.monitor:
            busy = Counter(place for _, place in self._sent.values())
            others = sorted(
                (place for place in self._places() if place), key=lambda each: (busy[each], -each)
            )
            if count > len(others):
                raise PliantError(f"{count} of {len(others) + 1} places cannot leave: place(0) stays")
            chosen = [Place(number) for number in others[:count]]
        self.pre_release(chosen)
        return chosen

    def pre_release(self, chosen: Sequence[Place]) -> None:
        """They get no more; what they work on may end."""
        with self._runtime.monitor:
            self._leaving |= {place.id for place in chosen}

    def post_shrink(self, count: int, removed: Sequence[Place]) -> None:  # noqa: ARG002
        """Those that have not left get work again."""
        with self._runtime.monitor:
            self._leaving.clear()
        self._dispatch()

    def pre_grow(self, count: int) -> None:
        """Nothing is to be prepared."""

    def post_grow(self, count: int, continued: Sequence[Place], new: Sequence[Place]) -> None:  # noqa: ARG002
        """The new places get work at once."""
        self._dispatch()


def _perform(
    key: str, number: int, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """At any place: make the call, and tell place 0 what came of it."""
    runtime = current()
    raised = False
    try:
        answer: list[Buffer] = pack(fn(*args, **kwargs))
    except Exception as error:  # noqa: BLE001 - it is the future's
        raised, answer = True, [pack_error(error, f"place({runtime.here}), task {name_of(fn)}")]
    runtime.spawn(
        0, _settle, (key, number, [bytes(part) for part in answer], raised), counted=False, urgent=True
    )


def _settle(key: str, number: int, answer: list[Buffer], raised: bool) -> None:  # noqa: FBT001
    executor = current().objects.get(key)
    if isinstance(executor, PlaceExecutor):
        if raised:
            executor.settle(number, error=unpack_error(bytes(answer[0])))
        else:
            executor.settle(number, unpack(answer))
