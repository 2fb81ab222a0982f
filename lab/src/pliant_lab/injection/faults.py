"""What goes wrong in the world: each fault picks, by the world's random numbers, whom it meets."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import TYPE_CHECKING

from pliant.core.settings import NEVER
from pliant.live.cluster import orders as o
from pliant.live.node import messages as n
from pliant.model.deadlines import JOB_DEADLINE_S
from pliant.model.kinds import KINDS, Loss
from pliant.model.need import Need
from pliant.model.nodes import NodeSet
from pliant.protocol import resizing
from pliant_lab.injection import garbage
from pliant_lab.injection.ordered import cancel, order
from pliant_lab.injection.standins.node import Node
from pliant_lab.injection.standins.process import SIGKILL, Proc
from pliant_lab.injection.standins.running import own_words

if TYPE_CHECKING:
    from pliant_lab.injection.standins.driver import Link
    from pliant_lab.injection.world import World

STOPPED = 0.4
"""The share of agents that are asked to end, where others are killed."""
Fault = Callable[["World", int], list[int] | None]
"""Does its harm, to the job of this number if that is not 0, and gives the jobs that it met; None where there was
nobody to meet."""


def _busy(world: World, job: int) -> Node | None:
    nodes = [node for node in world.roster.nodes.values() if node.agent is not None and node.processes]
    if job:
        nodes = [node for node in nodes if any(proc.job == job for proc in node.processes.values())]
    return world.random.choice(nodes) if nodes else None


def _ranks(world: World, job: int) -> list[Proc]:
    """Those of jobs that are being resized before all others: there it hurts."""
    procs = [
        proc
        for node in world.roster.nodes.values()
        for proc in node.processes.values()
        if proc.program is not None and not proc.dying and job in (0, proc.job)
    ]
    inside = [proc for proc in procs if world.ledger.cells.stage(proc.job) != "none"]
    return inside if inside and world.random.random() < 0.7 else procs


def _link(world: World, job: int) -> Link | None:
    links = [link for link in world.head.links.values() if link.open and link.ready]
    if job:
        links = [link for link in links if any(proc.job == job for proc in link.node.processes.values())]
    return world.random.choice(links) if links else None


def _is_newcomer(world: World, job: int, group: int) -> bool:
    """Whether the group is none of the job's yet: a resize may be done that nobody has recorded."""
    state = world.head.cluster.core.state
    if (live := state.jobs.get(job)) is None or group in (groups := state.groups(live)):
        return False
    return all(proc.group not in groups or epoch <= live.epoch for proc, epoch in world.roster.epochs(job))


def _kill_rank(world: World, job: int) -> list[int] | None:
    procs = _ranks(world, job)
    if not procs:
        return None
    proc = world.random.choice(procs)
    newcomer = _is_newcomer(world, proc.job, proc.group)
    world.ledger.touch(proc.job, "newcomer killed" if newcomer else "rank killed")
    if not world.head.alive:
        world.ledger.touch(
            proc.job, "rank killed"
        )  # a newcomer may be a member by now, and nobody was there to record it
    proc.end(
        -SIGKILL
    )  # one that hangs in the kernel for good, and nobody knows, is nothing to be seen from outside
    return [proc.job]


def _leave_rank(world: World, job: int) -> list[int] | None:
    """A rank ends with 0 between MPI_Init and MPI_Finalize."""
    procs = [proc for proc in _ranks(world, job) if proc.in_mpi]
    if not procs:
        return None
    proc = world.random.choice(procs)
    live = world.head.cluster.core.state.jobs.get(proc.job)
    if _is_newcomer(world, proc.job, proc.group):
        world.ledger.touch(proc.job, "newcomer killed")
    elif live is not None and live.resize is None:
        world.ledger.leaves_early(proc.job)
    else:  # it may just have been released
        world.ledger.touch(proc.job, "rank killed")
    proc.end(0)
    return [proc.job]


def _on(node: Node) -> list[int]:
    return sorted({proc.job for proc in node.processes.values()})


