"""How the executors of a program follow when places are to leave: together they are one malleable handler."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Protocol

from pliant.apgas.api import Place
from pliant.apgas.malleable.handler import of
from pliant.apgas.runtime import Runtime
from pliant.model.errors import PliantError


class Open(Protocol):
    """An executor that is open."""

    def held(self, place: int) -> int:
        """How many of its calls are at ``place``."""

    def dispatch(self) -> None:
        """Send what can be sent."""


class Hands:
    """The open executors of a program. While some of them are malleable they are its handler, unless it has one of its
    own. Places that are to leave get no more calls, and go when theirs are made."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._open: dict[str, Open] = {}
        self._malleable: set[str] = set()
        self.leaving: set[int] = set()
        self._changing = False
        """Whether a thread tells the program that these follow, or follow no more."""

    @classmethod
    def of(cls, runtime: Runtime) -> Hands:
        """Those of the program whose place 0 this is."""
        with runtime.monitor:
            found: Hands = runtime.objects.setdefault("executors", cls(runtime))
        return found

    @contextlib.contextmanager
    def _in_turn(self) -> Iterator[None]:
        """One thread at a time: the program is told in the order in which executors join and withdraw."""
        with self._runtime.monitor:
            self._runtime.wait(lambda: not self._changing)
            self._changing = True
        try:
            yield
        finally:
            with self._runtime.monitor:
                self._changing = False
                self._runtime.flush()

    def join(self, key: str, executor: Open, *, malleable: bool) -> None:
        with self._in_turn():
            with self._runtime.monitor:
                self._open[key] = executor
                if malleable:
                    self._malleable.add(key)
                first = self._malleable == {key} and malleable
            if first:
                of(self._runtime).stand_by(self)

    def withdraw(self, key: str) -> None:
        """This executor follows no more; it has calls until ``leave``."""
        with self._in_turn():
            with self._runtime.monitor:
                last = self._malleable == {key}
                self._malleable.discard(key)
            if last:
                of(self._runtime).stand_by(None)

    def leave(self, key: str) -> None:
        with self._runtime.monitor:
            self._open.pop(key, None)

    def places(self) -> list[int]:
        """The places that get calls. The lock is held."""
        return [place for place in self._runtime.machine.members.places() if place not in self.leaving]

    # ---- as a malleable handler -----------------------------------------------------------------------------

    def pre_shrink(self, count: int) -> Sequence[Place]:
        """Those that have the fewest calls; they go when these are made."""
        with self._runtime.monitor:
            others = sorted(
                (place for place in self.places() if place), key=lambda each: (self._held(each), -each)
            )
            if count > len(others):
                raise PliantError(f"{count} places are to leave, but only {len(others)} can: place(0) stays")
            chosen = [Place(number) for number in others[:count]]
        self.pre_release(chosen)
        return chosen

    def _held(self, place: int) -> int:
        return sum(executor.held(place) for executor in self._open.values())

    def pre_release(self, chosen: Sequence[Place]) -> None:
        """They get no more; what they work on may end."""
        with self._runtime.monitor:
            self.leaving |= {place.id for place in chosen}
        self._dispatch()

    def post_shrink(self, count: int, removed: Sequence[Place]) -> None:  # noqa: ARG002
        """Those that have not left get work again."""
        with self._runtime.monitor:
            self.leaving.clear()
        self._dispatch()

    def pre_grow(self, count: int) -> None:
        """Nothing is to be prepared."""

    def post_grow(self, count: int, continued: Sequence[Place], new: Sequence[Place]) -> None:  # noqa: ARG002
        """The new places get work at once."""
        self._dispatch()

    def _dispatch(self) -> None:
        with self._runtime.monitor:
            executors = list(self._open.values())
        for executor in executors:
            executor.dispatch()
