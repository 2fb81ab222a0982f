"""A question to the scheduler: what comes of it is an answer to it, never to one that was given up before."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.job.asking import SchedulerQuestion
from pliant.job.decisions import Action
from pliant.job.negotiation import Situation
from pliant.job.recording import Tape, TapedNegotiation, TapedSession, replay
from pliant.model.jobs import Bounds
from pliant.protocol import codec
from pliant.protocol import messages as m
from pliant.protocol.scheduler_side import SchedulerSide

ALL = Bounds(1, 8)
MEMBERS = (0, 1, 2, 3)
NOW = Situation(0, MEMBERS, 1000, 1, 99, "arrays")


class Pair:
    """A root and a scheduler that does what each Want says, where it can: 8 nodes at most, and shrinks. Nothing arrives
    by itself."""

    def __init__(self) -> None:
        self.up: deque[m.JobMessage] = deque()
        self.heard: list[m.JobMessage] = []
        self.down = b""
        self.lines: list[bytes] = []
        tape = Tape(self.lines.append)
        self.session = TapedSession(tape, lambda line: self.up.append(codec.from_job().decode(line)))
        self.session.send(m.Hello(1, 0, 0, "t", 2))
        self.negotiation = TapedNegotiation(self.session, ALL, migrates=True)
        self.side = SchedulerSide(0)
        self.offered: dict[int, Bounds] = {}
        """What was wanted, by the resize that is the answer."""

    def ask(self, bounds: Bounds) -> SchedulerQuestion:
        asking = SchedulerQuestion(self.negotiation, NOW, bounds)
        asking.ask()
        return asking

    def scheduler(self) -> None:
        """The next message that is under way to it, and its answer; newcomers are there at once."""
        if not self.up or not self.side.receive(0, message := self.up.popleft()):
            return
        self.heard.append(message)
        if isinstance(message, m.Want) and self.side.state == "asked":
            size = ALL.nearest(len(MEMBERS), message.bounds.min, message.bounds.max)
            if size in (0, len(MEMBERS)):
                self.send(m.Stay())
                return
            number = len(self.offered) + 1
            self.offered[number] = message.bounds
            new = tuple(m.NewGroup(10 * number + i, "n", 1) for i in range(size - len(MEMBERS)))
            self.send(m.Offer(number, 0, size, 30.0, new))
        elif isinstance(message, m.Get):
            self.send(m.Value(message.epoch, message.key, "arrays"))

    def send(self, message: m.SchedulerMessage) -> None:
        self.down += codec.encode(self.side.send(message))

    def deliver(self) -> None:
        self.session.receive(self.down)
        self.down = b""

    def all(self) -> None:
        """What is under way arrives, and what that leads to."""
        while self.up or self.down:
            while self.up:
                self.scheduler()
            self.deliver()

    def words(self) -> list[str]:
        """What the scheduler has heard since the last call."""
        heard, self.heard = self.heard, []
        return [type(message).__name__ for message in heard if not isinstance(message, m.Hello)]


@pytest.fixture
def pair() -> Pair:
    return Pair()


def test_a_question_is_answered_by_what_it_has_asked_for(pair: Pair) -> None:
    asking = pair.ask(Bounds(1, 2))
    assert not asking.answered()
    pair.all()
    assert asking.answered()
    assert asking.decision.action is Action.SHRINK
    assert pair.negotiation.offer.size == 2


@pytest.mark.parametrize("seen", [0, 1, 2])
def test_the_answer_to_a_question_that_was_given_up_is_none_to_the_next(pair: Pair, seen: int) -> None:
    """However far the first answer has come when the next question is asked."""
    first = pair.ask(Bounds(6, 6))
    if seen:
        pair.scheduler()
        pair.scheduler()
    first.give_up("too late")
    if seen == 2:
        pair.deliver()
    second = pair.ask(Bounds(1, 2))
    assert not second.answered()
    pair.all()
    while not second.answered():
        assert pair.up
        assert second.decision.action is Action.NO_ACTION
        pair.all()
    assert second.decision.action is Action.SHRINK
    assert pair.negotiation.offer.size == 2
    pair.all()
    assert pair.words() == ["Want", "Decline", "Want", "Accept"]


def test_a_stay_that_comes_late_does_not_answer_the_next_question(pair: Pair) -> None:
    pair.ask(Bounds(4, 4)).give_up("too late")
    second = pair.ask(Bounds(1, 2))
    pair.all()
    assert not second.answered()
    pair.all()
    assert second.answered()
    assert second.decision.action is Action.SHRINK
    pair.all()
    assert pair.words() == ["Want", "Want", "Accept"]


def test_a_question_that_nobody_gave_up_is_given_up_by_the_next(pair: Pair) -> None:
    pair.ask(Bounds(6, 6))
    second = pair.ask(Bounds(1, 2))
    pair.all()
    assert not second.answered()
    pair.all()
    assert second.answered()
    assert pair.negotiation.offer.size == 2


def test_newcomers_that_a_question_before_has_asked_for_are_none_of_the_next(pair: Pair) -> None:
    first = pair.ask(Bounds(6, 6))
    pair.all()
    assert not first.answered()
    pair.all()
    second = pair.ask(Bounds(1, 2))
    assert not second.answered()
    pair.all()
    assert second.answered()
    assert pair.negotiation.offer.size == 2
    pair.all()
    assert pair.words() == ["Want", "Accept", "Get", "Failed", "Want", "Accept"]


def test_a_drain_is_followed_whatever_was_given_up(pair: Pair) -> None:
    pair.ask(Bounds(6, 6)).give_up("too late")
    pair.up.popleft()
    pair.side.receive(0, m.Hello(1, 0, 0, "t", 2))
    pair.send(m.Drain(1, 0, 3, 30.0))
    pair.deliver()
    second = pair.ask(Bounds(1, 2))
    assert second.answered()
    assert (second.decision.action, pair.negotiation.offer.size) == (Action.SHRINK, 3)


def test_newcomers_that_have_not_come_are_called_off(pair: Pair) -> None:
    asking = pair.ask(Bounds(6, 6))
    while pair.up:
        pair.scheduler()
    pair.deliver()
    assert not asking.answered()
    asking.give_up("they are late")
    assert not pair.negotiation.resize
    while pair.up:
        pair.scheduler()
    assert pair.heard[-1] == m.Failed(0, 1, "they are late")


@given(
    st.lists(st.sampled_from(["ask", "look", "give up", "scheduler", "deliver", "all"]), max_size=60),
    st.data(),
)
def test_an_answer_belongs_to_the_question_that_is_open(turns: list[str], data: st.DataObject) -> None:
    pair, asking, bounds = Pair(), None, ALL
    for turn in turns:
        if turn == "ask":
            low = data.draw(st.integers(1, 8))
            bounds = Bounds(low, data.draw(st.integers(low, 8)))
            asking = pair.ask(bounds)
        elif turn in ("look", "give up") and asking is not None:
            over = asking.answered()
            if turn == "give up" and not over:
                asking.give_up("too late")
            if asking.decision.action is not Action.NO_ACTION:
                assert pair.offered[asking.decision.resize] == bounds
                pair.negotiation.confirm(asking.decision.resize, NOW, "the job keeps its nodes")
            elif over:
                assert bounds.min <= 4 <= bounds.max
            asking = None if over or turn == "give up" else asking
        elif turn in ("scheduler", "deliver", "all"):
            getattr(pair, turn)()
    # In the end a new question is answered, whatever came before.
    asking = pair.ask(Bounds(2, 3))
    for _ in range(4):
        pair.all()
        if over := asking.answered():
            break
    assert over
    assert pair.offered[asking.decision.resize] == Bounds(2, 3)
    assert not list(replay(pair.lines))
