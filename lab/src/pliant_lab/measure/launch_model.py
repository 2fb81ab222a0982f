"""The model of a launch (`launch_phases.py`), fitted to small launches that were measured and held against large
ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import NamedTuple

from msgspec.structs import replace

from pliant.plan.tree import KAry
from pliant.protocol import codec
from pliant.protocol.branches import Contacts
from pliant_lab.measure.launch_phases import LaunchCosts, predict

SMALL = (1, 2, 4, 8)
"""Nodes of the launches that the model is fitted to; it has to tell what larger ones take."""
START = LaunchCosts(spawn_s=0.02, agent_s=0.1, call_s=0.002, program_s=0.01)
ROUNDS, STEP = 40, 0.3
"""Of the search for costs: how often each is tried, and by what share it is first made more or less."""


class Point(NamedTuple):
    """A launch that was measured: over ``nodes`` nodes by a tree of this degree, each ssh ``delay_s`` longer, it took
    ``seconds`` until the program ran on all."""

    nodes: int
    degree: int
    delay_s: float
    seconds: float


class Site(NamedTuple):
    """How it was measured: ``window`` starts at a time, all nodes on so many ``processors``. ``ahead_s`` is what a
    start takes that no processor has to do with, ``slow_s`` what it takes of one to make an ssh longer."""

    window: int
    processors: int
    ahead_s: float = 0.0
    slow_s: float = 0.0


def predicted(point: Point, costs: LaunchCosts, site: Site) -> float:
    """What the model says of it, in seconds."""
    spawn_s = costs.spawn_s + (site.slow_s if point.delay_s else 0.0)
    costs = replace(costs, spawn_s=spawn_s, delay_s=point.delay_s + site.ahead_s)
    shape = KAry(point.degree)
    return predict(point.nodes, shape, site.window, costs, processors=site.processors).started


def fit(points: Sequence[Point], site: Site) -> tuple[LaunchCosts, Site]:
    """Costs that tell best what these took, by least squares of relative errors: what a start takes of processors,
    shared between parent and node as measured by nobody but in one proportion, what it waits for, and what it takes to
    make an ssh longer. The other coefficients stay as they are: they are small, and such launches do not tell them
    apart."""

    def error(found: Sequence[float]) -> float:
        busy_s, ahead_s, slow_s = found
        costs, there = _costs(busy_s), site._replace(ahead_s=ahead_s, slow_s=slow_s)
        return sum((predicted(each, costs, there) / each.seconds - 1) ** 2 for each in points)

    busy_s, ahead_s, slow_s = _least(error, (0.2, 0.05, 0.005))
    return _costs(busy_s), site._replace(ahead_s=ahead_s, slow_s=slow_s)


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


def _least(of: Callable[[Sequence[float]], float], begin: Sequence[float]) -> list[float]:
    """Numbers above 0 for which it is least, near these: each in turn is made more or less, by ever larger shares while
    that helps, by ever smaller ones when it does not."""
    here, least, steps = list(begin), of(begin), [STEP] * len(begin)
    for _ in range(ROUNDS):
        for place, step in enumerate(steps):
            for share in (1 + step, 1 / (1 + step)):
                there = [*here[:place], here[place] * share, *here[place + 1 :]]
                if (value := of(there)) < least:
                    here, least = there, value
                    steps[place] *= 1.3
                    break
            else:
                steps[place] /= 2
    return here


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
