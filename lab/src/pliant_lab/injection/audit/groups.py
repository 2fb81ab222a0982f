"""How the groups of jobs come up: with a rank a slot, or one for all, and launched when all of them are there."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pliant.core import records as r
from pliant.history.audit import Audit
from pliant.model.jobs import JobState
from pliant.model.kinds import KINDS
from pliant.protocol import messages as m
from pliant_lab.injection.audit.violation import Violation

if TYPE_CHECKING:
    from pliant_lab.injection.world import World

HARMLESS = frozenset(
    {
        "malleable",
        "rigid",
        "silent",
        "deaf",
        "liar",
        "tasks",
        "places",
        "fails",
        "walltime",
        "cancel",
        "ended",
    }
)
"""What a job may have met whose groups come up all the same."""


class Groups:
    """Of all controllers of a world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._ranks = Counter[tuple[int, int]]()
        self._up: set[int] = set()

    def spawned(self, job: int, group: int) -> None:
        self._ranks[job, group] += 1

    def sized(self, order: m.StartGroup, name: str) -> None:
        """A group has the processes that its node has slots for."""
        if (node := self._world.roster.nodes.get(name)) is not None:
            count = self._processes(order.job, node.slots)
            if {*order.world.sizes} != {count}:
                raise Violation(
                    "wrong", f"job {order.job} has {order.world.sizes} ranks on nodes of {node.slots} slots"
                )

    def _processes(self, job: int, slots: int) -> int:
        return KINDS[self._world.ledger.specs_by_number[job].kind].processes(slots)

    def know(self, record: r.Record) -> None:
        if isinstance(record, r.JobLaunched | r.JobRunning):
            self._up.add(record.job)

    def add(self, record: r.Record, audit: Audit) -> None:
        self.know(record)
        match record:
            case r.JobLaunched():
                self._launched(record.job, audit.jobs[record.job].groups)
            case r.JobEnded(state=JobState.COMPLETED) if record.job not in self._up:
                raise Violation("lost", f"job {record.job} is over, and no record tells that it was launched")
            case _:
                pass

    def _launched(self, number: int, groups: dict[int, int]) -> None:
        """All its ranks have been started."""
        names = self._world.head.cluster.core.state.nodes.names
        for group, place in groups.items():
            node = self._world.roster.nodes.get(names[place])
            wanted = self._processes(number, node.slots) if node is not None else 0
            if self._ranks[number, group] < wanted and self._world.ledger.touched(number) <= HARMLESS:
                raise Violation(
                    "wrong",
                    f"job {number} is launched, and {self._ranks[number, group]} ranks of group {group} are there",
                )
