"""Groups meet by what they leave for each other with the scheduler."""

from __future__ import annotations

from pliant.job.connection import Connection
from pliant.plan.join import JoinPlan, JoinStep
from pliant.protocol.messages import Put


def gather(connection: Connection, plan: JoinPlan, group: int, epoch: int) -> None:
    """Say that ``group`` is there; the plan's leader waits for all others, Stalled if they do not come in time."""
    if group != plan.leader:
        connection.send(Put(epoch, plan.up[group], "up"))
    elif plan.up:
        connection.fetch(epoch, plan.up.values(), f"groups {sorted(plan.up)} to start")


def port_of(connection: Connection, step: JoinStep, epoch: int) -> str:
    """Where the connecting group of a step meets those that accept it; Stalled if its turn does not come in time.

    A step takes up to the limit, and those who are in it see to that. Before this one there are as many as groups
    that accept, one after the other.
    """
    (found,) = connection.fetch(epoch, [step.key], f"the port at {step.key}", times=step.turn)
    return found
