"""How the stand-in for a rank of a malleable program sleeps and wakes up: ``mpi/resizing/slots.py`` in a world."""

from __future__ import annotations

from pliant.job.decisions import Action, Decision
from pliant.protocol import messages as m
from pliant_lab.injection.standins.fabric import Fabric, Seat
from pliant_lab.injection.standins.growing import GrowingRank
from pliant_lab.injection.standins.malleable import END, QUIT
from pliant_lab.injection.standins.running import Host, Script
from pliant_lab.injection.standins.team import Snapshot, Team, count_members

LEADER = "rank 0 of the group wakes it, and it does not outlive that"
"""Why a wait for it has no deadline."""


class SleepingRank(GrowingRank):
    """One rank. ``beds`` are those of its group that sleep, on rank 0 of it; ``word`` is what one of them has heard."""

    def __init__(self, host: Host, fabric: Fabric) -> None:
        super().__init__(host, fabric)
        self.beds: dict[int, SleepingRank] = {}
        self.word = ""
        self.leader: SleepingRank | None = None

    @property
    def local(self) -> int:
        """Its rank in its group."""
        return 0 if self._world is None else self._world.rank

    def ended(self) -> None:
        super().ended()
        for rank in self.beds.values():
            rank.wake()

    def let_go(self, word: str) -> None:
        for rank in self.beds.values():
            rank.word = word
            rank.wake()
        self.beds = {}

    def _resize(self, decision: Decision) -> Script[None]:
        if decision.action is not Action.SLOTS:
            yield from super()._resize(decision)
            return
        began, old = self.host.now, self.joined
        order = yield from self._order(decision)
        if not order.go:
            return
        slots = dict(order.slots)
        sleeps = self.local >= slots.get(self.group, self.local + 1)
        told = yield from self._all(old.own, (sleeps, self), "who is to sleep")
        if gone := {rank for rank, (each, _) in told.items() if each}:
            if sleeps:
                self._make_bed([rank for _, rank in told.values()])
            yield from self._part(gone)
        if self.team is not None:
            yield from self._wake(slots)
        if self._negotiation is not None and self._negotiation.resize == decision.resize:
            blocked_s = self.host.now - began
            self._negotiation.done(m.Done(self.epoch, decision.resize, old.groups[0], blocked_s=blocked_s))
        self.epoch += 1
        if self.team is None:
            yield from self._asleep()
        if not self.released:
            self._start_epoch()

    def _make_bed(self, ranks: list[SleepingRank]) -> None:
        """Rank 0 of its group knows it, and it knows that one."""
        self.leader = next(rank for rank in ranks if rank.group == self.group and rank.local == 0)
        self.leader.beds[self.local] = self
        self.word = ""

    def _asleep(self) -> Script[None]:
        """Until it is woken, or its group's rank 0 is gone or lets it go."""
        leader = self.leader
        if leader is None:
            raise RuntimeError(f"{self.name} sleeps, and nobody will wake it")
        yield from self.wait(
            lambda: self.word != "" or leader.over, "being woken", excuse=LEADER, polls=False
        )
        word, self.word = self.word, ""
        if not word:
            self.abort("the rank that was to wake it is gone")
        if word == QUIT:
            self.exit(0)
        if word.startswith("port/"):
            yield from self._join(word)
            return
        self.released, self.slept_out = True, word == END

    def _wake(self, slots: dict[int, int]) -> Script[None]:
        """Those who are to wake up join the others, group by group; collective over those who are awake."""
        team = self.joined
        waking = [group for group, count in slots.items() if count > team.awake(group)]
        if not waking:
            return
        own = Seat(team.own.comm.twin().twin(), team.own.rank)
        ports = [self.fabric.open_port() for _ in waking] if own.rank == 0 else []
        ports = yield from self._told(own, 0, ports, "the ports of the root")
        for number, (group, port) in enumerate(zip(waking, ports, strict=True)):
            if group == self.group and self.local == 0:
                first, last = team.awake(group), slots[group]
                for rank in range(first, last):
                    sleeper = self.beds.pop(rank)
                    sleeper.word = f"{port} {first} {last} {len(waking) - number - 1}"
                    sleeper.wake()
            own = yield from self._meet(own, port, "accepting ranks that wake up", accepts=True)
        yield from self._taken_in(own, team.own.size)

    def _join(self, word: str) -> Script[None]:
        """The part of those who wake up."""
        port, *numbers = word.split()
        first, last, more = map(int, numbers)
        own = self.fabric.world(f"{port} woken", last - first, self.local - first)
        yield from self._all(own, None, "the others of this node that wake up")
        own = yield from self._meet(own, port, "connecting, awake", accepts=False)
        for _ in range(more):
            own = yield from self._meet(own, "", "accepting ranks that wake up", accepts=True)
        yield from self._taken_in(own, 0)

    def _taken_in(self, own: Seat, sources: int) -> Script[None]:
        """Collective over those of before and those who wake up."""
        groups = yield from self._all(own, self.group, "the names of the groups")
        snapshot = Snapshot(self.step, self.total, self.lag, self.spans)
        told = yield from self._told(own, 0, (snapshot, self.epoch), "the job's state")
        if not sources:
            (self.step, self.total, self.lag, self.spans), epoch = told
            self.epoch = epoch + 1
        self.team = Team(own, count_members(groups))
        yield from self._move(own)
