"""How long jobs are left alone after a resize, and that somebody thinks of them then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pliant.core import records as r
from pliant_lab.injection.audit.amid import amid_s
from pliant_lab.injection.audit.violation import Violation

if TYPE_CHECKING:
    from pliant_lab.injection.world import World

LATE_S = 0.1


class Rests:
    """Of one controller."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._until: dict[int, float] = {}
        self._of_slots: set[int] = set()

    def know(self, record: r.ResizeOffered | r.ResizeDone | r.ResizeDeclined | r.ResizeFailed) -> None:
        if isinstance(record, r.ResizeOffered):
            if record.slots:
                self._of_slots.add(record.resize)
            return
        settings = self._world.settings
        done = isinstance(record, r.ResizeDone)
        if record.resize in self._of_slots and not isinstance(record, r.ResizeDeclined):
            return  # the policy has nothing to do with it
        self._until[record.job] = record.at + (settings.cooldown_s if done else settings.decline_backoff_s)

    def look(self, resumed_at: float) -> None:
        """When a job may be resized again, the policy is asked, as soon as there is something to decide; until
        ``resumed_at`` there was no controller."""
        world, core, state = self._world, self._world.head.cluster.core, self._world.head.cluster.core.state
        asked_at = max(world.policy.asked_at, resumed_at)
        # With an interval between passes there may be something to decide that the next one is for.
        later = (
            state.policy_failed
            or state.settings.pass_interval_s
            or amid_s(state)
            or not (state.nodes.free or state.waiting)
        )
        for number, until in list(self._until.items()):
            if world.clock.now <= until + amid_s(state) + LATE_S:
                continue
            del self._until[number]
            job = state.jobs.get(number)
            willing = job is not None and job.ending is None and job in state.elastic
            if willing and not (core.held or later) and asked_at < until - LATE_S:
                raise Violation(
                    "stuck", f"job {number} rests until {until:.3f} s, and nobody asks the policy"
                )
