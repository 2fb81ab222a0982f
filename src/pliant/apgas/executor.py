"""Futures over places: what ``concurrent.futures`` has, on as many places as the scheduler gives."""

from __future__ import annotations

import contextlib
import itertools
import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, InvalidStateError
from functools import partial
from typing import Any, NamedTuple, TypeVar

from pliant.apgas.calls.desk import Answered, Asked, Desk, Reports, lending
from pliant.apgas.calls.hands import Hands
from pliant.apgas.calls.queue import Batch, CallQueue
from pliant.apgas.errors import BadPlaceException, DeadPlaceException
from pliant.apgas.malleable import elastic
from pliant.apgas.place.messages import Buffer
from pliant.apgas.place.payload import beside, copied, name_of, pack, pack_error, unpack, unpack_raised
from pliant.apgas.runtime import Runtime, current
from pliant.model.errors import PliantError

T = TypeVar("T")
CLOSED = "cannot schedule new futures after shutdown"


class PlaceFuture(Future[T]):
    """A future of ``concurrent.futures``. Who waits for it at a place lends its worker to others meanwhile; ``wait``
    and ``as_completed`` lend nothing."""

    def result(self, timeout: float | None = None) -> T:
        """The call's value, a copy. It raises what the call has raised, as PlaceExecutor.submit says; TimeoutError
        after ``timeout`` seconds, CancelledError if it was cancelled before it began."""
        if self.done():
            return super().result(timeout)
        with lending():
            return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What ``result`` would raise of the call, or None; TimeoutError and CancelledError as there."""
        if self.done():
            return super().exception(timeout)
        with lending():
            return super().exception(timeout)


class _Origin(NamedTuple):
    """Who waits for a call: a future here, or the future with a number at another place."""

    future: PlaceFuture[Any] | None
    place: int = 0
    number: int = 0


class _Call(NamedTuple):
    origin: _Origin
    parts: Sequence[Buffer]


class _InChunks(Executor):
    """An executor whose ``map`` may send several calls as one."""

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
    ) -> Iterator[T]:
        """The values of ``fn`` over the iterables, in order; as of a ProcessPoolExecutor, ``chunksize`` calls go as
        one. ValueError if that is not positive. TimeoutError where a value is not there ``timeout`` seconds after
        this."""
        if chunksize < 1:
            raise ValueError(f"chunksize must be >= 1, not {chunksize}")
        if chunksize == 1:
            return super().map(fn, *iterables, timeout=timeout)
        arguments = zip(*iterables, strict=False)
        chunks = iter(lambda: list(itertools.islice(arguments, chunksize)), [])
        return _one_by_one(super().map(partial(_chunk, fn), chunks, timeout=timeout))


def _chunk(fn: Callable[..., T], arguments: list[tuple[Any, ...]]) -> list[T]:
    return [fn(*each) for each in arguments]


def _one_by_one(chunks: Iterator[list[T]]) -> Iterator[T]:
    """Forgets each result as it hands it out."""
    for chunk in chunks:
        chunk.reverse()
        while chunk:
            yield chunk.pop()


class PlaceExecutor(_InChunks):
    """Runs what is submitted at the places of this program, each ``workers`` at a time; made at place 0, as many of
    them as are wanted. Sent to another place, as an argument of a task, it has ``submit`` and ``map`` there.

    At most ``max_workers`` calls run at a time (default: what all places can). ``initializer(*initargs)`` runs once at
    each place before its first call; where it raises, all futures and ``submit`` raise BrokenExecutor. Without
    ``use_place_0`` place 0 makes no calls while there are others.

    Places that come get work, places that are to leave get no more and go when theirs is done (unless ``malleable``
    is False, or the program has a handler of its own). A future whose place dies raises DeadPlaceException; the others
    go on. A program that ends without ``shutdown`` waits for its futures.

    With ``follow_load`` it asks the scheduler for places when many calls wait, and gives them back when few are left,
    as ``follow_load()`` does by default.

    PliantError outside of place 0. ValueError if ``max_workers`` is not positive. TypeError if ``initializer`` cannot
    be called or pickled.
    """

    def __init__(  # noqa: PLR0913 -- the first three are those of the standard library
        self,
        max_workers: int | None = None,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[object, ...] = (),
        *,
        use_place_0: bool = True,
        malleable: bool = True,
        follow_load: bool = False,
    ) -> None:
        runtime = current()
        if runtime.here != 0:
            raise PliantError(f"a PlaceExecutor belongs to place(0), this is place({runtime.here})")
        if max_workers is not None and max_workers <= 0:
            raise ValueError(f"max_workers must be greater than 0, not {max_workers}")
        if initializer is not None and not callable(initializer):
            raise TypeError(f"initializer must be a callable, not a {type(initializer).__name__}")
        self._runtime = runtime
        self._key = f"executor {uuid.uuid4().hex}"
        self._queue = CallQueue(runtime.workers, max_workers)
        self._initializer = None if initializer is None else copied(pack((initializer, initargs)))
        self._calls: dict[int, _Call] = {}
        """Those that wait."""
        self._sent: dict[int, _Origin] = {}
        """Those that are at a place."""
        self._settling = 0
        """How many threads are giving futures what came of them."""
        self._numbers = itertools.count(1)
        self._introduced: set[int] = set()
        """The places that know of this executor."""
        self._use_place_0 = use_place_0
        self._closed = False
        self._broken: str = ""
        """Why it makes no calls any more."""
        self._hands = Hands.of(runtime)
        with runtime.monitor:
            runtime.objects[self._key] = self
            runtime.on_death[self._key] = self._look
            runtime.on_load[self._key] = lambda: self._queue.backlog(self._places())
            runtime.on_end[self._key] = self._end
        self._hands.join(self._key, self, malleable=malleable)
        self._follower = elastic.follow_load() if follow_load else None

    def __reduce__(self) -> tuple[Callable[..., Executor], tuple[str]]:
        return _found, (self._key,)

    @property
    def num_workers(self) -> int:
        """How many calls run at a time now."""
        with self._runtime.monitor:
            return sum(self._queue.limits(self._places()).values())

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """The future of ``fn(*args, **kwargs)``, which are pickled and copied before this returns.

        The future's exception is what the call raises, SystemExit too, with the remote traceback as its cause. It is a
        TypeError if the call or its value cannot be pickled, DeadPlaceException if the place of the call dies,
        BrokenExecutor if an initializer raises. RuntimeError after ``shutdown``, BrokenExecutor after such an
        initializer: then there is no future.
        """
        if (refusal := self._refusal()) is not None:
            raise refusal
        future: PlaceFuture[T] = PlaceFuture()
        parts = _packed_call(future, fn, args, kwargs)
        if parts is not None and (refusal := self._enqueue(_Call(_Origin(future), parts))) is not None:
            raise refusal
        return future

    def accept(self, place: int, number: int, parts: Sequence[Buffer]) -> None:
        """Make the call that ``place`` has submitted as its ``number``. What comes of it is told there, also that no
        call is made any more; nothing is told to a place that has gone."""
        origin = _Origin(None, place, number)
        if (refusal := self._enqueue(_Call(origin, parts))) is not None:
            self._fail(origin, refusal)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002
        """No call is taken any more. With ``wait`` it returns when all futures have ended; with ``cancel_futures``
        those that wait are cancelled.

        After the last executor's the program keeps its places, unless it has a handler of its own."""
        with self._runtime.monitor:
            first, self._closed = not self._closed, True
            dropped = [self._calls.pop(number) for number in self._queue.withdraw()] if cancel_futures else []
        if first and self._follower is not None:
            self._follower.stop()
        for call in dropped:
            self._cancel(call.origin)
        if wait:
            self._wait()
        if first:
            self._hands.withdraw(self._key)
        self._go_if_done()

    def _wait(self) -> None:
        with self._runtime.monitor:
            self._runtime.wait(lambda: self._is_done)

    @property
    def _is_done(self) -> bool:
        return self._queue.is_empty and not self._settling

    def held(self, place: int) -> int:
        """How many calls are at ``place``."""
        return self._queue.held(place)

    def dispatch(self) -> None:
        """Send what the places can work on."""
        self._dispatch(ahead=True)

    # ---- sending ------------------------------------------------------------------------------------------

    def _refusal(self) -> RuntimeError | None:
        """Why no call is made any more, once none is."""
        if self._broken:
            return BrokenExecutor(f"no call can be made any more: {self._broken}")
        return RuntimeError(CLOSED) if self._closed else None

    def _enqueue(self, call: _Call) -> RuntimeError | None:
        """Have the call made; why it is not, where that came to an end meanwhile."""
        # It may wait, and the caller go on to change what it gave.
        call = call._replace(parts=copied(call.parts))
        with self._runtime.monitor:
            if (refusal := self._refusal()) is not None:
                return refusal
            number = next(self._numbers)
            self._calls[number] = call
            self._queue.add(number)
            is_full = self._queue.is_full(self._places())
        if not is_full:
            self._dispatch(ahead=False)
        return None

    def _places(self) -> list[int]:
        places = self._hands.places()
        return places if self._use_place_0 or len(places) == 1 else [place for place in places if place]

    def _dispatch(self, *, ahead: bool) -> None:
        """Send as much as the places can work on, and ask for calls back where some could be made sooner."""
        while True:
            with self._runtime.monitor:
                batch = self._queue.batch(self._places(), ahead=ahead)
                if batch is None:
                    asked = self._queue.surplus(self._places())
                    break
                calls = self._begin(batch)
            self._send(batch, calls)
        if asked is not None:
            place, count = asked
            self._runtime.tell_if_there(place, _give_back, self._key, count)

    def _begin(self, batch: Batch) -> dict[int, _Call]:
        """The calls of the batch but those that were cancelled. The lock is held."""
        calls = {}
        for number in batch.numbers:
            call = self._calls.pop(number)
            future = call.origin.future
            if future is None or future.running() or future.set_running_or_notify_cancel():
                self._sent[number] = call.origin
                calls[number] = call
            else:
                self._queue.drop(batch.place, number)
        self._runtime.flush()
        return calls

    def _send(self, batch: Batch, calls: dict[int, _Call]) -> None:
        here = batch.place == self._runtime.here
        asked = [Asked(number, call.parts if here else beside(call.parts)) for number, call in calls.items()]
        initializer = None if batch.place in self._introduced else self._initializer
        try:
            if here:
                with self._runtime.within(None):
                    _take(self._key, initializer, asked, batch.limit)
            else:
                self._runtime.tell(batch.place, _take, self._key, initializer, asked, batch.limit)
            self._introduced.add(batch.place)
        except (BadPlaceException, DeadPlaceException):  # it has gone this moment
            with self._runtime.monitor:
                self._again(batch.place, calls)

    def _again(self, place: int, calls: dict[int, _Call]) -> None:
        """These calls were not begun at ``place``, and wait again. The lock is held."""
        for number in calls:
            self._sent.pop(number, None)
        self._calls.update(calls)
        self._queue.back(place, list(calls))

    # ---- what comes back --------------------------------------------------------------------------------------

    def answers(self, place: int, answered: Sequence[Answered], seconds: float) -> None:
        """``place`` has made these calls, in so many seconds."""
        with self._runtime.monitor:
            origins = [self._sent.pop(each.number, None) for each in answered]
            self._queue.ended(place, [each.number for each in answered], seconds)
            self._settling += 1
        with self._until_settled():
            self._dispatch(ahead=True)
            for each, origin in zip(answered, origins, strict=True):
                if origin is not None:
                    self._answer(origin, each)

    def returned(self, place: int, asked: Sequence[Asked]) -> None:
        """``place`` has not begun these, and others may make them."""
        with self._runtime.monitor:
            calls = {
                number: _Call(self._sent[number], copied(parts))
                for number, parts in asked
                if number in self._sent
            }
            self._again(place, calls)
        self._dispatch(ahead=True)

    def idle(self, place: int, by: int) -> None:
        """So many more calls at ``place`` wait for others."""
        with self._runtime.monitor:
            self._queue.idle(place, by)
        self._dispatch(ahead=True)

    def broke(self, why: str) -> None:
        """A place cannot make calls: none is made any more."""
        error = BrokenExecutor(f"the call was not made: {why}")
        with self._runtime.monitor:
            self._broken = self._broken or why
            origins = [self._calls.pop(number).origin for number in self._queue.withdraw()]
            for place in self._queue.busy:
                origins += self._lose(place)
            self._settling += 1
        with self._until_settled():
            for origin in origins:
                self._fail(origin, error)

    def _lose(self, place: int) -> list[_Origin]:
        """Who waits for calls at ``place``, which makes no more. The lock is held."""
        lost = [self._sent.pop(number, None) for number in self._queue.lost(place)]
        return [origin for origin in lost if origin is not None]

    def _look(self) -> None:
        """Places have died, and what they were working on with them. The lock is held."""
        for place, why in self._runtime.machine.members.dead.items():
            origins = self._lose(place)
            if origins or place in self._introduced:
                self._introduced.discard(place)
                self._settling += 1
                with self._runtime.within(None):
                    self._runtime.spawn_apart(partial(self._bury, origins, DeadPlaceException(place, why)))

    def _bury(self, origins: list[_Origin], error: DeadPlaceException) -> None:
        with self._until_settled():
            for origin in origins:
                self._fail(origin, error)
            self._dispatch(ahead=True)

    @contextlib.contextmanager
    def _until_settled(self) -> Iterator[None]:
        """Within it futures get what came of them, for which the end waits; callers have counted it."""
        try:
            yield
        finally:
            with self._runtime.monitor:
                self._settling -= 1
            self._go_if_done()

    def _answer(self, origin: _Origin, answered: Answered) -> None:
        parts: Sequence[Any] = answered.parts
        if origin.future is not None:
            _settle(origin.future, parts, raised=answered.raised)
        else:
            told = self._key, origin.number, beside(parts), answered.raised
            self._runtime.tell_if_there(origin.place, _deliver, *told)

    def _fail(self, origin: _Origin, error: Exception) -> None:
        if origin.future is not None:
            with contextlib.suppress(InvalidStateError):  # the user has given it a value
                origin.future.set_exception(error)
        else:
            self._answer(origin, Answered(0, raised=True, parts=[pack_error(error)]))

    def _cancel(self, origin: _Origin) -> None:
        """The call was not made; one that a place gave back is RUNNING, so that its future cannot be cancelled."""
        if origin.future is not None and origin.future.cancel():
            origin.future.set_running_or_notify_cancel()
        else:
            self._fail(origin, RuntimeError("the executor was shut down before the call was made"))

    # ---- the end ------------------------------------------------------------------------------------------------

    def _end(self, orderly: bool) -> None:  # noqa: FBT001
        """The program is over. Calls may have submitted others, so that all are made before this is closed."""
        if orderly:
            self._wait()
        self.shutdown(wait=orderly, cancel_futures=not orderly)

    def _go_if_done(self) -> None:
        """Where nothing is to be done any more, nothing is kept of it."""
        runtime = self._runtime
        with runtime.monitor:
            runtime.flush()
            if not self._closed or not self._is_done or self._key not in runtime.objects:
                return
            for kept in (runtime.objects, runtime.on_death, runtime.on_load, runtime.on_end):
                kept.pop(self._key, None)
            places, self._introduced = self._introduced, set()
        self._hands.leave(self._key)
        for place in places:
            self._runtime.tell_if_there(place, _forget, self._key)


