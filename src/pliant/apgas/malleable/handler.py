"""How a program follows when places are to come or to leave: its handler, and the order in which it is asked."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Protocol, TypeVar

from pliant.apgas.api import Place
from pliant.apgas.place.membership import named, objection
from pliant.apgas.runtime import Runtime, current
from pliant.model.errors import PliantError
from pliant.model.jobs import Bounds

T = TypeVar("T")


class MalleableHandler(Protocol):
    """What a program does before and after its places change (Finnerty et al. 2024, "Programmer Abstractions"). It is
    called at place 0, beside the main function, for one change at a time. What was prepared is told the end of in any
    case, unless the handler itself raised: a change that came to nothing ends with nobody ``new``, or with fewer
    ``removed`` than were chosen."""

    def pre_shrink(self, count: int) -> Sequence[Place]:
        """Choose ``count`` places that are to leave, not place 0, and move away what is needed of them."""

    def post_shrink(self, count: int, removed: Sequence[Place]) -> None:
        """``removed`` have left. Others that ``pre_shrink`` has chosen stay, and are to be used again: they still had
        tasks when the time was over, or could not leave. Where the whole shrink has failed, ``removed`` is empty."""

    def pre_grow(self, count: int) -> None:
        """``count`` places are to come."""

    def post_grow(self, count: int, continued: Sequence[Place], new: Sequence[Place]) -> None:
        """``new`` are there; none are where they were lost before they came, or not in time, or are not wanted
        any more."""


class HandlerError(PliantError):
    """A handler raised, or named places that cannot leave."""


class NoHandlerError(HandlerError):
    """The program has no handler, or none any more."""


class Malleability:
    """At place 0: the program's handler, and the changes that it is asked to follow."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._handler: MalleableHandler | None = None
        self._standby: MalleableHandler | None = None
        """Asked while the program has no handler of its own."""
        self._busy = False
        self.asked_s = 0.0
        """What the handler has taken in this change, or in the last."""
        self.on_change: Callable[[bool], object] = lambda _on: None
        """Told when the program becomes malleable, and when it no longer is."""
        self.want: Callable[..., object] = _nobody
        """Asks the scheduler for a size within bounds; ``keep`` leaves the wish open."""

    def define(self, handler: MalleableHandler) -> None:
        with self._runtime.monitor:
            if self._handler is not None:
                raise PliantError(
                    "the program has a malleable handler already, and has one at a time; "
                    "call disable_malleable_handler() first"
                )
            self._handler = handler
            was_malleable = self._standby is not None
        if not was_malleable:
            self.on_change(True)

    def disable(self) -> None:
        """The program has no handler of its own from now on. Waits for a change that is under way."""
        with self._runtime.monitor:
            if self._handler is None:
                return
            self._runtime.wait(lambda: not self._busy)
            self._handler = None
            is_malleable = self._standby is not None
        if not is_malleable:
            self.on_change(False)

    def stand_by(self, handler: MalleableHandler | None) -> None:
        """``handler`` is asked while the program has none of its own; None: nobody is. Waits for a change that is under
        way where one stood by."""
        with self._runtime.monitor:
            before = self._standby
            if before is not None:
                self._runtime.wait(lambda: not self._busy)
            self._standby = handler
            changes = self._handler is None and (before is None) != (handler is None)
        if changes:
            self.on_change(handler is not None)

    @property
    def can_change(self) -> bool:
        """Whether the program has a handler, and no change is under way."""
        with self._runtime.monitor:
            return self._active is not None and not self._busy

    @property
    def _active(self) -> MalleableHandler | None:
        return self._handler or self._standby

    def grow(self, numbers: Collection[int], start: Callable[[], object], limit_s: float) -> None:
        """Let places with these ``numbers`` join: ``start`` has them started, after the handler has agreed.

        HandlerError if it raises, or if there is none; PliantError if they do not come within ``limit_s`` seconds.
        """
        with self.turn() as handler:
            self.prepare_growth(handler, len(numbers))
            try:
                start()
                self._runtime.await_arrival(numbers, limit_s)
                if missing := set(numbers) - self._runtime.machine.arrived.keys():
                    raise PliantError(f"{named(missing)} did not come within {limit_s:.0f} s")
            except Exception:
                self._runtime.turn_away(numbers, "they are not wanted any more")
                self.call_off_growth(handler, len(numbers))
                raise
            self.complete_growth(handler, numbers)

    def prepare_growth(self, handler: MalleableHandler, count: int) -> None:
        """``count`` places are to come; HandlerError if the handler raises."""
        self._ask("pre_grow", lambda: handler.pre_grow(count))

    def complete_growth(self, handler: MalleableHandler, numbers: Collection[int]) -> None:
        """These have come: take them in. HandlerError if the handler raises then; they are there all the same."""
        before = self._places()
        self._runtime.admit(numbers)
        there = self._places()
        new = tuple(Place(number) for number in sorted(numbers) if Place(number) in there)
        self._ask("post_grow", lambda: handler.post_grow(len(numbers), before, new))

    def call_off_growth(self, handler: MalleableHandler, count: int) -> None:
        """``count`` places were to come, and do not. HandlerError if the handler raises."""
        self._ask("post_grow", lambda: handler.post_grow(count, self._places(), ()))

    def shrink(self, count: int, limit_s: float, wanted: Collection[int] = ()) -> list[int]:
        """Let ``count`` places leave that the handler names, those that are ``wanted`` among them; returns all of them
        when they have left.

        HandlerError if the handler raises or names others than it may; PliantError if they are still busy after
        ``limit_s`` seconds: then they stay. Whatever comes of it, a handler that has chosen places is told in the end
        which of them have left.
        """
        with self.turn() as handler:
            numbers = self.choose(handler, count, wanted)
            kept = self._runtime.release(numbers, limit_s)
            self.complete_shrink(handler, count, [number for number in numbers if number not in kept])
            if kept:
                raise PliantError(
                    f"{named(kept)} still had tasks {limit_s:.0f} s after pre_shrink; they stay"
                )
        return numbers

    def complete_shrink(self, handler: MalleableHandler, count: int, removed: Collection[int]) -> None:
        """Of ``count`` places these have left, and no others will. HandlerError if the handler raises."""
        gone = tuple(Place(number) for number in removed)
        self._ask("post_shrink", lambda: handler.post_shrink(count, gone))

    def choose(self, handler: MalleableHandler, count: int, wanted: Collection[int]) -> list[int]:
        """Which places leave. A handler that lets others choose has ``pre_release``, to be told which. HandlerError if
        it raises or names others than it may."""
        if 0 in wanted:
            raise HandlerError("place(0) is to leave, but it runs the program")
        release = getattr(handler, "pre_release", None)
        if release is not None and wanted:
            last = [place for place in reversed(self._places()) if place.id and place.id not in wanted]
            chosen = [*(Place(number) for number in sorted(wanted)), *last[: count - len(wanted)]]
            numbers = self._check("pre_release", count, chosen)
            self._ask("pre_release", lambda: release(chosen))
            return numbers
        named_by = self._ask("pre_shrink", lambda: handler.pre_shrink(count))
        try:
            numbers = self._check("pre_shrink", count, named_by)
            if others := set(wanted) - set(numbers):
                raise HandlerError(
                    f"{named(others)} must leave, but pre_shrink({count}) named {named(numbers)}"
                )
        except HandlerError:
            self.complete_shrink(handler, count, ())  # what it has named may be idle by now
            raise
        return numbers

    def _check(self, who: str, count: int, chosen: Sequence[Place]) -> list[int]:
        """The ids of the places that were chosen; HandlerError if they cannot leave."""
        try:
            numbers = [Place(*place).id for place in chosen]
        except TypeError as error:
            raise HandlerError(f"{who}({count}) returned {chosen!r}, no list of places") from error
        if problem := objection(who, count, numbers, {place.id for place in self._places()}):
            raise HandlerError(problem)
        return numbers

    def _places(self) -> tuple[Place, ...]:
        with self._runtime.monitor:
            return tuple(Place(number) for number in self._runtime.machine.members.places())

    def _ask(self, what: str, call: Callable[[], T]) -> T:
        begun = self._runtime.threads.now()
        try:
            return call()
        except Exception as error:
            raise HandlerError(f"{what} raised {type(error).__name__}: {error}") from error
        finally:
            self.asked_s += self._runtime.threads.now() - begun

    def turn(self) -> _Turn:
        """``with``: a change, when the one before is over. NoHandlerError if there is no handler."""
        return _Turn(self)

    @contextlib.contextmanager
    def pausing(self) -> Iterator[None]:
        """``with``: no change goes on meanwhile."""
        with self._runtime.monitor:
            self._runtime.wait(lambda: not self._busy)
            self._busy = True
        try:
            yield
        finally:
            self.end_turn()

    def take_turn(self) -> MalleableHandler:
        runtime = self._runtime
        with runtime.monitor:
            runtime.wait(lambda: not self._busy)
            handler = self._active
            if handler is None:
                raise NoHandlerError("the program has no malleable handler now")
            self._busy, self.asked_s = True, 0.0
            return handler

    def end_turn(self) -> None:
        with self._runtime.monitor:
            self._busy = False
            self._runtime.flush()


