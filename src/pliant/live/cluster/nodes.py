"""The nodes of a live cluster: how they come and go, the links to their agents, and the proofs that they are clean."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count as counting

from pliant.core import events as e
from pliant.core.settings import NEVER
from pliant.core.state import State
from pliant.live.cluster import orders as o
from pliant.live.cluster import term
from pliant.live.cluster.bus import Bus
from pliant.live.cluster.orders import SIGKILL
from pliant.live.job.groups import last_line
from pliant.live.job.life import JobLife
from pliant.model.deadlines import NODE_PROOF_S
from pliant.model.nodes import NodeSet, hostlist
from pliant.protocol import messages as m


class LiveNode:
    """A node as the cluster knows it, beside what the core's state has of it.

    ``left_at``: when it was lost or given back, where that is known and it is not in use again. ``why``: what its agent
    has said that it leaves for. ``away``: its agent cannot be reached now. ``behind``: not everything is known of it
    yet, as its agent is away or is saying it again. ``groups``, by job and group, are those that its agent had when it
    came back. ``proofs``: of which jobs it is being proved clean, and how often that was asked for. ``unknown``: jobs
    of groups that nobody knew, and that are being ended.
    """

    def __init__(self) -> None:
        self.left_at: float | None = None
        self.why: str | None = None
        self.away = False
        self.behind = False
        self.groups: frozenset[tuple[int, int]] = frozenset()
        self.proofs: dict[int, int] = {}
        self.unknown: set[int] = set()

    def cut_off(self) -> None:
        """Its agent is gone for good, with all that it had."""
        self.forget_link()
        self.unknown.clear()

    def forget_link(self) -> None:
        """There is another agent, or none."""
        self.away = self.behind = False
        self.groups = frozenset()


class Nodes:
    """All nodes of a cluster, whose jobs have these ``lives``."""

    def __init__(self, state: State, bus: Bus, lives: dict[int, JobLife]) -> None:
        self._state = state
        self._bus = bus
        self._lives = lives
        self.gone = 0
        """Those that will not be back, as a mask."""
        self.numbers = {name: number for number, name in state.nodes.names.items()}
        self._nodes = {number: LiveNode() for number in state.nodes.names}
        bus.names.update(state.nodes.names)

    # ---- nodes that come and go ----------------------------------------------------------------------

    def granted(self, given: o.Granted) -> None:
        self._number(given.names)
        for name in given.names:
            self._is_there(self.numbers[name])
        order = sorted(range(len(given.names)), key=lambda i: self.numbers[given.names[i]])
        names, slots = tuple(given.names[i] for i in order), tuple(given.slots[i] for i in order)
        labels = tuple(given.labels[i] for i in order) if any(given.labels) else ()
        until = None if given.left_s is None else self._bus.now + given.left_s
        self._bus.happened(
            e.Granted(self.named(names), names, slots, until, labels, given.source, given.need)
        )
        if until is not None:
            self._bus.outputs += term.granted(until, given.names, self._state, self._bus.now)

    def asked_back(self, given: o.Reclaim) -> None:
        by = None if given.by_s is None else self._bus.now + given.by_s
        self._bus.happened(e.Reclaim(self.named(given.names), by))
        if by is not None:
            self._bus.outputs += term.timer(self._state, self._bus.now, by)

    def _number(self, names: Iterable[str]) -> None:
        """Give numbers to nodes that are there now: its own to one that is back, else the lowest that no other has."""
        there = self._state.nodes.all_mask | self.named(names).mask
        free = (number for number in counting() if not there >> number & 1)
        for name in names:
            if name not in self.numbers:
                number = next(free)
                self.numbers.pop(self._bus.names.get(number, ""), None)
                self._bus.names[number], self.numbers[name] = name, number
                self._nodes[number] = LiveNode()

    def named(self, names: Iterable[str]) -> NodeSet:
        return NodeSet.of(self.numbers[name] for name in names if name in self.numbers)

    def back(self, name: str) -> None:
        nodes = NodeSet(self.named([name]).mask & self._state.nodes.all_mask)
        for number in nodes:
            self._is_there(number)  # we may have given it up for what is now gone
        self._bus.happened(e.Back(nodes))

    def _is_there(self, number: int) -> None:
        node = self._nodes[number]
        self.gone &= ~(1 << number)
        node.left_at = node.why = None
        node.forget_link()

    def returned(self, names: Iterable[str]) -> None:
        nodes, state = self.named(names), self._state
        for number in nodes:
            if not (state.nodes.lost_mask | state.nodes.parked_mask) >> number & 1:
                self.lost(self._bus.names[number], final=True, why="its provider took it away")
            self.gone |= 1 << number
            self._nodes[number].left_at = self._bus.now
            self._nodes[number].cut_off()
        self._bus.happened(e.Returned(nodes))

    def lost(self, name: str, *, final: bool, why: str = "") -> None:
        number = self.numbers.get(name)
        if number is None or not self._state.nodes.all_mask >> number & 1:
            return  # it was never granted, or it has been returned
        node, was_lost = self._nodes[number], self._state.nodes.lost_mask >> number & 1
        if final:
            self.gone |= 1 << number
        was_away = node.away
        node.cut_off()
        if was_lost:
            return  # it was lost before, and is now for good
        node.left_at = self._bus.now
        over = tuple(
            (life.number, group.number)
            for life in self._lives.values()
            for group in life.groups.values()
            if group.node == number and (group.is_over or life.is_over)
        )
        why = why if node.why is None else node.why
        self._bus.happened(e.Lost(self.named([name]), over, why=why))
        for life in list(self._lives.values()):
            life.lost(number)
        if was_away:
            self._heed_link(number)
        node.proofs.clear()

    def missing(self) -> str:
        """What has become of the nodes that were there, and are not or will not be."""
        state = self._state
        how: dict[str, list[str]] = {}
        for number in NodeSet(self.gone | state.nodes.reclaimed_mask):
            node, lost = self._nodes[number], state.nodes.lost_mask >> number & 1
            what = "lost" if lost else "given back" if self.gone >> number & 1 else "asked back"
            when = "" if node.left_at is None else f" at {node.left_at:.1f} s"
            how.setdefault(what + when, []).append(self._bus.names[number])
        return "; ".join(
            f"{hostlist(names)} {'was' if len(names) == 1 else 'were'} {what}" for what, names in how.items()
        )

    # ---- what their agents say -----------------------------------------------------------------------

    def heard(self, number: int, message: m.AgentMessage) -> bool:
        """Take a message that is about the node, or that its agent has sent since it said that it leaves. False if the
        message is about a job."""
        node = self._nodes[number]
        match message:
            case m.Proof():
                self._proved(number, message)
            case m.Leaving():
                node.why = last_line(message.why)
            case m.Exited() | m.StartFailed() if node.why is not None:
                # Their agent has ended them: that is the loss of a node, as its provider is about to say.
                self._book({message.job: getattr(message, "cpu_s", 0.0)})
            case _:
                return False
        return True

    def _book(self, used: dict[int, float]) -> None:
        """Seconds of processors, by job."""
        for job, cpu_s in used.items():
            if (life := self._lives.get(job)) is not None:
                life.cpu_s += cpu_s

    # ---- proofs --------------------------------------------------------------------------------------

    def prove(self, job: int, number: int) -> None:
        """Have the node proved clean of the job."""
        self._nodes[number].proofs[job] = 0
        self._ask(job, number)

    def is_proving(self, job: int, number: int) -> bool:
        return job in self._nodes[number].proofs

    def _ask(self, job: int, number: int) -> None:
        self._nodes[number].proofs[job] += 1
        there = self._lives.get(job)
        # Other groups of the job on the same node, that go on.
        keep = (
            [g.number for g in there.alive() if g.node == number and self._stays(job, g.number)]
            if there
            else []
        )
        self._bus.send(number, m.Prove(job, tuple(keep)))
        self._bus.later(("proof", job, number), NODE_PROOF_S)

    def _stays(self, job: int, group: int) -> bool:
        state = self._state
        return job in state.jobs and group in state.groups(state.jobs[job])

    def _proved(self, number: int, proof: m.Proof) -> None:
        node = self._nodes[number]
        if node.why is not None:
            return  # it is about to be lost, with groups whose ends were not counted as such
        if node.proofs.pop(proof.job, None) is None:
            return  # nobody waits for it any more
        node.unknown.discard(proof.job)
        if proof.clean:
            self._bus.happened(e.Clean(proof.job, NodeSet.of([number])))
        else:
            self._give_up(number, "what a job had left there could not be ended")

    def proof_overdue(self, job: int, number: int) -> None:
        node = self._nodes[number]
        asked = node.proofs.get(job)
        if asked is None:
            return
        if node.away:
            self._bus.later(("proof", job, number), NODE_PROOF_S)  # nobody has asked it yet
        elif asked > 1:
            del node.proofs[job]
            self._give_up(
                number,
                f"its agent did not say within {2 * NODE_PROOF_S:g} s whether a job had left anything there",
            )
        else:
            self._ask(job, number)

    def _give_up(self, number: int, why: str) -> None:
        """Not even SIGKILL has removed all of a job, or nobody can tell: this node cannot be given to anyone."""
        self.lost(self._bus.names[number], final=True, why=why)
        self._bus.outputs.append(o.Abandon(self._bus.names[number]))

    # ---- links that are lost and come back -----------------------------------------------------------

    def resume(self) -> None:
        """No agent has been heard yet."""
        for number in NodeSet(self._state.nodes.all_mask & ~self._state.nodes.lost_mask):
            self._nodes[number].away = self._nodes[number].behind = True

    def is_behind(self, life: JobLife) -> bool:
        """Whether there are nodes of the job of which not everything is known yet."""
        return any(self._nodes[group.node].behind for group in life.groups.values())

    @property
    def settled(self) -> bool:
        """Whether everything is known of all nodes, and nothing is there that nobody knew."""
        return not any(node.unknown or node.behind for node in self._nodes.values())

    def groups(self) -> set[tuple[int, int]]:
        """Those that agents had when they came back, by job and group."""
        return {group for node in self._nodes.values() for group in node.groups}

    def reaches(self, name: str) -> bool:
        """Whether what is ordered goes out to the agent of this node now."""
        return not self._nodes[self.numbers[name]].away

    def reaches_all(self, life: JobLife) -> bool:
        """The same of all nodes on which groups of the job live."""
        return not any(self._nodes[group.node].away for group in life.alive())

    def linked(self, news: o.Unlinked | o.Greeted | o.Repeated) -> None:
        for number in NodeSet(self.named([news.node]).mask & self._state.nodes.all_mask):
            node = self._nodes[number]
            match news:
                case o.Unlinked():
                    node.away = node.behind = True
                    self._heed_link(number)
                case o.Greeted():
                    self._greeted(number, news.hello)
                case o.Repeated():
                    node.behind = False

    def _heed_link(self, number: int) -> None:
        """What jobs say that have groups on this node is heard again, or is not: their resizes wait, and then they get
        the time anew that there is to answer."""
        now = self._bus.now
        for life in self._lives.values():
            job = self._state.jobs.get(life.number)
            if job is None or all(group.node != number for group in life.groups.values()):
                continue
            span = self._state.settings.resize_deadline_s + job.patience_s(now)
            job.unheard_until = now + span if self.reaches_all(life) else NEVER

    def _greeted(self, number: int, hello: m.AgentHello) -> None:
        """An agent has a link again: it ends what nobody knows."""
        node = self._nodes[number]
        node.away = False
        node.groups = frozenset((each.job, each.group) for each in hello.groups)
        self._book(hello.used)
        for held in hello.groups:
            life = self._lives.get(held.job)
            group = life.groups.get(held.group) if life is not None else None
            if group is not None and group.node == number:
                group.session = held.session or group.session
            elif not self._state.nodes.dirty.get(held.job, 0) >> number & 1:
                node.unknown.add(held.job)
                self._bus.send(number, m.Signal(held.job, SIGKILL, held.group))
        self._heed_link(number)
        for job in node.unknown - node.proofs.keys():
            self.prove(job, number)