def _touch_node(world: World, node: Node, what: str) -> list[int]:
    """All jobs that hold the node, or come to it before it is known to be lost."""
    world.ledger.touch_node(node.name, what)
    for proc in node.processes.values():
        if _is_newcomer(world, proc.job, proc.group):
            world.ledger.touch(proc.job, "newcomer killed")
    return _on(node)


def _kill_agent(world: World, job: int) -> list[int] | None:
    if (node := _busy(world, job)) is None:
        return None
    jobs = _touch_node(world, node, "agent killed")
    if node.agent is not None and world.random.random() < STOPPED:
        node.agent.tell(n.StopAsked(world.random.choice(["", "a defect"])))
    else:
        node.kill_agent()
    return jobs


def _cut_link(world: World, job: int) -> list[int] | None:
    if (link := _link(world, job)) is None:
        return None
    if world.outside.grace:
        return _cut(world, link, 0.0)
    jobs = _touch_node(world, link.node, "link cut")
    for wire in world.random.sample([link.up, link.down], 2):  # either end may be the first to notice
        wire.cut()
    return jobs


def _cut_off(world: World, job: int) -> list[int] | None:
    """A link is cut, and for a while there is no other: now and then for longer than anybody waits."""
    if (link := _link(world, job)) is None:
        return None
    return _cut(world, link, world.random.choice([1.0, world.random.uniform(0.0, 1.5 * world.outside.grace)]))


def _cut(world: World, link: Link, seconds: float) -> list[int]:
    link.node.cut_off_until = world.clock.now + seconds
    if seconds > min(world.outside.grace, JOB_DEADLINE_S) - 3.0:  # ranks wait for each other no longer
        jobs = _touch_node(world, link.node, "link cut")
    else:
        world.ledger.touch_node(link.node.name, "link lost")
        jobs = _on(link.node)
    link.up.cut()
    link.down.cut()
    return jobs


def _slow_link(world: World, job: int) -> list[int] | None:
    if (link := _link(world, job)) is None:
        return None
    link.up.latency_s = link.down.latency_s = world.random.uniform(0.05, 1.0)
    return _touch_node(world, link.node, "slow link")


def _stall_link(world: World, job: int) -> list[int] | None:
    """The peer of a SIGSTOP: now and then for so long that it is taken for dead; or orders alone do not arrive."""
    if (link := _link(world, job)) is None:
        return None
    jobs = _touch_node(world, link.node, "link stalled")
    seconds = world.random.choice([1.0, 5.0, 20.0, 60.0, 200.0, 200.0])
    link.down.stall(seconds)
    if seconds < 100.0:
        link.up.stall(seconds)
    return jobs


def _refuse_exec(world: World, job: int) -> list[int] | None:
    """For a while no program can be started on a node: its disk is gone, say."""
    node = _busy(world, job) or world.random.choice(list(world.roster.nodes.values()))
    world.ledger.refuse(node.name, world.random.uniform(1.0, 20.0))
    return _on(node)


def _hang(world: World, job: int) -> list[int] | None:
    """For a while the kernel of a node answers nobody who starts a program or looks for processes."""
    node = _busy(world, job) or world.random.choice(list(world.roster.nodes.values()))
    seconds, scans = world.random.choice([(2.5, True), (40.0, False), (200.0, True)])
    world.ledger.hang(node.name, seconds, scans=scans)
    return _touch_node(world, node, "hung for long" if scans and seconds > 3.0 else "hung")


def _undead(world: World, job: int) -> list[int] | None:
    """A process that not even SIGKILL removes, for a while or for good."""
    procs = _ranks(world, job)
    if not procs:
        return None
    proc = world.random.choice(procs)
    proc.undead = world.clock.now + world.random.choice([1.0, 10.0, 1e9])
    world.ledger.touch_node(proc.node.name, "undead")
    return [proc.job]


def _escape(world: World, job: int) -> list[int] | None:
    """A rank leaves a daemon behind, which has nothing of its parent but the cookie; not even SIGKILL removes some."""
    procs = _ranks(world, job)
    if not procs:
        return None
    proc = world.random.choice(procs)
    daemon = world.roster.nodes[proc.node.name].new_process(proc.job, proc.group, -1)
    if world.random.random() < 0.3:
        daemon.undead = world.clock.now + 1e9
        world.ledger.touch_node(proc.node.name, "undead")
    return [proc.job]


