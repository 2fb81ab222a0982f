"""A launch tree in one process: the machines of all agents under a virtual clock, with delays and faults by a seed."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from pliant.live.tree import messages as b
from pliant.live.tree.branch import Branch
from pliant.model.deadlines import TREE_HEAL_S
from pliant.protocol import branches as m
from pliant.protocol import launching as t
from pliant_lab.injection.audit.violation import Violation
from pliant_lab.injection.tree.tenants import Landlord, Tenant

_DECODER: msgspec.json.Decoder[m.BranchMessage] = msgspec.json.Decoder(m.BranchMessage)
AWAITED = ("start", "gather", "adopt", "adrift", "call")
"""Timers that end a wait, and nothing else."""
LONGEST_S = 3600.0
"""Of virtual time: whatever is not over by then never will be."""
REFUSALS = 2
"""So often may be lost what tells an agent that it is given up."""
SPREADS_S = 0.2
"""All above an agent know within this time where it has called."""
CLOCK_S = 0.3
"""By so much the grace of an agent and that of its part of the tree may differ."""


@dataclass(frozen=True)
class Ground:
    """What a launch goes by: the trees, and how long things take, in seconds. ``start_s`` is what an agent takes
    until it runs, ``hop_s`` a message."""

    agents: int
    spawning: str = "4"
    routing: str = "4"
    window: int = 32
    survive: bool = False
    grace_s: float = 0.0
    start_s: tuple[float, float] = (0.05, 0.5)
    hop_s: tuple[float, float] = (0.0001, 0.01)


@dataclass
class Agent:
    """The stand-in for the shell around one machine."""

    rank: int
    seat: b.Seat
    branch: Branch
    tenant: Tenant
    started_by: int
    timers: dict[str, int] = field(default_factory=dict)
    starting: set[int] = field(default_factory=set)
    """Those that it has started and that have not called."""
    adrift: bool = False
    drifts: int = 0
    """How often it was."""
    local: list[bytes] = field(default_factory=list)
    """What it was sent alone, where no program is launched."""
    alive: bool = True
    left: str | None = None
    phases: dict[int, float] = field(default_factory=dict)
    knew: set[int] = field(default_factory=set)
    """Ranks, when the last phase was over."""
    delivered: list[bytes] = field(default_factory=list)
    heard: Counter[int] = field(default_factory=Counter)
    """By rank how often its contact came here."""
    sent: Counter[str] = field(default_factory=Counter)
    most_links: int = 0


class Forest:
    """All agents of one launch, the controller as rank 0."""

    def __init__(self, seed: int, ground: Ground) -> None:  # noqa: PLR0915 - what there is
        self.random = random.Random(seed)  # noqa: S311 - to be repeated
        self.ground = ground
        self.now = 0.0
        self.agents: dict[int, Agent] = {}
        self.unreachable: set[int] = set()
        self.silent: set[int] = set()
        """Ranks whose agents start and never call."""
        self.departed: set[int] = set()
        """Ranks of agents that were told to leave."""
        self.mute: set[int] = set()
        """Ranks whose agents call, and never say or do anything else."""
        self.without_controller: set[int] = set()
        """Ranks whose link to the controller broke, and those that were told that it is over."""
        self.slow = False
        """One end of a link that broke took its time to notice."""
        self.tardy: dict[int, float] = {}
        """When ranks notice that took longer than the other end waits: they call elsewhere as that gives them up."""
        self.harmed: set[int] = set()
        """Ranks whose agents were killed, or lost a link by itself."""
        self.placed: set[int] = set()
        """Ranks whose agents were told what is below them."""
        self.last_placed = self.last_end = 0.0
        """When the last one was told what is below it, and when the last one ended."""
        self.arrived: list[str] = []
        """Nodes that have said something, where no program is launched."""
        self.refused: Counter[int] = Counter()
        """By rank: how often it has called this controller, which had given it up."""
        self.seen: Counter[str] = Counter()
        """What has happened, of what a test may want to see."""
        self.losses = 0
        """How many processes were killed, and links cut."""
        self.gone: dict[int, str] = {}
        """As the controller tells it."""
        self.again: dict[int, int] = {}
        """By rank: of those that were started anew, the later one."""
        self.landlord: Landlord | None = None
        self.sizes: tuple[int, ...] = ()
        """Of the program that is launched."""
        self.missing: int | None = None
        """Its part that never comes to a fence."""
        self._late: list[str] = []
        self._first = 0
        """Ranks below are of earlier controllers."""
        self.ambushes: dict[tuple[str, int], Callable[[int, int], None]] = {}
        """What happens to sender and receiver as a message of a kind is on its way, by how many of it were sent."""
        self.sent: Counter[str] = Counter()
        self._unnoticed: dict[tuple[int, int], Callable[[], None]] = {}
        """Ends of links that are gone, where nobody has noticed it yet."""
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self._ends: dict[tuple[int, int], int] = {}
        """The number of the link that a rank has to another, until it learns that it is gone."""
        self._last: dict[tuple[int, int], float] = {}

    @property
    def nodes(self) -> tuple[str, ...]:
        """Of ranks 1, 2, ..."""
        return (*(f"n{i}" for i in range(self.ground.agents)), *self._late)

    def rank_of(self, node: str) -> int:
        """The last that it had."""
        return len(self.nodes) - self.nodes[::-1].index(node)

    def first_of(self, node: str) -> int:
        """The first one whose agent may have run something; those of nodes that were given back and added again run
        nothing."""
        rank = self.nodes.index(node) + 1
        return self.again.get(rank, rank)

    # ---- the clock ---------------------------------------------------------------------------------------

    def later(self, seconds: float, call: Callable[[], None]) -> int:
        self._number += 1
        heapq.heappush(self._queue, (self.now + seconds, self._number, call))
        return self._number

    def run(self, until_s: float = LONGEST_S) -> None:
        """Until nothing is left to happen, or that time."""
        while self._queue and self._queue[0][0] <= until_s:
            self.now, _, call = heapq.heappop(self._queue)
            call()

    # ---- the launch --------------------------------------------------------------------------------------

    def open(self) -> None:
        """Begin: the controller starts its children."""
        self._sit(0, -1)
        self.happened(0, b.Opened(self.nodes))

    def spread(self, text: str) -> None:
        self.happened(0, b.Announce(msgspec.Raw(msgspec.json.encode(text))))

    def launch(self, launch: t.Launch) -> Landlord:
        """Have a program launched everywhere."""
        self.sizes = launch.sizes
        self.landlord = Landlord(self, launch, self.nodes[: self.ground.agents])
        self.landlord.begin()
        return self.landlord

    def more(self, nodes: tuple[str, ...], *, crash: bool = False) -> None:
        """Have agents started on these nodes too; ``crash``: the controller has written that it will, and is killed."""
        if self.agents[0].alive:
            self._late += nodes
            if self.landlord is not None:
                self.landlord.added(nodes)
            if crash:
                self.kill(0)
            self.happened(0, b.More(nodes))

    def resume(self) -> None:
        """Another controller begins in place of the one that was killed, with what that has written."""
        self.refused.clear()
        for end in [end for end in self._unnoticed if end[0] == 0]:
            del self._unnoticed[end]
        for end in [end for end in self._ends if end[0] == 0]:
            del self._ends[end]
        self.harmed |= self.agents.keys() - self.placed
        nodes = {rank: node for rank, node in enumerate(self.nodes, 1) if rank not in self.gone}
        self.harmed |= nodes.keys() - self.agents.keys()
        self._first = len(self.nodes) + 1
        self._sit(0, -1)
        self.happened(0, b.Resumed(nodes, self.ground.agents, self._first))

    def depart(self, rank: int) -> None:
        """Have an agent leave, if it is there."""
        if rank in self.agents and self.agents[rank].alive:
            self.departed.add(rank)
            self.happened(rank, b.Depart("it was given back"))

    def finish(self, why: str = "") -> None:
        self.happened(0, b.Finish(why))

    def happened(self, rank: int, *inputs: b.AnyInput) -> None:
        agent = self.agents.get(rank)
        if agent is None or not agent.alive:
            return
        if rank in self.mute and not all(isinstance(each, b.Linked) for each in inputs):
            if any(isinstance(each, b.Cut) for each in inputs):
                self.kill(rank)  # an agent that nobody wants ends by itself
            return
        for output in agent.branch.handle(inputs):
            if agent.left is not None:
                raise Violation("wrong", f"rank {rank} has left, and goes on: {output}")
            self._carry_out(agent, output)
        if agent.adrift and agent.alive and rank in self.departed:
            raise Violation("stuck", f"rank {rank} is to leave, and waits for a controller that is gone")

    def kill(self, rank: int) -> None:
        """Its process is gone, as by SIGKILL; what it has sent may still arrive, or not."""
        agent = self.agents.get(rank)
        if agent is not None and agent.alive:
            agent.alive = False
            self.losses += 1
            self.harmed.add(rank)
            self._hang_up(rank, "the connection broke", lost=self.random.random() < 0.5)

    def cut(self, one: int, other: int, late_s: float = 0.0) -> None:
        """The link between the two breaks; ``other`` notices it so much later."""
        if (one, other) in self._ends:
            self.losses += 1
            self.harmed |= {one, other}
            self.slow |= late_s > 0.0
            if late_s > TREE_HEAL_S - SPREADS_S:
                self.tardy[other] = self.now + late_s
            self.without_controller |= {one, other} if 0 in (one, other) else set()
            self._part(one, other, "the connection broke", lost=True)
            self._part(other, one, "the connection broke", lost=True, late_s=late_s)

    @property
    def links(self) -> list[tuple[int, int]]:
        return sorted(self._ends)

    # ---- what agents ask for -------------------------------------------------------------------------------

    def _carry_out(self, agent: Agent, output: b.AnyOutput) -> None:  # noqa: C901, PLR0912, PLR0915 - a table: a case for each output
        match output:
            case b.StartAgent():
                self._start(agent, output)
            case b.Tell():
                kind = type(output.message).__name__
                agent.sent[kind] += 1
                self.sent[kind] += 1
                self._send(agent.rank, output.rank, output.message)
                if (spring := self.ambushes.pop((kind, self.sent[kind]), None)) is not None:
                    self.later(0.0, lambda: spring(agent.rank, output.rank))
            case b.Reach():
                self.later(self._draw(self.ground.hop_s), lambda: self._join(agent.rank, output.rank))
            case b.Close():
                self._close(agent.rank, output.rank)
            case b.SetTimer():
                self._set(agent, output.key, output.seconds)
            case b.CancelTimer():
                agent.timers.pop(output.key, None)
            case b.Deliver():
                agent.delivered.append(bytes(output.message))
                if agent.rank and self.landlord is not None:
                    agent.tenant.deliver(output.message)
            case b.Local() if self.landlord is None:
                agent.local.append(bytes(output.envelope.message))
            case b.Local():
                agent.tenant.local(output.envelope)
            case b.Arrived() if self.landlord is None:
                self.arrived.append(output.envelope.node)
            case b.Arrived() if self.landlord is not None:
                self.landlord.arrived(output.envelope)
            case b.Gathered() if self.landlord is not None:
                self.landlord.gathered(output)
            case b.Phase():
                if output.number in agent.phases:
                    raise Violation("run_twice", f"rank {agent.rank} comes to phase {output.number} again")
                agent.phases[output.number] = self.now
                agent.knew = {*agent.branch.reached, *agent.branch.gone}
            case b.Gone():
                self._give_up(output.rank, output.why)
                if self.ground.survive and not self._may_be_lost(output.rank):
                    raise Violation("lost", f"nothing has happened to rank {output.rank}: {output.why}")
                if self.landlord is not None:
                    self.landlord.gone(output.node, output.why)
            case b.Again():
                self._give_up(output.lost, output.why)
                self._begin_again(output)
            case b.Adrift():
                self._drift(agent, on=output.on)
            case b.Leave():
                agent.left, agent.alive, self.last_end = output.why, False, self.now
                self._hang_up(agent.rank, "it has left")

    def _drift(self, agent: Agent, *, on: bool) -> None:
        """What lives there may be the first to find that the grace is over."""
        if on == agent.adrift or not agent.rank:
            raise Violation("run_twice", f"rank {agent.rank} is told again: adrift {on}")
        agent.adrift = on
        agent.drifts += 1
        drift = agent.drifts
        self.seen["adrift" if on else "taken up"] += 1

        def over() -> None:
            if agent.drifts == drift and agent.alive:
                self.happened(agent.rank, b.Depart("its agent has ended without a controller"))

        if on and self.random.random() < 0.5:
            self.later(self.ground.grace_s + self.random.uniform(-CLOCK_S, CLOCK_S), over)

    def _give_up(self, rank: int, why: str) -> None:
        if rank not in self.departed | self.mute and self._hangs(rank):
            raise Violation("lost", f"rank {rank} is given up, and is reached: {why}")
        self.gone[rank] = why

    def _may_be_lost(self, rank: int) -> bool:
        """Whether it was there, or something has happened to itself."""
        return rank in self.placed | self.harmed | self.unreachable | self.silent | self.mute

    def _begin_again(self, started: b.Again) -> None:
        if started.lost < self._first:
            raise Violation(
                "run_twice", f"rank {started.lost} is of an earlier controller, and is begun again"
            )
        self.again[started.lost] = started.rank
        self._late.append(started.node)
        if len(self.nodes) != started.rank or self.nodes[started.lost - 1] != started.node:
            raise Violation("wrong", f"rank {started.lost} is started anew as {started}")
        if self.landlord is not None:
            self.landlord.added((started.node,))

    def _hangs(self, rank: int) -> bool:
        """Whether links lead from it to the controller, all of whom have taken it up in time."""
        while rank:
            agent = self.agents.get(rank)
            late = self.now - self.tardy.get(rank, -LONGEST_S) < SPREADS_S
            if agent is None or not agent.alive or rank in self.mute or late:
                return False
            parent = agent.branch.parent
            if (rank, parent) not in self._ends or self.agents[parent].branch.way(rank) != rank:
                return False
            rank = parent
        return True

    def _set(self, agent: Agent, key: str, seconds: float) -> None:
        def due() -> None:
            if agent.timers.get(key) == number:
                del agent.timers[key]
                self._fire(agent, key)

        number = agent.timers[key] = self.later(seconds, due)

    def _fire(self, agent: Agent, key: str) -> None:
        """A time is over that somebody waited for, or else it would have been cancelled."""
        outputs = agent.branch.handle([b.Due(key)]) if agent.alive and agent.rank not in self.mute else None
        if outputs == [] and key.split(maxsplit=1)[0] in AWAITED:
            raise Violation("leaked", f"rank {agent.rank} has waited for nothing: {key}")
        for output in outputs or ():
            self._carry_out(agent, output)

    def _sit(self, rank: int, parent: int, place: int = -1) -> Agent:
        ground = self.ground
        trees = ground.spawning, ground.routing
        seat = b.Seat(
            rank, f"contact of {rank}", parent, *trees, ground.window, ground.survive,
            place=place, grace_s=ground.grace_s,
        )  # fmt: skip
        if rank and rank in self.agents:
            raise Violation("run_twice", f"rank {rank} is started twice")
        self.agents[rank] = agent = Agent(rank, seat, Branch(seat), Tenant(self, rank), parent)
        return agent

    def _start(self, parent: Agent, order: b.StartAgent) -> None:
        rank = order.rank
        parent.starting.add(rank)
        if self.nodes[rank - 1] != order.node:
            raise Violation("wrong", f"rank {rank} is started on {order.node}, not on {self.nodes[rank - 1]}")
        if len(parent.starting) > self.ground.window:
            raise Violation("wrong", f"rank {parent.rank} starts {sorted(parent.starting)} at a time")

        def begin() -> None:
            if not self.agents[parent.rank].alive:
                return
            if rank in self.unreachable:
                parent.starting.discard(rank)
                if parent.alive:
                    self.happened(parent.rank, b.NotStarted(rank, "no route to host"))
                return
            if rank % 2 and parent.alive:  # ssh has told that it runs there
                parent.starting.discard(rank)
                self.happened(parent.rank, b.Begun(rank))
            agent = self._sit(rank, parent.rank, order.place)
            if rank in self.silent:  # an agent that nobody wants ends by itself
                self.later(agent.seat.patience_s, lambda: self.kill(rank))
            else:
                self._join(rank, parent.rank)

        self.later(self._draw(self.ground.start_s), begin)

    def _join(self, caller: int, other: int) -> None:
        for end in ((caller, other), (other, caller)):
            if (notice := self._unnoticed.get(end)) is not None:
                notice()
        there, here = self.agents.get(other), self.agents[caller]
        if not here.alive:
            return
        if there is None or not there.alive:
            self.happened(caller, b.Cut(other, "connection refused"))
            return
        if (caller, other) not in self._ends:
            self._number += 1
            self._ends[caller, other] = self._ends[other, caller] = self._number
        for agent in (here, there):
            agent.most_links = max(agent.most_links, sum(agent.rank == end[0] for end in self._ends))
        self.happened(caller, b.Linked(other))

    def _close(self, here: int, other: int) -> None:
        self.agents[here].starting.discard(other)
        if (here, other) in self._ends:
            del self._ends[here, other]
            self._part(other, here, "closed")
        elif (agent := self.agents.get(other)) is not None and agent.started_by == here and not agent.phases:
            self.kill(other)

    def _hang_up(self, rank: int, why: str, *, lost: bool = False) -> None:
        for here, other in [end for end in self._ends if end[0] == rank]:
            del self._ends[here, other]
            self._part(other, here, why, lost=lost)

    def _part(self, rank: int, other: int, why: str, *, lost: bool = False, late_s: float = 0.0) -> None:
        """``rank`` learns that its link to ``other`` is gone, after what it was sent before; ``lost``: that is lost."""

        def cut() -> None:
            if lost and self._unnoticed.get((rank, other)) is not cut:
                return  # it has noticed, as there is a new one
            if lost:
                del self._unnoticed[rank, other]
            if lost or self._ends.get((rank, other)) == number:
                self._ends.pop((rank, other), None)
                self.happened(rank, b.Cut(other, why))

        number = self._ends.get((rank, other))
        if number is None:
            return
        if lost:
            del self._ends[rank, other]
            self._unnoticed[rank, other] = cut
        wait_s = max(self._draw(self.ground.hop_s), self._last.get((other, rank), 0.0) - self.now)
        self.later(wait_s + late_s, cut)

    def _send(self, sender: int, to: int, message: m.BranchMessage) -> None:
        """In order along each link."""
        if isinstance(message, m.Contacts) and not (message.reached or message.gone or message.whole):
            raise Violation("wrong", f"rank {sender} tells rank {to} nothing")
        when = max(self.now + self._draw(self.ground.hop_s), self._last.get((sender, to), 0.0))
        self._last[sender, to] = when
        coded, number = msgspec.json.encode(message), self._ends.get((sender, to))
        self.later(when - self.now, lambda: self._arrive(sender, to, coded, number))

    def _arrive(self, sender: int, to: int, coded: bytes, number: int | None) -> None:
        if number is None or self._ends.get((to, sender)) != number:
            return
        message = _DECODER.decode(coded)
        if isinstance(message, m.Contacts):
            self.agents[to].heard.update(message.reached.keys())
        if isinstance(message, m.Calling) and not to and sender in self.gone:
            self.refused[sender] += 1
            self.seen["refused"] += 1
            if self.refused[sender] > REFUSALS:
                raise Violation("stuck", f"rank {sender} has been refused, and calls again")
        if isinstance(message, m.Below):
            self.placed.add(to)
            self.last_placed = self.now
        if isinstance(message, m.Ended):
            self.without_controller.add(to)
        self.agents[to].starting.discard(sender)
        self.happened(to, b.Heard(sender, message))

    def _draw(self, between: tuple[float, float]) -> float:
        return self.random.uniform(*between)
