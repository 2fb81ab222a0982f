"""What the root answers to the scheduler, and when it lets a resize begin. No MPI and no I/O in here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pliant.job.decisions import Action, Decision
from pliant.job.session import Session, nothing
from pliant.model.jobs import Bounds
from pliant.model.words import are, count
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
    Stay,
    Want,
    Withdraw,
)


class Situation(NamedTuple):
    """Where the job stands when the root decides.

    ``members`` are its groups, in the order of their ranks. A resize that is decided now happens ``lag``
    steps from now, so as many must be ``left``. ``most_nodes`` is what the arrays can be spread over.
    ``signature`` names the arrays and values of the job; newcomers that have others cannot be joined.
    ``sleeps``: ranks may be put to sleep where the job is now. ``inhibited``: why offers are declined now; empty if
    they are not.
    """

    epoch: int
    members: tuple[int, ...]
    left: int
    lag: int
    most_nodes: int
    signature: str = ""
    sleeps: bool = True
    inhibited: str = ""

    @property
    def late(self) -> bool:
        """Whether too little is left for another resize."""
        return self.left <= self.lag + 1


def leaving(members: Sequence[int], size: int, named: Sequence[int], least: int = 1) -> tuple[int, ...]:
    """The groups that leave when ``size`` of ``members`` are to remain: those ``named``, and as many more as it
    takes, from the last on down. ValueError if that cannot be; at ``least`` so many have to remain."""
    count, first = len(members) - size, set(named)
    if unknown := sorted(first - set(members)):
        raise ValueError(f"the job has no group {', '.join(map(str, unknown))}")
    if size < least or count < 1 or len(first) > count:
        given = ", ".join(map(str, named)) or "any"
        raise ValueError(f"{len(members)} groups cannot become {size} by giving back {given}")
    others = [group for group in reversed(members) if group not in first]
    gone = {*first, *others[: count - len(first)]}
    return tuple(group for group in members if group in gone)


def action_of(offer: Offer | Drain, members: Sequence[int]) -> Action:
    """What an offer asks of a job of ``members``: it follows from who arrives and who leaves."""
    if isinstance(offer, Offer) and offer.slots:
        return Action.SLOTS
    arriving = len(offer.arriving) if isinstance(offer, Offer) else 0
    if not arriving:
        return Action.SHRINK
    stays = not offer.leaving and offer.size >= len(members) + arriving
    return Action.EXPAND if stays else Action.MIGRATE


class Negotiation:
    """The root's answers. Every group has one; only the root's is ever used.

    Its owner feeds the session first; nothing here waits. What is open, and whether it was accepted, the session knows.
    """

    def __init__(
        self,
        session: Session,
        bounds: Bounds,
        say: Callable[[str], object] = nothing,
        *,
        migrates: bool = False,
        sleeps: bool = False,
    ) -> None:
        """``say`` gets what the scheduler complains about, for people. ``migrates``: the program's runtime can let
        groups join and others leave in one resize; ``sleeps``: it can put ranks of a group to sleep, and wake them."""
        self._session = session
        self._side = session.side
        self._bounds = bounds
        self._say = say
        self._migrates = migrates
        self._sleeps = sleeps
        self._broken = ""
        self._committed = False
        self._ahead = False
        self._joining = False
        self._asked = False
        self._unwanted = ""

    @property
    def asked(self) -> bool:
        """Whether a Want is out that has had no answer."""
        return self._asked

    @property
    def idle(self) -> bool:
        """Whether nothing is open and nothing has come: there is nothing to answer or to decide."""
        return not (self.resize or self._asked or self._session.inbox)

    @property
    def resize(self) -> int:
        """The id of the resize that is open, or 0."""
        return self._side.resize

    @property
    def offer(self) -> Offer | Drain:
        if self._side.offer is None:
            raise RuntimeError("no resize is open")
        return self._side.offer

    @property
    def newcomers(self) -> tuple[int, ...]:
        """The groups that are to be joined in the open resize."""
        offer = self._side.offer
        return tuple(group.id for group in offer.arriving) if isinstance(offer, Offer) else ()

    @property
    def joining(self) -> tuple[int, ...]:
        """The newcomers that the job is being connected to right now."""
        return self.newcomers if self._joining else ()

    @property
    def broken(self) -> str:
        """Why the open resize cannot be done; empty if nothing is known against it."""
        return self._broken

    @property
    def slots(self) -> dict[int, int]:
        """How many ranks of groups are to be awake after the open resize, of those whose number it changes."""
        offer = self._side.offer
        return offer.slots if isinstance(offer, Offer) else {}

    # ---- messages -----------------------------------------------------------------------------------

    def answer(self, now: Situation) -> None:
        """Take all messages that have come and answer what can be answered."""
        while (message := self._session.take()) is not None:
            self._take(message, now)
        self._accept_drain(now)
        if self._broken and not self._committed:
            self._fail(now.epoch, self._broken)

    def _take(self, message: SchedulerMessage, now: Situation) -> None:
        unwanted = self._unwanted
        if isinstance(message, Offer | Drain | Stay):
            self._asked, self._unwanted = False, ""
        match message:
            case Offer() | Drain():
                if isinstance(message, Offer):
                    self._answer_offer(message, now, unwanted)
            case Withdraw(resize=resize) if self._side.offer is not None and resize == self.resize:
                if self._side.accepted:
                    self._broken = "withdrawn"
                else:
                    self._decline(now.epoch, "withdrawn")
            case GroupLost(group=group, why=why):
                self._lose(group, why)
            case Error(text=text):
                self._say(text)
            case _:
                pass

    def _answer_offer(self, offer: Offer, now: Situation, unwanted: str) -> None:
        if objection := unwanted or self._objection(offer, now):
            self._decline(now.epoch, objection, late=now.late or bool(now.inhibited or unwanted))
        else:
            self._accept(now.epoch)

    def _objection(self, offer: Offer, now: Situation) -> str:
        if offer.epoch != now.epoch:
            return f"the offer is for epoch {offer.epoch}, the job is in epoch {now.epoch}"
        if now.late:
            return f"only {are(now.left, 'step')} left"
        if now.inhibited:
            return now.inhibited
        if not self._bounds.allows(offer.size):
            return (
                f"{are(offer.size, 'node')} none of the sizes the program allows ({self._bounds.describe()})"
            )
        return self._objection_to_groups(offer, now)

    def _objection_to_groups(self, offer: Offer, now: Situation) -> str:
        action = action_of(offer, now.members)
        if action is Action.SLOTS:
            return self._objection_to_slots(offer, now)
        if action is not Action.SHRINK and (objection := self._objection_to_newcomers(offer, now)):
            return objection
        if action is Action.MIGRATE and not self._migrates:
            return (
                f"groups {', '.join(map(str, self._ids(offer)))} arrive while others leave, and this program's runtime "
                "cannot do both in one resize: offer an expansion and a shrink, one after the other"
            )
        if action is not Action.EXPAND:
            return self._objection_to_leaving(offer, now)
        return ""

    def _objection_to_slots(self, offer: Offer, now: Situation) -> str:
        if not (self._sleeps and now.sleeps):
            return "this program's runtime cannot put ranks to sleep: offer another number of nodes"
        if offer.arriving or offer.leaving or offer.size != len(now.members):
            return "an offer that says how many ranks are awake changes no nodes: offer one, then the other"
        if unknown := sorted(offer.slots.keys() - set(now.members)):
            return f"the job has no group {', '.join(map(str, unknown))}"
        if asleep := sorted(group for group, count in offer.slots.items() if count < 1):
            return f"at least one rank of group {', '.join(map(str, asleep))} has to stay awake"
        return ""

    @staticmethod
    def _ids(offer: Offer) -> list[int]:
        return [group.id for group in offer.arriving]

    def _objection_to_newcomers(self, offer: Offer, now: Situation) -> str:
        ids = self._ids(offer)
        if len({*ids, *now.members}) < len(ids) + len(now.members):
            return f"of the groups {', '.join(map(str, ids))} that are to arrive some are there already"
        if offer.size > max(now.most_nodes, len(now.members)):
            return f"the program's arrays have rows for {count(now.most_nodes, 'node')}, not for {offer.size}"
        if offer.size > len(now.members) + len(ids):
            return f"{count(len(now.members), 'node')} and {count(len(ids), 'new group')} do not make {offer.size}"
        return ""

    @staticmethod
    def _objection_to_leaving(offer: Offer | Drain, now: Situation) -> str:
        try:
            _gone(offer, now.members)
        except ValueError as error:
            return str(error)
        return ""

    def _accept_drain(self, now: Situation) -> None:
        """A drain waits while too few steps are left to follow it: then the job's end answers it.

        It cannot be declined, so one that cannot be followed is accepted and fails.
        """
        drain = self._side.offer
        if not isinstance(drain, Drain) or self._side.accepted or now.late:
            return
        self._accept(now.epoch)
        if drain.epoch != now.epoch:
            self._broken = f"the drain is for epoch {drain.epoch}, the job is in epoch {now.epoch}"
        else:
            self._broken = self._objection_to_leaving(drain, now)

    def _accept(self, epoch: int) -> None:
        self._session.send(Accept(epoch, self.resize))
        if self.newcomers:
            self._session.send(Get(epoch + 1, joined_key(self.resize)))

    def _decline(self, epoch: int, reason: str, *, late: bool = False) -> None:
        self._session.send(Decline(epoch, self.resize, reason, late))
        self._close()

    def _fail(self, epoch: int, error: str, *, late: bool = False) -> None:
        self._session.send(Failed(epoch, self.resize, error, late))
        self._close()

    def overhear(self, group: int, why: str) -> None:
        """A group is lost, which the inbox tells too late for those who wait for it."""
        self._lose(group, why)

    def _lose(self, group: int, why: str) -> None:
        if group in self.newcomers:
            # The first loss stands: it is the cause of those that follow.
            self._broken = self._broken or why or f"group {group} was lost before it was joined"

    def want(self, epoch: int, bounds: Bounds, keep: bool = False, prefers: bool = False) -> bool:  # noqa: FBT001, FBT002 - recorded by position
        """Ask for a size within ``bounds``, with ``prefers`` for the preferred one; where it cannot be had now,
        ``keep`` leaves the wish open. False, and nothing is sent, while a resize is open, or a Want that was forgotten
        has had no answer: ask again after it."""
        if self._unwanted or self._side.state != "ready":
            return False
        self._session.send(Want(epoch, bounds, keep, prefers))
        self._asked = True
        return True

    def forget(self, now: Situation, why: str) -> None:
        """What was asked for is not wanted any more: an offer that was accepted and has not begun fails, for that
        reason, and one that comes as the answer to a Want that is out is declined.

        Nothing tells whose answer a message is, so the next Want is sent when that has come.
        """
        if self._asked:
            self._unwanted = self._unwanted or why
        elif isinstance(self._side.offer, Offer) and not self._committed:
            self._broken = self._broken or why
            self.answer(now)

    # ---- decisions ----------------------------------------------------------------------------------

    def decide(self, now: Situation) -> Decision:
        """What all ranks are to do ``now.lag`` steps from now."""
        if not self._side.accepted or self._committed or now.left <= now.lag:
            return Decision()
        if self.newcomers:
            theirs = self._session.values.pop((now.epoch + 1, joined_key(self.resize)), None)
            if theirs is None:
                return Decision()
            if theirs != now.signature:
                self._fail(now.epoch, f"the newcomers registered {theirs}, the job has {now.signature}")
                return Decision()
        self._committed = True
        return Decision(action_of(self.offer, now.members), resize=self.resize)

    def go_ahead(self) -> None:
        """The open resize has begun, and goes on beside the steps until :meth:`finish` says that they stop for it."""
        self._committed = self._ahead = True

    def finish(self, now: Situation, *, there: bool) -> Decision:
        """As :meth:`decide`, where a resize goes on beside the steps. ``there``: what moves has moved, or has had its
        time."""
        last = now.left <= 2 * now.lag + 1  # the next check may be too late
        if self._ahead and now.left > now.lag and (there or last or self._broken):
            return Decision(Action.FINISH, resize=self.resize)
        return Decision()

    def confirm(self, resize: int, now: Situation, objection: str = "") -> bool:
        """The last word, when all ranks have stopped for the resize: whether it shall really happen.

        With an ``objection`` it fails, for that reason.
        """
        self._committed = self._ahead = self._joining = False
        if self.resize == resize:
            self._broken = self._broken or objection
        self.answer(now)
        self._joining = self._side.accepted and self.resize == resize
        return self._joining

    def joined(self) -> None:
        """The newcomers are a part of the job: none of them can be given up any more."""
        self._joining = False

    def leaving(self, members: Sequence[int]) -> tuple[int, ...]:
        """The groups of ``members`` that the open resize takes away."""
        return _gone(self.offer, members)

    def done(self, message: Done) -> None:
        """Report that the open resize has happened."""
        self._session.send(message)
        self._close()

    def _close(self) -> None:
        """The resize is over, one way or the other."""
        self._broken = ""
        self._committed = self._ahead = self._joining = False

    # ---- the loop's begin and end -------------------------------------------------------------------

    def begin(self, epoch: int, growth_limit: int = 0) -> None:
        """The loop begins; it cannot grow to more than ``growth_limit`` nodes, if that is not 0."""
        self._session.send(Malleable(epoch, on=True, most=growth_limit))

    def end(self, epoch: int) -> None:
        """The loop is over: nothing that is open can happen any more. A drain is answered by the end."""
        if self._side.accepted:
            self._fail(epoch, "the loop has ended", late=True)
        while (message := self._session.take()) is not None:
            withdrawn = isinstance(message, Withdraw) and message.resize == self.resize
            if self._side.offer is not None and (isinstance(message, Offer) or withdrawn):
                self._decline(epoch, "the loop has ended", late=True)
        self._session.send(Malleable(epoch, on=False))


def _gone(offer: Offer | Drain, members: Sequence[int]) -> tuple[int, ...]:
    """The groups of ``members`` that ``offer`` takes away. A drain may name groups that are gone already."""
    if isinstance(offer, Drain):
        named = [group for group in offer.leaving if group in members]
        return leaving(members, min(offer.size, len(members) - len(named)), named)
    if action_of(offer, members) in (Action.EXPAND, Action.SLOTS):
        return ()
    arriving = len(offer.arriving)
    return leaving(members, offer.size - arriving, offer.leaving, least=0 if arriving else 1)
