"""Small random batches of malleable jobs, like those of the demonstration: the same seed gives the same."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.model.speedup import Amdahl
from pliant.workloads.job import SimJob


class GeneratedLoad(NamedTuple):
    """Jobs arrive as a Poisson process with mean distance ``gap_s``; work is log-uniform between the two
    ``work_s``, in node-seconds."""

    gap_s: float = 10.0
    work_s: tuple[float, float] = (30.0, 600.0)


LOAD = GeneratedLoad()


def malleable_batch(
    seed: int, jobs: int = 20, nodes: int = 8, *, malleable: float = 0.75, load: GeneratedLoad = LOAD
) -> list[SimJob]:
    """``jobs`` jobs for ``nodes`` nodes, a share of them malleable, the others rigid at their preferred size.
    Estimates exceed run times by up to a half, and 5 s for starting."""
    random = Random(seed)  # noqa: S311 - a workload, not a secret
    batch: list[SimJob] = []
    low_s, high_s = load.work_s
    at = 0.0
    for number in range(1, jobs + 1):
        at += random.expovariate(1.0 / load.gap_s)
        low = 1 << random.randrange(max(1, nodes.bit_length() - 2))
        high = min(nodes, low << random.randrange(1, 4))
        factor = random.choice((1, 2))
        sizes = Bounds(low, high, factor).sizes()
        bounds = Bounds(low, sizes[-1], factor, preferred=sizes[len(sizes) // 2])
        model = Amdahl(
            work_s=low_s * (high_s / low_s) ** random.random(),
            serial_fraction=random.choice((0.0, 0.02, 0.1)),
        )
        spec = JobSpec(
            name=f"job{number}",
            nodes=bounds,
            job_class=JobClass.MALLEABLE,
            submit_s=round(at, 3),
            walltime_s=model.time(bounds.preferred) * random.uniform(1.0, 1.5) + 5.0,
            model=model,
        )
        batch.append(SimJob(spec if random.random() < malleable else spec.rigid()))
    return batch
