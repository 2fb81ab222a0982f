"""What place 0 does as the scheduler wants places to come or to leave, as a machine without I/O, clock or threads.

It stands on the job's session and negotiation. Its owner tells it how things are (``look``), which answers with what is
to be done, in order; what the malleable handler was asked is answered by ``asked``. One change at a time:

| change  | goes through                                                                                       |
|---------|----------------------------------------------------------------------------------------------------|
| growth  | PreGrow, the new places come, Join, done; or called off: TurnAway, PostGrow with none new          |
| shrink  | PreShrink, Release, they leave, PostShrink, done; or called off: Keep, PostShrink without those    |

A growth whose handler does not want the places once they are there is undone: they leave again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pliant.apgas.place.membership import MOST_PLACES, named
from pliant.job.decisions import Action
from pliant.job.negotiation import Situation
from pliant.job.recording import negotiation
from pliant.job.session import Session, nothing
from pliant.model.jobs import Bounds
from pliant.plan.join import source_key
from pliant.protocol.messages import Done, GroupLost, Put, Reached, SchedulerMessage, Want, Withdraw
from pliant.protocol.phases import Phase

SIGNATURE = "places"
STAY_S = 5.0
"""How long those that were to leave may take to say that they stay, or to have left."""
DID_NOT_LEAVE = "it was done, and did not leave"
FOREVER = 1 << 30
"""Steps that are left of a program that has none: a change may come at any time."""


class View(NamedTuple):
    """How things are at place 0 at ``time``, in seconds: the places that take tasks, those that have come and are not
    taken in, and those that are leaving."""

    time: float
    members: tuple[int, ...]
    arrived: Collection[int]
    parting: Collection[int]


@dataclass(frozen=True, slots=True)
class PreGrow:
    """Take the handler's turn, and tell it that ``count`` places are to come."""

    resize: int
    count: int


@dataclass(frozen=True, slots=True)
class Join:
    """Take in ``places``, and tell the handler."""

    resize: int
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PostGrow:
    """Tell the handler that none of ``count`` places comes."""

    resize: int
    count: int


@dataclass(frozen=True, slots=True)
class PreShrink:
    """Take the handler's turn, and ask it for ``count`` places that are to leave, ``wanted`` among them."""

    resize: int
    count: int
    wanted: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PostShrink:
    """Tell the handler that of ``count`` places ``removed`` have left, and no others will."""

    resize: int
    count: int
    removed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TurnAway:
    """``places`` are not wanted any more, if they have come."""

    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """Let ``places`` leave when their tasks are over."""

    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Keep:
    """Those of ``places`` that still have tasks stay after all."""

    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Lose:
    """``place`` is gone."""

    place: int
    why: str


@dataclass(frozen=True, slots=True)
class Say:
    """Tell people."""

    text: str


@dataclass(frozen=True, slots=True)
class EndTurn:
    """The change is over, one way or the other: the handler's turn as well."""


Question = PreGrow | Join | PostGrow | PreShrink | PostShrink
"""What the handler is asked: each is answered by ``asked``."""
Order = Question | TurnAway | Release | Keep | Lose | Say | EndTurn


class _Change:
    """The change that is under way. ``places`` are those that come, or that leave once they are chosen."""

    def __init__(self, step: Callable[[_Change, View], None], resize: int, count: int, began: float) -> None:
        self.step = step
        """What is to be done when the handler has been asked, or when something has happened."""
        self.asking = True
        self.resize = resize
        self.count = count
        self.began = began
        self.handler_s = 0.0
        self.prepared_s = 0.0
        """Of that, before anything was done."""
        self.until = 0.0
        self.kept = 0.0
        """When places were told to stay."""
        self.places: tuple[int, ...] = ()
        self.dead: tuple[int, ...] = ()
        """Of those that leave, who has died before."""
        self.problem = ""
        """What is wrong with what the handler was asked last."""
        self.why = ""
        """Why it comes to nothing, if it can still."""


