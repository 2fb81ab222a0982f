"""What a policy sees of a job."""

from __future__ import annotations

from typing import Protocol

from pliant.model.jobs import Bounds, JobSpec
from pliant.model.size_request import SizeRequest


class JobView(Protocol):
    """A pending or running job, read only."""

    @property
    def id(self) -> int:
        """Its number, in order of submission, from 1."""

    @property
    def spec(self) -> JobSpec:
        """All that its user said of it."""

    @property
    def bounds(self) -> Bounds:
        """The sizes, in nodes, that submission and program both allow."""

    @property
    def size(self) -> int:
        """Nodes in use; 0 while pending. When some were lost it may be a size that ``bounds`` do not allow."""

    @property
    def target(self) -> int:
        """The size that an outstanding resize leads to, else ``size``."""

    @property
    def offered_at(self) -> float | None:
        """When the outstanding resize was offered, if there is one."""

    @property
    def expected_end(self) -> float:
        """By the user's estimate, settled at each resize. In the past if the job has outrun it: then the job is
        expected to end now."""

    @property
    def promised(self) -> float | None:
        """The start that it was last promised, if any was."""

    @property
    def wish(self) -> SizeRequest | None:
        """What it has asked for itself and would still have: it is granted when the policy has decided, from what is
        free while no job waits. A policy may do more for it."""

    @property
    def fraction(self) -> float:
        """The share of its work that it has reported as done, 0 to 1; 0 if it reports nothing."""

    def remaining_s(self, now: float) -> float:
        """Seconds to its end at its present size: from progress, else the model, else the estimate."""

    def worked_s(self, now: float) -> float:
        """Seconds at its preferred size that it has computed for: by the clock and by how its times at other sizes
        compare with that, whatever its estimate. 0 while pending."""

    def done(self, now: float) -> float:
        """The share of its work that it has done, 0 to 1: from progress, else the model, else the estimate. 0 while
        pending; a job that has outrun what is known of it stays at 1."""
