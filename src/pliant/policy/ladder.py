"""What steps between sizes are worth to one job. ``marginal`` asks for them in every pass: what stays the same from
pass to pass is worked out once."""

from __future__ import annotations

from typing import NamedTuple

from pliant.model.jobs import Bounds, JobSpec
from pliant.plan.cost import ResizeCost
from pliant.policy.resizing import NO_GAIN, down, up
from pliant.policy.view import JobView

LEAST_S = 10.0
"""Less time left than this counts as this, as in the bounded slowdown: else a job's last moments outweigh all."""


class Step(NamedTuple):
    """``to`` the next size, 0 if there is none. ``worth`` is what each node between adds to the speed at which the job
    computes, that at its preferred size being 1."""

    to: int
    worth: float


NOWHERE = Step(0, 0.0)


class Ladder:
    """The sizes of a job, and how long it still takes, as of the last ``look``: ``left`` seconds at its preferred size,
    ``LEAST_S`` at least, and ``present`` at the one that it has, if it runs.

    A step's worth over ``left`` is what each node adds to the rate at which jobs end, in 1 / s.
    """

    __slots__ = (
        "_bounds",
        "_cost",
        "_down",
        "_growth",
        "_ratio",
        "_spec",
        "_speeds",
        "_to_preferred",
        "_up",
        "above",
        "below",
        "job",
        "left",
        "present",
        "seen",
        "size",
    )  # fmt: skip

    def __init__(self, job: JobView, cost: ResizeCost) -> None:
        self.job = job
        self.seen = 0
        self.size = 0
        self.above = self.below = NOWHERE
        self.left = self.present = 0.0
        self._spec: JobSpec = job.spec
        self._bounds: Bounds = job.bounds
        self._cost = cost
        self._ratio = job.spec.speed_ratios(job.bounds.preferred)
        self._to_preferred = 1.0
        self._speeds: dict[int, float] = {}
        self._up: dict[int, Step] = {}
        self._down: dict[int, Step] = {}
        self._growth: dict[int, tuple[float, float]] = {}

    def fits(self, job: JobView, cost: ResizeCost) -> bool:
        """Whether it is that of ``job``, whose bounds a live job may narrow, where resizes cost this."""
        return self._spec is job.spec and self._bounds is job.bounds and self._cost is cost

    def look(self, job: JobView, now: float, seen: int) -> None:
        """Note how far the job is at ``now``; ``seen`` is the number of this look."""
        self.job = job
        self.seen = seen
        size = job.size
        if not size:
            self.left = max(LEAST_S, self._spec.estimate(self._bounds.preferred))
            return
        if size != self.size:
            self.size = size
            self.above, self.below = self.up(size), self.down(size)
            self._to_preferred = self._spec.speed_ratio(self._bounds.preferred, size)
            self._growth = {}
        self.present = present = job.remaining_s(now)
        left = present * self._to_preferred
        self.left = max(LEAST_S, left)

    def speed(self, size: int) -> float:
        """That at ``size`` nodes over that at the preferred ones."""
        found = self._speeds.get(size)
        if found is None:
            found = self._speeds[size] = 1.0 / self._ratio(size)
        return found

    def up(self, size: int) -> Step:
        """The step up from ``size``."""
        found = self._up.get(size)
        if found is None:
            to = up(self.job, size)
            worth = (self.speed(to) - self.speed(size)) / (to - size) if to else 0.0
            found = self._up[size] = Step(to, worth)
        return found

    def down(self, size: int) -> Step:
        """The step down from ``size``."""
        found = self._down.get(size)
        if found is None:
            to = down(self.job, size)
            worth = (self.speed(size) - self.speed(to)) / (size - to) if to else 0.0
            found = self._down[size] = Step(to, worth)
        return found

    def pays(self, more: int, payback: float) -> bool:
        """As ``resizing.pays``."""
        found = self._growth.get(more)
        if found is None:
            cost_s = self._cost.expand_s(self.size, more, self._spec.data_mb)
            found = self._growth[more] = cost_s, 1.0 - self._spec.speed_ratio(more, self.size)
        cost_s, saved = found
        return saved > NO_GAIN and (self.present - cost_s) * saved > payback * cost_s