def _kill_head(world: World, job: int) -> list[int] | None:
    running = [number for _, number, _ in world.head.cluster.core.state.running]
    world.head_killed()
    return [job] if job else running


def _kill_head_twice(world: World, job: int) -> list[int] | None:
    """Again when it has just begun, while it hears what there is."""
    world.kill_again_s = world.random.choice([0.0, 0.3, 1.0]) * world.random.random()
    return _kill_head(world, job)


def _while_down(fault: Fault) -> Fault:
    """The controller is killed, and before there is another one this happens."""

    def both(world: World, job: int) -> list[int] | None:
        met = _kill_head(world, job)
        wait_s = world.random.uniform(0.001, 0.1)
        world.clock.later(wait_s, lambda: None if world.head.alive else world.outside.note(fault(world, job)))
        return met

    return both


def _lose_node(world: World, job: int) -> list[int] | None:
    """All that is there is gone at once, and for a while, or for good, nothing can be started."""
    if (node := _busy(world, job)) is None:
        return None
    jobs = _touch_node(world, node, "node lost")
    node.lose(world.random.choice([1.0, 30.0, 1e9]))
    return jobs


def _early_agent(world: World, job: int) -> list[int] | None:
    """An agent is killed and started again by others, before its ranks are dead."""
    if (node := _busy(world, job)) is None:
        return None
    jobs = _touch_node(world, node, "agent killed")
    for proc in node.processes.values():
        proc.undead = max(proc.undead, world.clock.now + world.random.choice([0.5, 1.5, 10.0]))
        world.ledger.touch_node(node.name, "undead")
    node.kill_agent()
    if world.outside.grace:
        world.clock.later(world.random.uniform(0.0, 0.3), node.begin_agent)
    return jobs


def _fill_disk(world: World, job: int) -> list[int] | None:
    if world.head.disk.full:
        return None
    world.fill_disk(world.random.uniform(0.5, 10.0))
    return [job] if job else []


def _break_policy(world: World, job: int) -> list[int] | None:
    met = [job] if job else []
    broken, world.policy.broken = world.policy.broken, True
    return None if broken else met


def _lose_reserved(world: World, job: int) -> list[int] | None:
    """A node that is reserved for the newcomers of a resize is lost, which takes the resize back."""
    state = world.head.cluster.core.state
    numbers = [job] if job in state.resizing else list(state.resizing)
    for number in numbers:
        resize = state.jobs[number].resize
        for group in resize.arriving if resize is not None else ():
            node = world.roster.nodes.get(state.nodes.names[group.node])
            if node is not None and node.agent is not None and resize is not None and resize.nodes:
                _touch_node(world, node, "agent killed")
                world.ledger.touch(number, "newcomer killed")
                node.kill_agent()
                return [number]
    return None


def _lose_member(world: World, job: int) -> list[int] | None:
    """A group is lost, by itself or with its node, to a job that can go on without it."""
    state = world.head.cluster.core.state
    for _, number, one in state.running:
        if job not in (0, number) or KINDS[one.spec.kind].loss is Loss.ENDS_JOB or one.size < 2:
            continue
        if world.random.random() < FORGOTTEN:  # the next controller has to tell of it, too
            world.clock.later(world.random.uniform(0.0, 2.0), world.kill_soon)
        group = world.random.choice([group for group in state.groups(one) if group != one.root])
        node = world.roster.nodes.get(state.nodes.names[state.groups(one)[group]])
        procs = [
            each
            for each in (node.processes if node else {}).values()
            if (each.job, each.group) == (number, group)
        ]
        if node is None or node.agent is None or not procs:
            continue
        if world.random.random() < 0.5:
            jobs = _touch_node(world, node, "agent killed")
            node.kill_agent()
            return jobs
        world.ledger.touch(number, "rank killed")
        world.random.choice(procs).end(-SIGKILL)
        return [number]
    return None


