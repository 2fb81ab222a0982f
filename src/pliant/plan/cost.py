"""What a resize costs, in seconds: asked by the pay-back test and by the simulator."""

from __future__ import annotations

import msgspec


class ResizeCost(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Coefficients of a linear model.

    A group takes ``start_s`` + ``start_each_s`` a group until it can be joined, while the job goes on;
    the job then stands still for ``blocked_s``, and for ``data_s`` more for each megabyte of its data that a
    node of the smaller side has to hold. Released nodes are free ``leave_s`` after that.
    ``answer_s`` is how long a job takes to reach its next reconfiguring point, ``end_s`` how long it takes
    from its last step until all of it has ended.
    The defaults are what the local provider shows on two busy cores.
    """

    start_s: float = 0.35
    start_each_s: float = 0.15
    blocked_s: float = 0.03
    leave_s: float = 0.1
    answer_s: float = 0.05
    end_s: float = 0.0
    data_s: float = 0.0

    def still_s(self, before: int, after: int, data_mb: float = 0.0) -> float:
        """How long a job with ``data_mb`` megabytes to redistribute stands still."""
        if not self.data_s:
            return self.blocked_s
        return self.blocked_s + self.data_s * data_mb / min(before, after)

    def expand_s(self, before: int, after: int, data_mb: float = 0.0) -> float:
        """From the offer to the moment the job computes on all its nodes."""
        starting = self.start_s + self.start_each_s * (after - before)
        return self.answer_s + starting + self.still_s(before, after, data_mb)

    def shrink_s(self) -> float:
        """From the offer to the moment the released nodes can be used by others; of a job with little data."""
        return self.answer_s + self.blocked_s + self.leave_s


INSTANT = ResizeCost(start_s=0.0, start_each_s=0.0, blocked_s=0.0, leave_s=0.0, answer_s=0.0)
"""Nothing but the work takes time: the usual assumption for traces of rigid jobs."""
