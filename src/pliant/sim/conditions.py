"""What a simulation goes by, and what it comes to."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from pliant.core.settings import Settings
from pliant.history.energy import Power
from pliant.model.bookings import Booking
from pliant.sim.instant import Instant
from pliant.workloads.failures import Failures
from pliant.workloads.job import SimJob
from pliant.workloads.machine import Checkpoints


class SimEnd(NamedTuple):
    """``jobs`` jobs were simulated until ``at`` seconds, in ``calls`` calls of the core.

    ``node_failures`` times a node has failed, and ``requeued`` times a job was submitted again, as it lost
    one or its nodes expired.
    ``lost_node_s`` are the node-seconds that jobs had held when a failing node ended them, or set them back to a
    checkpoint: with these, those held since the last. ``reserved_node_s`` of them had advance reservations, and
    ``reserved_late_node_s`` they did not have when they should. The last are those of ``history.energy.Use``, None
    where nobody has said what nodes draw.
    """

    at: float
    jobs: int
    calls: int
    node_failures: int = 0
    requeued: int = 0
    lost_node_s: float = 0.0
    reserved_node_s: float = 0.0
    reserved_late_node_s: float = 0.0
    energy_kwh: float | None = None
    off_node_h: float | None = None
    boots: int | None = None


class Neighbour(Protocol):
    """A simulator beside others, as these see it."""

    @property
    def busy(self) -> bool:
        """Whether a job runs, or will be submitted."""

    def come(self, job: SimJob, at: float) -> None:
        """The job is to be submitted to it at ``at`` seconds."""


class Neighbourhood:
    """Which of ``count`` simulators beside each other this is, and what they share: ``numbers`` for jobs, and the jobs
    that follow others, by the name of those, each with where it is to be submitted. ``first`` is the first of its
    nodes, and ``others`` are all that belong to it."""

    def __init__(
        self, index: int = 0, count: int = 1, first: int = 0, before: Neighbourhood | None = None
    ) -> None:
        self.index = index
        self.count = count
        self.first = first
        self.numbers: Iterator[int] = itertools.count(1) if before is None else before.numbers
        self.followers: dict[str, list[tuple[Neighbour, SimJob]]] = {} if before is None else before.followers
        self.others: list[Neighbour] = [] if before is None else before.others

    def expect(self, simulator: Neighbour, jobs: Iterable[SimJob]) -> None:
        """Those of ``jobs`` that follow others are to be submitted to this simulator."""
        for job in jobs:
            if job.after:
                self.followers.setdefault(job.after, []).append((simulator, job))


class Conditions(NamedTuple):
    """What a simulation goes by, beside its jobs, nodes and policy.

    ``starting``: a job computes only after its groups have started, at the cost of the settings. ``instant``
    is the order in which events of one instant reach the core. With ``failures`` nodes fail and return, until
    all jobs have ended. With ``checkpoints`` jobs write these, and go on from them. ``neighbourhood``: it is one of
    several beside each other. ``bookings``: nodes are reserved in advance, which the policy has to know. ``power`` is
    what a node draws, and whether nodes are switched off: what starts on such waits until they are up.
    """

    settings: Settings = Settings()
    starting: bool = False
    instant: Instant = Instant.TOGETHER
    failures: Failures | None = None
    checkpoints: Checkpoints | None = None
    neighbourhood: Neighbourhood | None = None
    bookings: Sequence[Booking] = ()
    power: Power | None = None


PLAIN = Conditions()
