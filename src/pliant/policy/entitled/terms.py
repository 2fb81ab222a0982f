"""What a job's bounds, its user's estimate and the ratios of its times come to, kept for the passes that follow."""

from __future__ import annotations

from collections.abc import Container

from pliant.model.jobs import JobClass, JobSpec
from pliant.plan.cost import INSTANT, ResizeCost
from pliant.policy.job_view import JobView
from pliant.policy.resizing import up

SLACK_S = 1.0
"""A job gets its nodes back when its lead is down to this."""
KEPT = 1000
"""Of more jobs than this nothing is kept that have ended."""


class GrowthStep:
    """To ``size``, the next one worth looking at; each node up to there adds ``gain`` to the job's speed, in units of
    that at its preferred size. 0 and 0.0 if there is none."""

    __slots__ = ("gain", "next", "size")

    def __init__(self, size: int, gain: float) -> None:
        self.size = size
        self.gain = gain
        self.next: GrowthStep | None = None


class Terms:
    """Of one job, by its ``bounds``: whether it is ``flexible``; its ``preferred`` size, the one that it has in the
    virtual schedule, so no more than ``nodes``, which it has there; and the ends ``low`` and ``high`` of what it may be
    given.

    At ``slack_s`` of lead it has to be given its preferred size, so that it has that in time; at its smallest size each
    second costs it ``slowed`` seconds of lead.
    """

    __slots__ = (
        "_job", "_ratios", "_steps", "_tries", "bounds", "flexible", "high", "longer", "low", "nodes", "preferred",
        "slack_s", "slowed", "spec",
    )  # fmt: skip

    def __init__(self, job: JobView, nodes: int, cost: ResizeCost) -> None:
        bounds, spec = job.bounds, job.spec
        self.bounds, self.spec, self.nodes = bounds, spec, nodes
        self._job = job
        self._ratios: dict[int, float] = {}
        self._steps: dict[int, GrowthStep] = {}
        self._tries: list[tuple[int, float]] = []
        self.flexible = is_flexible(job)
        self.preferred = min(bounds.preferred, bounds.floor(nodes) or bounds.min)
        self.longer = 1.0 if nodes == spec.nodes.preferred else virtual_s(spec, nodes, 1.0)
        """How much longer it takes on the nodes that it has there than on those that it prefers."""
        self.low = bounds.min if self.flexible else self.preferred
        self.high = bounds.floor(bounds.max) if self.flexible else self.preferred
        self.slowed = 1.0 - 1.0 / self.ratio(self.low) if self.flexible else 0.0
        self.slack_s = SLACK_S
        if costs(cost) and self.preferred != bounds.min:
            self.slack_s = 3.0 * SLACK_S + cost.expand_s(bounds.min, self.preferred, spec.data_mb)

    def ratio(self, size: int) -> float:
        """Its time on ``size`` nodes over that on the nodes that it has in the virtual schedule. Without a model, what
        an upper bound needs: linear below that, no gain above it."""
        ratio = self._ratios.get(size)
        if ratio is None:
            spec, nodes = self.spec, self.nodes
            linear = spec.model is None
            ratio = max(1.0, nodes / size) if linear else spec.speed_ratio(size, nodes)
            self._ratios[size] = ratio
        return ratio

    def step(self, size: int) -> GrowthStep:
        """From ``size`` on."""
        step = self._steps.get(size)
        if step is None:
            more = up(self._job, size)
            step = self._steps[size] = self.part(size, more) if more else GrowthStep(0, 0.0)
        return step

    def part(self, size: int, more: int) -> GrowthStep:
        """From ``size`` on to ``more``, which may be less than a step. Without a model speed-up is linear: what more
        nodes give is no lead, but who has no model may well make use of them."""
        if self.spec.model is None:
            return GrowthStep(more, 1.0 / self.nodes)
        return GrowthStep(more, (1.0 / self.ratio(more) - 1.0 / self.ratio(size)) / (more - size))

    def after(self, step: GrowthStep) -> GrowthStep:
        """The step that follows."""
        following = step.next
        if following is None:
            following = step.next = self.step(step.size)
        return following

    def tries(self, certain: float, estimate_s: float) -> list[tuple[int, float]]:
        """The sizes that it may start early with, ascending, and how long it needs each for: that share of its
        estimate in the virtual schedule."""
        if not self._tries:
            size = self.low
            while size:
                self._tries.append((size, certain * estimate_s * self.ratio(size)))
                twice = self.bounds.floor(2 * size) if self.flexible else 0
                size = twice if twice > size else 0
        return self._tries

    def lasts(self, lead_s: float, size: int) -> float:
        """For how long a lead lasts on ``size`` nodes; infinity if it does not shrink there."""
        slowed = self.slowed if size == self.low else 1.0 - 1.0 / self.ratio(size)
        return lead_s / slowed if slowed > 0.0 else float("inf")


class AllTerms:
    """By job."""

    def __init__(self) -> None:
        self._of: dict[int, Terms] = {}
        self._cost = INSTANT

    def of(self, job: JobView, nodes: int) -> Terms:
        """``nodes`` is what it has in the virtual schedule."""
        terms = self._of.get(job.id)
        if (
            terms is None
            or terms.bounds is not job.bounds
            or terms.spec is not job.spec
            or terms.nodes != nodes
        ):
            terms = self._of[job.id] = Terms(job, nodes, self._cost)
        return terms

    def keep(self, jobs: Container[int], cost: ResizeCost) -> None:
        """Forget all others, now and then; all of them where resizes cost something else than before."""
        if cost is not self._cost:
            self._of, self._cost = {}, cost
        if len(self._of) > KEPT:
            self._of = {number: terms for number, terms in self._of.items() if number in jobs}


def virtual_s(spec: JobSpec, nodes: int, worked_s: float) -> float:
    """Seconds at the preferred size as seconds on ``nodes`` nodes."""
    if nodes == spec.nodes.preferred or not spec.walltime_s:
        return worked_s
    return worked_s * (spec.estimate(nodes) / spec.walltime_s)


def is_flexible(job: JobView) -> bool:
    """Whether the scheduler may choose its size at any time."""
    return job.spec.job_class is JobClass.MALLEABLE and job.bounds.min < job.bounds.max


def costs(cost: ResizeCost) -> bool:
    """Whether resizes take time."""
    return cost.start_s > 0.0 or cost.blocked_s > 0.0
