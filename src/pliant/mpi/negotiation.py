"""What the root answers to the scheduler, and when it lets a resize begin. No MPI in here."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

from pliant.model.jobs import Bounds
from pliant.mpi.checks import Action, Decision
from pliant.mpi.session import Session
from pliant.mpi.team import Member
from pliant.plan.join import joined_key
from pliant.protocol.messages import (
    Accept,
    Decline,
    Done,
    Drain,
    Error,
    Failed,
    Get,
    GroupLost,
    Malleable,
    Offer,
    SchedulerMessage,
    Withdraw,
)


class Situation(NamedTuple):
    """Where the job stands when the root decides.

    A resize that is decided now happens ``lag`` steps from now, so as many must be ``left``. ``most_nodes`` is what the arrays can be spread over. ``signature``
    names the arrays and values of the job; newcomers that have others cannot be joined.
    """

    epoch: int
    members: tuple[Member, ...]
    left: int
    lag: int
    most_nodes: int
    signature: str = ""


def leaving(members: Sequence[Member], size: int, named: Sequence[str]) -> tuple[int, ...]:
    """The groups that leave when ``size`` nodes are to remain: those on the ``named`` nodes, and as many more
    as it takes, from the highest ranks down. ValueError if that cannot be."""
    count = len(members) - size
    first = [m.group for m in members if m.node in named]
    if unknown := sorted(set(named) - {m.node for m in members}):
        raise ValueError(f"the job has no node {', '.join(unknown)}")
    if size < 1 or count < 1 or len(first) > count:
        raise ValueError(
            f"{len(members)} nodes cannot become {size} by giving back {', '.join(named) or 'any'}"
        )
    others = [m.group for m in reversed(members) if m.group not in first]
    gone = {*first, *others[: count - len(first)]}
    return tuple(m.group for m in members if m.group in gone)


class Negotiation:
    """The root's answers. Every group's rank 0 has one; only the root's is ever used."""

    def __init__(self, session: Session, bounds: Bounds) -> None:
        self._session = session
        self._bounds = bounds
        self._open: Offer | Drain | None = None
        self._accepted = False
        self._broken = ""
        self._committed = False

    @property
    def resize(self) -> int:
        """The id of the resize that is open, or 0."""
        return self._open.resize if self._open is not None else 0

    @property
    def offer(self) -> Offer | Drain:
        if self._open is None:
            raise RuntimeError("no resize is open")
        return self._open

    @property
    def newcomers(self) -> tuple[int, ...]:
        """The groups that are to be joined in the open resize."""
        return self._open.groups if isinstance(self._open, Offer) else ()

    # ---- messages -----------------------------------------------------------------------------------

    def answer(self, now: Situation) -> None:
        """Take all messages that have come and answer what can be answered."""
        while (message := self._session.take()) is not None:
            self._take(message, now)
        self._accept_drain(now)
        if self._broken and not self._committed:
            self._fail(now.epoch, self._broken)

    def _take(self, message: SchedulerMessage, now: Situation) -> None:
        match message:
            case Offer() | Drain():
                self._open, self._accepted, self._broken = message, False, ""
                if isinstance(message, Offer):
                    self._answer_offer(message, now)
            case Withdraw(resize=resize) if resize == self.resize:
                if self._accepted:
                    self._broken = "withdrawn"
                else:
                    self._decline(now.epoch, "withdrawn")
            case GroupLost(group=group, why=why):
                self._lose(group, why)
            case Error(text=text):
                sys.stderr.write(f"pliant: the scheduler says: {text}\n")
            case _:
                pass

    def _answer_offer(self, offer: Offer, now: Situation) -> None:
        if objection := self._objection(offer, now):
            self._decline(now.epoch, objection, late=now.left <= now.lag + 1)
        else:
            self._accept(now.epoch)

    def _objection(self, offer: Offer, now: Situation) -> str:
        if offer.epoch != now.epoch:
            return f"the offer is for epoch {offer.epoch}, the job is in epoch {now.epoch}"
        if now.left <= now.lag + 1:
            return f"only {now.left} steps are left"
        if not self._bounds.allows(offer.size):
            return f"{offer.size} nodes are none of the sizes the program allows ({self._bounds.describe()})"
        nodes = len(now.members)
        if offer.kind == "expand":
            if offer.size > now.most_nodes:
                return f"the program's arrays have rows for {now.most_nodes} nodes, not for {offer.size}"
            if offer.size != nodes + len(offer.groups) or not offer.groups:
                return f"{nodes} nodes and {len(offer.groups)} new groups do not make {offer.size}"
            return ""
        if offer.kind != "shrink":
            return f"the offer's kind {offer.kind!r} is unknown"
        try:
            leaving(now.members, offer.size, offer.nodes)
        except ValueError as error:
            return str(error)
        return ""

    def _accept_drain(self, now: Situation) -> None:
        """A drain waits while too few steps are left to follow it: then the job's end answers it."""
        if isinstance(self._open, Drain) and not self._accepted and now.left > now.lag + 1:
            self._accept(now.epoch)

    def _accept(self, epoch: int) -> None:
        self._accepted = True
        self._session.send(Accept(epoch, self.resize))
        if isinstance(self._open, Offer) and self._open.kind == "expand":
            self._session.send(Get(epoch + 1, joined_key(self.resize)))

    def _decline(self, epoch: int, reason: str, *, late: bool = False) -> None:
        self._session.send(Decline(epoch, self.resize, reason, late))
        self.close()

    def _fail(self, epoch: int, error: str, *, late: bool = False) -> None:
        self._session.send(Failed(epoch, self.resize, error, late))
        self.close()

    def _lose(self, group: int, why: str) -> None:
        if group in self.newcomers:
            # The first loss stands: it is the cause of those that follow.
            self._broken = self._broken or why or f"group {group} was lost before it was joined"

    # ---- decisions ----------------------------------------------------------------------------------

    def decide(self, now: Situation) -> Decision:
        """What all ranks are to do ``now.lag`` steps from now."""
        if not self._accepted or self._committed or now.left <= now.lag:
            return Decision()
        if isinstance(self._open, Offer) and self._open.kind == "expand":
            theirs = self._session.values.pop((now.epoch + 1, joined_key(self.resize)), None)
            if theirs is None:
                return Decision()
            if theirs != now.signature:
                self._fail(now.epoch, f"the newcomers registered {theirs}, the job has {now.signature}")
                return Decision()
            action = Action.EXPAND
        else:
            action = Action.SHRINK
        self._committed = True
        return Decision(action, resize=self.resize)

    def confirm(self, resize: int, now: Situation, objection: str = "") -> bool:
        """The last word, when all ranks have stopped for the resize: whether it shall really happen.

        With an ``objection`` it fails, for that reason.
        """
        self._session.poll()
        self._committed = False
        if self.resize == resize:
            self._broken = self._broken or objection
        self.answer(now)
        return self._accepted and self.resize == resize

    def leaving(self, members: Sequence[Member]) -> tuple[int, ...]:
        """The groups that the open shrink takes away. A drain may name nodes that are gone already."""
        offer, held = self.offer, {member.node for member in members}
        named = [node for node in offer.nodes if node in held]
        size = offer.size if isinstance(offer, Offer) else min(offer.size, len(members) - len(named))
        return leaving(members, max(size, 1), named)

    def done(self, message: Done) -> None:
        """Report that the open resize has happened."""
        self._session.send(message)
        self.close()

    def close(self) -> None:
        """The resize is over, one way or the other."""
        self._open, self._accepted, self._broken, self._committed = None, False, "", False

    # ---- the loop's begin and end -------------------------------------------------------------------

    def begin(self, epoch: int) -> None:
        self._session.send(Malleable(epoch, on=True))

    def end(self, epoch: int) -> None:
        """The loop is over: nothing that is open can happen any more. A drain is answered by the end."""
        if self._accepted:
            self._fail(epoch, "the loop has ended", late=True)
        self._session.poll()
        while (message := self._session.take()) is not None:
            if isinstance(message, Offer):
                self._open = message
                self._decline(epoch, "the loop has ended", late=True)
        self._session.send(Malleable(epoch, on=False))
