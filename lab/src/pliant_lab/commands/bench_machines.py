"""Large machines, for ``pliant bench simulator``: what the same jobs cost on 128 nodes and on 100,000."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import NamedTuple

from msgspec import structs
from rich.table import Table

from pliant.model.jobs import Bounds
from pliant.policy.registry import POLICIES
from pliant.workloads.generators.lublin import lublin_jobs
from pliant.workloads.job import SimJob
from pliant.workloads.malleability import PUBLISHED, make_malleable
from pliant_lab.commands.bench_bursts import SEED, seconds

SMALL, LARGE = 128, 100_000
JOBS = 500
LOAD = 0.9
LEAST_PAIRS = 5
"""A ratio of two runs of hundredths of a second is the median of so many at least."""
KEEP_SIZES = ("fcfs", "firstfit", "easy", "conservative")
"""All jobs are malleable for the other policies."""


class Cost(NamedTuple):
    """CPU seconds on the small machine; how often as many the same jobs take on the large one, and jobs that are as
    many times as large there."""

    seconds: float
    same: float
    scaled: float


def machines(repeat: int, told: Callable[[], object] = lambda: None) -> dict[str, Cost]:
    """By policy, the medians of ``repeat`` runs, and of five pairs at least; ``told`` is called after each policy."""
    found: dict[str, Cost] = {}
    for name in POLICIES:
        small, same, scaled = _workloads(malleable=name not in KEEP_SIZES)
        pairs = [
            (seconds(name, small, SMALL), seconds(name, same, LARGE)) for _ in range(max(LEAST_PAIRS, repeat))
        ]
        usual = statistics.median(each[0] for each in pairs)
        found[name] = Cost(
            usual,
            statistics.median(large / few for few, large in pairs),
            statistics.median(seconds(name, scaled, LARGE) for _ in range(repeat)) / usual,
        )
        told()
    return found


def figures(found: dict[str, Cost]) -> dict[str, object]:
    """As for ``--json``."""
    return {
        f"nodes_{LARGE}_over_{SMALL}": {name: cost.same for name, cost in found.items()},
        f"nodes_{LARGE}_over_{SMALL}_scaled": {name: cost.scaled for name, cost in found.items()},
    }


def table(found: dict[str, Cost]) -> Table:
    title = f"{JOBS:,} jobs on {SMALL} nodes, CPU seconds, and times as much on {LARGE:,}"
    drawn = Table(title=title, title_justify="left")
    for heading in ("policy", f"{SMALL} nodes", "the same jobs", f"jobs {LARGE // SMALL} times as large"):
        drawn.add_column(heading, justify="left" if heading == "policy" else "right")
    for name, cost in found.items():
        drawn.add_row(name, f"{cost.seconds:.3f}", f"{cost.same:.1f}", f"{cost.scaled:.1f}")
    return drawn


def lublin(count: int, *, malleable: bool) -> list[SimJob]:
    """Jobs of Lublin's model at nine tenths of what the small machine can do."""
    jobs = lublin_jobs(count, SMALL, SEED, load=LOAD)
    return make_malleable(jobs, 100.0, SMALL, SEED, conversion=PUBLISHED) if malleable else jobs


def _workloads(*, malleable: bool) -> tuple[list[SimJob], list[SimJob], list[SimJob]]:
    """For the small machine and, the same and scaled with the nodes, for the large one."""
    jobs = lublin(JOBS, malleable=malleable)
    scaled = [_scaled(job, LARGE // SMALL) for job in lublin(JOBS, malleable=False)]
    if malleable:
        scaled = make_malleable(scaled, 100.0, LARGE, SEED, conversion=PUBLISHED)
    return jobs, jobs, scaled


def _scaled(job: SimJob, factor: int) -> SimJob:
    """A rigid job with so many times the nodes."""
    nodes = Bounds.exactly(job.spec.nodes.preferred * factor)
    return structs.replace(job, spec=structs.replace(job.spec, nodes=nodes))
