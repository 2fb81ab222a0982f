"""Bursts, for ``pliant bench simulator``: what a long queue costs, in CPU seconds and against one a quarter as long."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from msgspec import structs
from rich.table import Table

from pliant.core.settings import Settings
from pliant.plan.cost import INSTANT
from pliant.policy import registry as policies
from pliant.policy.registry import make
from pliant.sim.simulator import Conditions, simulate
from pliant.workloads.generators.lublin import lublin_jobs
from pliant.workloads.job import SimJob
from pliant.workloads.malleability import PUBLISHED, make_malleable

NODES = 100
SHORT, LONG = 1000, 4000
SEED = 42
RIGID = ("fcfs", "firstfit", "easy", "conservative")
POLICIES = {name: 0.0 if name in RIGID else 100.0 for name in policies.POLICIES}
"""With how many per cent of the jobs malleable."""
BRIEF_S, BRIEF = 1.5, 5
"""Runs that take no longer are repeated so often at least: a ratio of two single ones would be of the machine."""


class Pair(NamedTuple):
    """CPU seconds of a short burst and of the long one that was simulated just after it."""

    short: float
    long: float


class Cost(NamedTuple):
    """Medians of pairs: CPU seconds of either burst, and how many times as much the long one took."""

    short: float
    long: float
    ratio: float


def bursts(repeat: int, told: Callable[[], object] = lambda: None) -> dict[str, Cost]:
    """By policy, of ``repeat`` pairs, of brief ones of ``BRIEF`` at least; ``told`` is called after each policy."""
    found: dict[str, Cost] = {}
    for name, share in POLICIES.items():
        short, long = burst(SHORT, share), burst(LONG, share)
        pairs: list[Pair] = []
        while not pairs or len(pairs) < runs(repeat, pairs[0].long):
            pairs.append(Pair(seconds(name, short), seconds(name, long)))
        found[name] = cost(pairs)
        told()
    return found


def cost(pairs: Sequence[Pair]) -> Cost:
    """What comes of them. The ratio is that of neighbours: a machine that is slower for a while slows both."""
    return Cost(
        statistics.median(each.short for each in pairs),
        statistics.median(each.long for each in pairs),
        statistics.median(each.long / each.short for each in pairs),
    )


def runs(repeat: int, first_s: float) -> int:
    """How many runs are to be made of what took so long at first."""
    return max(repeat, BRIEF) if first_s < BRIEF_S else repeat


def figures(found: Mapping[str, Cost]) -> dict[str, object]:
    """As for ``--json``."""
    return {
        **{f"{name}_burst_{SHORT}_s": each.short for name, each in found.items()},
        **{f"{name}_burst_{LONG}_s": each.long for name, each in found.items()},
        f"burst_{LONG}_over_{SHORT}": {name: each.ratio for name, each in found.items()},
    }


def burst(count: int, malleable: float) -> list[SimJob]:
    """The first ``count`` jobs of Lublin's model, which all arrive at once."""
    jobs = [
        structs.replace(job, spec=structs.replace(job.spec, submit_s=0.0))
        for job in lublin_jobs(LONG, NODES, SEED)[:count]
    ]
    return make_malleable(jobs, malleable, NODES, SEED, conversion=PUBLISHED) if malleable else jobs


def seconds(policy: str, jobs: list[SimJob], nodes: int = NODES) -> float:
    """The CPU time of one simulation with free resizes."""
    began = time.process_time()
    simulate(jobs, nodes, make(policy), Conditions(Settings(cost=INSTANT)))
    return time.process_time() - began


def table(found: Mapping[str, Cost]) -> Table:
    drawn = Table(title=f"Bursts on {NODES} nodes, CPU seconds", title_justify="left")
    for heading in ("policy", f"{SHORT:,} jobs", f"{LONG:,} jobs", "times as much"):
        drawn.add_column(heading, justify="left" if heading == "policy" else "right")
    for name, each in found.items():
        drawn.add_row(name, f"{each.short:.3f}", f"{each.long:.3f}", f"{each.ratio:.1f}")
    return drawn
