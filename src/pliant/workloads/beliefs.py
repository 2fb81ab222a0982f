"""What policies believe of how long jobs take, where that is another thing than the truth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

import msgspec

from pliant.model.errors import BatchError
from pliant.model.speedup import Phases, scaled
from pliant.workloads.job import SimJob

EXACT = "exact"
ESTIMATE = "estimate"
FACTOR = "factor:"


def with_beliefs(jobs: Sequence[SimJob], how: str, seed: int) -> list[SimJob]:
    """``jobs`` with models, which is what policies know, as ``how`` says; what is true stays as it is. BatchError if it
    says nothing known.

    ``exact`` leaves them true, ``estimate`` makes them as long as users say, ``factor:F`` too long or too short by
    up to F times: the logarithm of the factor is uniform, drawn by ``seed`` and the job's name. Ratios between sizes
    stay true. So do evolving jobs, which do what their phases say; and jobs without a model, of which users' estimates
    are all that is known.
    """
    if how == EXACT:
        return list(jobs)
    factor = 0.0 if how == ESTIMATE else _factor(how)
    return [_believed(job, factor, seed) for job in jobs]


def _factor(how: str) -> float:
    try:
        factor = float(how.removeprefix(FACTOR)) if how.startswith(FACTOR) else math.nan
    except ValueError:
        factor = math.nan
    if not 1 <= factor < math.inf:
        raise BatchError(
            f"belief: {how!r} is none of {EXACT}, {ESTIMATE} and {FACTOR}F with a number F, 1 or more"
        )
    return factor


def _believed(job: SimJob, factor: float, seed: int) -> SimJob:
    spec = job.spec
    preferred = spec.nodes.preferred
    if spec.model is None or isinstance(spec.model, Phases):
        return job
    true, known = job.time(preferred), spec.model.time(preferred)
    if factor:
        drawn = Random(f"belief {seed} {spec.name}").uniform(-1.0, 1.0)  # noqa: S311 - no secret
        believed = true * factor**drawn
    else:
        believed = spec.walltime_s
    if known <= 0 or believed <= 0:
        return job
    model = scaled(spec.model, believed / known)
    return msgspec.structs.replace(job, runtime_s=true, spec=msgspec.structs.replace(spec, model=model))