class _Elsewhere(_InChunks):
    """An executor as another place knows it: it can be submitted to, and is shut down at home."""

    def __init__(self, key: str, runtime: Runtime) -> None:
        self._key, self._runtime = key, runtime
        self._numbers = itertools.count(1)
        self._futures: dict[int, PlaceFuture[Any]] = {}

    def __reduce__(self) -> tuple[Callable[..., Executor], tuple[str]]:
        return _found, (self._key,)

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """As at place 0; but that no call is taken any more is the future's exception, and ``cancel`` keeps no call
        from being made."""
        future: PlaceFuture[T] = PlaceFuture()
        parts = _packed_call(future, fn, args, kwargs)
        if parts is not None:
            runtime = self._runtime
            with runtime.monitor:
                number = next(self._numbers)
                self._futures[number] = future
            runtime.tell(0, _submitted, self._key, runtime.here, number, beside(parts))
        return future

    def shutdown(self, *_: object, **__: object) -> None:
        raise PliantError("an executor is shut down at place(0), where it was made")

    def deliver(self, number: int, parts: Sequence[Buffer], *, raised: bool) -> None:
        with self._runtime.monitor:
            future = self._futures.pop(number, None)
        if future is not None and future.set_running_or_notify_cancel():
            _settle(future, parts, raised=raised)


