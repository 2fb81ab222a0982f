"""How much data jobs have to move when they are resized, where the workload does not say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

import msgspec

from pliant.model.errors import BatchError
from pliant.model.keys import LARGEST
from pliant.model.limits import as_number
from pliant.workloads.job import SimJob

NONE = "none"
MEMORY = "memory"
PER_NODE, TOTAL, LOGNORMAL = "per-node=", "total=", "lognormal="
FORMS = f"{NONE}, {PER_NODE}MB, {TOTAL}MB, {LOGNORMAL}MEDIAN,SIGMA or {MEMORY}"
MOST_SIGMA = 10.0
"""A standard deviation of the logarithm by which the largest of a thousand jobs has 10 ** 13 times the median."""


def with_data(jobs: Sequence[SimJob], how: str, seed: int) -> list[SimJob]:
    """``jobs`` with the data, in megabytes, that each has to move at a resize, as ``how`` says; BatchError if it says
    nothing known, or if a job has data of its own.

    ``per-node=MB`` is so much for each node of the preferred size, ``total=MB`` so much for each job, whatever its
    size; ``lognormal=MEDIAN,SIGMA`` draws what a job has for each node of its preferred size, by ``seed`` and its name:
    SIGMA is the standard deviation of the natural logarithm. ``memory`` is what a trace says, and so is there already.
    Of a job that is resized the data stay the same.
    """
    if how in (NONE, MEMORY):
        return list(jobs)
    wrong = f"data: {how}:"
    if how.startswith(LOGNORMAL):
        median, comma, spread = how.removeprefix(LOGNORMAL).partition(",")
        if not comma:
            raise BatchError(f"{wrong} write {LOGNORMAL}MEDIAN,SIGMA, as in {LOGNORMAL}500,1.5")
        mb, sigma = _amount(median, f"{wrong} MEDIAN"), _amount(spread, f"{wrong} SIGMA", "number")
        if sigma > MOST_SIGMA:
            raise BatchError(f"{wrong} SIGMA: {sigma:g} is too much; the most is {MOST_SIGMA:g}")
    elif how.startswith((PER_NODE, TOTAL)):
        mb, sigma = _amount(how.partition("=")[2], wrong), 0.0
    else:
        raise BatchError(f"data: {how!r} is none of {FORMS}")
    return [_loaded(job, mb, sigma, seed, whole=how.startswith(TOTAL)) for job in jobs]


def _amount(text: str, where: str, what: str = "number of megabytes") -> float:
    amount = as_number(text)
    if not 0 <= amount < LARGEST:
        raise BatchError(f"{where} {text!r} is no {what}, 0 or more and below {LARGEST:g}")
    return amount


def _loaded(job: SimJob, mb: float, sigma: float, seed: int, *, whole: bool) -> SimJob:
    spec = job.spec
    if spec.data_mb:
        raise BatchError(
            f"data: job {spec.name!r} has data of its own, {spec.data_mb:g} MB; leave out --data, or its data_mb"
        )
    if sigma:
        mb *= math.exp(sigma * Random(f"data {seed} {spec.name}").gauss(0.0, 1.0))  # noqa: S311 - no secret
    data_mb = mb if whole else mb * spec.nodes.preferred
    if not data_mb < LARGEST:
        raise BatchError(
            f"data: job {spec.name!r} would have {data_mb:g} MB; give less than {LARGEST:g} MB a job"
        )
    return msgspec.structs.replace(job, spec=msgspec.structs.replace(spec, data_mb=data_mb))
