"""Where the time of an expansion goes."""

from __future__ import annotations

from collections.abc import Callable

from pliant.protocol.phases import Phase


class PhaseClock:
    """Each phase lasts from the end of the one before; ``now`` tells the time in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.phases: dict[str, float] = {}
        self._now = now
        self._last = now()

    def end(self, phase: Phase) -> None:
        now = self._now()
        self.phases[phase] = now - self._last
        self._last = now

    def move(self, phase: Phase, to: Phase, seconds: float) -> None:
        """``seconds`` of ``phase`` were another one's."""
        self.phases[phase] -= seconds
        self.phases[to] = seconds
