"""The core's patience: part of a journal, as the records are read by it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from pliant.model.batch import ClusterSpec
from pliant.model.jobs import JobSpec
from pliant.model.need import Pool
from pliant.plan.cost import ResizeCost

NEVER = float("inf")
TURN_S = 1.0
"""Nodes that come one after the other have this much less in common, beside the delay of the last."""
ORDERLY_S = 10.0
"""What a run, or a node, gets to end in good order, beside what jobs get."""
DOUBLINGS = 6
"""A job whose resizes keep failing waits up to 2 ** DOUBLINGS times as long before it may grow."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The core's patience, in seconds.

    ``cooldown_s`` is the least time between two resizes of a job, ``decline_backoff_s`` the least time
    between a refusal or a failure and the next offer; with each further failure in a row the next growth waits
    twice as long, up to 64 times as long, until a resize is done. An offer not answered within
    ``offer_deadline_s`` is withdrawn, an accepted resize not done within ``resize_deadline_s`` called off; a
    job that does not answer that within as long again is ended. All three allow three steps more, as long as
    the job's longest so far. ``kill_grace_s`` is what a job that is ended gets between SIGTERM and SIGKILL.
    Scheduling passes are made at multiples of ``pass_interval_s`` only; 0 makes one whenever one may matter.
    What users have used is halved every ``half_life_s``; 0 leaves that to the policy, and none is followed if it does
    not ask (``policy.view.half_life_s``). With a ``pool`` the policy may ask for nodes and give them back.
    """

    cooldown_s: float = 2.0
    decline_backoff_s: float = 5.0
    offer_deadline_s: float = 20.0
    resize_deadline_s: float = 30.0
    kill_grace_s: float = 5.0
    pass_interval_s: float = 0.0
    half_life_s: float = 0.0
    pool: Pool | None = None
    cost: ResizeCost = ResizeCost()


def end_of(until: float, settings: Settings) -> float:
    """When jobs are ended on nodes that expire then."""
    return until - settings.kill_grace_s - ORDERLY_S


def lease_s(settings: Settings) -> float:
    """For how long jobs can run on nodes that come by request, where all that one needs do not come at once."""
    pool = settings.pool
    return NEVER if pool is None else max(0.0, end_of(pool.lease_s, settings) - pool.delay_s - TURN_S)


def leaving_s(settings: Settings) -> float:
    """So long before that jobs are asked to leave them, if they take no long steps: a resize that is under way ends
    first, and one that comes to nothing is tried again."""
    return 2.0 * (settings.offer_deadline_s + settings.resize_deadline_s) + max(
        settings.cooldown_s, settings.decline_backoff_s
    )


def patient(settings: Settings, nodes: int, most_mb: float = 0.0, beside_s: float = 0.0) -> Settings:
    """The same where nobody has stated a deadline for resizes, on a machine of ``nodes`` nodes: no growth is called off
    before it has taken twice what the largest costs, with ``most_mb`` megabytes that a node has to hold, and
    ``beside_s`` for what no cost has, as nodes that have to boot first."""
    longest_s = 2.0 * (settings.cost.expand_s(1, nodes, most_mb) + beside_s)
    return msgspec.structs.replace(settings, resize_deadline_s=max(settings.resize_deadline_s, longest_s))


def most_mb(specs: Iterable[JobSpec]) -> float:
    """The most megabytes that a node may have to hold when one of these jobs is resized."""
    return max((spec.data_mb / spec.nodes.min for spec in specs), default=0.0)


def batch_settings(
    cluster: ClusterSpec, cost: ResizeCost | None = None, jobs: Iterable[JobSpec] = ()
) -> Settings:
    """The settings with those that a batch states; ``cost`` is what resizes cost, if known, and ``jobs`` what may be
    resized."""
    stated = {
        "cooldown_s": cluster.cooldown_s,
        "resize_deadline_s": cluster.resize_deadline_s,
        "pass_interval_s": cluster.pass_interval_s,
        "cost": cost,
    }
    known = {name: value for name, value in stated.items() if value is not None}
    settings = msgspec.structs.replace(Settings(), **known)
    return (
        settings if cluster.resize_deadline_s is not None else patient(settings, cluster.nodes, most_mb(jobs))
    )
