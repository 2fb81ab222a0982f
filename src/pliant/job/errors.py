"""What can go wrong between a job's process and its agent."""

from __future__ import annotations

from pliant.model.errors import PliantError
from pliant.protocol.phases import Phase

DESCRIPTORS = 32
"""MPI opens some for each newcomer, more with the one network than with the other. UCX crashes where none is free."""
FEW_DESCRIPTORS = (
    f"a rank of the job has fewer than {DESCRIPTORS} free file descriptors, and to connect newcomers takes some: close "
    "files, or raise the limit (ulimit -n)"
)


class Stalled(PliantError):  # noqa: N818
    """Something that others had to do did not happen in time, which is ``times`` the limit."""

    def __init__(self, what: str, seconds: float, times: float = 1, phase: Phase | None = None) -> None:
        where = f", in the phase {phase} of a resize" if phase is not None else ""
        limit = f"{times:.2g} times PLIANT_DEADLINE" if times != 1 else "PLIANT_DEADLINE"
        super().__init__(
            f"waited {seconds:g} s for {what}{where}; the peers are lost or very slow "
            f"(the limit is {limit}, in seconds)"
        )


class AgentLost(PliantError):  # noqa: N818
    """The agent is gone, and with it the scheduler: nothing more will be heard."""

    def __init__(self, group: int, node: str, why: str) -> None:
        super().__init__(f"group {group} on {node} lost its agent: {why}")
