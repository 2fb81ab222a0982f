"""Evolving jobs: their phases, and the sizes that they ask for when one begins."""

from __future__ import annotations

from pliant.model.jobs import Bounds, JobClass
from pliant.model.speedup import Phases
from pliant.sim.running import RunningJob
from pliant.workloads.job import SimJob


class EvolvingJob(RunningJob):
    """A job with phases. ``left`` and ``whole`` are those of the present one, number ``phase``."""

    __slots__ = ("_phases", "_scale")

    def __init__(self, number: int, job: SimJob, phases: Phases, mask: int, now: float) -> None:
        super().__init__(number, job, mask, now)
        preferred = job.spec.nodes.preferred
        self._scale = job.time(preferred) / phases.time(preferred)
        self._phases = phases.phases

    def time(self, nodes: int) -> float:
        return self._scale * self._phases[self.phase].time(nodes)

    def advance(self, now: float) -> bool:
        if self.phase + 1 == len(self._phases):
            return False
        self.settle(now)
        self.phase += 1
        self.left = 1.0
        return True

    def wish(self) -> Bounds | None:
        phase, bounds = self._phases[self.phase], self.job.spec.nodes
        if not phase.wants(self.mask.bit_count()):
            return None
        low = phase.min if bounds.allows(phase.min) else bounds.above(phase.min)
        high = bounds.floor(phase.max or bounds.max)
        return Bounds(low, high) if 0 < low <= high else None


def new_run(number: int, job: SimJob, mask: int, now: float) -> RunningJob:
    """A run of ``job``, by its phases if it has some."""
    spec = job.spec
    if spec.job_class is JobClass.EVOLVING and isinstance(spec.model, Phases):
        return EvolvingJob(number, job, spec.model, mask, now)
    return RunningJob(number, job, mask, now)
