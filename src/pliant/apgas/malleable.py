"""How a program follows when places are to come or to leave: its handler, and the order in which it is asked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol, TypeVar

from pliant.apgas.api import Place
from pliant.apgas.runtime import Runtime, current
from pliant.model.errors import PliantError

T = TypeVar("T")


class MalleableHandler(Protocol):
    """What a program does before and after its places change (paper 2, "Programmer Abstractions"). It is called at place 0,
    beside the main function, for one change at a time."""

    def pre_shrink(self, count: int) -> Sequence[Place]:
        """Choose ``count`` places that are to leave, not place 0, and move away what is needed of them."""

    def post_shrink(self, count: int, removed: Sequence[Place]) -> None:
        """They have left."""

    def pre_grow(self, count: int) -> None:
        """``count`` places are to come."""

    def post_grow(self, count: int, continued: Sequence[Place], new: Sequence[Place]) -> None:
        """They are there."""


class HandlerError(PliantError):
    """A handler raised, or named places that cannot leave."""


class Malleability:
    """At place 0: the program's handler, and the changes that it is asked to follow."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._handler: MalleableHandler | None = None
        self._defined = False
        self._busy = False
        self.on_change: Callable[[bool], object] = lambda _on: None
        """Told when the program becomes malleable, and when it no longer is."""

    def define(self, handler: MalleableHandler) -> None:
        with self._runtime.monitor:
            if self._defined:
                raise PliantError("a malleable handler was defined before; a program has one, once")
            self._defined, self._handler = True, handler
        self.on_change(True)

    def disable(self) -> None:
        """From now on the program keeps its places. Waits for a change that is under way."""
        runtime = self._runtime
        with runtime.monitor:
            if self._handler is None:
                return
            runtime.wait(lambda: not self._busy)
            self._handler = None
        self.on_change(False)

    def grow(self, numbers: Collection[int], start: Callable[[], object], limit_s: float) -> None:
        """Let places with these ``numbers`` join: ``start`` has them started, after the handler has agreed.

        HandlerError if it raises, or if there is none; PliantError if they do not come within ``limit_s`` seconds.
        """
        runtime, count = self._runtime, len(numbers)
        with _Turn(self) as handler:
            before = self._places()
            self._ask("pre_grow", lambda: handler.pre_grow(count))
            start()
            if missing := runtime.admit(numbers, limit_s):
                names = ", ".join(f"place({number})" for number in sorted(missing))
                raise PliantError(f"{names} did not come within {limit_s:.0f} s")
            new = tuple(Place(number) for number in sorted(numbers))
            self._ask("post_grow", lambda: handler.post_grow(count, before, new))

    def shrink(self, count: int, limit_s: float, leave: Callable[[Sequence[int]], object]) -> None:
        """Let ``count`` places leave that the handler names. ``leave`` is told which, before they are gone.

        HandlerError if it raises or names others than it may; PliantError if they are still busy after ``limit_s``
        seconds: then they stay.
        """
        with _Turn(self) as handler:
            chosen = self._ask("pre_shrink", lambda: handler.pre_shrink(count))
            numbers = self._check(count, chosen)
            leave(numbers)
            if kept := self._runtime.release(numbers, limit_s):
                names = ", ".join(f"place({number})" for number in sorted(kept))
                raise PliantError(f"{names} still had tasks {limit_s:.0f} s after pre_shrink; they stay")
            removed = tuple(Place(number) for number in numbers)
            self._ask("post_shrink", lambda: handler.post_shrink(count, removed))

    def _check(self, count: int, chosen: Sequence[Place]) -> list[int]:
        """The ids of the places that pre_shrink chose; HandlerError if they cannot leave."""
        there = {place.id for place in self._places()}
        try:
            numbers = [Place(*place).id for place in chosen]
        except TypeError as error:
            raise HandlerError(f"pre_shrink({count}) returned {chosen!r}, no list of places") from error
        if 0 in numbers:
            raise HandlerError(f"pre_shrink({count}) named place(0), which runs the program and cannot leave")
        if unknown := sorted(set(numbers) - there):
            raise HandlerError(f"pre_shrink({count}) named place({unknown[0]}), which is not there")
        if len(numbers) != count or len(set(numbers)) != count:
            raise HandlerError(f"pre_shrink({count}) named {len(set(numbers))} places: {sorted(numbers)}")
        return numbers

    def _places(self) -> tuple[Place, ...]:
        with self._runtime.monitor:
            return tuple(Place(number) for number in self._runtime.machine.members.places())

    @staticmethod
    def _ask(what: str, call: Callable[[], T]) -> T:
        try:
            return call()
        except Exception as error:
            raise HandlerError(f"{what} raised {type(error).__name__}: {error}") from error

    def take_turn(self) -> MalleableHandler:
        runtime = self._runtime
        with runtime.monitor:
            runtime.wait(lambda: not self._busy)
            if self._handler is None:
                raise HandlerError("the program has no malleable handler now")
            self._busy = True
            return self._handler

    def end_turn(self) -> None:
        with self._runtime.monitor:
            self._busy = False
            self._runtime.flush()


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
    with runtime.monitor:
        found: Malleability = runtime.objects.setdefault("malleability", Malleability(runtime))
    return found


def define_malleable_handler(handler: MalleableHandler) -> None:
    """From now on the scheduler may change the places of this program, and ``handler`` is asked to follow. Once, at
    place 0; PliantError otherwise."""
    malleability().define(handler)


def disable_malleable_handler() -> None:
    """From now on the program keeps the places that it has; a change that is under way is finished first."""
    malleability().disable()
