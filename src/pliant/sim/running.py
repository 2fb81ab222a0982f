"""What the simulator knows of a job that runs, and of nodes that one has left."""

from __future__ import annotations

from typing import NamedTuple

from pliant.core import commands as c
from pliant.model.jobs import Bounds
from pliant.model.kinds import KINDS, Loss
from pliant.workloads.job import SimJob


class RunningJob:
    """A job that has been started. ``left`` is the share of its work still to do at ``since``; it computes
    at rate 1 / ``whole``, or stands still if that is None. ``turn`` tells stale ends from the valid one.
    ``held`` are the node-seconds it had held at ``held_at``."""

    __slots__ = (
        "accepted", "began", "held", "held_at", "job", "left", "mask", "number", "offer", "since", "still_s", "turn",
        "whole",
    )  # fmt: skip

    def __init__(self, number: int, job: SimJob, mask: int, now: float) -> None:
        self.number = number
        self.job = job
        self.mask = mask
        self.left = 1.0
        self.began = self.since = self.held_at = now
        self.held = 0.0
        self.whole: float | None = None
        self.turn = 0
        self.still_s = 0.0
        self.offer: c.Offer | None = None
        self.accepted = False

    def time(self, nodes: int) -> float:
        """Seconds that ``whole`` stands for on ``nodes`` nodes."""
        return self.job.time(nodes)

    def advance(self) -> bool:
        """What there was to do is done: whether there is more."""
        return False

    def wish(self) -> Bounds | None:
        """The sizes that the job itself wants, if not the present one."""
        return None

    def settle(self, now: float) -> None:
        """Book the work done up to ``now``."""
        if self.whole is not None:
            self.left = max(0.0, self.left - (now - self.since) / self.whole)
        self.since = now

    def hold(self, now: float) -> float:
        """The node-seconds held up to ``now``; to be asked before the nodes change."""
        self.held += self.mask.bit_count() * (now - self.held_at)
        self.held_at = now
        return self.held

    def lose(self, mask: int, now: float) -> bool:
        """These nodes are gone. What was to be done there others have to do, who then take longer, which is the
        answer; or it is lost, and makes no difference to them."""
        self.hold(now)
        self.mask &= ~mask
        if self.whole is None or KINDS[self.job.spec.kind].loss is not Loss.IS_TOLD:
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
