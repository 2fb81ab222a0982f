"""A core as tests drive it: commands come back, records go to a sink."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import job_says

from pliant.core import commands as c
from pliant.core import events as e
from pliant.core import records as r
from pliant.core.core import SchedulerCore
from pliant.core.settings import Settings
from pliant.policy.view import Policy


class Driven(SchedulerCore):
    """``tell`` is ``handle``, but gives the commands alone; ``sink`` gets each record."""

    def __init__(
        self,
        policy: Policy,
        settings: Settings | None = None,
        sink: Callable[[r.Record], object] = lambda _: None,
        *,
        fallback: Policy | None = None,
    ) -> None:
        super().__init__(policy, settings, fallback=fallback)
        self._sink = sink

    def tell(self, events: Iterable[e.Event], now: float) -> list[c.Command]:
        records, commands = self.handle(events, now)
        for record in records:
            self._sink(record)
        return commands

    def groups_on(self, number: int, *nodes: int) -> tuple[int, ...]:
        """The groups that job ``number`` has on these nodes."""
        return self.state.groups_on(self.state.jobs[number], sum(1 << node for node in nodes))

    def resized(self, number: int, resize: int, *left: int, blocked_s: float = 0.0) -> e.RootSaid:
        """The event that the job has done the resize and left these nodes."""
        job, gone = self.state.jobs[number], self.groups_on(number, *left)
        arriving = job.resize.arriving if job.resize is not None else ()
        staying = [n for n in [*self.state.groups(job), *(group.id for group in arriving)] if n not in gone]
        root = job.root if job.root in staying else staying[0]
        return job_says.resized(number, resize, gone, blocked_s, root=root)