def _cut_places(world: World, job: int) -> list[int] | None:
    """The connection between two places of a job breaks: one of them is given up, which is not place 0."""
    procs: dict[int, list[Proc]] = {}
    for node in world.roster.nodes.values():
        for proc in node.processes.values():
            places = proc.program is not None and own_words(proc.argv)[0] == "places" and not proc.dying
            if places and job in (0, proc.job):
                procs.setdefault(proc.job, []).append(proc)
    for number, some in procs.items():
        for one, two in combinations(world.random.sample(some, len(some)), 2):
            if one.program is not None and two.program is not None and one.program.cut(two.program):
                world.ledger.touch(number, "places cut")
                return [number]
    return None


def _garbage(world: World, job: int) -> list[int] | None:
    """What is no message at all, or should not be said."""
    procs = [proc for proc in _ranks(world, job) if proc.rank == 0]
    if not procs:
        return None
    proc = world.random.choice(procs)
    link = world.head.links.get(proc.node.name)
    garbage.to_agent(world, proc)
    garbage.of_nodes(world)
    if link is not None and link.open and link.ready:
        garbage.up(world, link)
        garbage.down(world, link)
    return [proc.job]


def _waits_for(proc: Proc, what: str) -> bool:
    wait = proc.program.waiting if proc.program is not None else None
    return wait is not None and what in wait.what


def _in_fence(world: World, job: int) -> list[int] | None:
    """A node is lost while ranks of a world wait for each other."""
    state = world.head.cluster.core.state
    for one in [state.jobs.get(job)] if job else [each for _, _, each in state.running]:
        arriving = one.resize.arriving if one is not None and one.resize is not None else ()
        there = state.groups(one) if one is not None and one.size else {}
        for group, number in (*there.items(), *((each.id, each.node) for each in arriving)):
            node = world.roster.nodes.get(state.nodes.names[number])
            procs = node.processes.values() if node is not None and node.agent is not None else ()
            mine = (proc for proc in procs if one is not None and (proc.job, proc.group) == (one.id, group))
            if node is not None and any(_waits_for(proc, "MPI_Init") for proc in mine):
                jobs = _touch_node(world, node, "agent killed")
                node.kill_agent()
                return jobs
    return None


def _ask_for_nodes(world: World, _job: int) -> list[int] | None:
    world.head.tell(o.Ask(world.random.randint(1, 3), world.needs.choice(NEEDS)))
    if world.random.random() < FORGOTTEN:
        world.clock.later(world.random.uniform(0.0, 0.2), world.kill_soon)
    return []


def _withdraw_nodes(world: World, _job: int) -> list[int] | None:
    """Nodes that were asked for are not wanted any more: before they have come, as they come, or too late."""
    asked = world.random.randint(1, 3)
    world.head.tell(o.Ask(asked, world.needs.choice(NEEDS)))
    less = o.AskLess(world.random.randint(1, asked + 1))
    world.clock.later(world.random.choice([0.0, 0.01, 0.2, 0.4, 5.0]), lambda: world.head.tell(less))
    return []


NEEDS = (None, None, None, Need(labels=("odd",)), Need(2), Need(1, ("odd",)), Need(1, ("even",)))
"""What nodes have to have that are asked for: none is labelled even."""
FORGOTTEN = 0.2
"""The share of times when the controller is killed before the nodes have come that it asked for."""


def _reclaim(world: World, _job: int) -> list[int] | None:
    """The provider wants a node back; one that is in use when nobody uses it any more."""
    nodes = world.head.cluster.core.state.nodes
    names = nodes.called(NodeSet(nodes.all_mask & ~nodes.reclaimed_mask & ~nodes.lost_mask))
    wide = max(spec.nodes.min for spec in world.specs)
    if len(names) <= max(3, wide):
        return None
    world.head.tell(o.Reclaim((world.random.choice(names),)))
    return []


LEFT_S = (0.0, 10.0, 16.0, 40.0, 130.0, 400.0)
"""So long nodes are still there that get an end, or are asked back by a time: some are over before they are told."""


