"""A second opinion on one agent, by what it is told, what it tells, and what really runs on its node."""

from __future__ import annotations

from contextlib import suppress

from pliant.model.errors import ProtocolError
from pliant.protocol import codec
from pliant.protocol import messages as m
from pliant_lab.injection.audit.violation import Violation
from pliant_lab.injection.standins.process import SIGKILL, AgentView, Proc

SOON_S = 0.05
"""So long after its time an agent that has no controller is on its way out."""
ONCE = (b'"offer"', b'"drain"', b'"withdraw"', b'"grouplost"')
Key = tuple[int, int]
"""A group's job and number."""


class Told:
    """Of one agent, from its start to its end."""

    def __init__(self, agent: AgentView) -> None:
        self._agent = agent
        self._name = agent.node.name
        self._envelopes, self._orders = codec.to_agents(), codec.from_controller()
        self._sessions = codec.from_scheduler()
        self._lines = codec.Lines(codec.MAX_LINE + codec.WRAPPING)
        self._obeyed = self._number = 0
        self._proofs: set[int] = set()
        """The jobs of proofs that are asked for and not given."""
        self._ranks: dict[Key, dict[int, Proc]] = {}
        """Those whose end has not been told."""
        self._codes: dict[tuple[int, int, int], int] = {}
        self._early: dict[tuple[int, int, int], bool | None] = {}
        """Of ends that the kernel has told, and the agent has not."""
        self._given_up: set[Key] = set()
        self._up: set[Key] = set()
        self._said: set[tuple[int, str, int]] = set()
        """To a session, of which kind, of which resize or group: what it is told once."""
        self._absence = 0
        self._orphaned = False
        self._away = False
        """It has had a controller, and keeps what it tells for the next one."""
        self.garbled = False
        """Somebody has given it orders that cannot be followed."""

    # ---- its link ------------------------------------------------------------------------------------

    def linked(self) -> None:
        """It has a controller, the first or another one."""
        self._absence += 1
        self._away = False

    def unlinked(self) -> None:
        """Its controller is gone: without a grace that is its end, else it ends when that is over."""
        agent, grace = self._agent, self._agent.node.outside.grace
        self._absence += 1
        self._lines = codec.Lines(codec.MAX_LINE + codec.WRAPPING)
        absence = self._absence
        self._away = True
        if grace:
            agent.node.clock.later(grace + SOON_S, lambda: self.alone() if absence == self._absence else None)
        else:
            self._orphaned = not agent.is_ending

    def fired(self) -> None:
        """The time without a controller is over."""
        self._orphaned = not self._agent.is_ending

    def alone(self) -> None:
        """Nobody will come: it is on its way out."""
        if self._agent.lives and not self._agent.is_ending:
            raise Violation("stuck", f"{self._name} has had no controller for its grace, and stays")

    # ---- what it is told -----------------------------------------------------------------------------

    def hears(self, data: bytes) -> None:
        """What it has to answer, of what comes over its link in one piece."""
        with suppress(ProtocolError):  # that is too long for an order
            for line in self._lines.feed(data):
                if b'"prove"' in line:
                    self._asked(line)

    def _asked(self, line: bytes) -> None:
        try:
            envelope = self._envelopes.decode(line)
            order = self._orders.decode(envelope.message)
        except ProtocolError:
            return
        if isinstance(order, m.Prove) and not 0 < envelope.id <= self._obeyed:
            self._obeyed = envelope.id
            self._proofs.add(order.job)

    # ---- what it starts, and what ends ---------------------------------------------------------------

    def started(self, proc: Proc) -> None:
        self._ranks.setdefault((proc.job, proc.group), {})[proc.rank] = proc

    def ended(self, proc: Proc, code: int) -> None:
        """The kernel tells the end of a process."""
        if self._ranks.get((proc.job, proc.group), {}).get(proc.rank) is proc:
            key = proc.job, proc.group, proc.rank
            self._codes[key] = code
            self._early[key] = proc.in_mpi if code == 0 else False

    # ---- what it tells -------------------------------------------------------------------------------

    def tells(self, message: m.AgentMessage, number: int) -> None:
        if isinstance(message, m.AgentHello):
            self._has(message)
        if 0 < number <= self._number:
            return  # it was told before
        self._number = max(self._number, number)
        match message:
            case m.Error() if not self.garbled:
                raise Violation("wrong", f"{self._name} complains: {message.text}")
            case m.Proof():
                self._proofs.discard(message.job)
            case m.StartFailed():
                self._given_up.add((message.job, message.group))
            case m.Started():
                self._all_there(message)
            case m.Exited():
                self._end_told(message)
            case _:
                pass

    def _has(self, hello: m.AgentHello) -> None:
        """Its inventory names what is there: no rank that lives is missing, and no other is in it."""
        for held in hello.groups:
            key = held.job, held.group
            ranks = self._ranks.get(key, {})
            alive = {rank for rank, proc in ranks.items() if proc.alive}
            if not held.starting and not alive <= {*held.ranks} <= {*ranks}:
                raise Violation("wrong", f"{self._name} says that it has {held}, and there are {alive}")
        if missing := self._alive() - {(held.job, held.group) for held in hello.groups}:
            raise Violation("lost", f"{self._name} does not say that it has groups {sorted(missing)}")

    def _alive(self) -> set[Key]:
        return {
            key
            for key, ranks in self._ranks.items()
            if key not in self._given_up and any(proc.alive and not proc.dying for proc in ranks.values())
        }

    def _all_there(self, message: m.Started) -> None:
        key = message.job, message.group
        if key in self._up:
            return  # the order came again, and so does the answer
        self._up.add(key)
        ranks = self._ranks.get(key, {})
        known = {proc.pid for proc in ranks.values()}
        if not message.pids or not {*message.pids} <= known or len(message.pids) != len(ranks):
            raise Violation("wrong", f"{self._name} has started {sorted(known)}, and says {message}")

    def _end_told(self, end: m.Exited) -> None:
        """The end of a rank is told once, as it was; one that the agent has ended itself may have another code."""
        key = end.job, end.group
        code = self._codes.pop((*key, end.rank), None)
        if code is None:
            raise Violation("wrong", f"{self._name} tells {end}, and nothing of the kind has happened")
        del self._ranks[key][end.rank]
        if (early := self._early.pop((*key, end.rank))) not in (None, end.early):
            raise Violation("wrong", f"{self._name} tells {end}, and that it was early is {early}")
        if end.code != code and not (code == -SIGKILL and end.code > 0):
            raise Violation("wrong", f"{self._name} tells {end}, and it was {code}")

    def says(self, session: int, data: bytes) -> None:
        """What comes twice from a controller, or from two, is passed on to a session once."""
        if not any(word in data[:30] for word in ONCE):
            return
        message = self._sessions.decode(data)
        which = message.group if isinstance(message, m.GroupLost) else getattr(message, "resize", 0)
        said = session, "offer" if isinstance(message, m.Drain) else type(message).__name__.lower(), which
        if said in self._said:
            raise Violation("run_twice", f"session {session} on {self._name} hears again: {message}")
        self._said.add(said)

    # ---- its end -------------------------------------------------------------------------------------

    def idle(self) -> None:
        """Nothing goes on any more: all ends have been told."""
        if untold := [end for end in self._codes if end[:2] not in self._given_up]:
            raise Violation("lost", f"{self._name} has not told the ends of ranks {untold}")

    def leaves(self, *, orphaned: bool) -> None:
        """It answers what it was asked before it leaves, if there is a controller, waits for nothing, and says why."""
        if self._proofs and not self._away:
            raise Violation(
                "lost", f"{self._name} leaves, and owes the proofs of jobs {sorted(self._proofs)}"
            )
        if self._agent.timers:
            raise Violation("leaked", f"{self._name} leaves, and waits for {[*self._agent.timers]}")
        if orphaned != self._orphaned:
            why = "has lost its controller" if self._orphaned else "was told to"
            raise Violation("wrong", f"{self._name} leaves, as it {why}, and says otherwise")