def _found(key: str) -> Executor:
    """The executor of that name, as this place knows it."""
    runtime = current()
    with runtime.monitor:
        found = runtime.objects.get(key)
        if found is None:
            found = runtime.objects[key] = _Elsewhere(key, runtime)  # at home one that was shut down
    return found


def _packed_call(
    future: Future[Any], fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[Buffer] | None:
    """The call's pickle; None where it has none, which is the future's exception then."""
    try:
        return pack((fn, args, kwargs))
    except TypeError as error:
        future.set_running_or_notify_cancel()
        future.set_exception(TypeError(f"{name_of(fn)} cannot be sent to a place: {error}"))
        return None


def _settle(future: Future[Any], parts: Sequence[Buffer], *, raised: bool) -> None:
    """Whatever a value does when it is made again, the future ends."""
    with contextlib.suppress(InvalidStateError):  # the user has given it a value
        if raised:
            future.set_exception(unpack_raised(parts[0]))
            return
        try:
            value = unpack(parts)
        except BaseException as error:  # noqa: BLE001 - it is the future's
            future.set_exception(error)
        else:
            future.set_result(value)


# ---- what places tell each other ---------------------------------------------------------------------------------


def _desk_of(key: str) -> str:
    return f"{key} desk"


def _take(key: str, initializer: Sequence[Buffer] | None, asked: Sequence[Asked], limit: int) -> None:
    """At any place: make these calls, ``limit`` at a time."""
    runtime = current()
    with runtime.monitor:
        desk = runtime.objects.get(_desk_of(key))
        if desk is None:
            desk = Desk(runtime, key, Reports(_answers, _returned, _idle, _broke), initializer)
            runtime.objects[_desk_of(key)] = desk
    desk.take(asked, limit)


def _give_back(key: str, count: int) -> None:
    """At any place: what has not begun goes elsewhere; nothing if the executor was shut down meanwhile."""
    desk = current().objects.get(_desk_of(key))
    if desk is not None:
        desk.give_back(count)


def _forget(key: str) -> None:
    """At any place: the executor is shut down."""
    current().objects.pop(_desk_of(key), None)


def _home(key: str) -> PlaceExecutor | None:
    found = current().objects.get(key)
    return found if isinstance(found, PlaceExecutor) else None


def _answers(key: str, place: int, answered: list[Answered], seconds: float) -> None:
    if (executor := _home(key)) is not None:
        executor.answers(place, answered, seconds)


def _returned(key: str, place: int, asked: list[Asked]) -> None:
    if (executor := _home(key)) is not None:
        executor.returned(place, asked)


def _idle(key: str, place: int, by: int) -> None:
    if (executor := _home(key)) is not None:
        executor.idle(place, by)


def _broke(key: str, why: str, raised: bytes) -> None:
    log = logging.getLogger("concurrent.futures")  # as the standard library's
    log.critical("Exception in initializer:", exc_info=unpack_raised(raised))
    if (executor := _home(key)) is not None:
        executor.broke(why)


def _submitted(key: str, place: int, number: int, parts: Sequence[Buffer]) -> None:
    """At place 0: ``place`` wants this call made."""
    if (executor := _home(key)) is not None:
        executor.accept(place, number, parts)
        return
    current().tell_if_there(place, _deliver, key, number, [pack_error(RuntimeError(CLOSED))], True)


def _deliver(key: str, number: int, parts: Sequence[Buffer], raised: bool) -> None:  # noqa: FBT001
    """At the place that has submitted a call: what came of it."""
    found = current().objects.get(key)
    if isinstance(found, _Elsewhere):
        found.deliver(number, parts, raised=raised)
