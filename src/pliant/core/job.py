"""A job that has not ended, as the records tell it, and its one outstanding resize."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pliant.core import records as r
from pliant.core.settings import NEVER
from pliant.model.groups import kind_of
from pliant.model.jobs import Bounds, JobSpec, JobState
from pliant.model.nodes import NodeSet
from pliant.model.size_request import SizeRequest
from pliant.model.speedup import Model
from pliant.model.words import count
from pliant.protocol import resizing
from pliant.protocol.phases import Phase, PhaseTimer

ALL: Mapping[int, int] = MappingProxyType({})
"""All ranks of all groups are awake."""


OF_RESIZE = (
    "after", "arriving", "before", "deadline", "giving", "id", "leaving", "lost", "must", "nodes", "offered",
    "slots", "stage",
)  # fmt: skip
OF_JOB = (
    "accepts_offers", "awake", "bounds", "ending", "epoch", "expected_end", "failures", "fraction", "fraction_at",
    "gap", "greeted", "groups", "grow_from", "growth_limit", "heard", "id", "last_group", "limited", "losses",
    "lost_on", "nodes", "not_before", "noted", "one_world", "pinned", "promised", "requeues", "resize", "root",
    "settled", "size", "spec", "started", "state", "stays_put", "target", "times", "used", "why", "wish",
)  # fmt: skip
"""What is known of a resize, and of a job."""


class OpenResize:
    """The one outstanding resize of a job. ``stage`` is a state of ``resizing.TABLE``; ``nodes`` are reserved for it
    now, and ``giving`` is the number of nodes that the job is about to give back by it. ``lost`` counts the
    groups that the job has lost since it was offered: by so many the size may be below ``after`` when it is done.
    ``slots``: so many ranks of groups are to be awake. ``timer`` is there if it was offered since this core began."""

    __slots__ = (*OF_RESIZE, "timer")

    def __init__(self, record: r.ResizeOffered, deadline: float) -> None:
        self.id = record.resize
        self.offered = record.at
        self.before = record.before
        self.after = record.after
        self.arriving = record.arriving
        self.leaving = record.leaving
        self.must = record.must
        self.slots = record.slots
        self.nodes = record.nodes.mask
        self.lost = 0
        giving = record.before + self.nodes.bit_count() - record.after
        self.giving = max(0, giving)
        self.stage = resizing.OFFERED
        self.deadline = deadline
        self.timer: PhaseTimer | None = None

    @property
    def kind(self) -> str:
        """The word for it: expand, shrink, migrate or slots."""
        return kind_of(self.before, self.after, self.slots)

    @property
    def phase(self) -> Phase | None:
        """How far it has come, where that is known."""
        return None if self.timer is None else self.timer.phase

    @property
    def started(self) -> bool:
        """Whether its arriving groups may have been started."""
        return bool(self.arriving) and self.stage in resizing.STARTED


class ScheduledJob:
    """A pending or running job. ``used`` is the share of its estimate that was used up at ``settled``;
    ``limited`` jobs are ended when their walltime is over; to all others it is an estimate. ``greeted`` ones have
    said hello. ``failures`` are the resizes that failed in a row, which let it grow again only at ``grow_from``.
    ``stays_put``: it has declined to move, though not for want of time. ``wish``: the one of its own that is open.
    ``accepts_offers``: it is inside its loop. ``growth_limit``: its program cannot grow to more nodes; 0 if that is not
    known. ``requeues``: it will be
    submitted again, as it was ``times`` before. ``noted`` counts what it has found for its user.

    Group ``root`` speaks for the job in ``epoch``, the number of its resizes that were done; ``last_group`` is the
    highest number that a group of it was given. ``groups`` are those that are there, each with its node, None
    while nobody has asked: one on each node at the start, numbered in their order. ``losses`` are the groups
    that it has lost and goes on without, ``lost_on`` nodes of these names: its size may then be one that ``bounds`` do
    not allow. ``awake`` has the
    groups of which ranks sleep, and how many do not; what sleeps holds its slots of the node like what computes.
    """

    __slots__ = (*OF_JOB, "_paced", "_rate", "_sized", "_time_s", "_whole_s", "unheard_until")

    def __init__(self, number: int, spec: JobSpec) -> None:
        self.id = number
        self.spec = spec
        self.bounds: Bounds = spec.nodes
        # A walltime of 0 is no limit, as in Slurm: a trace's job that took no time must not be ended for it.
        self.limited = spec.kill and spec.walltime_s > 0
        self.state = JobState.PENDING
        self.nodes = 0
        self.size = 0
        self.target = 0
        self.started = 0.0
        self.expected_end = NEVER
        self.settled = 0.0
        self.used = 0.0
        self.fraction = 0.0
        self.fraction_at = 0.0
        self.heard = 0.0
        self.gap = 0.0
        self.greeted = False
        self.one_world = False
        self.groups: dict[int, int] | None = None
        self.awake = ALL
        self.losses: tuple[r.GroupsLost, ...] = ()
        self.lost_on: tuple[str, ...] = ()
        self.last_group = -1
        self.epoch = 0
        self.root = 0
        self.accepts_offers = False
        self.pinned = False
        self.growth_limit = self.noted = 0
        self.not_before = 0.0
        self.failures = 0
        self.grow_from = 0.0
        self.stays_put = False
        self.resize: OpenResize | None = None
        self.promised: float | None = None
        self.ending: JobState | None = None
        self.why = ""
        self.requeues = False
        self.times = 0
        self.wish: SizeRequest | None = None
        self.unheard_until = 0.0
        """It cannot be heard, or could not until lately: before this time it is not stuck in a resize."""
        self._paced = 0
        self._rate = self._time_s = 0.0
        self._sized = 0
        self._whole_s = 0.0

    @property
    def offered_at(self) -> float | None:
        """When the outstanding resize was offered."""
        return None if self.resize is None else self.resize.offered

    def remaining_s(self, now: float) -> float:
        """Seconds to the end at the present size: from progress, else the model, else the estimate."""
        model = self.spec.model
        if model is not None:
            if self._paced != self.size:  # asked in every pass: no call where it is known
                self._model_s(model)
            return max(0.0, (1.0 - self.fraction) / self._rate - (now - self.fraction_at))
        if self.fraction > 0.0:
            # Without a model the past is the best guide: the same speed as on average so far.
            took = self.fraction_at - self.started
            return max(0.0, took * (1.0 - self.fraction) / self.fraction - (now - self.fraction_at))
        return max(0.0, self.expected_end - now)

    def _model_s(self, model: Model) -> float:
        """By the model, at its present size: kept as well."""
        if self._paced != self.size:
            self._paced, self._time_s = self.size, model.time(self.size)
            self._rate = 1.0 / self._time_s
        return self._time_s

    def done(self, now: float) -> float:
        """The share of the work that is done, 0 to 1: known from the same as ``remaining_s``."""
        if not self.size:
            return 0.0
        since, before = self.fraction_at, self.fraction
        if self.spec.model is not None:
            whole = self._model_s(self.spec.model)
        elif before > 0.0:
            whole = (since - self.started) / before
        else:
            since, before = self.settled, self.used
            whole = self.spec.estimate(self.size)
        more = (now - since) / whole if whole > 0.0 else 0.0
        return min(1.0, max(0.0, before + more))

    def worked_s(self, now: float) -> float:
        """Seconds at its preferred size that it has computed for, by the clock and the ratios of its times."""
        if not self.size:
            return 0.0
        spec = self.spec
        since = max(0.0, now - self.settled)
        if self.size == spec.nodes.preferred or spec.walltime_s <= 0.0:
            return self.used * spec.walltime_s + since
        return spec.walltime_s * (self.used + since / self.estimate_s())

    def estimate_s(self) -> float:
        """By the user, at its present size: kept, as it is asked for again and again."""
        if self._sized != self.size:
            self._sized, self._whole_s = self.size, self.spec.estimate(self.size)
        return self._whole_s

    def over_why(self, now: float) -> str:
        """Why its walltime is over."""
        spec = self.spec
        if not self.epoch:
            return f"walltime of {spec.estimate(self.size):.6g} s is over"
        return (
            f"walltime of {spec.walltime_s:.6g} s on {count(spec.nodes.preferred, 'node')} is over: "
            f"{now - self.started:.6g} s with the sizes that it had"
        )

    def hear(self, now: float) -> None:
        """The job has reported from its loop: the longest gap between reports tells how long its steps are."""
        self.gap = max(self.gap, now - self.heard)
        self.heard = now

    def patience_s(self, now: float) -> float:
        """How long a job may well stay silent because it is inside a step: it answers between steps only."""
        return 3.0 * max(self.gap, now - self.heard)

    def settle(self, now: float, paused_s: float) -> None:
        """Book the share of work done at the present size up to ``now``, before the size changes; in
        ``paused_s`` of the time nothing was done."""
        elapsed = max(0.0, now - self.settled - paused_s)
        whole = self.estimate_s()
        self.used += elapsed / whole if whole > 0.0 else 1.0
        self.settled = now
        if self.spec.model is not None:
            computed = max(0.0, now - self.fraction_at - paused_s)
            self.fraction = min(1.0, self.fraction + computed / self._model_s(self.spec.model))
            self.fraction_at = now

    def narrow(self) -> None:
        """Its bounds end where its program can grow no further, or at the size that it has."""
        if 0 < self.growth_limit < self.bounds.max:
            self.bounds = self.bounds.up_to(max(self.growth_limit, self.size))

    def sleep(self, slots: Mapping[int, int], of_nodes: Mapping[int, int]) -> None:
        """Of these groups so many ranks are awake from now on. Of those that have all the slots of their node nothing
        is kept, nor of those that are gone."""
        groups = self.groups or {}
        awake = {**self.awake, **slots}
        self.awake = {
            number: count
            for number, count in awake.items()
            if number in groups and count < of_nodes.get(groups[number], 1)
        }

    def snapshot(self) -> dict[str, Any]:
        """Everything that is known of the job, comparable."""
        values = {name: getattr(self, name) for name in OF_JOB if name != "resize"}
        values["groups"] = dict(enumerate(NodeSet(self.nodes)) if self.groups is None else self.groups)
        values["awake"] = dict(self.awake)
        if self.resize is not None:
            values["resize"] = {name: getattr(self.resize, name) for name in OF_RESIZE}
        return values
