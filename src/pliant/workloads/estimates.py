"""What users say how long their jobs take: as in the workload, exact, or too much by a random factor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

import msgspec

from pliant.model.errors import BatchError
from pliant.workloads.job import SimJob

REQUESTED = "requested"
EXACT = "exact"
FACTOR = "factor:"


def with_estimates(jobs: Sequence[SimJob], how: str, seed: int) -> list[SimJob]:
    """``jobs`` with estimates, at the preferred size, as ``how`` says; BatchError if it says nothing known.

    ``requested`` leaves them, ``exact`` makes them the run times, ``factor:F`` the run times times a number
    uniform in 1 .. F + 1, drawn by ``seed`` and the job's name: the f-model of Mu'alem and Feitelson,
    Utilization, Predictability, Workloads, and User Runtime Estimates, IEEE TPDS 12(6), 2001.
    """
    if how == REQUESTED:
        return list(jobs)
    factor = 0.0 if how == EXACT else _factor(how)
    return [_estimated(job, factor, seed) for job in jobs]


def _factor(how: str) -> float:
    try:
        factor = float(how.removeprefix(FACTOR)) if how.startswith(FACTOR) else math.nan
    except ValueError:
        factor = math.nan
    if not 0 <= factor < math.inf:
        raise BatchError(
            f"estimates: {how!r} is none of {EXACT}, {REQUESTED} and {FACTOR}F with a number F, 0 or more"
        )
    return factor


def _estimated(job: SimJob, factor: float, seed: int) -> SimJob:
    spec = job.spec
    drawn = Random(f"estimate {seed} {spec.name}").random() if factor else 0.0  # noqa: S311 - no secret
    estimate = job.time(spec.nodes.preferred) * (1.0 + factor * drawn)
    return msgspec.structs.replace(job, spec=msgspec.structs.replace(spec, walltime_s=estimate))
