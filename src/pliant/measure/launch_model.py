"""The model of a launch (`plan/launching.py`), fitted to small launches that were measured and held against large
ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import NamedTuple

from msgspec.structs import replace

from pliant.plan.launching import LaunchCosts, predict
from pliant.plan.tree import KAry
from pliant.protocol import codec
from pliant.protocol.branches import Contacts

SMALL = (1, 2, 4, 8)
"""Nodes of the launches that the model is fitted to; it has to tell what larger ones take."""
START = LaunchCosts(spawn_s=0.02, agent_s=0.1, call_s=0.002, program_s=0.01)
ROUNDS = 12


class Point(NamedTuple):
    """A launch that was measured: over ``nodes`` nodes by a tree of this degree, each ssh ``delay_s`` longer, it took
    ``seconds`` until the program ran on all."""

    nodes: int
    degree: int
    delay_s: float
    seconds: float


class Site(NamedTuple):
    """How it was measured: ``window`` starts at a time, all nodes on so many ``processors``. ``ahead_s`` is what a
    start takes that no processor has to do with."""

    window: int
    processors: int
    ahead_s: float = 0.0


def predicted(point: Point, costs: LaunchCosts, site: Site) -> float:
    """What the model says of it, in seconds."""
    costs = replace(costs, delay_s=point.delay_s + site.ahead_s)
    shape = KAry(point.degree)
    return predict(point.nodes, shape, site.window, costs, processors=site.processors).started


def fit(points: Sequence[Point], site: Site) -> tuple[LaunchCosts, Site]:
    """Costs that tell best what these took, by least squares of relative errors: what a start takes of processors,
    shared between parent and node as measured by nobody but in one proportion, and what it waits for. The other
    coefficients stay as they are: they are small, and such launches do not tell them apart."""

    def error(busy_s: float, ahead_s: float) -> float:
        costs, there = _costs(busy_s), site._replace(ahead_s=ahead_s)
        return sum((predicted(each, costs, there) / each.seconds - 1) ** 2 for each in points)

    busy_s, ahead_s = 0.2, 0.05
    for _ in range(ROUNDS):
        busy_s = _least(lambda value, other=ahead_s: error(value, other), 0.005, 3.0)  # type: ignore[misc]
        ahead_s = _least(lambda value, other=busy_s: error(other, value), 0.0, 2.0)  # type: ignore[misc]
    return _costs(busy_s), site._replace(ahead_s=ahead_s)


def _costs(busy_s: float) -> LaunchCosts:
    whole = START.spawn_s + START.agent_s + START.call_s + START.program_s
    share = busy_s / whole
    return replace(
        START,
        spawn_s=START.spawn_s * share,
        agent_s=START.agent_s * share,
        call_s=START.call_s * share,
        program_s=START.program_s * share,
    )


def _least(of: Callable[[float], float], low: float, high: float) -> float:
    """Where a function of one valley is least, by thirds."""
    for _ in range(40):
        third = (high - low) / 3
        if of(low + third) < of(high - third):
            high -= third
        else:
            low += third
    return (low + high) / 2


def contact_cost(contacts: int = 20_000) -> float:
    """Seconds that one contact in a message takes at each of its ends, on this machine: half of what it takes to write
    and to read it."""
    message = Contacts(
        {rank: f"10.{rank >> 16}.{rank >> 8 & 255}.{rank & 255}:40000" for rank in range(contacts)}
    )
    decoder: codec.Decoder[Contacts] = codec.Decoder(Contacts)
    took = []
    for _ in range(5):
        began = time.process_time()
        decoder.decode(codec.raw(message))
        took.append(time.process_time() - began)
    return median(took) / contacts / 2


class Compared(NamedTuple):
    """A launch that was measured, and what the model says of it."""

    point: Point
    model_s: float

    @property
    def off(self) -> float:
        """Relative, of the measured time."""
        return self.model_s / self.point.seconds - 1


def held(points: Sequence[Point], costs: LaunchCosts, site: Site) -> Iterator[Compared]:
    for point in points:
        yield Compared(point, predicted(point, costs, site))


def worst(told: Sequence[Compared]) -> float:
    return max(abs(each.off) for each in told)
