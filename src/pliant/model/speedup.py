"""How long a job runs on n nodes. Estimates, the pay-back test, paced applications and the simulator
all ask the same model."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping

import msgspec
from msgspec import UNSET, UnsetType


class Amdahl(msgspec.Struct, frozen=True, tag="amdahl", forbid_unknown_fields=True, gc=False):
    """T(n) = io_s + work_s * (serial_fraction + (1 - serial_fraction) / n), in seconds.

    ``io_s`` is the time of input and output, which a shared file system sets and more nodes do not shorten.
    """

    work_s: float
    serial_fraction: float = 0.0
    io_s: float = 0.0

    def time(self, nodes: int) -> float:
        """Seconds on so many nodes."""
        return self.io_s + self.work_s * (self.serial_fraction + (1.0 - self.serial_fraction) / nodes)


class Table(msgspec.Struct, frozen=True, tag="table", forbid_unknown_fields=True, gc=False):
    """Measured run times by node count; log T is interpolated over log n, and clamped outside."""

    times: Mapping[int, float]

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


class Downey(msgspec.Struct, frozen=True, tag="downey", forbid_unknown_fields=True, gc=False):
    """T(n) = io_s + work_s / S(n), in seconds, with Downey's speed-up S and ``io_s`` as for Amdahl.

    ``parallelism`` is the average number of nodes that the job keeps busy if it may have any number, and
    ``sigma`` the variation around it: 0 is a perfect speed-up up to there, 1 and more gains slowly.
    Source: Downey, A Model for Speedup of Parallel Programs, UCB CSD-97-933, 1997.
    """

    work_s: float
    parallelism: float
    sigma: float = 0.0
    io_s: float = 0.0

    def time(self, nodes: int) -> float:
        """Seconds on so many nodes."""
        return self.io_s + self.work_s / self.speedup(nodes)

    def speedup(self, nodes: float) -> float:
        """The speed-up on so many nodes over one: Downey 1997, section 4."""
        a, s, n = self.parallelism, self.sigma, nodes
        if s >= 1:
            return n * a * (s + 1) / (s * (n + a - 1) + a) if n < a + a * s - s else a
        if n <= a:
            return a * n / (a + s * (n - 1) / 2)
        if n < 2 * a - 1:
            return a * n / (s * (a - 0.5) + n * (1 - s / 2))
        return a


Simple = Amdahl | Table | Downey


class Phase(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of an evolving job, which takes the ``share`` of ``model.time(n)`` seconds on n nodes.

    When it begins, a job of fewer than ``min`` nodes, or more than ``max``, asks for the nearest size in between; or
    if there is ``asks``, for the size that this has for its own, if any.
    """

    model: Simple
    share: float = 1.0
    min: int = 1
    max: int | None = None
    asks: Mapping[int, int] | UnsetType = UNSET

    def time(self, nodes: int) -> float:
        return self.share * self.model.time(nodes)

    def aim(self, nodes: int) -> tuple[int, int | None]:
        """The least and the most nodes that a job wants which begins it on ``nodes`` nodes."""
        if isinstance(self.asks, UnsetType):
            return self.min, self.max
        size = self.asks.get(nodes, nodes)
        return size, size


class Phases(msgspec.Struct, frozen=True, tag="phases", forbid_unknown_fields=True):
    """What an evolving job does, one phase after the other. T(n), all of it on n nodes, is for estimates; how
    long the job takes depends on the sizes it gets."""

    phases: tuple[Phase, ...]

    @property
    def asks(self) -> bool:
        """Whether a phase says what it asks for by the size that the job has."""
        return any(not isinstance(phase.asks, UnsetType) for phase in self.phases)

    def time(self, nodes: int) -> float:
        return sum(phase.time(nodes) for phase in self.phases)


Model = Amdahl | Table | Downey | Phases


def falls(model: Model | None) -> bool:
    """Whether more nodes never take longer, whatever the numbers; without a model, speed-up is linear."""
    return model is None or isinstance(model, Amdahl | Downey)


def scaled(model: Model, factor: float) -> Model:
    """The model with all times ``factor`` times as long."""
    if isinstance(model, Table):
        return Table({nodes: time * factor for nodes, time in model.times.items()})
    if isinstance(model, Phases):
        return Phases(
            tuple(msgspec.structs.replace(phase, share=phase.share * factor) for phase in model.phases)
        )
    return msgspec.structs.replace(model, work_s=model.work_s * factor, io_s=model.io_s * factor)


def check_model(model: Model) -> str | None:
    """What is wrong with the model's numbers, or None."""
    return next(_problems(model), None)


def _problems(model: Model) -> Iterator[str]:
    match model:
        case Phases(phases=phases):
            for phase in phases:
                yield from _problems(phase.model)
        case Table(times=times):
            if not times:
                yield "model.times is empty; give at least one run time"
            for nodes, time in times.items():
                if nodes < 1 or not 0 < time < math.inf:
                    yield f"model.times has no positive run time for {nodes} nodes"
        case Amdahl() | Downey():
            yield from _problems_of_formula(model)


def _problems_of_formula(model: Amdahl | Downey) -> Iterator[str]:
    if not 0 <= model.io_s < math.inf:
        yield f"model.io_s is {model.io_s:g}; it must be 0 or more seconds"
    if not 0 < model.work_s < math.inf:
        yield f"model.work_s is {model.work_s:g}; it must be above 0 seconds"
    if isinstance(model, Amdahl):
        if not 0 <= model.serial_fraction <= 1:
            yield f"model.serial_fraction is {model.serial_fraction:g}; it must lie in 0 .. 1"
        return
    if not 1 <= model.parallelism < math.inf:
        yield f"model.parallelism is {model.parallelism:g}; it must be 1 or more nodes"
    if not 0 <= model.sigma < math.inf:
        yield f"model.sigma is {model.sigma:g}; it must be 0 or more"
