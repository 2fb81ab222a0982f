"""A newcomer's part in an expansion: it starts others if it is to, joins those that were started with it, and then all
of them join the sources."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from pliant.job.errors import Stalled
from pliant.job.spawning import messages as m
from pliant.job.spawning import operations as o
from pliant.job.spawning.clock import PhaseClock
from pliant.job.spawning.sources import Expanded, finish
from pliant.job.spawning.spawn_tree import SpawnTreeNode
from pliant.model.errors import PliantError
from pliant.plan.connect import ConnectionPlan, connection_plan, new_rank
from pliant.plan.spawn import SpawnPlan
from pliant.protocol.phases import Phase

T = TypeVar("T")


class CalledOff(PliantError):  # noqa: N818 - what has become of an expansion
    """A newcomer is not needed, and its process ends; not as a failure, which would take the job with it."""

    def __init__(self) -> None:
        super().__init__("the expansion was called off")


class Arrival(NamedTuple):
    """A newcomer that has started those that it is to. ``ports``: those that it has opened, by their keys."""

    kin: SpawnTreeNode
    own: o.Comm
    parent: o.Comm
    briefing: m.Briefing
    plan: SpawnPlan
    connections: ConnectionPlan
    ports: dict[str, str]
    clock: PhaseClock


def begin(parent: o.Comm, clock: PhaseClock) -> o.Steps[Arrival]:
    """Start others, if this newcomer is to: they come up while it does what it has to do before it can be joined."""
    yield o.Reach(Phase.PREPARE)
    own, briefing = yield from _unneeded(_briefed(parent))
    plan = briefing.plan()
    connections = connection_plan(len(plan.calls), briefing.epoch)
    ports: dict[str, str] = {}
    for key in connections.opened_by(briefing.world) if own.rank == 0 else ():
        ports[key] = yield o.OpenPort()
    clock.end(Phase.PREPARE)
    kin = SpawnTreeNode(own, briefing, parent)
    yield o.Reach(Phase.START)
    yield from kin.start()
    clock.end(Phase.START)
    yield o.Reach(None)
    return Arrival(kin, own, parent, briefing, plan, connections, ports, clock)


def _briefed(parent: o.Comm) -> o.Steps[tuple[o.Comm, m.Briefing]]:
    # The others may still be importing; a blocking call would take the processor that they need for it.
    own: o.Comm = yield o.Duplicate("the other ranks of the group")
    what, briefing = "word from the parent of what this process is for", None
    if own.rank == 0:
        (briefing,) = yield o.Receive(((parent, 0),), m.Briefing, what)
    told: m.Briefing = yield o.Tell(own, briefing, m.Briefing, "word of what this process is for")
    return own, told


def join_job(arrival: Arrival) -> o.Steps[Expanded]:
    """Join those that were started with it, and with them the sources. CalledOff if it is not needed."""
    kin, own, parent, briefing, plan, connections, ports, clock = arrival
    rank = own.rank
    yield o.Reach(Phase.SYNCHRONISE)
    verdict = yield from _unneeded(_heard(kin, ports))
    clock.end(Phase.SYNCHRONISE)
    joins = plan.by_port
    if verdict.error:
        yield from kin.go()
        raise CalledOff
    if joins:
        yield from kin.part()
    comm, between = own, parent
    if joins:
        yield o.Reach(Phase.CONNECT)
        comm = yield from connect(own, briefing.world, connections, verdict.ports)
        for port in ports.values():
            yield o.ClosePort(port)
        clock.end(Phase.CONNECT)
        yield o.Reach(Phase.REORDER)
        if connections.order != tuple(sorted(connections.order)):
            key = new_rank(plan, briefing.world, rank)
            comm = yield o.Split(comm, key, "putting the ranks in order")
        clock.end(Phase.REORDER)
        if comm.rank == 0:
            told = yield o.Send(parent, 0, m.Joined(clock.phases[Phase.REORDER]))
            yield o.Await(told, "the sources to hear that the newcomers have joined")
        yield o.Reach(Phase.SYNCHRONISE)
        if not (yield from called(comm, parent)):
            yield o.Leave((comm,), "leaving the other newcomers")
            yield from kin.go()
            raise CalledOff
        yield o.Reach(Phase.CONNECT)
        between = yield o.Connect(comm, verdict.ports[connections.source_key])
    expanded = yield from finish(comm, between, plan, epoch=briefing.epoch, clock=clock, high=True)
    yield from kin.gone()
    clock.end(Phase.COMMIT)
    return expanded


def _heard(kin: SpawnTreeNode, ports: dict[str, str]) -> o.Steps[m.Verdict]:
    yield from kin.upside(ports)
    return (yield from kin.downside(None))


def _unneeded(steps: o.Steps[T]) -> o.Steps[T]:
    """A newcomer to which others do not come ends, by CalledOff, and so not as a failure: that would take the job with
    it, which can go on as it is."""
    try:
        return (yield from steps)
    except Stalled as error:
        yield o.Say(f"a newcomer ends, as it does not come to join the job: {error}")
        raise CalledOff from error


def called(comm: o.Comm, parent: o.Comm) -> o.Steps[bool]:
    """Whether the sources want to be joined. They may compute for long before; who waited in Connect would take a
    processor from them."""
    word = None
    what = "the sources to come"
    if comm.rank == 0:
        (word,) = yield o.Receive(((parent, 0),), m.Come, what, limited=False)
    come: m.Come = yield o.Tell(comm, word, m.Come, what, limited=False)
    return come.go


def connect(comm: o.Comm, world: int, connections: ConnectionPlan, ports: dict[str, str]) -> o.Steps[o.Comm]:
    """The binary connection: one communicator of all new worlds."""
    between: o.Comm
    for round_ in connections.rounds:
        for each in round_.connections:
            if world == each.accepting:
                between = yield o.Accept(comm, ports[each.key], f"accepting at {each.key}")
                comm = yield o.Unite(comm, between, high=False)
            elif world == each.connecting:
                between = yield o.Connect(comm, ports[each.key])
                comm = yield o.Unite(comm, between, high=True)
                world = each.accepting
                break  # the next round goes by the new number
    return comm
