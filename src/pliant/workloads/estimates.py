"""What users estimate, and what policies believe of how long jobs take, where that is another thing than the truth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

import msgspec

from pliant.model.errors import BatchError
from pliant.model.limits import as_number
from pliant.model.speedup import Phases, scaled
from pliant.workloads.job import SimJob

REQUESTED = "requested"
EXACT = "exact"
ESTIMATE = "estimate"
FACTOR = "factor:"


def with_estimates(jobs: Sequence[SimJob], how: str, seed: int) -> list[SimJob]:
    """``jobs`` with estimates, at the preferred size, as ``how`` says; BatchError if it says nothing known.

    ``requested`` leaves them, ``exact`` makes them the run times, ``factor:F`` the run times times a number
    uniform in 1 .. F + 1, drawn by ``seed`` and the job's name: the f-model of Mu'alem and Feitelson,
    Utilization, Predictability, Workloads, and User Runtime Estimates, IEEE TPDS 12(6), 2001.
    """
    if how == REQUESTED:
        return list(jobs)
    factor = 0.0 if how == EXACT else _factor("estimates", how, REQUESTED, 0.0)
    return [_estimated(job, factor, seed) for job in jobs]


def _estimated(job: SimJob, factor: float, seed: int) -> SimJob:
    spec = job.spec
    drawn = Random(f"estimate {seed} {spec.name}").random() if factor else 0.0  # noqa: S311 - no secret
    estimate = job.time(spec.nodes.preferred) * (1.0 + factor * drawn)
    return msgspec.structs.replace(job, spec=msgspec.structs.replace(spec, walltime_s=estimate))


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
    factor = 0.0 if how == ESTIMATE else _factor("belief", how, ESTIMATE, 1.0)
    return [_believed(job, factor, seed) for job in jobs]


def _factor(option: str, how: str, other: str, least: float) -> float:
    factor = as_number(how.removeprefix(FACTOR)) if how.startswith(FACTOR) else math.nan
    if not least <= factor < math.inf:
        raise BatchError(
            f"{option}: {how!r} is none of {EXACT}, {other} and {FACTOR}F with a number F, {least:g} or more"
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
