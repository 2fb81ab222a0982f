"""An agent, or the controller, as a part of the launch tree: it starts those below it, learns how all others
are reached, and passes on what is for all. Without I/O or clock.

Phases 1 and 2 are Algorithms 1 and 2 of Bosilca et al. 2011, phase 3 is its broadcast along the routing tree, which
overlaps phase 2. What the paper lacks: where an agent cannot be started, its parent starts those below it; where one is
lost, those below it call the next one further up, and those that it was to start the controller starts itself. An
agent with nobody further up calls the controller again until the grace is over: it may have begun anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from pliant.live.tree import messages as b
from pliant.live.tree.flooding import Flooding
from pliant.live.tree.gathering import Gathering
from pliant.live.tree.reparenting import Reparenting
from pliant.live.tree.routing import Routing
from pliant.model.deadlines import TREE_CALL_S, TREE_HEAL_S
from pliant.plan import tree
from pliant.plan.tree import Subtree
from pliant.protocol import branches as m
from pliant.protocol.messages import Adrift, From, To

EARLIER = 0
"""The agents of an earlier root are awaited as children of this one."""
BEFORE = "it was lost, or given back, before the controller began again"


class _Child:
    def __init__(self, subtree: Subtree, *, called: bool = False) -> None:
        self.subtree = subtree
        self.called = self.begun = called
        self.whole = False
        """All that is below it is known."""
        self.known: set[int] = set()
        """Those whose contacts have come from it."""


class _Loss(NamedTuple):
    """What Lost says of one rank."""

    why: str
    by: int
    unborn: bool


class Branch:
    """``reached`` and ``gone`` are what is known of all ranks. ``handle`` after Leave does nothing."""

    def __init__(self, seat: b.Seat) -> None:
        self._seat = seat
        self.parent = seat.parent
        self._spawning = tree.named(seat.spawning)
        self.reached = {seat.rank: seat.contact}
        self.gone: dict[int, str] = {}
        self.links: set[int] = set()
        self.late = range(0)
        """At the root, the ranks of those that were added after the start."""
        self._agents = 0
        self._subtree: Subtree | None = None
        """Of this one, once it is known."""
        self._nodes: dict[int, str] = {}
        self._places: dict[int, int] = {}
        """Of those that are started anew."""
        self._above: dict[int, str] = {}
        self._children: dict[int, _Child] = {}
        self._queue: deque[Subtree] = deque()
        self._awaited: dict[int, dict[int, str]] = {}
        """By child that was lost: it and those below it that have not called, and why they are taken for lost then."""
        self._lost: dict[int, _Loss] = {}
        """What this one has reported, and has not come back as gone."""
        self._reparenting = Reparenting(seat.rank)
        self._first = 0
        """At the root, ranks below this one are of an earlier root."""
        self._adrift = False
        """The controller is gone."""
        self._told = False
        """The parent knows all that is below."""
        self._phase = 0
        self._flooding = Flooding(seat, self)
        self._routing = Routing(seat, self)
        self._gathering = Gathering(seat.rank, self)
        self._departs = ""
        """Why this one is to leave."""
        self._has_left = False
        self._out: list[b.AnyOutput] = []

    def handle(self, inputs: Iterable[b.AnyInput]) -> list[b.AnyOutput]:
        """What is to be done because all this has happened."""
        self._out = []
        for each in inputs:
            if not self._has_left:
                self._take(each)
        if not self._has_left:
            self._gathering.push()
        return self._out

    def _take(self, happened: b.AnyInput) -> None:  # noqa: C901, PLR0912 - a table: a case for each input
        match happened:
            case b.Opened():
                self._begin(happened.nodes, {}, len(happened.nodes))
            case b.Resumed():
                self._resume(happened)
            case b.More():
                self._add(happened.nodes)
                self._start()
            case b.Depart():
                self._departs = happened.why
                if self._adrift:
                    self._depart()
                else:
                    self._look()
            case b.Heard():
                self._heard(happened.rank, happened.message)
            case b.Linked():
                self.links.add(happened.rank)
                self._introduce(happened.rank)
                self._flooding.push()
            case b.Cut():
                self._cut(happened.rank, happened.why)
            case b.Begun():
                self._begun(happened.rank)
            case b.NotStarted():
                self._not_started(happened.rank, happened.why)
            case b.Due():
                kind, rank = happened.key.split()
                self._due(kind, int(rank))
            case b.Announce():
                self._flooding.spread(happened.message)
            case b.Finish():
                self._end(happened.why)
            case b.Send():
                self._routing.down(happened.envelope)
            case b.Say():
                self._routing.up(happened.envelope)
            case b.Put():
                self._gathering.put(happened)
            case b.Absent():
                self._gathering.absent()
            case b.Passed():
                self._gathering.passed(happened.round)

    def do(self, output: b.AnyOutput) -> None:
        self._out.append(output)

    def tell(self, rank: int, message: m.BranchMessage) -> None:
        if rank in self.links:
            self.do(b.Tell(rank, message))

    def deliver(self, message: msgspec.Raw) -> None:
        self.do(b.Deliver(message))

    def below(self) -> Iterable[int] | None:
        """The children; None as long as others may follow."""
        return None if self._subtree is None or self._queue or self._awaited else self._children

    @property
    def children(self) -> set[int]:
        """Those that have called."""
        return {rank for rank, child in self._children.items() if child.called}

    @property
    def missing(self) -> set[int]:
        """At the root: those of an earlier root that have not called yet."""
        return set(self._awaited.get(EARLIER, ()))

    @property
    def agents(self) -> int:
        """How many there are from the start on, 0 as long as that is not known."""
        return self._agents

    # ---- phase 1 -----------------------------------------------------------------------------------------

    def _begin(self, nodes: tuple[str, ...], above: dict[int, str], agents: int) -> None:
        here = self._seat.rank
        self._subtree = Subtree(here, here + 1 + len(nodes))
        self._nodes = dict(zip(range(here + 1, self._subtree.end), nodes, strict=True))
        self._routing.begin(self._nodes)
        self._above, self._agents = above, agents
        self._queue.extend(self._spawning.spans(here + 1, self._subtree.end))
        self._start()

    def _resume(self, earlier: b.Resumed) -> None:
        """Wait for those of an earlier root."""
        self._subtree, self._agents = Subtree(0, earlier.agents + 1), earlier.agents
        self._first = earlier.following
        self.late = range(earlier.agents + 1, earlier.following)
        self._nodes = dict(earlier.nodes)
        self._routing.begin(self._nodes)
        self.gone = {rank: BEFORE for rank in range(1, self._first) if rank not in self._nodes}
        self._awaited[EARLIER] = dict.fromkeys(
            self._nodes, "it has not called the controller that began again"
        )
        self.do(b.SetTimer(f"heal {EARLIER}", self._seat.grace_s))

    def _add(self, nodes: Sequence[str], places: Sequence[int] = ()) -> range:
        """Agents are to be started on these nodes too; their ranks."""
        first = self.late.stop or self._agents + 1
        self.late = range(self.late.start or first, first + len(nodes))
        new = dict(enumerate(nodes, first))
        self._nodes |= new
        self._places |= dict(zip(new, places, strict=False))
        self._routing.begin(new)
        self._queue.extend(Subtree(rank, rank + 1) for rank in new)
        return range(first, self.late.stop)

    def _start(self) -> None:
        """Start as many of those that are due as may start at a time."""
        starting = sum(not child.begun for child in self._children.values())
        while self._queue and starting < self._seat.window:
            subtree = self._queue.popleft()
            starting += 1
            self._children[subtree.child] = _Child(subtree)
            place = self._places.get(subtree.child, -1)
            self.do(b.StartAgent(subtree.child, self._nodes[subtree.child], place))
            self.do(b.SetTimer(f"start {subtree.child}", self._seat.patience_s))
        self._look()

    def _begun(self, rank: int) -> None:
        """A child runs on its node."""
        if (child := self._children.get(rank)) is not None and not child.begun:
            child.begun = True
            self._start()

    def _called(self, rank: int, *, placed: bool) -> None:
        """A child has come, or an orphan."""
        child = self._children.get(rank)
        if child is not None and child.called and self._seat.survive:
            self._cut(rank, "it has lost its link")
            child = None
        if child is None or child.called:
            # One that has not been placed may have been started by an earlier root, and by nobody else.
            child = self._adopted(rank) if placed or rank < self._first else None
        if child is None:
            self._refuse(rank)
            return
        child.called = child.begun = True
        self.links.add(rank)
        self.do(b.CancelTimer(f"start {rank}"))
        self.do(b.SetTimer(f"gather {rank}", self._seat.patience_s * (1 + self._levels(child.subtree))))
        names = () if placed else tuple(self._nodes[each] for each in range(rank + 1, child.subtree.end))
        above = {**self._above, self._seat.rank: self._seat.contact}
        self.tell(rank, m.Below(names, above, self._agents, self._adrift))
        self._start()

    def _adopted(self, rank: int) -> _Child | None:
        """An orphan as a child of this one; None if it does not belong here."""
        if rank not in self._nodes or not self._seat.survive or rank in self.gone:
            return None
        child = self._children[rank] = _Child(self._subtree_of(rank))
        self._moved(m.Moved(rank, self._seat.rank))
        return child

    def _refuse(self, rank: int) -> None:
        """There is no place for it here, and at the root nowhere."""
        if not self._seat.rank and self._subtree is not None:
            self.do(b.Tell(rank, m.Contacts({}, {rank: self.gone.get(rank, "nobody waits for it")})))
        self.do(b.Close(rank))

    def _subtree_of(self, rank: int) -> Subtree:
        if rank in self.late:
            return Subtree(rank, rank + 1)
        _, subtree = tree.span_of(self._spawning, rank, self._subtree or Subtree(rank, rank + 1))
        return subtree

    def _moved(self, message: m.Moved) -> None:
        """An orphan has been adopted, here or below: nobody here waits any more for it and those below it."""
        if self._subtree is None or (message.rank not in self._subtree and message.rank not in self.late):
            return
        subtree = self._subtree_of(message.rank)
        if not self._reparenting.note(subtree, message.parent) and message.parent != self._seat.rank:
            return
        for awaited in self._awaited.values():
            for rank in self._in_with(subtree, awaited):
                del awaited[rank]
        for rank in self._in_with(subtree, self._lost):
            del self._lost[rank]
        self.tell(self.parent, message)

    def _in_with(self, subtree: Subtree, ranks: Iterable[int]) -> list[int]:
        """Those of ``ranks`` that are below the first of ``subtree``."""
        return [rank for rank in ranks if rank in subtree and self._reparenting.under(rank, subtree.child)]

    def _levels(self, subtree: Subtree) -> int:
        return tree.depth(self._spawning, subtree.end - subtree.child - 1)

    # ---- phase 2 -----------------------------------------------------------------------------------------

    def _contacts(self, sender: int, message: m.Contacts) -> None:
        if sender == self.parent:
            self._learn(message.reached, message.gone, sender)
        elif (child := self._children.get(sender)) is not None:
            child.known.update(message.reached)
            self._learn(message.reached, {}, sender)
            if message.whole and not child.whole:
                child.whole = True
                self.do(b.CancelTimer(f"gather {sender}"))
                others = {rank: each for rank, each in self.reached.items() if rank not in child.known}
                self.tell(sender, m.Contacts(others, dict(self.gone)))
                self._flooding.repeat(sender)
            self._look()

    def _learn(self, reached: dict[int, str], gone: dict[int, str], sender: int | None = None) -> None:
        """Keep what is new, and pass it on to all that have been told the rest. Who is gone is heard from above
        alone."""
        new = {rank: contact for rank, contact in reached.items() if rank not in self.reached}
        lost = {rank: why for rank, why in gone.items() if rank not in self.gone}
        if not new and not lost:
            return
        self.reached |= new
        self.gone |= lost
        for rank, child in self._children.items():
            if child.whole and rank != sender:
                self.tell(rank, m.Contacts(new, lost))
        if new and self._told and sender != self.parent:
            self.tell(self.parent, m.Contacts(new))
        self._bury(lost)
        self._flooding.push()
        self._look()
        if self._seat.rank in lost:
            if self._departs:
                self._depart()
            else:
                self._end(f"it was given up: {lost[self._seat.rank]}")

    def _report(self, lost: dict[int, str], by: int | None = None, unborn: Iterable[int] = ()) -> None:
        """These are lost, as far as the agent of rank ``by`` can tell, by default this one: one that has been adopted
        further up may be there. The controller decides."""
        by = self._seat.rank if by is None else by
        lost = {rank: why for rank, why in lost.items() if self._reparenting.under(rank, by)}
        if not lost:
            return
        if self._seat.rank:
            self._lost |= {rank: _Loss(why, by, rank in unborn) for rank, why in lost.items()}
            self.tell(self.parent, m.Lost(by, lost, tuple(rank for rank in lost if rank in unborn)))
            return
        new = {rank: why for rank, why in self._sure(lost, by).items() if rank not in self.gone}
        again = [rank for rank in new if rank in unborn and self._may_begin(rank)]
        self._begin_again({rank: new[rank] for rank in again})
        for rank, why in new.items():
            if rank not in again:
                self.do(b.Gone(rank, self._nodes[rank], why))
        self._learn({}, new)
        if new and not self._seat.survive:
            rank, why = next(iter(new.items()))
            self._end(f"{self._nodes[rank]}: {why}")

    def _sure(self, lost: dict[int, str], by: int) -> dict[int, str]:
        """At the root: one of an earlier root's may have another way than by ``by``, and not have called yet."""
        if (awaited := self._awaited.get(EARLIER)) is None:
            return lost
        awaited |= {rank: why for rank, why in lost.items() if rank < self._first and rank != by}
        return {rank: why for rank, why in lost.items() if rank not in awaited}

    def _may_begin(self, rank: int) -> bool:
        """Whether nothing can have run there: it has never been heard of."""
        return (
            rank >= self._first and rank not in self.reached and self._nodes[rank] not in self._routing.spoken
        )

    def _begin_again(self, lost: dict[int, str]) -> None:
        """At the root: start them anew, under other ranks, so that what may still come of an earlier one is old."""
        if not lost:
            return
        nodes = [self._nodes[rank] for rank in lost]
        ranks = self._add(nodes, [rank - 1 for rank in lost])
        for (rank, why), new, node in zip(lost.items(), ranks, nodes, strict=True):
            self.do(b.Again(rank, new, node, why))
        self._start()

    def _bury(self, gone: Iterable[int]) -> None:
        """They are given up, even if they are here."""
        for rank in gone:
            self._lost.pop(rank, None)
            child = self._children.get(rank)
            if child is not None and child.called:
                self.do(b.Close(rank))
                self._cut(rank, self.gone[rank])

    def _look(self) -> None:
        """Whether a phase is over."""
        if self._subtree is None or self._queue or self._has_left:
            return
        if self._phase == 0 and all(child.called for child in self._children.values()):
            self._phase = 1
            self.do(b.Phase(1))
        whole = all(child.whole for child in self._children.values()) and not self._awaited
        if self._departs and whole and self._seat.rank not in self._lost:
            self._report({self._seat.rank: self._departs})
        if whole and not self._told and self.parent in self.links:
            self._told = True
            mine = {rank: contact for rank, contact in self.reached.items() if rank in self._subtree}
            self._tell_lost()
            self.tell(self.parent, m.Contacts(mine, whole=True))
        if self._phase == 1:
            known, all_of_them = self.reached.keys() | self.gone.keys(), range(self._agents + 1)
            if len(known) > self._agents and all(rank in known for rank in all_of_them):
                self._phase = 2
                self.do(b.Phase(2))

    def _tell_lost(self) -> None:
        """A new parent may not know."""
        for by in dict.fromkeys(loss.by for loss in self._lost.values()):
            lost = {rank: loss for rank, loss in self._lost.items() if loss.by == by}
            unborn = tuple(rank for rank, loss in lost.items() if loss.unborn)
            self.tell(self.parent, m.Lost(by, {rank: loss.why for rank, loss in lost.items()}, unborn))

    # ---- messages ----------------------------------------------------------------------------------------

    def _heard(self, rank: int, message: m.BranchMessage) -> None:  # noqa: C901, PLR0912 - a table: a case for each message
        if isinstance(message, m.Calling):
            if rank > self._seat.rank:
                self._called(rank, placed=message.placed)
            else:  # whoever passes messages to all on to here
                self.links.add(rank)
        elif rank in self.links:
            match message:
                case m.Below() if rank == self.parent:
                    self._placed(message)
                case m.Contacts():
                    self._contacts(rank, message)
                case m.Lost() if rank in self._children:
                    self._report(message.why, message.by, set(message.unborn))
                case m.Moved() if rank in self._children:
                    self._moved(message)
                case m.Flood():
                    self._flooding.heard(message)
                case m.Gathered() if rank in self._children:
                    self._gathering.heard(rank, message)
                case To() if rank == self.parent:
                    self._routing.down(message)
                case From():
                    self._routing.up(message)
                case Adrift() if rank == self.parent:
                    self._drift(on=message.on)
                case m.Ended() if rank == self.parent:
                    self._end(message.why)

    def _placed(self, message: m.Below) -> None:
        """The parent says what is below. One that was an orphan knows that, and tells again what it knows."""
        self.do(b.CancelTimer("adopt 0"))
        if self._subtree is None:
            self._begin(message.nodes, message.above, message.agents)
        else:
            self._above, self._told = message.above, False
            self._gathering.anew()
            for rank, parent in self._reparenting:
                self.tell(self.parent, m.Moved(rank, parent))
            self._look()
        self._drift(on=message.adrift)

    def way(self, rank: int) -> int | None:
        """The child by which ``rank`` is reached."""
        return self._reparenting.way(rank, {child: each.subtree for child, each in self._children.items()})

    # ---- losses ------------------------------------------------------------------------------------------

    def _not_started(self, rank: int, why: str) -> None:
        """Nothing below it runs either: this one starts what it would have started."""
        child = self._children.get(rank)
        if child is None or child.called:
            return
        del self._children[rank]
        self.do(b.CancelTimer(f"start {rank}"))
        if self._seat.survive:
            self._queue.extend(self._spawning.spans(rank + 1, child.subtree.end))
        self._report({rank: why})
        if not self._has_left:
            self._start()

    def _cut(self, rank: int, why: str) -> None:
        linked = rank in self.links
        self.links.discard(rank)
        if rank == self.parent:
            self._orphaned(why)
        elif linked and (child := self._children.get(rank)) is not None:
            self._lose(child, why)
        if not self._has_left:
            self._flooding.cut(rank)

    def _lose(self, child: _Child, why: str) -> None:
        """The link to a child is gone. It may call again by another way, and so may those below it."""
        rank = child.subtree.child
        below = [each for each in range(rank + 1, child.subtree.end) if self.way(each) == rank]
        del self._children[rank]
        self.do(b.CancelTimer(f"gather {rank}"))
        if not self._seat.survive:
            self._report({rank: why})
            return
        with_it = dict.fromkeys(below, f"it was lost with {self._nodes[rank]}, above it")
        self._awaited[rank] = {rank: why} | with_it
        self.do(b.SetTimer(f"heal {rank}", TREE_HEAL_S))
        self._start()

    def _orphaned(self, why: str) -> None:
        """Call the next one further up; without one, and without a grace, this is the end."""
        lost = self.parent
        if lost:
            self._above.pop(lost, None)
        stays = self._seat.survive and self._above
        if stays and lost:
            self.parent = max(self._above)
            if self.parent:  # the controller may be stopped
                self.do(b.SetTimer("adopt 0", self._seat.patience_s))
            self._call()
        elif self._departs:
            self._depart()
        elif stays and self._adrift:
            self.do(b.SetTimer("call 0", TREE_CALL_S))
        elif stays and self._seat.grace_s:
            self._drift(on=True)
            self._call()
        else:
            self._end(
                f"the agent of rank {lost} is gone: {why}" if lost else f"the controller is gone: {why}"
            )

    def _call(self) -> None:
        """Have the parent take this one up."""
        if self.parent in self.links:
            self._introduce(self.parent)
        else:
            self.do(b.Reach(self.parent, self._above[self.parent]))

    def _introduce(self, rank: int) -> None:
        self.tell(rank, m.Calling(self._seat.rank, self._seat.contact, self._subtree is not None))

    def _drift(self, *, on: bool) -> None:
        """The controller is gone, or there is one again."""
        if on == self._adrift:
            return
        self._adrift = on
        self.do(b.Adrift(on))
        for rank in sorted(self._children):
            self.tell(rank, Adrift(on))
        if on:
            self.do(b.SetTimer("adrift 0", self._seat.grace_s))
        else:
            self.do(b.CancelTimer("adrift 0"))
        if on and self._departs:
            self._depart()

    def _due(self, kind: str, rank: int) -> None:
        child = self._children.get(rank)
        if kind == "again":
            self._flooding.again(rank)
        elif kind == "call":
            self._call()
        elif kind == "adrift":
            self._end(f"there was no controller for {self._seat.grace_s:g} s")
        elif kind == "adopt":
            self.do(b.Close(self.parent))
            self._cut(self.parent, f"it has not answered within {self._seat.patience_s:g} s")
        elif kind == "heal":
            missing = self._awaited.pop(rank, {})
            lost = {each: why for each, why in missing.items() if each not in self.gone}
            self._report(lost, unborn={*lost} - {rank} - self.reached.keys())
            self._look()
        elif child is not None and kind == "start" and not child.called:
            self.do(b.Close(rank))
            self._not_started(rank, f"it has not called within {self._seat.patience_s:g} s")
        elif child is not None and kind == "gather" and not child.whole:
            self.do(b.Close(rank))
            self._cut(rank, "it has not said in time what is below it")

    def _depart(self) -> None:
        """Leave those below to the next one further up, which awaits them as after a loss."""
        for rank in sorted(self._children):
            self.do(b.Close(rank))
        self._has_left = True
        self.do(b.Leave(alone=True))

    def _end(self, why: str) -> None:
        for rank in sorted(self._children):
            self.tell(rank, m.Ended(why))
        self._has_left = True
        self.do(b.Leave(why))
