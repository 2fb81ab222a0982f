"""Rigid jobs by the model of Lublin and Feitelson: The Workload on Parallel Supercomputers, JPDC 63(11), 2003.

Numbers are drawn as by the authors' own program (m_lublin99), one for one, so that a seed gives the same
jobs there and here. Gamma variates and the gamma distribution follow the text books that program names:
Jain, The Art of Computer Systems Performance Analysis, chapter 28, and Press et al., Numerical Recipes,
chapter 6.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import msgspec

from pliant.model.errors import BatchError
from pliant.model.jobs import Bounds, JobSpec
from pliant.workloads.job import SimJob

BUCKETS = 48
BUCKET_S = 1800
"""Half an hour: within it, jobs arrive at one rate."""
DAY_STARTS = 11
"""The first bucket of the fitted day; what lies beyond midnight moves to the day's beginning."""
LONGEST_RUN = 12.0
LONGEST_GAP = 13.0
"""Natural logarithms of seconds: about two and five days."""
PRECISION = 1e-10
TERMS = 1000


class Parameters(msgspec.Struct, frozen=True):
    """The model's parameters for one kind of jobs, by their names in the article.

    Sizes: ``serial`` and ``pow2`` are shares; log2 of the others is uniform in ``ulow`` .. ``umed`` with
    probability ``uprob``, else in ``umed`` .. ``uhi``. The log of run times is gamma(a1, b1) with
    probability ``pa`` * nodes + ``pb``, else gamma(a2, b2). The log of the gaps between arrivals is
    gamma(``aarr`` * ``arar``, ``barr``) in the rush hours, and gamma(``anum``, ``bnum``) is the day's cycle.
    """

    serial: float
    pow2: float
    ulow: float
    umed: float
    uhi: float
    uprob: float
    a1: float
    b1: float
    a2: float
    b2: float
    pa: float
    pb: float
    aarr: float
    barr: float
    anum: float
    bnum: float
    arar: float

    def scaled(self, nodes: int) -> Parameters:
        """The same for a machine of ``nodes`` nodes, as the authors advise: ``uhi`` moves with log2 of the
        size, ``umed`` keeps its distance from it. The parameters as they stand are for 128 nodes."""
        uhi = max(0.0, self.uhi + math.log2(nodes) - math.log2(FITTED_NODES))
        umed = max(0.0, self.umed - self.uhi + uhi)
        return msgspec.structs.replace(self, ulow=min(self.ulow, umed), umed=umed, uhi=uhi)


FITTED_NODES = 128
BATCH = Parameters(
    serial=0.2927, pow2=0.6686, ulow=1.2, umed=5.0, uhi=7.0, uprob=0.875,
    a1=6.57, b1=0.823, a2=639.1, b2=0.0156, pa=-0.003, pb=0.6986,
    aarr=6.0415, barr=0.8531, anum=6.1271, bnum=5.2740, arar=1.0519,
)  # fmt: skip
INTERACTIVE = Parameters(
    serial=0.1541, pow2=0.625, ulow=1.0, umed=3.0, uhi=5.5, uprob=0.705,
    a1=3.8351, b1=0.6605, a2=7.073, b2=0.6856, pa=-0.0118, pb=0.9156,
    aarr=6.5510, barr=0.6621, anum=8.9186, bnum=3.6680, arar=0.9797,
)  # fmt: skip
ONE_KIND = Parameters(
    serial=0.244, pow2=0.576, ulow=0.8, umed=4.5, uhi=7.0, uprob=0.86,
    a1=4.2, b1=0.94, a2=312.0, b2=0.03, pa=-0.0054, pb=0.78,
    aarr=10.2303, barr=0.4871, anum=8.1737, bnum=3.9631, arar=1.0225,
)  # fmt: skip
"""Where batch and interactive jobs are not told apart."""


class LublinArrival(NamedTuple):
    """A job of the model, in seconds; ``queue`` is 1 for batch jobs and 0 for interactive and other ones."""

    submit: int
    run: int
    nodes: int
    queue: int


