"""How what jobs met with is spread: over the jobs, over their classes and over their users."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence

import msgspec

from pliant.model.jobs import JobClass, JobSpec

SLOWDOWN_BOUND_S = 10.0
"""Shorter run times count as this in the bounded slowdown (Feitelson's usual bound)."""
CLASSES = tuple(JobClass)


class Spread(msgspec.Struct, frozen=True):
    """Percentiles and the largest of some values; 0 where there are none."""

    median: float
    p95: float
    p99: float
    max: float


class ClassMetrics(msgspec.Struct, frozen=True):
    """The ``jobs`` of one class that started and ended; times in seconds. ``stretch_mean`` is over those whose
    reference time is above 0, None if that is none."""

    jobs: int
    wait_mean_s: float
    turnaround_mean_s: float
    stretch_mean: float | None


class Fairness(msgspec.Struct, frozen=True):
    """``users`` who have jobs that started and ended; ``jain``: see ``jain_index``, None if nobody has."""

    users: int
    jain: float | None


class EndedJobs:
    """Wait, turnaround, reference time, class and user of every job that started and ended: 29 bytes a job.

    The reference time is that of the job at its preferred size all the way, undisturbed.
    """

    def __init__(self) -> None:
        self._wait = array("d")
        self._turnaround = array("d")
        self._reference = array("d")
        self._kind = array("b")
        self._user = array("i")
        self._users: dict[str, int] = {}

    def add(self, spec: JobSpec, wait_s: float, turnaround_s: float, reference_s: float) -> None:
        self._wait.append(wait_s)
        self._turnaround.append(turnaround_s)
        self._reference.append(reference_s)
        self._kind.append(CLASSES.index(spec.job_class))
        users = self._users
        self._user.append(users.setdefault(spec.user, len(users)))

    def waits(self) -> Spread:
        return spread(self._wait)

    def turnarounds(self) -> Spread:
        return spread(self._turnaround)

    def bounded_slowdown_preferred(self) -> float:
        """The mean over jobs of turnaround over reference time, at least 10 s; never below 1."""
        return _mean(
            [
                bounded_slowdown(turnaround, reference)
                for turnaround, reference in zip(self._turnaround, self._reference, strict=True)
            ]
        )

    def classes(self) -> dict[JobClass, ClassMetrics]:
        """By class, for those that have any jobs."""
        found: dict[JobClass, ClassMetrics] = {}
        for code, kind in enumerate(CLASSES):
            chosen = [i for i, each in enumerate(self._kind) if each == code]
            if chosen:
                stretches = [stretch for i in chosen if (stretch := self._stretch(i)) is not None]
                found[kind] = ClassMetrics(
                    len(chosen),
                    _mean([self._wait[i] for i in chosen]),
                    _mean([self._turnaround[i] for i in chosen]),
                    _mean(stretches) if stretches else None,
                )
        return found

    def fairness(self) -> Fairness:
        """Between users, of the mean stretch of each."""
        by_user: list[list[float]] = [[] for _ in self._users]
        for i, user in enumerate(self._user):
            stretch = self._stretch(i)
            if stretch is not None:
                by_user[user].append(stretch)
        means = [_mean(stretches) for stretches in by_user if stretches]
        return Fairness(len(by_user), jain_index(means) if means else None)

    def _stretch(self, i: int) -> float | None:
        reference = self._reference[i]
        return self._turnaround[i] / reference if reference > 0 else None


def bounded_slowdown(turnaround_s: float, run_s: float) -> float:
    """Turnaround over run time, short run times taken as ``SLOWDOWN_BOUND_S``; never below 1."""
    run_s = max(SLOWDOWN_BOUND_S, run_s)
    return turnaround_s / run_s if turnaround_s > run_s else 1.0


def spread(values: Sequence[float]) -> Spread:
    ordered = sorted(values)
    return Spread(*(percentile(ordered, share) for share in (0.5, 0.95, 0.99, 1.0)))


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value below which the ``share`` (0 .. 1) of ``ordered``, ascending, lies; 0 if it is empty.

    Between two values, linearly: the ``share`` counts from the first to the last (Hyndman and Fan's
    definition 7, which the statistics module calls inclusive).
    """
    if not ordered:
        return 0.0
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    below, above = ordered[low], ordered[high]
    return below + (above - below) * (place - low) if above > below else below


def jain_index(values: Sequence[float]) -> float:
    """Jain's index of fairness: (sum x)^2 / (n sum x^2), from 1 / n (one has everything) to 1 (all alike).

    ``values``, at least one, are not negative; if all are 0, they are alike.
    """
    largest = max(values)
    if largest <= 0:
        return 1.0
    shares = [value / largest for value in values]  # squares of very small numbers would vanish
    return min(1.0, math.fsum(shares) ** 2 / (len(shares) * math.fsum(share * share for share in shares)))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0
