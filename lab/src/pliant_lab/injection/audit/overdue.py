"""When a resize has taken too long, by what can be seen of the links: where agents outlive them, a job that nobody can
hear has its time anew when it can be heard again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pliant.core import records as r
from pliant.core.job import OpenResize, ScheduledJob
from pliant.core.settings import NEVER
from pliant.protocol import resizing
from pliant_lab.injection.audit.violation import Violation

if TYPE_CHECKING:
    from pliant_lab.injection.world import World

LATE_S = 0.1


class Overdue:
    """Of one controller."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._lost_at: dict[int, float] = {}
        """When jobs have last lost a node, of them or of their newcomers, and with it what they waited for there."""

    def know(self, record: r.NodesLost) -> None:
        for number, life in self._world.head.cluster.lives.items():
            if any(group.node in record.nodes for group in life.groups.values()):
                self._lost_at[number] = record.at

    def due(self, job: ScheduledJob, resize: OpenResize) -> float:
        """When something has to follow of its open resize."""
        head = self._world.head
        life = head.cluster.lives.get(job.id)
        if not self._world.outside.grace or life is None or (resize.stage, "Withdraw") in resizing.TABLE:
            return resize.deadline
        heard_since = self._lost_at.get(job.id, -NEVER)
        for group in life.alive():
            name = head.cluster.core.state.nodes.names[group.node]
            link = head.links.get(name)
            if link is None or not (link.open and link.ready and head.cluster.nodes.reaches(name)):
                return NEVER  # until the grace of the link is over
            heard_since = max(heard_since, link.since)
        span = head.cluster.core.state.settings.resize_deadline_s + job.patience_s(self._world.clock.now)
        return max(resize.deadline, heard_since + span)

    def look(self, resumed_at: float) -> None:
        """At all of them; until ``resumed_at`` there was no controller."""
        now = self._world.clock.now
        for job in self._world.head.cluster.core.state.resizing.values():
            resize = job.resize
            if resize is None or job.ending is not None:
                continue
            if max(self.due(job, resize), resumed_at) < now - LATE_S:
                raise Violation("stuck", f"resize {resize.id} is {resize.stage}, and its deadline is over")
