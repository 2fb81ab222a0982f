"""What the simulator knows of a job that runs, and of nodes that one has left."""

from __future__ import annotations

from typing import NamedTuple

from pliant.core import commands as c
from pliant.core.state import State
from pliant.model.jobs import Bounds
from pliant.model.kinds import KINDS, Loss
from pliant.sim.checkpoints import START, Saved, Saving
from pliant.workloads.job import SimJob
from pliant.workloads.machine import Checkpoints


class RunningJob:
    """A job that has been started. ``left`` is the share of its work still to do at ``since``; it computes
    at rate 1 / ``whole``, or stands still if that is None. ``turn`` tells stale ends from the valid one, and
    ``epoch`` counts its resizes. ``held`` are the node-seconds it had held at ``held_at``.

    After a loss it goes on from ``saved``, and had held ``saved_held`` node-seconds there. ``saving`` are its
    checkpoints, if it writes some. ``asks_once``: a wish of its own is forgotten if it cannot be met at once."""

    __slots__ = (
        "accepted", "asks_once", "began", "epoch", "held", "held_at", "job", "left", "mask", "number", "offer", "phase",
        "saved", "saved_held", "saving", "since", "still_s", "turn", "whole",
    )  # fmt: skip

    def __init__(self, number: int, job: SimJob, mask: int, now: float) -> None:
        self.number = number
        self.job = job
        self.mask = mask
        self.left = 1.0
        self.phase = 0
        self.saved = START
        self.saved_held = 0.0
        self.saving: Saving | None = None
        self.began = self.since = self.held_at = now
        self.held = 0.0
        self.whole: float | None = None
        self.turn = 0
        self.epoch = 0
        self.still_s = 0.0
        self.offer: c.Offer | None = None
        self.accepted = False
        self.asks_once = False

    def time(self, nodes: int) -> float:
        """Seconds that ``whole`` stands for on ``nodes`` nodes."""
        return self.job.time(nodes)

    def advance(self, now: float) -> bool:  # noqa: ARG002 - for those that have phases
        """What there was to do is done at ``now``: whether there is more."""
        return False

    def wish(self) -> Bounds | None:
        """The sizes that the job itself wants, if not the present one."""
        return None

    def settle(self, now: float) -> None:
        """Book the work done up to ``now``."""
        if self.whole:  # what takes no time at all has nothing left
            passed = now - self.since
            if self.saving is not None:
                passed = self._save(self.saving, passed, self.whole)
            self.left = max(0.0, self.left - passed / self.whole)
        self.since = now

    def _save(self, saving: Saving, passed: float, whole: float) -> float:
        """Book the last checkpoint of the time that has passed: for how long of it the job has computed."""
        if written := saving.written(passed):
            self.saved = Saved(max(0.0, self.left - saving.computed(written) / whole), self.phase)
            before = self.since + written - self.held_at
            self.saved_held = self.held + self.mask.bit_count() * before
        computed = saving.computed(passed)
        saving.go(passed)
        return computed

    def lasts(self, whole: float) -> float:
        """How long what is left takes from now on, at the rate 1 / ``whole``."""
        seconds = self.left * whole
        return seconds if self.saving is None else self.saving.lasts(seconds)

    def hold(self, now: float) -> float:
        """The node-seconds held up to ``now``; to be asked before the nodes change."""
        self.held += self.mask.bit_count() * (now - self.held_at)
        self.held_at = now
        return self.held

    def write(self, plan: Checkpoints) -> None:
        """It writes checkpoints, if a loss would be its end."""
        if KINDS[self.job.spec.kind].loss is Loss.ENDS_JOB:
            self.saving = Saving(plan)

    def go_on(self, saved: Saved) -> None:
        """This is where it goes on, at present and after the next loss."""
        self.saved = saved
        self.left, self.phase = saved.left, saved.phase
        if self.saving is not None:
            self.saving.restart(saved)

    def losses(self, now: float) -> int:
        """How often it has lost nodes since what it would go on from was saved."""
        self.settle(now)
        return self.saved.vain

    def fall_back(self, now: float) -> float:
        """What was done since ``saved`` is lost: the node-seconds that were held in vain."""
        self.settle(now)
        vain = max(0.0, self.hold(now) - self.saved_held)
        self.saved_held = self.held
        self.go_on(self.saved._replace(vain=self.saved.vain + 1))
        return vain

    def lose(self, mask: int, now: float) -> bool:
        """These nodes are gone. What was to be done there others have to do, who then take longer, which is the
        answer; or it is lost, and makes no difference to them."""
        self.hold(now)
        self.mask &= ~mask
        others = self.saving is not None or KINDS[self.job.spec.kind].loss is Loss.IS_TOLD
        if self.whole is None or not others:
            return False
        self.settle(now)
        return True


class Former(NamedTuple):
    """The nodes that a job has left, until they are clean."""

    number: int
    mask: int
    turn: int = 0


class Follower(NamedTuple):
    """A job that is to be submitted, when its user has thought about the one before it."""

    job: SimJob
    number: int = 0
    turn: int = 0


class Requested:
    """``nodes`` nodes that were asked for are on their way."""

    __slots__ = ("nodes", "number", "turn")

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        self.number = self.turn = 0


def leaving(state: State, number: int, offer: c.Offer, released: int) -> tuple[tuple[int, ...], int]:
    """The groups that leave a job with these nodes, and the one that speaks for it then."""
    job = state.jobs[number]
    root = job.root
    if not released:
        return (), root
    left = state.groups_on(job, released)
    if root in left:
        root = next(
            number for number in [*state.groups(job), *(g.id for g in offer.arriving)] if number not in left
        )
    return left, root
