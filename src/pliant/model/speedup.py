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


Model = Amdahl | Table


def check_model(model: Model) -> str | None:
    """What is wrong with the model's numbers, or None."""
    if isinstance(model, Amdahl):
        if not (model.work_s > 0 and math.isfinite(model.work_s)):
            return f"model.work_s is {model.work_s:g}; it must be above 0 seconds"
        if not 0 <= model.serial_fraction <= 1:
            return f"model.serial_fraction is {model.serial_fraction:g}; it must lie in 0 .. 1"
        return None
    if not model.times:
        return "model.times is empty; give at least one run time"
    if bad := [n for n, t in model.times.items() if n < 1 or not (t > 0 and math.isfinite(t))]:
        return f"model.times has no positive run time for {bad[0]} nodes"
    return None
