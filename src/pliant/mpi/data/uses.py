"""Which arrays the program uses in a step, and in which order."""

from __future__ import annotations

from pliant.job.watching.findings import Used


class Uses:
    """Arrays say so when they are used, while it is ``on``."""

    def __init__(self) -> None:
        self.on = False
        self._order: dict[str, None] = {}
        self._pairs: set[tuple[str, str]] = set()
        self._last = ""

    def begin(self) -> None:
        """A step begins."""
        self.on, self._last = True, ""
        self._order.clear()
        self._pairs.clear()

    def note(self, name: str) -> None:
        """An array of this name is used."""
        if name != self._last:
            self._pairs.add((self._last, name))
            self._order[name] = None
            self._last = name

    def end(self) -> Used:
        """The step is over: what it has used."""
        self.on = False
        return Used((*self._order,), frozenset(self._pairs))
