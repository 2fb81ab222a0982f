"""Bursts, for ``pliant bench simulator``: what a long queue costs, in CPU seconds and against one a quarter as long."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

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
BRIEF_S, BRIEF = 0.6, 5
"""Runs that take no longer are repeated so often at least: a ratio of two single ones would be of the machine."""
Seconds = dict[str, dict[int, float]]


def bursts(repeat: int, told: Callable[[], object] = lambda: None) -> Seconds:
    """The medians of ``repeat`` runs, of brief ones of ``BRIEF`` at least, by policy and number of jobs, which all
    arrive at once; ``told`` is called after each policy."""
    found: Seconds = {}
    for name, share in POLICIES.items():
        found[name] = {count: _median(name, burst(count, share), repeat) for count in (SHORT, LONG)}
        told()
    return found


def _median(policy: str, jobs: list[SimJob], repeat: int) -> float:
    first = seconds(policy, jobs)
    return statistics.median([first, *(seconds(policy, jobs) for _ in range(runs(repeat, first) - 1))])


def runs(repeat: int, first_s: float) -> int:
    """How many runs are to be made of what took so long at first."""
    return max(repeat, BRIEF) if first_s < BRIEF_S else repeat


def figures(found: Seconds) -> dict[str, object]:
    """As for ``--json``."""
    return {
        **{f"{name}_burst_{count}_s": seconds for name, by in found.items() for count, seconds in by.items()},
        f"burst_{LONG}_over_{SHORT}": {name: by[LONG] / by[SHORT] for name, by in found.items()},
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


def table(found: Seconds) -> Table:
    drawn = Table(title=f"Bursts on {NODES} nodes, CPU seconds", title_justify="left")
    for heading in ("policy", f"{SHORT:,} jobs", f"{LONG:,} jobs", "times as much"):
        drawn.add_column(heading, justify="left" if heading == "policy" else "right")
    for name, by in found.items():
        short, long = by[SHORT], by[LONG]
        drawn.add_row(name, f"{short:.3f}", f"{long:.3f}", f"{long / short:.1f}")
    return drawn
