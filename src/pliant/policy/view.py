"""What a policy sees and what it may answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from pliant.model.jobs import Bounds, JobSpec
from pliant.plan.cost import ResizeCost


class Reason(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Why something was decided, as data: a code, the job it serves, and figures."""

    code: str
    for_job: int = 0
    figures: dict[str, float] = {}


class Start(msgspec.Struct, frozen=True, gc=False):
    """Start a pending job on ``size`` nodes."""

    job: int
    size: int
    reason: Reason


class Resize(msgspec.Struct, frozen=True, gc=False):
    """Offer a running job to go to ``size`` nodes."""

    job: int
    size: int
    reason: Reason


class Promise(msgspec.Struct, frozen=True, gc=False):
    """Tell a waiting job that it starts by ``at`` at the latest, as far as the estimates hold."""

    job: int
    at: float


Decision = Start | Resize | Promise


class JobView(Protocol):
    """A pending or running job, read only."""

    @property
    def id(self) -> int: ...
    @property
    def spec(self) -> JobSpec: ...
    @property
    def bounds(self) -> Bounds: ...
    @property
    def size(self) -> int:
        """Nodes in use; 0 while pending."""

    @property
    def target(self) -> int:
        """The size that an outstanding resize leads to, else ``size``."""

    @property
    def expected_end(self) -> float:
        """By the user's estimate, settled at each resize. In the past if the job has outrun it: then the job is
        expected to end now."""

    @property
    def promised(self) -> float | None:
        """The start that it was last promised, if any was."""

    def remaining_s(self, now: float) -> float:
        """Seconds to its end at its present size: from progress, else the model, else the estimate."""


class ClusterView(Protocol):
    """The cluster at one instant, read only, kept up to date by the core."""

    @property
    def now(self) -> float: ...
    @property
    def total(self) -> int:
        """Nodes that are not lost."""

    @property
    def free(self) -> int:
        """Nodes that can be given away at once."""

    @property
    def queue(self) -> Iterable[JobView]:
        """Pending jobs in order of submission."""

    @property
    def running(self) -> Sequence[tuple[float, int, JobView]]:
        """(expected end, number, job) in this order; their nodes are not yet given back. An end in the past
        stands for now."""

    @property
    def elastic(self) -> Iterable[JobView]:
        """Running jobs that the scheduler may resize now or later."""

    @property
    def cost(self) -> ResizeCost: ...

    def returning(self, job: int = 0) -> int:
        """Nodes on their way back: left by a job but not proved clean, or about to leave in a shrink.

        With ``job``, only those that come from the job of this number, which may have ended.
        """

    def resizable(self, job: JobView, *, grow: bool = False) -> bool:
        """Whether an offer can be made to this job now: none outstanding, cooled down, not pinned.

        With ``grow``, whether it may be one to grow: the core passes over those to a job whose resizes keep failing.
        """


class Policy(Protocol):
    """Anything with these two members is a policy.

    One that moves nodes between running jobs although none is free and nobody waits says so by a third,
    ``rebalances = True``: else such passes are skipped.
    """

    @property
    def name(self) -> str: ...

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        """All decisions of one scheduling pass."""


def rebalances(policy: Policy) -> bool:
    """Whether it wants passes in which nothing is free and nobody waits."""
    return bool(getattr(policy, "rebalances", False))
