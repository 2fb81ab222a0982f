"""A resize by MPI alone, as it is carried out: what is started, who takes part in what follows, and who stays.

Expansions, replacements and shrinks are one thing here: some are started and join, the data moves, and some leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pliant.plan.shrink import ShrinkPlan, SpawnedWorld, born
from pliant.plan.spawn import Method, SpawnPlan


class WorldChange(NamedTuple):
    """``spawn`` comes first, if it is there. Then the sources are joined with what was started, which has the ranks
    behind them; ``stays`` are the sources that go on. ``after``: the job's worlds then, in the order of its ranks."""

    sources: int
    spawn: SpawnPlan | None
    stays: tuple[int, ...]
    after: tuple[SpawnedWorld, ...]

    @property
    def targets(self) -> tuple[int, ...]:
        """Those that go on, by their ranks among all that are joined."""
        spawned = self.spawn.spawned if self.spawn else 0
        return (*self.stays, *range(self.sources, self.sources + spawned))

    @property
    def is_nothing(self) -> bool:
        return self.targets == tuple(range(self.sources))


def grown(worlds: Sequence[SpawnedWorld], plan: SpawnPlan) -> WorldChange:
    """All that ``plan`` starts comes, to the job's ``worlds`` (Merge) or in their place (Baseline). Ids are never used
    again."""
    merge = plan.method is Method.MERGE
    new = born(plan, 1 + max((world.id for world in worlds), default=-1))
    stays = tuple(range(plan.sources)) if merge else ()
    return WorldChange(plan.sources, plan, stays, (*worlds, *new) if merge else new)


def shrunk(worlds: Sequence[SpawnedWorld], plan: ShrinkPlan) -> WorldChange:
    """What ``plan`` gives back of the job's ``worlds`` goes."""
    fates = {fate.world: fate for fate in plan.fates}
    ranks = [(world.id, rank) for world in worlds for rank in world.awake]
    stays = tuple(number for number, (world, rank) in enumerate(ranks) if rank in fates[world].stays)
    return WorldChange(len(ranks), plan.respawn, stays, plan.after)
