"""A finish that collects what its tasks offer, as X10's ``finish(Reducible)`` does.

Each place reduces what is offered there, and sends home what it has in a task of the same finish: so all of it is at
home when the finish is over, and a place that dies with some of it is an error of the finish.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from pliant.apgas.place.messages import FinishId
from pliant.apgas.place.payload import copied, pack, unpack
from pliant.apgas.runtime import Finish, context, current
from pliant.model.errors import PliantError

T = TypeVar("T")
_NOTHING = object()
_NONE_COLLECTS = "offer() is for tasks whose innermost finish is `with collecting_finish(reduce, start):`"


class CollectingFinish(AbstractContextManager["CollectingFinish[T]"], Generic[T]):
    """``with collecting_finish(...) as found:`` ends as ``finish`` does; ``found.value`` is what was offered."""

    def __init__(self, reduce: Callable[[T, T], T], start: T) -> None:
        self._finish = Finish()
        self._offers: _Offers[T] = _Offers(reduce, start)

    @property
    def value(self) -> T:
        """What was offered, reduced; ``start`` if nothing was. It is all once the finish is over, and a part of it
        before, or where that has raised."""
        return self._offers.reduced()

    def __enter__(self) -> Self:
        self._finish.__enter__()
        runtime = current()
        with runtime.monitor:
            runtime.objects[_key_of(self._finish.id)] = self._offers
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        runtime, key = current(), _key_of(self._finish.id)
        try:
            self._finish.__exit__(kind, error, trace)
        finally:
            with runtime.monitor:
                del runtime.objects[key]
            for place in self._offers.places:
                runtime.tell_if_there(place, _forget, key)


def collecting_finish(reduce: Callable[[T, T], T], start: T) -> CollectingFinish[T]:
    """A ``finish`` that reduces what its tasks ``offer`` by ``reduce``.

    ``reduce`` is associative and commutative, and ``start`` is neutral: each place begins with a copy of it. Both are
    pickled where tasks of other places offer something.
    """
    return CollectingFinish(reduce, start)


def offer(value: object) -> None:
    """Add ``value`` to what the finish of this task collects. What is offered is whole when this returns: the task may
    go on to change it, unless ``reduce`` keeps it.

    PliantError if the innermost finish of the task collects nothing; whatever ``reduce`` raises. DeadPlaceException if
    the place that has opened the finish is dead.
    """
    runtime, finish = current(), context.finish
    if finish is None:
        raise PliantError(_NONE_COLLECTS)
    key = _key_of(finish)
    with runtime.monitor:
        offers = runtime.objects.get(key)
    if offers is None:
        found = runtime.call(finish.home, _terms, (key, runtime.here), urgent=True)
        with runtime.monitor:
            offers = runtime.objects.setdefault(key, _Offers(*found))
    offers.add(value)
    if runtime.here != finish.home and offers.sends():
        runtime.spawn(runtime.here, _send, (finish,), counted=True, urgent=False)


class _Offers(Generic[T]):
    """What was offered at one place and has not gone home."""

    def __init__(self, reduce: Callable[[T, T], T], start: T) -> None:
        self._runtime = current()
        self._reduce = reduce
        self._start = copied(pack(start))
        self._held: Any = _NOTHING
        self._sending = False
        self.places: set[int] = set()
        """At home: the other places that have such offers."""

    def terms(self) -> tuple[Callable[[T, T], T], T]:
        return self._reduce, unpack(copied(self._start))

    def reduced(self) -> T:
        with self._runtime.monitor:
            held = self._held
        return self.terms()[1] if held is _NOTHING else held

    def add(self, value: Any) -> None:
        """Reduce without the lock: what others have added meanwhile is reduced as well."""
        with self._runtime.monitor:
            held = self._take()
        mine = self._reduce(self.terms()[1] if held is _NOTHING else held, value)
        while True:
            with self._runtime.monitor:
                held = self._take()
                if held is _NOTHING:
                    self._held = mine
                    return
            mine = self._reduce(held, mine)

    def _take(self) -> Any:
        held, self._held = self._held, _NOTHING
        return held

    def sends(self) -> bool:
        """Whether what is here has yet to be sent, and nobody is about to."""
        with self._runtime.monitor:
            first, self._sending = not self._sending, True
        return first

    def sent(self) -> Any:
        """What is here now, which is sent."""
        with self._runtime.monitor:
            self._sending = False
            return self._take()


def _key_of(finish: FinishId) -> str:
    return f"offers {finish.home} {finish.number}"


def _terms(key: str, place: int) -> tuple[Any, Any]:
    """At home: how ``place`` is to reduce."""
    runtime = current()
    with runtime.monitor:
        offers = runtime.objects.get(key)
        if offers is None:
            raise PliantError(_NONE_COLLECTS)
        offers.places.add(place)
    terms: tuple[Any, Any] = offers.terms()
    return terms


def _send(finish: FinishId) -> None:
    """At another place: a task of the finish takes home what was offered."""
    runtime = current()
    value = runtime.objects[_key_of(finish)].sent()
    if value is not _NOTHING:
        runtime.spawn(finish.home, _add, (_key_of(finish), value), counted=True, urgent=False)


def _add(key: str, value: object) -> None:
    """At home; nobody wants it any more where the finish was abandoned."""
    offers = current().objects.get(key)
    if offers is not None:
        offers.add(value)


def _forget(key: str) -> None:
    current().objects.pop(key, None)
