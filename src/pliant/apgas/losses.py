"""Places that die: whether one has, and a handler that is told."""

from __future__ import annotations

import functools
import uuid
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager

from pliant.apgas.api import Place
from pliant.apgas.runtime import current


def is_dead(place: Place) -> bool:
    """Whether ``place`` has died, as far as this place knows. One that has left in good order is not dead."""
    runtime = current()
    with runtime.monitor:
        return place.id in runtime.machine.members.dead


class LossHandler(AbstractContextManager["LossHandler"]):
    """Tells a handler of places that die, until ``stop`` or the end of a ``with``."""

    def __init__(self, handler: Callable[[Place], object]) -> None:
        self._handler = handler
        self._runtime = current()
        self._key = f"losses {uuid.uuid4().hex}"
        self._waiting: deque[int] = deque()
        self._runs = False
        with self._runtime.monitor:
            self._told = len(self._mourned)
            self._runtime.on_death[self._key] = self._look

    @property
    def _mourned(self) -> list[int]:
        return self._runtime.machine.members.mourned

    def stop(self) -> None:
        """Tell of no further deaths."""
        with self._runtime.monitor:
            self._runtime.on_death.pop(self._key, None)
            self._waiting.clear()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _look(self) -> None:
        """Places may have died. The lock is held."""
        self._waiting.extend(self._mourned[self._told :])
        self._told = len(self._mourned)
        self._go_on()

    def _go_on(self) -> None:
        """Tell of the next, unless the handler runs. The lock is held."""
        if self._waiting and not self._runs:
            self._runs = True
            place = Place(self._waiting.popleft())

            @functools.wraps(self._handler)
            def tell() -> None:
                try:
                    self._handler(place)
                finally:
                    with self._runtime.monitor:
                        self._runs = False
                        self._go_on()

            with self._runtime.within(None):
                self._runtime.spawn_apart(tell)


def on_lost_place(handler: Callable[[Place], object]) -> LossHandler:
    """From now on run ``handler(place)`` here for each place that dies, one after the other, in a thread of its own.

    It may wait for other places. What it raises is printed, and the next death is told all the same. No finish waits
    for it. It returns at once, and tells until ``stop()`` or the end of ``with on_lost_place(handler): ...``.
    """
    return LossHandler(handler)
