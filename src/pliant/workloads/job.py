"""A job as the simulator takes it."""

from __future__ import annotations

import msgspec

from pliant.model.jobs import JobSpec


class SimJob(msgspec.Struct, frozen=True, gc=False):
    """A job and how long it really runs: ``runtime_s`` at its preferred size, else by its model.

    It looks for offers ``period_s`` after it began to compute and at multiples of that (paper 3, section 5.1:
    the checking inhibitor); 0 is at any time.

    With ``after``, the name of another job, it is submitted ``think_s`` after that has ended, whenever that is.
    """

    spec: JobSpec
    runtime_s: float | None = None
    period_s: float = 0.0
    after: str = ""
    think_s: float = 0.0

    def time(self, nodes: int) -> float:
        """Run time on ``nodes`` all the way, in seconds; without a model, speed-up is linear."""
        spec = self.spec
        if self.runtime_s is None:
            return spec.model.time(nodes) if spec.model is not None else spec.estimate(nodes)
        preferred = spec.nodes.preferred
        if nodes == preferred:
            return self.runtime_s
        return self.runtime_s * spec.speed_ratio(nodes, preferred)
