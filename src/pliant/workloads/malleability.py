"""Makes a share of a rigid workload's jobs malleable.

The transformation is that of Zojer et al. (arXiv 2602.17318), as the public programs of the follow-up study
do it (github.com/FuldaHPC/ElastisimFulda): every job gets an Amdahl speed-up under which the
nodes it has in the trace are used with an efficiency of just over 80 %, a fifth of them is its minimum, and
its maximum is where efficiency falls to one half.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

import msgspec

from pliant.model.errors import BatchError
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.model.speedup import Amdahl
from pliant.workloads.job import SimJob

SERIAL_PER_MILLE = (50, 45, 40, 35, 30, 25, 20, 15, 10, 5, 1)
"""The serial fractions that a job may be given, most serial first."""


def serial_per_mille(preferred: int) -> int:
    """The largest serial fraction with which ``preferred`` nodes still have an efficiency above 0.8.

    In whole thousandths: with fraction q / 1000, n nodes have an efficiency of 1000 / (1000 + (n - 1) q),
    and the comparison must be exact. Where no fraction is small enough, it is the smallest.
    """
    return next((q for q in SERIAL_PER_MILLE if (preferred - 1) * q < 250), SERIAL_PER_MILLE[-1])


def bounds(preferred: int, nodes: int) -> Bounds:
    """The sizes of a malleable job with ``preferred`` nodes in the trace, on a machine of ``nodes``."""
    most = 1 + 999 // serial_per_mille(preferred)  # the last size with an efficiency above 0.5
    return Bounds(max(1, preferred // 5), min(nodes, max(preferred, most)), preferred=preferred)


def malleable_job(job: SimJob, nodes: int, *, compat: bool = False) -> SimJob:
    """``job`` as a malleable one: run time T(n) = T * S(preferred) / S(n), with T that of the trace.

    ``compat`` is the published form T * preferred / S(n). It gives every node the work that it would have had
    with perfect speed-up, so that already at the preferred size the job runs longer than in the trace, by
    1 / efficiency; an estimate that would fall below the run time grows with it.
    """
    spec = job.spec
    preferred = spec.nodes.preferred
    serial = serial_per_mille(preferred) / 1000
    whole = job.time(preferred)
    if compat:
        whole *= serial * preferred + (1 - serial)
    alone = whole / Amdahl(1.0, serial).time(preferred)
    changed = msgspec.structs.replace(
        spec,
        nodes=bounds(preferred, nodes),
        job_class=JobClass.MALLEABLE,
        walltime_s=max(spec.walltime_s, whole),
        model=Amdahl(alone, serial),
    )
    return msgspec.structs.replace(job, spec=changed, runtime_s=whole)


def make_malleable(
    jobs: Sequence[SimJob], percent: float, nodes: int, seed: int, *, compat: bool = False
) -> list[SimJob]:
    """``percent`` of the rigid ``jobs``, on average, made malleable for a machine of ``nodes`` nodes.

    Each job draws for itself, by ``seed`` and its name: so it does not depend on the others, and with the
    same seed the jobs malleable at one percentage are malleable at every higher one. Jobs that take no time stay
    rigid: no size makes them shorter. BatchError for a
    percentage that is none, and for workloads that are not rigid.
    """
    if not 0 <= percent <= 100:
        raise BatchError(f"malleable: {percent:g} % of the jobs; it must lie in 0 .. 100")
    check_rigid(job.spec for job in jobs)
    return [
        malleable_job(job, nodes, compat=compat)
        if draw(seed, job.spec.name) < percent and job.time(job.spec.nodes.preferred) > 0
        else job
        for job in jobs
    ]


def check_rigid(specs: Iterable[JobSpec]) -> None:
    for spec in specs:
        if spec.nodes.min != spec.nodes.max:
            raise BatchError(
                f"malleable: job {spec.name!r} has sizes {spec.nodes.describe()} of its own; only rigid "
                "jobs can be made malleable (--rigid makes them so)"
            )


def draw(seed: int, name: str) -> float:
    """The job's number in 0 .. 100."""
    return 100 * Random(f"{seed}{name}").random()  # noqa: S311 - a workload, not a secret
