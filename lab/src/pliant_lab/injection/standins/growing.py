"""How the stand-in for a rank of a malleable program grows: an expansion of ``mpi/resizing/resize.py`` in a world, at
once, or in two parts, between which constant data move beside the steps (``mpi/data/ahead.py``)."""

from __future__ import annotations

from typing import NamedTuple, cast

from pliant.job.decisions import Action, Decision
from pliant.job.negotiation import Situation
from pliant.plan.join import source_key
from pliant.protocol.phases import Phase
from pliant_lab.injection.standins.admission import Undone
from pliant_lab.injection.standins.fabric import Call, Fabric, Seat
from pliant_lab.injection.standins.malleable import MalleableRank
from pliant_lab.injection.standins.running import PEERS, Host, Script
from pliant_lab.injection.standins.team import Members, Snapshot, Team, after

FEW_CHECKS = 8
LONGEST_S = 10.0
MOVING_S = 6.0
"""What moves on a rank beside its steps takes so long, at the most."""


class Begun(NamedTuple):
    """An expansion that has begun: what moves on this rank does until ``until``."""

    old: Team
    own: Seat
    newcomers: Members
    at: float
    until: float


class GrowingRank(MalleableRank):
    """One rank. ``begun`` is there while constant data move, on a source of an expansion."""

    def __init__(self, host: Host, fabric: Fabric) -> None:
        super().__init__(host, fabric)
        self.begun: Begun | None = None
        self._arrived: Call | None = None

    def _grow(self, resize: int, leaving: tuple[int, ...]) -> Script[list[int]]:
        begun, self.begun = self.begun, None
        if begun is None:
            return (yield from self._at_once(resize, leaving))
        yield from self._agreed(begun.old.own, self._rest(begun))
        return (yield from self._close(begun.own, begun.old.members, begun.newcomers))

    def _at_once(self, resize: int, leaving: tuple[int, ...]) -> Script[list[int]]:
        """The sources' part of an expansion, or of a migration; the groups of the job then."""
        team = self.joined
        own = yield from self._merged(resize)
        newcomers = yield from self._agreed(team.own, self._take_in(team, own, leaving))
        return (yield from self._close(own, team.members, newcomers, leaving))

    def _merged(self, resize: int) -> Script[Seat]:
        """The sources and the newcomers in one communicator."""
        team = self.joined
        self._come(Phase.CONNECT)
        own = yield from self._admit(team.own, source_key(resize))
        yield from self._agreed(team.own, self._all(own, None, "all newcomers to be connected"))
        self._come(Phase.MERGE)
        yield from self._merge(own)
        self._come(Phase.REORDER)
        return own

    def _close(
        self, own: Seat, old: Members, newcomers: Members, leaving: tuple[int, ...] = ()
    ) -> Script[list[int]]:
        """The root's last word; the groups of the job then."""
        self.joining = ()
        groups, ranks = after(old, leaving, newcomers)
        if not leaving:
            self._come(Phase.COMMIT)
        yield from self._all(own, None, "the sources to have the root's last word")
        if leaving:
            yield from self._divide(ranks)
        return groups

    def _introduce(self, own: Seat, leaving: tuple[int, ...] = (), *, ahead: bool = False) -> Script[Members]:
        team = self.joined
        newcomers = yield from self._told(own, team.own.size, None, "the newcomers' names")
        yield from self._told(own, 0, (self._snapshot(), team.members, leaving, ahead), "the job's state")
        return cast("Members", newcomers)

    def _snapshot(self) -> Snapshot:
        return Snapshot(self.step, self.total, self.lag, self.spans)

    def _take_in(self, team: Team, own: Seat, leaving: tuple[int, ...]) -> Script[Members]:
        newcomers = yield from self._introduce(own, leaving)
        self.team = Team(own, (*team.members, *newcomers))
        self._come(Phase.REDISTRIBUTE)
        yield from self._move(own)
        return newcomers

    def _is_ahead(self, decision: Decision) -> bool:
        enough = decision.action is Action.EXPAND and self.total - self.step > FEW_CHECKS * self.lag
        return enough and self.host.random.random() < self.program.word("ahead", 0)

    def _moving_s(self) -> float:
        return self.host.random.uniform(0, MOVING_S)

    def _begin(self, resize: int) -> Script[None]:
        team = self.joined
        try:
            own = yield from self._merged(resize)
            newcomers = yield from self._agreed(team.own, self._off(own))
        except Undone as undone:
            self._give_up(team, resize, str(undone))
            return
        now = self.host.now
        self.begun, self._arrived = Begun(team, own, newcomers, now, now + self._moving_s()), None
        if self.negotiates:
            self.negotiation.go_ahead()

    def _off(self, own: Seat) -> Script[Members]:
        newcomers = yield from self._introduce(own, ahead=True)
        self._come(Phase.REDISTRIBUTE)
        yield from self._all(own, "", "what is to move on all ranks")
        return newcomers

    def _turned(self) -> None:
        begun = self.begun
        if begun is not None and self._arrived is None and self.host.now >= begun.until:
            self._arrived = begun.own.call()

    def _decided(self, now: Situation) -> Decision:
        if self.begun is None:
            return self.negotiation.decide(now)
        arrived = self._arrived is not None and self._arrived.done
        return self.negotiation.finish(now, there=arrived or self.host.now - self.begun.at > LONGEST_S)

    def _abandon(self) -> None:
        if self.begun is not None:
            self.begun, self.joining, self.lost = None, (), ""

    def _rest(self, begun: Begun) -> Script[None]:
        if self._arrived is None:
            left = max(0.0, begun.until - self.host.now)
            yield from self.sleep(left, "the constant data to move", polls=True)
            self._arrived = begun.own.call()
        yield from self.complete(self._arrived, "the constant data to move")
        yield from self._told(begun.own, 0, self._snapshot(), "the job's state as it is now")
        self.team = Team(begun.own, (*begun.old.members, *begun.newcomers))
        self._come(Phase.REDISTRIBUTE)
        yield from self._move(begun.own)

    def _early(self, own: Seat) -> Script[Snapshot]:
        """The newcomers' part, while the sources compute."""
        yield from self._all(own, "", "what is to move on all ranks")
        yield from self.sleep(self._moving_s(), "the constant data to move", polls=True)
        yield from self._all(own, None, "the constant data to move", PEERS)
        snapshot = yield from self._told(own, 0, None, "the job's state as it is now")
        return cast("Snapshot", snapshot)
