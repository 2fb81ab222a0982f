"""How long a job runs on n nodes. Estimates, the pay-back test, paced applications and the simulator
all ask the same model."""

from __future__ import annotations

import math
from bisect import bisect_left

import msgspec


class Amdahl(msgspec.Struct, frozen=True, tag="amdahl", forbid_unknown_fields=True):
    """T(n) = work_s * (serial_fraction + (1 - serial_fraction) / n), in seconds."""

    work_s: float
    serial_fraction: float = 0.0

    def time(self, nodes: int) -> float:
        return self.work_s * (self.serial_fraction + (1.0 - self.serial_fraction) / nodes)


class Table(msgspec.Struct, frozen=True, tag="table", forbid_unknown_fields=True):
    """Measured run times by node count; log T is interpolated over log n, and clamped outside."""

    times: dict[int, float]

    def time(self, nodes: int) -> float:
        sizes = sorted(self.times)
        if nodes <= sizes[0]:
            return self.times[sizes[0]]
        if nodes >= sizes[-1]:
            return self.times[sizes[-1]]
        i = bisect_left(sizes, nodes)
        if sizes[i] == nodes:
            return self.times[nodes]
        a, b = sizes[i - 1], sizes[i]
        share = (math.log(nodes) - math.log(a)) / (math.log(b) - math.log(a))
        return math.exp((1 - share) * math.log(self.times[a]) + share * math.log(self.times[b]))


class Downey(msgspec.Struct, frozen=True, tag="downey", forbid_unknown_fields=True):
    """T(n) = work_s / S(n), in seconds, with Downey's speed-up S.

    ``parallelism`` is the average number of nodes that the job keeps busy if it may have any number, and
    ``sigma`` the variation around it: 0 is a perfect speed-up up to there, 1 and more gains slowly.
    Source: Downey, A Model for Speedup of Parallel Programs, UCB CSD-97-933, 1997.
    """

    work_s: float
    parallelism: float
    sigma: float = 0.0

    def time(self, nodes: int) -> float:
        return self.work_s / self.speedup(nodes)

    def speedup(self, nodes: float) -> float:
        a, s, n = self.parallelism, self.sigma, nodes
        if s >= 1:
            return n * a * (s + 1) / (s * (n + a - 1) + a) if n < a + a * s - s else a
        if n <= a:
            return a * n / (a + s * (n - 1) / 2)
        if n < 2 * a - 1:
            return a * n / (s * (a - 0.5) + n * (1 - s / 2))
        return a


Model = Amdahl | Table | Downey


def check_model(model: Model) -> str | None:
    """What is wrong with the model's numbers, or None."""
    if isinstance(model, Amdahl | Downey) and not (model.work_s > 0 and math.isfinite(model.work_s)):
        return f"model.work_s is {model.work_s:g}; it must be above 0 seconds"
    if isinstance(model, Downey):
        if not 1 <= model.parallelism < math.inf:
            return f"model.parallelism is {model.parallelism:g}; it must be 1 or more nodes"
        if not 0 <= model.sigma < math.inf:
            return f"model.sigma is {model.sigma:g}; it must be 0 or more"
        return None
    if isinstance(model, Amdahl):
        if not 0 <= model.serial_fraction <= 1:
            return f"model.serial_fraction is {model.serial_fraction:g}; it must lie in 0 .. 1"
        return None
    if not model.times:
        return "model.times is empty; give at least one run time"
    if bad := [n for n, t in model.times.items() if n < 1 or not (t > 0 and math.isfinite(t))]:
        return f"model.times has no positive run time for {bad[0]} nodes"
    return None