def lublin_jobs(
    count: int, nodes: int, seed: int, *, one_kind: bool = False, load: float | None = None
) -> list[SimJob]:
    """The model's first ``count`` jobs for ``nodes`` nodes; estimates are exact.

    Batch and interactive jobs are streams of their own, unless ``one_kind``. ``load`` stretches or
    compresses the arrivals so that all work, in node-seconds, is that share of what the machine can do until
    the last arrival.
    """
    if count < 1 or nodes < 1:
        raise BatchError(f"lublin: {count} jobs for {nodes} nodes; both must be 1 or more")
    if load is not None and not 0 < load < math.inf:
        raise BatchError(f"lublin: load: {load:g}; it must be above 0")
    drawn = list(islice(lublin_stream(nodes, seed, one_kind=one_kind), count))
    stretch = 1.0
    if load is not None and drawn[-1].submit:
        stretch = sum(job.run * job.nodes for job in drawn) / (nodes * drawn[-1].submit * load)
    return [
        SimJob(
            JobSpec(
                name=str(number),
                nodes=Bounds.exactly(job.nodes),
                submit_s=job.submit * stretch,
                walltime_s=float(job.run),
            ),
            float(job.run),
        )
        for number, job in enumerate(drawn, 1)
    ]


def lublin_stream(nodes: int, seed: int, *, one_kind: bool = False) -> Iterator[LublinArrival]:
    """Jobs in order of arrival, without end, from midnight on. Sizes are cut at ``nodes``: rounding to a
    power of two may exceed a machine that is none."""
    random = Drand48(seed)
    if one_kind:
        both = (ONE_KIND.scaled(nodes), ONE_KIND.scaled(nodes))
    else:
        both = (INTERACTIVE.scaled(nodes), BATCH.scaled(nodes))
    batch = _Arrivals(both[1], random)
    other = _Arrivals(both[0], random)
    while True:
        # With one kind the batch stream has been drawn from once, as by the reference, and is left alone.
        queue = int(not one_kind and batch.at < other.at)
        arrivals = batch if queue else other
        submit = arrivals.at
        arrivals.advance()
        kind = both[queue]
        size = _size(kind, random)
        yield LublinArrival(submit, _run_time(kind, size, random), min(size, nodes), queue)


class Drand48:
    """The generator drand48 of POSIX, seeded as by srand48."""

    __slots__ = ("state",)

    def __init__(self, seed: int) -> None:
        self.state = (seed & 0xFFFFFFFF) << 16 | 0x330E

    def uniform(self) -> float:
        """The next number in 0 .. 1, without 1."""
        self.state = state = (self.state * 0x5DEECE66D + 0xB) & 0xFFFFFFFFFFFF
        return state * 2.0**-48

    def gamma(self, shape: float, scale: float) -> float:
        """A gamma variate: the whole part of ``shape`` as a sum of exponentials, its fraction by a beta."""
        whole = int(shape)
        total = 0.0
        state, log = self.state, math.log  # local: this loop takes most of the generator's time
        for _ in range(whole):
            state = (state * 0x5DEECE66D + 0xB) & 0xFFFFFFFFFFFF
            total += log(state * 2.0**-48)
        self.state = state
        value = -total * scale
        if (fraction := shape - whole) > 0:
            beta = self._beta(fraction)
            value += scale * beta * -log(self.uniform())
        return value

    def _beta(self, a: float) -> float:
        """A beta(a, 1 - a) variate for 0 < a < 1, by Jöhnk's rejection."""
        while True:
            x = math.pow(self.uniform(), 1 / a)
            y = math.pow(self.uniform(), 1 / (1 - a))
            if x + y <= 1:
                return x / (x + y)


