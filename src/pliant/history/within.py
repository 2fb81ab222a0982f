"""The figures of some jobs of a run: the others came before or after, and were there so that these are met as usual."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from msgspec import structs

from pliant.core import records as r
from pliant.history.metrics import Metrics, Reference
from pliant.history.outcomes import RunMetrics
from pliant.history.timeline import Life
from pliant.model.jobs import JobSpec
from pliant.protocol.phases import Phase


class MetricsWithin(Metrics):
    """``Metrics`` of the jobs with the specifications ``counted``, by their identity.

    All that is said of jobs and resizes is said of these jobs, and the makespan is theirs. Utilisation and capacity are
    of the machine, with all jobs, from the first to the last submission of these; where they are all submitted in one
    instant, up to their last end. There is no goodput: much of what they ask for is done after that. Nor is there a
    useful utilisation: what stood still is known of these jobs, and up to their last end.
    """

    IGNORES: ClassVar[frozenset[str]] = Metrics.IGNORES - {"submitted"}

    def __init__(
        self, counted: Iterable[JobSpec], *, reference: Reference = lambda _number, _spec: None
    ) -> None:
        super().__init__(keep_jobs=False, reference=reference)
        self._specs = {id(spec) for spec in counted}
        self._numbers: set[int] = set()
        self._before = 0.0
        """What had been held when the first of them was submitted."""
        self._marked = (0.0, 0.0)
        """Node-seconds that were held and that there were, up to the last submission."""
        self._last_submit = 0.0
        self._their_end = 0.0

    def summary(self) -> RunMetrics:
        return structs.replace(super().summary(), goodput=None, useful_utilisation=None)

    def spans(self) -> tuple[float, float, float]:
        makespan = self._their_end - self._first if self._first is not None else 0.0
        return max(0.0, makespan), *self._marked

    def _mark(self, at: float) -> None:
        lives = self.lives
        held = self._area + lives.in_use * (at - lives.since)
        self._marked = (held - self._before, self._capacity.until(at))

    # ---- rows ----------------------------------------------------------------------------------------

    def began(self, at: float) -> None:
        """Theirs is not the first job of all."""

    def submitted(self, life: Life) -> None:
        if id(life.spec) not in self._specs:
            return
        self._numbers.add(life.job)
        if life.again:
            return
        at = self.lives.now
        if self._first is None:
            super().began(at)
            self._before = self._area + self.lives.in_use * (at - self.lives.since)
        self._last_submit = at
        self._mark(at)

    def started(self, life: Life) -> None:
        if life.job in self._numbers:
            super().started(life)

    def withdrawn(self, life: Life, why: str) -> None:
        if life.job in self._numbers:
            super().withdrawn(life, why)

    def settled(self, life: Life, outcome: str, error: str, *, late: bool, phase: Phase | None) -> None:
        if life.job in self._numbers:
            super().settled(life, outcome, error, late=late, phase=phase)

    def resized(self, life: Life, done: r.ResizeDone, kind: str, before: int) -> None:
        if life.job in self._numbers:
            super().resized(life, done, kind, before)

    def wasted(self, job: int, kind: str, mask: int, since: float) -> None:
        if job in self._numbers:
            super().wasted(job, kind, mask, since)

    def ended(self, life: Life, end: r.JobEnded, size: int) -> None:
        if life.job not in self._numbers:
            return
        super().ended(life, end, size)
        if not end.requeued:
            self._their_end = end.at
            if self._last_submit == self._first:
                self._mark(end.at)
