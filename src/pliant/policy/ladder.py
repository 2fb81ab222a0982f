"""What steps between sizes are worth to one job. ``marginal`` asks for them in every pass: what stays the same from
pass to pass is worked out once."""

from __future__ import annotations

from heapq import heappop, heapreplace
from typing import Final

from pliant.model.jobs import Bounds, JobSpec
from pliant.model.speedup import Model
from pliant.plan.cost import INSTANT, ResizeCost
from pliant.policy.job_view import JobView
from pliant.policy.resizing import NO_GAIN, down, up

LEAST_S: Final = 10.0
"""Less time left than this counts as this, as in the bounded slowdown: else a job's last moments outweigh all."""


class LadderStep:
    """``to`` the next size, 0 if there is none. ``worth`` is what each node between adds to the speed at which the job
    computes, that at its preferred size being 1."""

    __slots__ = ("to", "worth")

    def __init__(self, to: int, worth: float) -> None:
        self.to = to
        self.worth = worth


NOWHERE = LadderStep(0, 0.0)


class Ladder:
    """The sizes of a job of this ``spec`` and these ``bounds``, which a live one may narrow, and how long it still
    takes, as of the last ``look``: ``left`` seconds at its preferred size, ``LEAST_S`` at least, and ``present`` at the
    one that it has, if it runs: ``size``, else 0.

    A step's worth over ``left`` is what each node adds to the rate at which jobs end, in 1 / s.
    """

    __slots__ = (
        "_any",
        "_cost",
        "_costs",
        "_down",
        "_growth",
        "_growths",
        "_least",
        "_model",
        "_most",
        "_preferred",
        "_speeds",
        "_times",
        "_to_preferred",
        "_up",
        "above",
        "below",
        "bounds",
        "job",
        "left",
        "number",
        "present",
        "seen",
        "size",
        "spec",
    )  # fmt: skip

    def __init__(self, job: JobView, cost: ResizeCost) -> None:
        self.job = job
        self.number = job.id
        self.seen = 0
        self.size = 0
        self.above = self.below = NOWHERE
        self.left = self.present = 0.0
        self.spec: JobSpec = job.spec
        self.bounds: Bounds = job.bounds
        self._cost = cost
        self._costs = cost != INSTANT
        self._any: bool = job.bounds.factor == 1
        self._least: int = job.bounds.min
        self._most: int = job.bounds.max
        self._to_preferred = 1.0
        self._model: Model | None = job.spec.model
        self._preferred: int = job.bounds.preferred
        self._times: dict[int, float] = {}
        self._speeds: dict[int, float] = {}
        self._up: dict[int, LadderStep] = {}
        self._down: dict[int, LadderStep] = {}
        self._growths: dict[int, dict[int, tuple[float, float]]] = {}
        self._growth = self._growths.setdefault(0, {})

    def look(self, job: JobView, now: float, seen: int) -> None:
        """Note how far the job is at ``now``; ``seen`` is the number of this look."""
        self.job = job
        self.seen = seen
        size = job.size
        if not size:
            self.size = 0
            self.left = max(LEAST_S, self.spec.estimate(self._preferred))
            return
        if size != self.size:
            self.size = size
            self.above, self.below = self.up(size), self.down(size)
            self._to_preferred = self._ratio(self._preferred, size)
            self._growth = self._growths.setdefault(size, {})
        self.present = present = job.remaining_s(now)
        left = present * self._to_preferred if self._model is not None else self._left_s(job, now)
        self.left = left if left > LEAST_S else LEAST_S  # noqa: FURB136 - max would double what this costs

    def _left_s(self, job: JobView, now: float) -> float:
        """Without a model, how long it still takes at its preferred size: by what it has done, and how long that took.
        ``remaining_s`` is no guide: without a model it need not get less where the job grows, which would then seem to
        have more left than before, and its nodes to be worth less: they would leave and come back, again and again."""
        done = job.done(now)
        if done <= 0.0:
            return self.spec.estimate(self._preferred)
        worked_s = job.worked_s(now) * self.spec.estimate_ratio(self._preferred, self.spec.nodes.preferred)
        return worked_s * (1.0 - done) / done

    def speed(self, size: int) -> float:
        """That at ``size`` nodes over that at the preferred ones."""
        found = self._speeds.get(size)
        if found is None:
            found = self._speeds[size] = 1.0 / self._ratio(size, self._preferred)
        return found

    def _ratio(self, nodes: int, base: int) -> float:
        """``JobSpec.speed_ratio``."""
        model = self._model
        if model is None:
            return base / nodes
        return self._time(model, nodes) / self._time(model, base)

    def _time(self, model: Model, nodes: int) -> float:
        found = self._times.get(nodes)
        if found is None:
            found = self._times[nodes] = model.time(nodes)
        return found

    def up(self, size: int) -> LadderStep:
        """The step up from ``size``."""
        found = self._up.get(size)
        if found is None:
            to = self._next(size) or up(self.job, size)
            worth = (self.speed(to) - self.speed(size)) / (to - size) if to else 0.0
            found = self._up[size] = LadderStep(to, worth)
        return found

    def down(self, size: int) -> LadderStep:
        """The step down from ``size``."""
        found = self._down.get(size)
        if found is None:
            to = self._next(size, -1) or down(self.job, size)
            worth = (self.speed(size) - self.speed(to)) / (size - to) if to else 0.0
            found = self._down[size] = LadderStep(to, worth)
        return found

    def _next(self, size: int, way: int = 1) -> int:
        """``resizing.up``, or ``down``, where that is a step to any number of nodes within bounds; else 0."""
        to = size + way * max(1, size >> 4)
        return to if self._any and self._least <= to <= self._most and size <= self._most else 0

    def less(self, size: int, most: int) -> int:
        """The size below ``size`` that gives ``most`` nodes, or fewer: ``resizing.down``."""
        return self.down(size).to if most >= max(1, size >> 4) else down(self.job, size, most)

    def pays(self, more: int, payback: float) -> bool:
        """As ``resizing.pays``."""
        found = self._growth.get(more)
        if found is None:
            cost_s = self._cost.expand_s(self.size, more, self.spec.data_mb) if self._costs else 0.0
            found = self._growth[more] = cost_s, 1.0 - self._ratio(more, self.size)
        cost_s, saved = found
        return saved > NO_GAIN and (self.present - cost_s) * saved > payback * cost_s


Entry = tuple[float, int, Ladder, LadderStep]
"""What a job's next node is worth, its number, its ladder and the step to it, ready for a heap."""


def put_back(heap: list[Entry], ladder: Ladder, step: LadderStep, left: float) -> None:
    """The first of ``heap``, whose ``ladder`` it is, comes again for its next ``step``, if there is one: at what that
    is worth over ``left``, which is negative where the most comes first."""
    if step.to:
        heapreplace(heap, (step.worth / left, ladder.number, ladder, step))
    else:
        heappop(heap)
