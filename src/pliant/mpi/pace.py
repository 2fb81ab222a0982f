"""Paced loops: iterations that take as long as the job's speed-up model says, for experiments and demos."""

from __future__ import annotations

from pliant.model.speedup import Model


class Totals:
    """Seconds a paced loop should have taken and took in the epochs before this one."""

    __slots__ = ("paced_s", "should_s")

    def __init__(self, should_s: float = 0.0, paced_s: float = 0.0) -> None:
        self.should_s = should_s
        self.paced_s = paced_s


class Pace:
    """The timetable of a loop of ``total`` steps. Times are those of one clock, in seconds.

    Within an epoch the timetable is absolute, so that late steps do not add up; a resize starts a new one.
    """

    def __init__(self, model: Model | None, total: int) -> None:
        self.paced = model is not None
        self._model = model
        self._total = total
        self._step_s = 0.0
        self._begin_s = 0.0
        self._begin_step = 0
        self.totals = Totals()

    def begin(self, step: int, nodes: int, now: float) -> None:
        """An epoch of ``nodes`` nodes starts with ``step``."""
        self._begin_s, self._begin_step = now, step
        self._step_s = self._model.time(nodes) / self._total if self._model and self._total else 0.0

    def end(self, step: int, now: float) -> None:
        """The epoch ends before ``step``; what blocks the job until the next ``begin`` does not count."""
        self.totals = Totals(*self.sums(step, now))
        self._begin_s, self._begin_step = now, step

    def start_of(self, step: int) -> float:
        """The moment before which ``step`` must not start."""
        return self._begin_s + (step - self._begin_step) * self._step_s

    def sums(self, step: int, now: float) -> tuple[float, float]:
        """Seconds the steps before ``step`` should have taken, and took; zeros if the loop is not paced."""
        if self._model is None:
            return 0.0, 0.0
        done_s = (step - self._begin_step) * self._step_s
        return self.totals.should_s + done_s, self.totals.paced_s + now - self._begin_s
