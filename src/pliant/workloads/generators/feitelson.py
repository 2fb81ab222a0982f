"""Rigid jobs after Feitelson: Packing Schemes for Gang Scheduling, JSSPP 1996.

The article's ideas with approximations in place of tables that were fitted by hand:

- Sizes: the weight of n nodes is n ** -1.5, and ``POW2_WEIGHT`` times that where n is a power of two above
  1. The article's own table gives small sizes and powers of two more weight, one by one.
- Run times: hyper-exponential with two branches; the longer one's share grows with the size.
- Repetitions: a job is run r times in a row with weight r ** -2.5, each time with the same size and run
  time. The article submits a repetition when the one before has ended; as a list of jobs must not depend on
  the schedule, it is submitted here when that one would end if it had started at once.
- Arrivals: a Poisson process.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from itertools import accumulate
from operator import itemgetter
from random import Random
from typing import NamedTuple

from pliant.model.errors import BatchError
from pliant.model.jobs import Bounds, JobSpec
from pliant.workloads.job import SimJob

SIZE_EXPONENT = 1.5
POW2_WEIGHT = 10.0
"""From memory of how the article's histogram looks; approximate."""
REPEAT_EXPONENT = 2.5
MOST_REPEATS = 1000
SHORT_SHARE = 0.95
SHORT_SHARE_LOSS = 0.2
LONG_OVER_SHORT = 7.0
UNIT_S = 600.0
"""Mean run time of the shorter branch; the model itself has no unit."""
LOAD = 0.7
CORRECTIONS = 5


class NewJob(NamedTuple):
    """A new job: ``gaps`` mean gaps after the start it arrives, and then runs ``times`` times in a row for
    ``run`` seconds on ``size`` nodes."""

    gaps: float
    run: float
    times: int
    size: int


class ArrivalPace(NamedTuple):
    """How long jobs run, in units of ``unit_s`` seconds, and how close together they come.

    ``gap_s`` is the mean time between two arrivals of new jobs, else chosen so that all work, in
    node-seconds, is the share ``load`` of what the machine can do until the last submission, or close to it.
    """

    unit_s: float = UNIT_S
    load: float = LOAD
    gap_s: float | None = None


PACE = ArrivalPace()


def feitelson_jobs(count: int, nodes: int, seed: int, pace: ArrivalPace = PACE) -> list[SimJob]:
    """``count`` jobs for ``nodes`` nodes, repetitions included, in order of submission; estimates are exact."""
    unit_s, load, gap_s = pace
    if count < 1 or nodes < 1:
        raise BatchError(f"feitelson: {count} jobs for {nodes} nodes; both must be 1 or more")
    for name, value in (("unit_s", unit_s), ("load", load), ("gap_s", 1.0 if gap_s is None else gap_s)):
        if not 0 < value < math.inf:
            raise BatchError(f"feitelson: {name}: {value:g}; it must be above 0")
    drawn = _draw(count, nodes, seed, unit_s)
    listed = _listed(drawn, _gap(drawn, count, nodes, unit_s, load) if gap_s is None else gap_s, count)
    return [
        SimJob(
            JobSpec(name=str(number), nodes=Bounds.exactly(size), submit_s=round(submit, 3), walltime_s=run),
            run,
        )
        for number, (submit, run, size) in enumerate(listed, 1)
    ]


def _draw(count: int, nodes: int, seed: int, unit_s: float) -> list[NewJob]:
    """``count`` new jobs: with their repetitions these are enough."""
    random = Random(seed)  # noqa: S311 - a workload, not a secret
    sizes = list(accumulate(size_weights(nodes)))
    repeats = list(accumulate(math.pow(r, -REPEAT_EXPONENT) for r in range(1, MOST_REPEATS + 1)))
    drawn: list[NewJob] = []
    gaps = 0.0
    for _ in range(count):
        size = 1 + bisect_right(sizes, random.random() * sizes[-1])
        short = random.random() < short_share(size, nodes)
        run = max(1.0, round(random.expovariate(1.0) * unit_s * (1.0 if short else LONG_OVER_SHORT)))
        times = 1 + bisect_right(repeats, random.random() * repeats[-1])
        drawn.append(NewJob(gaps, run, times, size))
        gaps += random.expovariate(1.0)
    return drawn


def _listed(drawn: list[NewJob], gap_s: float, count: int) -> list[tuple[float, float, int]]:
    """The first ``count`` submissions as (time, run time, size)."""
    jobs = [
        (job.gaps * gap_s + i * job.run, job.run, job.size)
        for job in drawn
        for i in range(min(job.times, count))
    ]
    jobs.sort(key=itemgetter(0))
    return jobs[:count]


def _gap(drawn: list[NewJob], count: int, nodes: int, unit_s: float, load: float) -> float:
    """The mean gap that gives ``load``: the expected one, and corrected by what it gives, since repetitions
    are few and heavy, and those after the last job are cut off."""
    gap = mean_work(nodes, unit_s) / (nodes * load)
    for _ in range(CORRECTIONS):
        listed = _listed(drawn, gap, count)
        until = listed[-1][0]
        if not until:
            break
        gap *= sum(run * size for _, run, size in listed) / (nodes * until * load)
    return gap


def size_weights(nodes: int) -> list[float]:
    """The weights of the sizes 1 .. ``nodes``; their sum is 1."""
    weights = [
        math.pow(n, -SIZE_EXPONENT) * (POW2_WEIGHT if n > 1 and not n & (n - 1) else 1.0)
        for n in range(1, nodes + 1)
    ]
    whole = sum(weights)
    return [weight / whole for weight in weights]


def short_share(size: int, nodes: int) -> float:
    """The probability that a job of ``size`` nodes is of the shorter branch."""
    return SHORT_SHARE - SHORT_SHARE_LOSS * size / nodes


def mean_work(nodes: int, unit_s: float = UNIT_S) -> float:
    """Expected node-seconds of an arrival, with its repetitions."""
    ranks = range(1, MOST_REPEATS + 1)
    weights = [math.pow(r, -REPEAT_EXPONENT) for r in ranks]
    times = sum(r * weight for r, weight in zip(ranks, weights, strict=True)) / sum(weights)
    once = 0.0
    for size, weight in enumerate(size_weights(nodes), 1):
        share = short_share(size, nodes)
        once += weight * size * (share + (1 - share) * LONG_OVER_SHORT)
    return once * unit_s * times
