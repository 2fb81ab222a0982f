"""How much longer jobs take on other sizes than the preferred one, kept as it is asked for again and again."""

from __future__ import annotations

from collections.abc import Container

from pliant.policy.resizing import up
from pliant.policy.view import JobView


class Ratios:
    """By job and size."""

    def __init__(self) -> None:
        self._of: dict[int, dict[int, float]] = {}
        self._steps: dict[int, dict[int, tuple[int, float]]] = {}

    def of(self, job: JobView, size: int) -> float:
        """Its time on ``size`` nodes over that at its preferred size. Without a model, what an upper bound needs:
        linear below that, no gain above it."""
        known = self._of.get(job.id)
        if known is None:
            known = self._of[job.id] = {}
        ratio = known.get(size)
        if ratio is None:
            spec, preferred = job.spec, job.spec.nodes.preferred
            linear = spec.model is None
            ratio = known[size] = max(1.0, preferred / size) if linear else spec.speed_ratio(size, preferred)
        return ratio

    def step(self, job: JobView, size: int) -> tuple[int, float]:
        """The next larger size worth looking at, and by how much each node up to there adds to its speed, in units of
        that at its preferred size; (0, 0.0) if there is none."""
        known = self._steps.get(job.id)
        if known is None:
            known = self._steps[job.id] = {}
        step = known.get(size)
        if step is None:
            more = up(job, size)
            gain = (1.0 / self.of(job, more) - 1.0 / self.of(job, size)) / (more - size) if more else 0.0
            step = known[size] = more, gain
        return step

    def keep(self, jobs: Container[int]) -> None:
        """Forget all others, now and then."""
        if len(self._of) > 1000:
            self._of = {number: known for number, known in self._of.items() if number in jobs}
            self._steps = {number: known for number, known in self._steps.items() if number in jobs}
