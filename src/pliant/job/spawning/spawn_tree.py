"""A process' part in the tree of starts: the worlds that it starts, and the words that go up and down between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from pliant.job.errors import Stalled
from pliant.job.spawning import messages as m
from pliant.job.spawning import operations as o
from pliant.plan.spawn import SOURCES, SpawnCall, SpawnPlan
from pliant.plan.synchronise import sync_tree


def patience(plan: SpawnPlan) -> int:
    """How many deadlines those wait who wait for the sources, or for who starts others in their place: each start has
    one, and others follow behind it. Who gave up before would end a job that can go on."""
    starts = Counter(call.parent_rank for call in plan.calls if call.parent_group == SOURCES)
    return max(starts.values()) + 2


class Child(NamedTuple):
    """``comm``: between the process that has started the world, or all sources if they started it together, and it."""

    world: int
    comm: o.Comm


class SpawnTreeNode:
    """Parent and children of a rank's world: what it starts, hears of that, and says.

    ``own``: the world's communicator. ``parent``: between the process that has started this world and it; None for
    the sources.
    """

    def __init__(self, own: o.Comm, briefing: m.Briefing, parent: o.Comm | None) -> None:
        self.children: list[Child] = []
        self._own, self._rank, self._briefing, self._parent = own, own.rank, briefing, parent
        self._world = briefing.world
        self._plan = briefing.plan()
        self._tree = sync_tree(self._plan).worlds[self._world + 1]
        self._error = ""
        self._sent: list[object] = []
        self._parting: list[object] = []
        self._lost = False

    @property
    def first(self) -> bool:
        """Whether this is rank 0 of its world, or the only one that starts others for it."""
        return self._rank == 0

    # ---- start --------------------------------------------------------------------------------------

    def start(self) -> o.Steps[None]:
        """Start the worlds that the plan wants of this rank, one after the other; what fails is for the report."""
        together = self._world == SOURCES and not self._plan.by_port
        mine = (self._world, self._rank)
        count = 0
        for world, call in enumerate(self._plan.calls):
            if not together and (call.parent_group, call.parent_rank) != mine:
                continue
            count += 1
            try:
                comm = yield from self._spawn(call, self._own if together else None)
            except o.Failed as error:
                self._error = f"group {call.groups[0].id} on {self._hosts(call)}: {error}"
                return
            self.children.append(Child(world, comm))
            if mine == (call.parent_group, call.parent_rank):
                own = msgspec.structs.replace(
                    self._briefing, world=world, step=self._briefing.step + count,
                    parent_group=self._world, parent_rank=self._rank,
                )  # fmt: skip
                self._sent += yield o.Send(comm, 0, own)

    def _spawn(self, call: SpawnCall, by: o.Comm | None) -> o.Steps[o.Comm]:
        command, hosts = self._briefing.command, self._hosts(call)
        comm: o.Comm = yield o.Spawn(command, hosts, call.size, by, f"starting {command[0]} on {hosts}")
        return comm

    def _hosts(self, call: SpawnCall) -> str:
        """As mpiexec reads it. Always given: without it, the second start on several hosts ends mpiexec."""
        return ",".join(f"{self._briefing.hosts[group.node]}:{group.size}" for group in call.groups)

    # ---- upside -------------------------------------------------------------------------------------

    def upside(self, ports: Mapping[str, str]) -> o.Steps[m.Report]:
        """What is known here of all that is below: on rank 0 of the world, of all that its ranks have started.

        Rank 0 of a new world has sent it to the parent as well, with the ``ports`` that it has opened.
        """
        present = yield from self._present()
        report = m.Report(self._error, present, dict(ports)) + (yield from self._below())
        own = self._own
        if self._rank and self._rank in self._tree.members:
            self._sent += yield o.Send(own, 0, report)
        if self._rank == 0:
            members = tuple((own, rank) for rank in self._tree.members if rank)
            what, share = "the ranks that start others", patience(self._plan)
            for each in (yield o.Receive(members, m.Report, what, share=share)):
                report += each
            if self._parent is not None:
                self._sent += yield o.Send(self._parent, 0, report)
        return report

    def _present(self) -> o.Steps[tuple[m.Started, ...]]:
        """The groups that this world consists of, told by its rank 0."""
        if self._world == SOURCES:
            return ()
        hosts: list[str] = yield o.Hosts(self._own, "the hosts of the group")
        briefing, first = self._briefing, 0
        present: list[m.Started] = []
        for group in self._plan.calls[self._world].groups if self._rank == 0 else ():
            there = hosts[first : first + group.size]
            first += group.size
            started = m.Started(
                group.id, briefing.step, briefing.parent_group, briefing.parent_rank,
                ",".join(dict.fromkeys(there)), len(there),
            )  # fmt: skip
            present.append(started)
        return tuple(present)

    def _below(self) -> o.Steps[m.Report]:
        mine = [child for child in self.children if self._speaks_to(child)]
        report = m.Report()
        try:
            # Who is further up waits longer, so that the news of a loss comes before it is given up itself.
            share = 1 / 2 / (1 + self._briefing.step)
            peers = tuple((child.comm, 0) for child in mine)
            heard: list[m.Report] = yield o.Receive(peers, m.Report, "what was started", share=share)
        except (Stalled, o.Failed) as error:
            worlds = ", ".join(str(child.world) for child in mine)
            return m.Report(f"not all of the groups {worlds} have come up: {error}")
        for each in heard:
            report += each
        return report

    def _speaks_to(self, child: Child) -> bool:
        call = self._plan.calls[child.world]
        return (call.parent_group, call.parent_rank) == (self._world, self._rank)

    # ---- downside -----------------------------------------------------------------------------------

    def downside(self, verdict: m.Verdict | None) -> o.Steps[m.Verdict]:
        """What the sources' rank 0 has found, which gives it as ``verdict``, on every rank, and sent further down."""
        what, share = "word that all groups are there", patience(self._plan)
        if self._parent is not None and self._rank == 0:
            (verdict,) = yield o.Receive(((self._parent, 0),), m.Verdict, what, share=share)
        told: m.Verdict = yield o.Tell(self._own, verdict, m.Verdict, what, share=share)
        for child in self.children:
            if self._speaks_to(child):
                yield from self._spared(self._send(child, told), told)
        return told

    def _send(self, child: Child, verdict: m.Verdict) -> o.Steps[None]:
        self._sent += yield o.Send(child.comm, 0, verdict)

    def _spared(self, steps: o.Steps[None], verdict: m.Verdict) -> o.Steps[None]:
        """Where all is called off as one has ended, MPI may say of it that it is not there."""
        try:
            yield from steps
        except o.Failed:
            if not verdict.error:
                raise
            self._lost = True

    def part(self) -> o.Steps[None]:
        """Begin to leave parent and children: a barrier that is waited for in :meth:`gone`, or at the end of the job in
        :meth:`late`."""
        for comm in self._others:
            self._parting += yield o.Part(comm)

    @property
    def _others(self) -> tuple[o.Comm, ...]:
        parent = () if self._parent is None else (self._parent,)
        return (*parent, *(child.comm for child in self.children))

    def gone(self) -> o.Steps[None]:
        """Leave parent and children, if :meth:`part` has begun to."""
        yield o.Await((*self._sent, *self._parting), "parent and children to part")
        if self._parting:
            yield o.Leave(self._others, "leaving parent and children")

    # ---- where it is called off ---------------------------------------------------------------------

    def go(self) -> o.Steps[None]:
        """A newcomer leaves when its whole subtree has left. It waits without a limit and never fails: a failure would
        end the job that goes on. A process that hangs ends with the job. After :meth:`part` this is a second barrier,
        as the first does not tell which processes leave."""
        parent = () if self._parent is None else (self._parent,)
        for comms in (tuple(child.comm for child in self.children), parent):
            parting, self._parting = self._parting, []
            for comm in comms:
                parting += yield o.Part(comm)
            yield o.Await(tuple(parting), "those below to go", limited=False)
            yield o.Leave(comms)

    def call_off(self, verdict: m.Verdict) -> o.Steps[None]:
        """Begin to leave those that were started; nobody waits for that before :meth:`late`."""
        yield from self._spared(self.part(), verdict)

    def late(self) -> o.Steps[bool]:
        """At the end of a job whose newcomers have been called off: whether some are there still, or that cannot be
        told. Who was only slow has gone, or does so now."""
        if self._lost:
            return True
        try:
            # Disconnect would wait for what has been received in part, or not at all.
            yield o.Await(tuple(self._parting), "those that were started, and go again")
        except (Stalled, o.Failed):
            return True
        return False
