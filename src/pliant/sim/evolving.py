"""Evolving jobs: their phases, and the sizes that they ask for when one begins."""

from __future__ import annotations

from pliant.model.jobs import Bounds, JobClass
from pliant.model.speedup import Phases
from pliant.sim.checkpoints import Saved
from pliant.sim.running import RunningJob
from pliant.workloads.job import SimJob


class EvolvingJob(RunningJob):
    """A job with phases. ``left`` and ``whole`` are those of the present one, number ``phase``.

    One that is malleable, so that the scheduler resizes it too, asks once when a phase begins: it would else undo what
    the scheduler has decided since."""

    __slots__ = ("_aim", "_phases", "_scale")

    def __init__(self, number: int, job: SimJob, phases: Phases, mask: int, now: float) -> None:
        super().__init__(number, job, mask, now)
        preferred = job.spec.nodes.preferred
        self._scale = job.time(preferred) / phases.time(preferred)
        self._phases = phases.phases
        self.asks_once = job.spec.job_class is JobClass.MALLEABLE
        self._look_ahead()

    def _look_ahead(self) -> None:
        """What it wants in the phase that begins."""
        self._aim = self._phases[self.phase].aim(self.mask.bit_count())

    def time(self, nodes: int) -> float:
        return self._scale * self._phases[self.phase].time(nodes)

    def advance(self, now: float) -> bool:
        if self.phase + 1 == len(self._phases):
            return False
        self.settle(now)
        self.phase += 1
        self.left = 1.0
        self._look_ahead()
        return True

    def go_on(self, saved: Saved) -> None:
        super().go_on(saved)
        self._look_ahead()

    def wish(self) -> Bounds | None:
        (least, most), bounds = self._aim, self.job.spec.nodes
        size = self.mask.bit_count()
        if least <= size <= (size if most is None else most):
            return None
        low = least if bounds.allows(least) else bounds.above(least)
        high = bounds.floor(most or bounds.max)
        return Bounds(low, high) if 0 < low <= high else None


def new_run(number: int, job: SimJob, mask: int, now: float) -> RunningJob:
    """A run of ``job``, by its phases if it asks for nodes itself: an evolving one, or a malleable one with a phase
    that says what it asks for."""
    model, job_class = job.spec.model, job.spec.job_class
    if isinstance(model, Phases) and (
        job_class is JobClass.EVOLVING or (job_class is JobClass.MALLEABLE and model.asks)
    ):
        return EvolvingJob(number, job, model, mask, now)
    return RunningJob(number, job, mask, now)
