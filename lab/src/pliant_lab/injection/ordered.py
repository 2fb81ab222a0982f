"""What users and operators do to jobs in the world, whether it can be or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pliant.live.cluster import orders as o
from pliant.model.kinds import KINDS
from pliant.model.nodes import NodeSet
from pliant_lab.injection.drawn import draw_slots

if TYPE_CHECKING:
    from pliant.core.job import ScheduledJob
    from pliant_lab.injection.world import World

SLOTS = 0.6
"""The share of operators' orders that are of slots, where nodes have several."""


def cancel(world: World, job: int) -> list[int] | None:
    state = world.head.cluster.core.state
    jobs = [job] if job else list(state.jobs)
    if not jobs:
        return None
    if world.random.random() < 0.4:
        world.head.tell(o.Cancel(_nobody(world), "cancelled too late"))
    number = world.random.choice(jobs)
    world.ledger.touch(number, "cancel")
    world.head.tell(o.Cancel(number, "cancelled by its user"))
    return [number]


def _nobody(world: World) -> int:
    """The number of a job that has ended, or has never been."""
    state = world.head.cluster.core.state
    number = world.random.randint(1, state.last_job + 3)
    return number if number not in state.jobs else state.last_job + 3


def order(world: World, job: int) -> list[int] | None:
    """An operator resizes a job, or moves it: mostly one that can be, and to where it can go."""
    state, random = world.head.cluster.core.state, world.random
    jobs = [one for _, _, one in state.running if job in (0, one.id)]
    willing = [one for one in jobs if one.accepts_offers and one.resize is None]
    if not jobs or random.random() < 0.1:
        waiting = [each.id for each in state.queue]
        number = random.choice([_nobody(world), *waiting[:3]])
        world.outside.witness.order(o.Resize(number, random.choice([0, 1, 2])))
        return [job] if job else []
    chosen = random.choice(willing if willing and random.random() < 0.8 else jobs)
    groups = state.groups(chosen)
    if max(state.nodes.slots.values()) > 1 and random.random() < SLOTS:
        able = [one for one in willing if KINDS[one.spec.kind].sleeps]
        chosen = random.choice(able) if able and random.random() < 0.9 else chosen
        world.outside.witness.order(draw_slots(random, state, chosen))
        return [chosen.id]
    size, leave = _wish(world, chosen, groups)
    names = tuple(state.nodes.names[groups[number]] for number in leave)
    if names and random.random() < 0.1:
        names = (*names, random.choice(state.nodes.called(NodeSet(state.nodes.all_mask))))
    world.outside.witness.order(o.Resize(chosen.id, size, names))
    return [chosen.id]


def _wish(world: World, job: ScheduledJob, groups: dict[int, int]) -> tuple[int, tuple[int, ...]]:
    """A size, and groups that are to leave."""
    state, random = world.head.cluster.core.state, world.random
    fewer = [size for size in job.bounds.sizes() if size < job.size]
    more = [size for size in job.bounds.sizes() if 0 < size - job.size <= state.nodes.free]
    match random.choice(["root", "root", "root", "root", "fewer", "more", "let go", "any", "wrong"]):
        case "root" if state.nodes.free or fewer:
            others = [number for number in groups if number != job.root]
            if state.nodes.free:
                size = random.choice([0, job.size])
                most = min(len(others), random.choice([0, 0, 1, 9]), state.nodes.free - 1)
            else:
                size = random.choice(fewer)
                most = random.randint(0, job.size - size - 1)
            return size, (job.root, *random.sample(others, most))
        case "fewer" if fewer:
            return random.choice(fewer), ()
        case "more" if more:
            return random.choice(more), ()
        case "wrong":
            sizes = [job.bounds.max + 1, job.size, job.size + state.nodes.free + 1]
            without_root = random.random() < 0.5
            return random.choice([*more[:1], *sizes] if without_root else sizes), (job.root,) * without_root
        case "any":
            leave = tuple(random.sample([*groups], random.randint(0, len(groups))))
            return random.choice([0, job.size, *job.bounds.sizes()]), leave
        case _:
            return 0, ()