class _Arrivals:
    """The arrivals of one kind of jobs; ``at`` is the next, in whole seconds.

    A gap is worth points, and each bucket of the day costs some: many at night, when few jobs arrive.
    """

    __slots__ = ("_bucket", "_kind", "_points", "_random", "_remainder", "_weights", "at")

    def __init__(self, kind: Parameters, random: Drand48) -> None:
        self._kind = kind
        self._random = random
        self._weights = day_cycle(kind.anum, kind.bnum)
        self._bucket = 0
        self._points = 0.0
        self._remainder = 0.0
        self.at = 0
        self.advance()

    def advance(self) -> None:
        kind, weights, bucket = self._kind, self._weights, self._bucket
        shape = kind.aarr * kind.arar
        gap = self._random.gamma(shape, kind.barr)
        while gap > LONGEST_GAP:
            gap = self._random.gamma(shape, kind.barr)
        points = self._points + math.exp(gap) / BUCKET_S
        passed = 0.0
        while points > weights[bucket]:
            points -= weights[bucket]
            bucket = (bucket + 1) % BUCKETS
            passed += BUCKET_S
        remainder = points / weights[bucket]
        passed += BUCKET_S * (remainder - self._remainder)
        self._bucket, self._points, self._remainder = bucket, points, remainder
        self.at = int(self.at + passed)


def _size(kind: Parameters, random: Drand48) -> int:
    """The number of nodes of a job."""
    which = random.uniform()
    if which <= kind.serial:
        return 1
    low, high = (kind.ulow, kind.umed) if random.uniform() <= kind.uprob else (kind.umed, kind.uhi)
    exponent = random.uniform() * (high - low) + low
    if which <= kind.serial + kind.pow2:
        return 1 << int(exponent + 0.5)
    return int(2.0**exponent + 0.5)


def _run_time(kind: Parameters, nodes: int, random: Drand48) -> int:
    """The run time of a job of ``nodes`` nodes, in whole seconds."""
    share = min(1.0, max(0.0, kind.pa * nodes + kind.pb))
    while True:
        shape, scale = (kind.a1, kind.b1) if random.uniform() <= share else (kind.a2, kind.b2)
        exponent = random.gamma(shape, scale)
        if exponent <= LONGEST_RUN:
            return int(math.exp(exponent))


def day_cycle(shape: float, scale: float) -> list[float]:
    """The weight of each bucket from midnight on, 1 on average."""
    weights = [0.0] * BUCKETS
    mean = 0.0
    for i in range(DAY_STARTS, BUCKETS + DAY_STARTS):
        weight = gamma_cdf(i + 0.5, shape, scale) - gamma_cdf(i - 0.5, shape, scale)
        weights[(i - 1) % BUCKETS] = weight
        mean += weight
    mean /= BUCKETS
    return [weight / mean for weight in weights]


def gamma_cdf(x: float, shape: float, scale: float) -> float:
    """The distribution function of gamma(shape, scale), to a relative precision of 1e-10.

    No closer, on purpose: the arrivals of the reference contain that rounding.
    """
    x /= scale
    factor = math.exp(-x + shape * math.log(x) - math.lgamma(shape))
    if x < shape + 1:
        return _lower_series(x, shape) * factor
    return 1 - _upper_fraction(x, shape) * factor


def _lower_series(x: float, a: float) -> float:
    """The incomplete gamma function's power series, but for its factor (Numerical Recipes, 6.2.5)."""
    term = total = 1 / a
    for n in range(1, TERMS + 1):
        term *= x / (a + n)
        total += term
        if term < total * PRECISION:
            return total
    raise ArithmeticError(f"the gamma distribution's series does not converge at {x:g} for shape {a:g}")


def _upper_fraction(x: float, a: float) -> float:
    """The complement's continued fraction, but for its factor (Numerical Recipes, 6.2.6), by its successive
    convergents' numerators and denominators, two steps at a time."""
    before, factor = 0.0, 1.0
    p0, p1, q0, q1 = 0.0, 1.0, 1.0, x
    for n in range(1, TERMS + 1):
        p0 = (p1 + p0 * (n - a)) * factor
        q0 = (q1 + q0 * (n - a)) * factor
        p1 = x * p0 + n * factor * p1
        q1 = x * q0 + n * factor * q1
        if q1:
            factor = 1 / q1
            value = p1 * factor
            if abs(value - before) < abs(value) * PRECISION:
                return value
            before = value
    raise ArithmeticError(f"the gamma distribution's fraction does not converge at {x:g} for shape {a:g}")
