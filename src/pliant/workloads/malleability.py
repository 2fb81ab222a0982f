"""Makes a share of a rigid workload's jobs malleable.

Every job gets an Amdahl speed-up, the most serial of some under which the nodes that it has in the trace are used with
an efficiency above 80 %, as the public programs of the follow-up study (github.com/FuldaHPC/ElastisimFulda) have it of
Zojer et al. (arXiv 2602.17318). Which sizes it allows is said by a ``Conversion``: so many times its request, or as
published there, from a fifth of it to where efficiency falls to one half.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from random import Random

import msgspec

from pliant.model.errors import BatchError
from pliant.model.jobs import Bounds, JobClass, JobSpec
from pliant.model.keys import keyed
from pliant.model.limits import MOST_NODES
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


FORM = "least=0.5,most=2,serial=rigid"
RIGID, MALLEABLE = "rigid", "malleable"
"""What becomes of serial jobs, which have one node."""


class Conversion(msgspec.Struct, frozen=True):
    """Which sizes a job allows once it is malleable: from ``least`` times the nodes that it has in the trace up to
    ``most`` times as many, on the machine that there is; ``least`` is at most 1 and ``most`` at least. ``serial`` jobs,
    of one node, become malleable too or stay rigid. A job for which no other size is left stays rigid."""

    least: float = 0.5
    most: float = 2.0
    serial: str = RIGID

    def bounds(self, preferred: int, nodes: int) -> Bounds | None:
        """The sizes of a malleable job on a machine of ``nodes`` nodes; None if it stays rigid."""
        if preferred == 1 and self.serial == RIGID:
            return None
        # Rounded, as 0.1 * 30 is a little more than 3, and 1.1 * 10 than 11.
        low = max(1, math.ceil(round(preferred * self.least, 6)))
        high = max(preferred, min(nodes, math.floor(round(preferred * self.most, 6))))
        return Bounds(low, high, preferred=preferred) if low < high else None

    def __str__(self) -> str:
        serial = "" if self.serial == MALLEABLE else ", serial ones rigid"
        return f"{self.least:g} to {self.most:g} times their nodes{serial}"


class PublishedConversion(Conversion, frozen=True):
    """A fifth of the request, rounded down, to the last size with an efficiency above one half: serial jobs too."""

    least: float = 0.2
    most: float = math.inf
    serial: str = MALLEABLE

    def bounds(self, preferred: int, nodes: int) -> Bounds:
        most = 1 + 999 // serial_per_mille(preferred)
        return Bounds(max(1, preferred // 5), min(nodes, max(preferred, most)), preferred=preferred)

    def __str__(self) -> str:
        return "a fifth of their nodes to where efficiency is one half, as published"


USUAL, PUBLISHED = Conversion(), PublishedConversion()


def read_conversion(text: str) -> Conversion:
    """A conversion as a user writes it: ``published``, or some of ``FORM``. BatchError says what is wrong."""
    if text == "published":
        return PUBLISHED
    wrong = f"conversion: {text}:"
    keys = dict.fromkeys(Conversion.__struct_fields__, False)
    said = keyed(text, keys, wrong, f"published, or some of {FORM}", ["published"])
    serial = said.pop("serial", RIGID)
    if serial not in (RIGID, MALLEABLE):
        raise BatchError(f"{wrong} serial is {serial!r}; it must be {RIGID} or {MALLEABLE}")
    least, most = (_factor(said.get(key), getattr(USUAL, key), f"{wrong} {key}") for key in ("least", "most"))
    if not 0 <= least <= 1:
        raise BatchError(
            f"{wrong} least is {least:g}; it must lie in 0 .. 1, as a job must allow its own size"
        )
    if not 1 <= most <= MOST_NODES:
        raise BatchError(
            f"{wrong} most is {most:g}; it must lie in 1 .. {MOST_NODES:,}, as a job must allow its own size"
        )
    if least == most:
        raise BatchError(
            f"{wrong} least and most are both 1: no job would allow another size than its own, and all stay rigid; "
            "give a least below 1, or a most above 1"
        )
    return Conversion(least, most, serial)


def _factor(text: str | None, usual: float, where: str) -> float:
    try:
        return usual if text is None else float(text)
    except ValueError:
        raise BatchError(f"{where}: {text!r} is no number; write {FORM}") from None


def malleable_job(job: SimJob, bounds: Bounds, *, compat: bool = False) -> SimJob:
    """``job`` as a malleable one of these sizes: run time T(n) = T * S(preferred) / S(n), with T that of the trace.

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
        nodes=bounds,
        job_class=JobClass.MALLEABLE,
        walltime_s=max(spec.walltime_s, whole),
        model=Amdahl(alone, serial),
    )
    return msgspec.structs.replace(job, spec=changed, runtime_s=whole)


def make_malleable(  # noqa: PLR0913 -- the workload, the machine, and what is said of the transformation
    jobs: Sequence[SimJob],
    percent: float,
    nodes: int,
    seed: int,
    *,
    conversion: Conversion = USUAL,
    compat: bool = False,
) -> list[SimJob]:
    """``percent`` of the rigid ``jobs``, on average, made malleable for a machine of ``nodes`` nodes.

    Each job draws for itself, by ``seed`` and its name: so it does not depend on the others, and with the
    same seed the jobs malleable at one percentage are malleable at every higher one. Of the jobs drawn those stay
    rigid that take no time, as no size makes them shorter, those that are too wide for the machine, which is for others
    to say, and those of which the ``conversion`` says so. BatchError for a percentage that is none, and for workloads
    that are not rigid.
    """
    if not 0 <= percent <= 100:
        raise BatchError(f"malleable: {percent:g} % of the jobs; it must lie in 0 .. 100")
    check_rigid(job.spec for job in jobs)
    made: list[SimJob] = []
    for job in jobs:
        preferred = job.spec.nodes.preferred
        drawn = draw(seed, job.spec.name) < percent and job.time(preferred) > 0
        bounds = conversion.bounds(preferred, nodes) if drawn and preferred <= nodes else None
        made.append(job if bounds is None else malleable_job(job, bounds, compat=compat))
    return made


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
