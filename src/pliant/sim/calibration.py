"""The coefficients of ``plan.cost.ResizeCost`` from the resizes that live runs have recorded, and cost files.

A cost file is JSON: the coefficients in seconds under ``cost``; what else it holds, such as their standard
errors, is for people.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

import msgspec

from pliant.core import records as r
from pliant.model.errors import TraceError
from pliant.model.jobs import JobState
from pliant.model.speedup import Model
from pliant.plan.cost import ResizeCost


class Estimate(NamedTuple):
    """A coefficient in seconds, its standard error (nan where it cannot be told), and from how many cases."""

    value: float
    error: float
    cases: int


class Samples(msgspec.Struct):
    """What the journals tell, in seconds; ``starts`` pairs groups that started together with the time that it
    took: of a job until it ran, of an expansion from the acceptance to its end, less what blocked the job.
    ``blocked`` pairs the megabytes for a node of the smaller side with how long the job stood still."""

    starts: list[tuple[int, float]] = []
    expansions: int = 0
    blocked: list[tuple[float, float]] = []
    leave: list[float] = []
    answer: list[float] = []
    end: list[float] = []


IGNORES: r.Ignores = frozenset({
    r.JobPromised, r.JobLaunched, r.JobMalleable, r.JobPinned, r.JobWishes, r.JobProgressed, r.JobNoted,
    r.ResizeWithdrawn, r.ResizeDeclined, r.ResizeFailed, r.GroupsLost, r.JobEnding, r.JobEnded, r.ControllerResumed,
    r.PolicyFailed, r.PolicyRemembers, r.NodesGranted, r.NodesLost, r.NodesBack, r.NodesOrdered,
    r.NodesRefused, r.NodesReclaimed, r.NodesReturned,
    r.NodesExpire, r.NodesWithdrawn,
})  # fmt: skip
"""What ``_collect`` leaves aside."""


def collect(journals: Iterable[Iterable[r.AnyRecord]]) -> Samples:
    """All samples of several journals."""
    samples = Samples()
    for journal in journals:
        _collect(journal, samples)
    return samples


def _collect(journal: Iterable[r.AnyRecord], samples: Samples) -> None:
    offered: dict[int, r.ResizeOffered] = {}
    accepted: dict[int, float] = {}
    left: dict[tuple[int, int], float] = {}
    started: dict[int, r.JobStarted] = {}
    work = _Work()
    data_mb: dict[int, float] = {}
    for record in journal:
        work.add(record)
        match record:
            case r.JobSubmitted(job=job, spec=spec):
                data_mb[job] = spec.data_mb
            case r.JobStarted():
                started[record.job] = record
            case r.JobRunning(at=at, job=job) if at > started[job].at:
                samples.starts.append((len(started[job].nodes), at - started[job].at))
            case r.ResizeOffered():
                offered[record.resize] = record
            case r.ResizeAccepted(at=at, resize=resize):
                accepted[resize] = at
                samples.answer.append(at - offered[resize].at)
            case r.ResizeDone(at=at, resize=resize, blocked_s=blocked) if not offered[resize].slots:
                smaller = min(offered[resize].before, offered[resize].after)
                samples.blocked.append((data_mb.get(record.job, 0.0) / smaller, blocked))
                if gained := len(record.gained):
                    samples.starts.append((gained, at - accepted[resize] - blocked))
                    samples.expansions += 1
                left |= {(record.job, node): at for node in record.released}
            case r.NodesClean(at=at, job=job, nodes=nodes):
                samples.leave += [at - left.pop((job, node)) for node in nodes if (job, node) in left]
            case _:
                pass
    samples.end += work.ends


class _Work:
    """When jobs should have done their work: those that keep pace with their model show how long an end takes."""

    IGNORES: ClassVar[r.Ignores] = frozenset({
        r.JobPromised, r.JobLaunched, r.JobMalleable, r.JobPinned, r.JobWishes, r.JobNoted, r.ResizeOffered,
        r.ResizeWithdrawn, r.ResizeAccepted, r.ResizeDeclined, r.ResizeFailed, r.JobEnding, r.ControllerResumed,
        r.PolicyFailed, r.PolicyRemembers, r.NodesGranted, r.NodesClean, r.NodesLost, r.NodesBack,
        r.NodesOrdered, r.NodesRefused, r.NodesReclaimed, r.NodesReturned,
        r.NodesExpire, r.NodesWithdrawn,
    })  # fmt: skip

    def __init__(self) -> None:
        self.ends: list[float] = []
        self._models: dict[int, Model] = {}
        self._since: dict[int, tuple[float, float, int]] = {}  # from when on, the share left, nodes
        self._paced: set[int] = set()

    def add(self, record: r.AnyRecord) -> None:
        match record:
            case r.JobSubmitted(job=job, spec=spec) if spec.model is not None:
                self._models[job] = spec.model
            case r.JobStarted(at=at, job=job, nodes=nodes) if job in self._models:
                self._since[job] = (at, 1.0, len(nodes))
            case r.JobRunning(at=at, job=job) if job in self._since:
                self._since[job] = (at, *self._since[job][1:])
            case r.JobProgressed(job=job, pace_s=pace_s) if pace_s > 0:
                self._paced.add(job)
            case r.ResizeDone(at=at, job=job, blocked_s=blocked) if job in self._since:
                since, left, size = self._since[job]
                left -= (at - blocked - since) / self._models[job].time(size)
                self._since[job] = (at, left, size + len(record.gained) - len(record.released))
            case r.GroupsLost(job=job):
                self._since.pop(job, None)  # what it had to do again tells nothing of how long an end takes
            case r.JobEnded(at=at, job=job, state=JobState.COMPLETED) if (
                job in self._paced & self._since.keys()
            ):
                since, left, size = self._since[job]
                self.ends.append(at - since - left * self._models[job].time(size))
            case _:
                pass


def fit(samples: Samples) -> dict[str, Estimate]:
    """The coefficients by name: means, and a least-squares line for the start of groups.

    TraceError if there is no expansion to learn from.
    """
    if not samples.expansions:
        raise TraceError("the journals hold no expansion that was done; there is nothing to calibrate by")
    start, each = _line(samples.starts)
    blocked, data = _line(samples.blocked) if samples.blocked else (_mean([]), _mean([]))
    return {
        "start_s": start,
        "start_each_s": each,
        "blocked_s": blocked,
        "data_s": data,
        "leave_s": _mean(samples.leave),
        "answer_s": _mean(samples.answer),
        "end_s": _mean(samples.end),
    }


def cost(fitted: dict[str, Estimate]) -> ResizeCost:
    """The model with the fitted coefficients, none below 0; the default where there was no case."""
    return ResizeCost(**{name: max(0.0, each.value) for name, each in fitted.items() if each.cases})


def to_json(fitted: dict[str, Estimate]) -> bytes:
    """A cost file's text: each coefficient with its standard error and cases, and the model of them."""
    rows: dict[str, dict[str, Any]] = {}
    for name, each in fitted.items():
        rows[name] = {k: None if math.isnan(v) else v for k, v in each._asdict().items()}
    return msgspec.json.format(msgspec.json.encode({"coefficients": rows, "cost": cost(fitted)}))


def _mean(values: Sequence[float]) -> Estimate:
    if not values:
        return Estimate(math.nan, math.nan, 0)
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return Estimate(statistics.fmean(values), error, len(values))


def _line(points: Sequence[tuple[float, float]]) -> tuple[Estimate, Estimate]:
    """Intercept and slope with their standard errors; all intercept where only one size occurs."""
    xs, ys = [float(x) for x, _ in points], [y for _, y in points]
    if len(set(xs)) < 2:
        flat = _mean(ys)
        return flat, Estimate(0.0, math.nan, 0)
    slope, intercept = statistics.linear_regression(xs, ys)
    n, middle = len(xs), statistics.fmean(xs)
    spread = sum((x - middle) ** 2 for x in xs)
    rest = sum((y - intercept - slope * x) ** 2 for x, y in points)
    variance = rest / (n - 2) if n > 2 else math.nan
    return (
        Estimate(intercept, math.sqrt(variance * (1 / n + middle**2 / spread)), n),
        Estimate(slope, math.sqrt(variance / spread), n),
    )