class Following:
    """``contact`` tells new places where place 0 is; what is to come or to leave gets ``limit_s`` seconds. ``say`` gets
    what the scheduler complains about."""

    def __init__(
        self,
        session: Session,
        bounds: Bounds,
        limit_s: float,
        say: Callable[[str], object] = nothing,
        groups: Iterable[int] = (),
    ) -> None:
        self.epoch = 0
        self.contact = ""
        self.groups = set(groups)
        """The places that the job has by what the scheduler knows: one that has just died may still be among them."""
        self._limit_s = limit_s
        self._session = session
        self._negotiation = negotiation(session, bounds, say)
        self._change: _Change | None = None
        self._lost: dict[int, str] = {}
        self._wish: Bounds | None = None
        self._keep = False
        self._closed = False
        self._orders: list[Order] = []
        session.listen(self._hear)

    # ---- what the program says -------------------------------------------------------------------------

    def begin(self) -> None:
        """The program has a malleable handler."""
        if not self._closed:
            self._negotiation.begin(self.epoch)

    def end(self) -> None:
        """It has none any more: what is open comes to nothing."""
        if not self._closed:
            self._negotiation.end(self.epoch)
            self._change = None

    def want(self, bounds: Bounds, *, keep: bool = False) -> None:
        """Ask for a size within ``bounds``; during a change, when it is over. The last wish counts; ``keep`` leaves it
        open where it cannot be met now."""
        self._wish, self._keep = bounds, keep
        self._say_wish()

    def close(self) -> None:
        """The program is over, or has failed: nothing is followed any more."""
        self._closed = True

    # ---- what happens ------------------------------------------------------------------------------------

    @property
    def until(self) -> float | None:
        """When to look again, if nothing has happened."""
        change = self._change
        return change.until if change is not None and not change.asking else None

    def stirs(self, now: View) -> bool:
        """Whether what the change under way waits for has happened, as far as that can be seen of the places."""
        change = self._change
        if change is None or change.asking:
            return False
        if change.step == self._coming:
            return set(change.places) <= set(now.arrived)
        return not set(change.places) & set(now.parting)

    @property
    def waits(self) -> bool:
        """Whether places are waited for, that are to come or to leave."""
        return self.until is not None

    def look(self, now: View) -> list[Order]:
        """Something has come, or time has passed: what is to be done, in order."""
        if not self._closed:
            lost, self._lost = self._lost, {}
            self._orders += [Lose(place, why) for place, why in lost.items()]
            change = self._change
            if change is None:
                self._answer(now)
            elif not change.asking:
                change.step(change, now)
            self._say_wish()
        return self._ordered()

    def asked(
        self, now: View, resize: int, seconds: float, problem: str = "", chosen: Sequence[int] = ()
    ) -> list[Order]:
        """The handler has been asked, and has taken so long. ``problem`` is what it raised, or why it could not be
        asked; ``chosen`` the places that are to leave."""
        change = self._change
        if change is not None and change.resize == resize and change.asking and not self._closed:
            change.asking = False
            change.handler_s += seconds
            change.problem = problem
            change.places = tuple(chosen) or change.places
            change.step(change, now)
            self._say_wish()
        return self._ordered()

    def _ordered(self) -> list[Order]:
        orders, self._orders = self._orders, []
        return orders

    def _hear(self, message: SchedulerMessage) -> None:
        """Each message when it comes; while a change is under way the negotiation takes none."""
        change = self._change
        match message:
            case GroupLost(group=group):
                self._lost[group] = "its group was lost"
                self.groups.discard(group)
                if (
                    change is not None
                    and change.step in (self._prepared, self._coming)
                    and group in change.places
                ):
                    change.why = change.why or f"{named([group])} was lost before it came"
            case Withdraw(resize=resize) if change is not None and resize == change.resize:
                change.why = change.why or "it was withdrawn"
            case _:
                pass

    # ---- offers ------------------------------------------------------------------------------------------

    def _answer(self, now: View) -> None:
        """Answer what can be answered, and begin what has been accepted."""
        negotiation, situation = self._negotiation, self._situation(now)
        negotiation.answer(situation)
        decision = negotiation.decide(situation)
        if decision.action is Action.EXPAND:
            count = len(negotiation.newcomers)
            self._change = _Change(self._prepared, decision.resize, count, now.time)
            self._change.places = negotiation.newcomers
            self._orders.append(PreGrow(decision.resize, count))
        elif decision.action is not Action.NO_ACTION:
            self._begin_shrink(decision.resize, now)

    def _situation(self, _now: View) -> Situation:
        return Situation(self.epoch, tuple(sorted(self.groups)), FOREVER, 0, MOST_PLACES, SIGNATURE)

    def _confirm(self, change: _Change, now: View) -> bool:
        """The last word: whether it shall really happen. It shall not where there is a reason, and that is said."""
        if self._negotiation.confirm(change.resize, self._situation(now), change.why):
            return True
        self._orders.append(Say(f"resize {change.resize} has failed: {change.why or 'it was withdrawn'}"))
        return False

    def _fail(self, change: _Change, now: View, why: str) -> None:
        """It comes to nothing: say so."""
        change.why = why
        self._confirm(change, now)

    def _ask(self, change: _Change, question: Question, step: Callable[[_Change, View], None]) -> None:
        """Have the handler asked, and go on by ``step`` when it has been."""
        change.asking, change.step = True, step
        self._orders.append(question)

    def _wait(self, change: _Change, now: View, step: Callable[[_Change, View], None]) -> None:
        """Go on by ``step`` whenever something happens."""
        change.until, change.step = now.time + self._limit_s, step

    def _come(self, change: _Change, phase: Phase) -> None:
        """It has come to this phase."""
        self._session.send(Reached(self.epoch, change.resize, phase))

    def _over(self, _change: _Change, _now: View) -> None:
        self._change = None
        self._orders.append(EndTurn())

    def _say_wish(self) -> None:
        if self._wish is not None and self._change is None and not (self._negotiation.resize or self._closed):
            self._session.send(Want(self.epoch, self._wish, self._keep))
            self._wish = None

    def _done(self, change: _Change, now: View, released: tuple[int, ...], told: dict[str, float]) -> None:
        prepared_s = change.prepared_s
        phases: dict[str, float] = {
            Phase.PREPARE: prepared_s, **told, Phase.COMMIT: change.handler_s - prepared_s,
        }  # fmt: skip
        self._negotiation.done(Done(self.epoch, change.resize, 0, released, phases))
        self.epoch += 1
        self.groups -= set(released)
        self._over(change, now)

    # ---- growth ------------------------------------------------------------------------------------------

    def _prepared(self, change: _Change, now: View) -> None:
        """The handler has been told that places are to come."""
        change.prepared_s = change.handler_s
        if change.problem:
            self._fail(change, now, change.problem)
            self._over(change, now)
        elif self._confirm(change, now):
            self._come(change, Phase.CONNECT)
            self._session.send(Put(self.epoch + 1, source_key(change.resize), self.contact))
            self._wait(change, now, self._coming)
            self._coming(change, now)
        else:
            self._ask(change, PostGrow(change.resize, change.count), self._over)

    def _coming(self, change: _Change, now: View) -> None:
        missing = set(change.places) - set(now.arrived)
        if missing and now.time >= change.until:
            change.why = change.why or f"{named(missing)} did not come within {self._limit_s:.0f} s"
        if change.why:
            self._fail(change, now, change.why)
            self._orders.append(TurnAway(change.places))
            self._ask(change, PostGrow(change.resize, change.count), self._over)
        elif not missing:
            self._come(change, Phase.COMMIT)
            self._ask(change, Join(change.resize, change.places), self._joined)

    def _joined(self, change: _Change, now: View) -> None:
        """The handler has been told that they are there. Where it raised they leave again."""
        if change.problem:
            there = tuple(place for place in change.places if place in now.members)
            change.places = there
            self._orders.append(Release(there))
            self._wait(change, now, self._undoing)
            return
        connect_s = now.time - change.began - change.handler_s
        self.groups |= set(change.places)
        self._done(change, now, (), {Phase.CONNECT: connect_s})

    def _undoing(self, change: _Change, now: View) -> None:
        left = [place for place in change.places if place in now.parting]
        if left and now.time < change.until and not change.why:
            return
        self._orders += [Lose(place, "it was not wanted, and did not leave") for place in left]
        self._fail(change, now, change.problem)
        self._over(change, now)

    # ---- shrink ------------------------------------------------------------------------------------------

    def _begin_shrink(self, resize: int, now: View) -> None:
        negotiation = self._negotiation
        change = _Change(self._chosen, resize, 0, now.time)
        named_first = set(negotiation.offer.leaving) & self.groups
        wanted = tuple(sorted(named_first & set(now.members)))
        try:
            count = len(negotiation.leaving(tuple(sorted(self.groups))))
        except ValueError as error:  # some have been lost since the offer was accepted
            self._fail(change, now, str(error))
            return
        if not self._confirm(change, now):
            return
        # Who is dead has left; that its group is lost will be known, or not any more.
        dead = self.groups - set(now.members)
        others = sorted(dead - named_first)[: count - len(named_first)]
        change.dead = (*sorted(dead & named_first), *others)
        change.count = count - len(change.dead)
        self._change = change
        if change.count:
            self._orders.append(PreShrink(resize, change.count, wanted))
        else:
            self._left(change, now)

    def _chosen(self, change: _Change, now: View) -> None:
        """The handler has named those that leave."""
        change.prepared_s = change.handler_s
        if change.problem:
            self._fail(change, now, change.problem)
            self._over(change, now)
            return
        self._come(change, Phase.REDISTRIBUTE)
        self._orders.append(Release(change.places))
        self._wait(change, now, self._leaving)

    def _leaving(self, change: _Change, now: View) -> None:
        if not set(change.places) & set(now.parting):
            self._come(change, Phase.COMMIT)
            self._ask(change, PostShrink(change.resize, change.count, change.places), self._left)
        elif change.why or now.time >= change.until:
            self._orders.append(Keep(change.places))
            self._wait(change, now, self._staying)
            change.kept, change.until = now.time, now.time + min(STAY_S, self._limit_s)

    def _staying(self, change: _Change, now: View) -> None:
        """Those that still have tasks stay; the others have yet to leave."""
        left = [place for place in change.places if place in now.parting]
        if left and now.time < change.until:
            return
        self._orders += [Lose(place, DID_NOT_LEAVE) for place in left]
        kept = [place for place in change.places if place in now.members]
        gone = tuple(place for place in change.places if place not in kept)
        if not kept:
            self._ask(change, PostShrink(change.resize, change.count, gone), self._left)
            return
        after_s = change.kept - change.began - change.handler_s
        asked_back = f", and {change.why}" if change.why else ""
        self._fail(
            change,
            now,
            f"{named(kept)} still had tasks {after_s:.0f} s after pre_shrink{asked_back}; they stay",
        )
        self._ask(change, PostShrink(change.resize, change.count, gone), self._over)

    def _left(self, change: _Change, now: View) -> None:
        """They have left, whatever the handler says of it."""
        if change.problem:
            self._orders.append(Say(f"resize {change.resize} is done, but {change.problem}"))
        release_s = now.time - change.began - change.handler_s
        self._done(change, now, (*change.places, *change.dead), {Phase.REDISTRIBUTE: release_s})