def _nobody(_bounds: Bounds, *, keep: bool = False) -> None:  # noqa: ARG001 - in the place of what asks
    raise PliantError("there is no scheduler to ask: the program runs alone")


class _Turn:
    """One change at a time."""

    def __init__(self, malleability: Malleability) -> None:
        self._malleability = malleability

    def __enter__(self) -> MalleableHandler:
        return self._malleability.take_turn()

    def __exit__(self, *_: object) -> None:
        self._malleability.end_turn()


def malleability() -> Malleability:
    """That of the program, at place 0; PliantError elsewhere."""
    runtime = current()
    if runtime.here != 0:
        raise PliantError(f"a malleable handler belongs to place(0), this is place({runtime.here})")
    return of(runtime)


def of(runtime: Runtime) -> Malleability:
    """That of the program whose place 0 this is."""
    with runtime.monitor:
        found: Malleability = runtime.objects.setdefault("malleability", Malleability(runtime))
    return found


def define_malleable_handler(handler: MalleableHandler) -> None:
    """From now on the scheduler may change the places of this program, and ``handler`` is asked to follow. One at a
    time, at place 0; PliantError otherwise."""
    malleability().define(handler)


def disable_malleable_handler() -> None:
    """From now on the program keeps the places that it has; a change that is under way is finished first."""
    malleability().disable()


def request_places(count: int, *, keep: bool = False) -> None:
    """Ask the scheduler for ``count`` more places, all or none of them. If it offers them, the handler is asked as
    ever; if it has none, nothing happens, or with ``keep`` they are offered as soon as so many are free and no job
    waits, until the program has as many places as it would have with them, or asks again. At place 0; PliantError where
    there is no scheduler, ValueError if ``count`` is not positive."""
    if count < 1:
        raise ValueError(f"request_places({count}): at least one")
    whole, size = malleability(), len(current().machine.members.places())
    whole.want(Bounds(size + count, size + count), keep=keep)


def offer_places(count: int) -> None:
    """Tell the scheduler that ``count`` places are not needed; it asks the handler for them as ever. At place 0;
    PliantError where there is no scheduler, ValueError if that leaves no place."""
    whole, size = malleability(), len(current().machine.members.places())
    if not 0 < count < size:
        raise ValueError(f"offer_places({count}): the program has {size} places, and place(0) stays")
    whole.want(Bounds(size - count, size - count))
