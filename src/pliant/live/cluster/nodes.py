"""The nodes of a live cluster: how they come and go, the links to their agents, and the proofs that they are clean."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import count as counting

from pliant.core import events as e
from pliant.core.core import SchedulerCore
from pliant.core.settings import NEVER
from pliant.live.cluster import orders as o
from pliant.live.cluster import term
from pliant.live.cluster.orders import SIGKILL
from pliant.live.job.life import JobLife
from pliant.model.nodes import NodeSet, hostlist
from pliant.protocol import messages as m

PROOF_S = 30.0
"""An agent that has not said by then whether its node is clean cannot be relied on."""


class Nodes:
    """A part of the cluster. What has happened goes to ``_events``, what is to be done to ``_outputs``."""

    def __init__(self, core: SchedulerCore) -> None:
        self.core = core
        self.lives: dict[int, JobLife] = {}
        self.now = 0.0
        self._names: dict[int, str] = {}
        self._numbers: dict[str, int] = {}
        self._gone: set[int] = set()
        self._left_at: dict[int, float] = {}
        """When nodes were lost or given back that are not in use again, where that is known."""
        self._why: dict[int, str] = {}
        """Why an agent has said that it leaves."""
        self._away: set[int] = set()
        """Nodes whose agents cannot be reached now."""
        self._behind: set[int] = set()
        """Nodes of which nobody knows everything yet: their agents are away, or are saying it again."""
        self._groups: dict[int, frozenset[tuple[int, int]]] = {}
        """By node, the groups that its agent had when it came back."""
        self._proofs: dict[tuple[int, int], int] = {}
        self._unknown: set[tuple[int, int]] = set()
        """Jobs and nodes of groups that nobody knew, and that are being ended."""
        self._events: deque[e.Event] = deque()
        self._outputs: list[o.Output] = []

    # ---- effects, of the jobs' lives too -------------------------------------------------------------

    def happened(self, event: e.Event) -> None:
        self._events.append(event)

    def send(self, node: int, message: m.ControllerMessage) -> None:
        self._outputs.append(o.Send((self._names[node],), message))

    def later(self, key: o.Key, delay_s: float) -> None:
        if delay_s != NEVER:
            self._outputs.append(o.SetTimer(key, self.now + delay_s))

    # ---- nodes that come and go ----------------------------------------------------------------------

    def _granted(self, given: o.Granted) -> None:
        self._number(given.names)
        for name in given.names:
            self._is_there(self._numbers[name])
        order = sorted(zip(given.names, given.slots, strict=True), key=lambda each: self._numbers[each[0]])
        names, slots = tuple(name for name, _ in order), tuple(count for _, count in order)
        until = None if given.left_s is None else self.now + given.left_s
        self.happened(e.Granted(self._set(names), names, slots, until))
        if until is not None:
            self._outputs += term.granted(until, given.names, self.core.state, self.now)

    def _asked_back(self, names: Iterable[str], by: float | None) -> None:
        self.happened(e.Reclaim(self._set(names), by))
        if by is not None:
            self._outputs += term.timer(self.core.state, self.now, by)

    def _number(self, names: Iterable[str]) -> None:
        """Give numbers to nodes that are there now: its own to one that is back, else the lowest that no other has."""
        there = self.core.state.nodes.all_mask | self._set(names).mask
        free = (number for number in counting() if not there >> number & 1)
        for name in names:
            if name not in self._numbers:
                number = next(free)
                self._numbers.pop(self._names.get(number, ""), None)
                self._names[number], self._numbers[name] = name, number

    def _set(self, names: Iterable[str]) -> NodeSet:
        return NodeSet.of(self._numbers[name] for name in names if name in self._numbers)

    def _back(self, name: str) -> None:
        nodes = NodeSet(self._set([name]).mask & self.core.state.nodes.all_mask)
        for number in nodes:
            self._is_there(number)  # we may have given it up for what is now gone
        self.happened(e.Back(nodes))

    def _is_there(self, node: int) -> None:
        self._gone.discard(node)
        self._left_at.pop(node, None)
        self._why.pop(node, None)
        self._forget_link(node)

    def _returned(self, names: Iterable[str]) -> None:
        nodes, state = self._set(names), self.core.state
        for number in nodes:
            if not (state.nodes.lost_mask | state.nodes.parked_mask) >> number & 1:
                self._lost(self._names[number], final=True, why="its provider took it away")
            self._gone.add(number)
            self._left_at[number] = self.now
            self._cut_off(number)
        self.happened(e.Returned(nodes))

    def _lost(self, name: str, *, final: bool, why: str = "") -> None:
        number = self._numbers.get(name)
        if number is None or not self.core.state.nodes.all_mask >> number & 1:
            return  # it was never granted, or it has been returned
        if final:
            self._gone.add(number)
        if not self.core.state.nodes.lost_mask >> number & 1:
            self._left_at[number] = self.now
        was_away = number in self._away
        self._cut_off(number)
        if self.core.state.nodes.lost_mask >> number & 1:
            return  # it was lost before, and is now for good
        over = tuple(
            (life.number, group.number)
            for life in self.lives.values()
            for group in life.groups.values()
            if group.node == number and (group.is_over or life.is_over)
        )
        self.happened(e.Lost(self._set([name]), over, why=self._why.get(number, why)))
        for life in list(self.lives.values()):
            life.lost(number)
        if was_away:
            self._heed_link(number)
        for job, node in list(self._proofs):
            if node == number:
                del self._proofs[job, node]

    # ---- proofs --------------------------------------------------------------------------------------

    def _prove(self, job: int, node: int) -> None:
        self._proofs[job, node] += 1
        there = self.lives.get(job)
        # Other groups of the job on the same node, that go on.
        keep = (
            [g.number for g in there.alive() if g.node == node and self._stays(job, g.number)]
            if there
            else []
        )
        self.send(node, m.Prove(job, tuple(keep)))
        self.later(("proof", job, node), PROOF_S)

    def _stays(self, job: int, group: int) -> bool:
        state = self.core.state
        return job in state.jobs and group in state.groups(state.jobs[job])

    def _proved(self, node: int, proof: m.Proof) -> None:
        if node in self._why:
            return  # it is about to be lost, with groups whose ends were not counted as such
        if self._proofs.pop((proof.job, node), None) is None:
            return  # nobody waits for it any more
        self._unknown.discard((proof.job, node))
        if proof.clean:
            self.happened(e.Clean(proof.job, NodeSet.of([node])))
        else:
            self._give_up(node, "what a job had left there could not be ended")

    def _proof_overdue(self, job: int, node: int) -> None:
        asked = self._proofs.get((job, node))
        if asked is None:
            return
        if node in self._away:
            self.later(("proof", job, node), PROOF_S)  # nobody has asked it yet
        elif asked > 1:
            del self._proofs[job, node]
            self._give_up(
                node, f"its agent did not say within {2 * PROOF_S:g} s whether a job had left anything there"
            )
        else:
            self._prove(job, node)

    def _give_up(self, node: int, why: str) -> None:
        """Not even SIGKILL has removed all of a job, or nobody can tell: this node cannot be given to anyone."""
        self._lost(self._names[node], final=True, why=why)
        self._outputs.append(o.Abandon(self._names[node]))

    def _missing(self) -> str:
        """What has become of the nodes that were there, and are not or will not be."""
        state = self.core.state
        how: dict[str, list[str]] = {}
        for node in sorted(self._gone | set(NodeSet(state.nodes.reclaimed_mask))):
            lost = state.nodes.lost_mask >> node & 1
            what = "lost" if lost else "given back" if node in self._gone else "asked back"
            when = f" at {self._left_at[node]:.1f} s" if node in self._left_at else ""
            how.setdefault(what + when, []).append(self._names[node])
        return "; ".join(
            f"{hostlist(names)} {'was' if len(names) == 1 else 'were'} {what}" for what, names in how.items()
        )

    # ---- links that are lost and come back -----------------------------------------------------------

    def _forget_link(self, node: int) -> None:
        """There is another agent, or none."""
        self._away.discard(node)
        self._behind.discard(node)
        self._groups.pop(node, None)

    def _cut_off(self, node: int) -> None:
        """The agent is gone for good, with all that it had."""
        self._forget_link(node)
        self._unknown = {each for each in self._unknown if each[1] != node}

    def reaches(self, name: str) -> bool:
        """Whether what is ordered goes out to the agent of this node now."""
        return self._numbers[name] not in self._away

    def _linked(self, node: int, news: o.Unlinked | o.Greeted | o.Repeated) -> None:
        match news:
            case o.Unlinked():
                self._away.add(node)
                self._behind.add(node)
                self._heed_link(node)
            case o.Greeted():
                self._greeted(node, news.hello)
            case o.Repeated():
                self._behind.discard(node)

    def _heed_link(self, node: int) -> None:
        """What jobs say that have groups on this node is heard again, or is not: their resizes wait, and then they get
        the time anew that there is to answer."""
        for life in self.lives.values():
            job = self.core.state.jobs.get(life.number)
            if job is None or all(group.node != node for group in life.groups.values()):
                continue
            heard = all(self.reaches(self._names[group.node]) for group in life.alive())
            span = self.core.state.settings.resize_deadline_s + job.patience_s(self.now)
            job.unheard_until = self.now + span if heard else NEVER

    def _book(self, used: dict[int, float]) -> None:
        """Seconds of processors, by job."""
        for job, cpu_s in used.items():
            if (life := self.lives.get(job)) is not None:
                life.cpu_s += cpu_s

    def _greeted(self, node: int, hello: m.AgentHello) -> None:
        """An agent has a link again: it ends what nobody knows."""
        self._away.discard(node)
        self._groups[node] = frozenset((each.job, each.group) for each in hello.groups)
        self._book(hello.used)
        for held in hello.groups:
            life = self.lives.get(held.job)
            group = life.groups.get(held.group) if life is not None else None
            if group is not None and group.node == node:
                group.session = held.session or group.session
            elif not self.core.state.nodes.dirty.get(held.job, 0) >> node & 1:
                self._unknown.add((held.job, node))
                self.send(node, m.Signal(held.job, SIGKILL, held.group))
        self._heed_link(node)
        for job, where in self._unknown:
            if where == node and (job, node) not in self._proofs:
                self._proofs[job, node] = 0
                self._prove(job, node)
