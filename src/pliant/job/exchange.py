"""Groups meet by what they leave for each other with the scheduler."""

from __future__ import annotations

from pliant.job.connection import Connection
from pliant.plan.join import JoinPlan
from pliant.protocol.messages import Put


def gather(connection: Connection, plan: JoinPlan, group: int, epoch: int) -> None:
    """Say that ``group`` is there; the plan's leader waits for all others, Stalled if they do not come in time."""
    if group != plan.leader:
        connection.send(Put(epoch, plan.up[group], "up"))
    elif plan.up:
        connection.fetch(epoch, plan.up.values(), f"groups {sorted(plan.up)} to start")