def _expire(world: World, _job: int) -> list[int] | None:
    """The provider says that a node will be gone then."""
    if (name := _of_enough(world)) is None:
        return None
    world.head.tell(o.Granted((name,), (world.roster.nodes[name].slots,), world.random.choice(LEFT_S)))
    return _touch_node(world, world.roster.nodes[name], "expired")


def _reclaim_by(world: World, _job: int) -> list[int] | None:
    """The provider wants a node back by then, whoever is there."""
    if (name := _of_enough(world)) is None:
        return None
    world.head.tell(o.Reclaim((name,), world.random.choice(LEFT_S)))
    return _touch_node(world, world.roster.nodes[name], "expired")


def _of_enough(world: World) -> str | None:
    """A node that stays, where there are more of these than the widest job needs."""
    state = world.head.cluster.core.state
    staying = (
        state.nodes.all_mask
        & ~state.nodes.reclaimed_mask
        & ~state.nodes.lost_mask
        & ~state.nodes.expired_by(NEVER)
    )
    names = [
        state.nodes.names[number]
        for number in NodeSet(staying)
        if state.nodes.names[number] in world.roster.nodes
    ]
    wide = max(spec.nodes.min for spec in world.specs)
    return world.random.choice(names) if len(names) > max(3, wide) else None


def _take_away(world: World, _job: int) -> list[int] | None:
    """The provider takes a node away that nobody has given back."""
    nodes = world.head.cluster.core.state.nodes
    names = nodes.called(NodeSet(nodes.all_mask))
    there = [name for name in names if (link := world.head.links.get(name)) is not None and link.ready]
    if world.outside.grace or len(there) <= max(3, *(spec.nodes.min for spec in world.specs)):
        return None
    node = world.roster.nodes[world.random.choice(there)]
    jobs = _touch_node(world, node, "agent killed")
    world.head.driver.take_away(node.name)
    return jobs


FEWEST = 5
"""So many faults a world meets before its user ends it."""


def _end_all(world: World, job: int) -> list[int] | None:
    """The user has enough of it."""
    running = [number for _, number, _ in world.head.cluster.core.state.running]
    if len(running) < 2 or world.ledger.met.total() < FEWEST:
        return None
    world.end_all()
    return [job] if job else running


FENCE_S, LOOKS = 0.02, 100
"""So often, and so many times, it is looked whether somebody is in a fence."""


FAULTS: dict[str, Fault] = {
    "kill-rank": _kill_rank,
    "leave-rank": _leave_rank,
    "kill-agent": _kill_agent,
    "kill-head": _kill_head,
    "kill-head-twice": _kill_head_twice,
    "agent-while-down": _while_down(_kill_agent),
    "node-while-down": _while_down(_lose_node),
    "rank-while-down": _while_down(_kill_rank),
    "early-agent": _early_agent,
    "early-agent-while-down": _while_down(_early_agent),
    "lose-node": _lose_node,
    "cut-link": _cut_link,
    "cut-off": _cut_off,
    "slow-link": _slow_link,
    "stall-link": _stall_link,
    "refuse-exec": _refuse_exec,
    "hang": _hang,
    "undead": _undead,
    "escape": _escape,
    "fill-disk": _fill_disk,
    "break-policy": _break_policy,
    "cancel": cancel,
    "order": order,
    "garbage": _garbage,
    "lose-reserved": _lose_reserved,
    "lose-member": _lose_member,
    "cut-places": _cut_places,
    "ask-for-nodes": _ask_for_nodes,
    "withdraw-nodes": _withdraw_nodes,
    "reclaim": _reclaim,
    "expire": _expire,
    "reclaim-by": _reclaim_by,
    "take-away": _take_away,
    "kill-in-fence": _in_fence, "end-all": _end_all,
}  # fmt: skip

MEANWHILE = frozenset(
    {
        "kill-rank",
        "leave-rank",
        "kill-agent",
        "lose-node",
        "early-agent",
        "refuse-exec",
        "hang",
        "undead",
        "escape",
    }
)
"""Faults that come as well while there is no controller."""
AT_ONCE = frozenset({("cut-places", resizing.CROSSED)})
"""Faults that few jobs can meet in a state that is over at once: they come at the moment when a job comes to it."""
