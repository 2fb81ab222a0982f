"""Place 0's end of the session, as a machine: what it orders and says while places come and go."""

from __future__ import annotations

import pytest

from pliant.apgas.malleable import following as f
from pliant.apgas.place.membership import objection
from pliant.job.session import Session
from pliant.model.jobs import Bounds
from pliant.protocol import messages as m
from pliant.protocol.codec import encode, from_job
from pliant.protocol.phases import Phase

LIMIT_S = 60.0


class Zero:
    """Place 0 of three: what it is told, and what it then says to the scheduler."""

    def __init__(self) -> None:
        self.said: list[m.JobMessage] = []
        decoder = from_job()
        self.session = Session(lambda data: self.said.append(decoder.decode(data)))
        self.session.send(m.Hello(1, 0, 0, "token", 1, Bounds(1, 9)))
        self.session.receive(encode(m.Welcome(1, "tree", (0, 1, 2))))
        self.session.welcome()
        self.following = f.Following(self.session, Bounds(1, 9), LIMIT_S)
        self.following.contact, self.following.groups = "here", {0, 1, 2}
        self.following.begin()
        self.time = 0.0
        self.members = {0, 1, 2}
        self.arrived: set[int] = set()
        self.parting: set[int] = set()

    @property
    def now(self) -> f.View:
        members = tuple(sorted(self.members - self.parting))
        return f.View(self.time, members, frozenset(self.arrived), frozenset(self.parting))

    def hear(self, *messages: m.SchedulerMessage) -> list[f.Order]:
        self.said.clear()
        for message in messages:
            self.session.receive(encode(message))
        return self.look()

    def look(self) -> list[f.Order]:
        return self._do(self.following.look(self.now))

    def asked(self, resize: int, problem: str = "", chosen: tuple[int, ...] = ()) -> list[f.Order]:
        return self._do(self.following.asked(self.now, resize, 0.25, problem, chosen))

    def _do(self, orders: list[f.Order]) -> list[f.Order]:
        for order in orders:
            match order:
                case f.Join():
                    self.members |= self.arrived
                    self.arrived.clear()
                case f.Release():
                    self.parting |= set(order.places)
                case f.Lose():
                    for places in (self.members, self.arrived, self.parting):
                        places.discard(order.place)
                case f.TurnAway():
                    self.arrived -= set(order.places)
        return orders

    def leave(self, place: int) -> None:
        self.members.discard(place)
        self.parting.discard(place)

    def begin_growth(self) -> list[f.Order]:
        """Two are to come, and the handler agrees."""
        arriving = (m.NewGroup(3, "n3", 1), m.NewGroup(4, "n4", 1))
        assert self.hear(m.Offer(1, 0, 5, 20.0, arriving)) == []
        assert self.said == [m.Accept(0, 1), m.Get(1, "r1/joined")]
        assert self.hear(m.Value(1, "r1/joined", f.SIGNATURE)) == [f.PreGrow(1, 2)]
        return self.asked(1)

    def begin_shrink(self) -> None:
        """One is to leave, and the handler has named place 2."""
        assert self.hear(m.Offer(1, 0, 2, 20.0)) == [f.PreShrink(1, 1, ())]
        assert self.asked(1, chosen=(2,)) == [f.Release((2,))]


def test_a_growth_goes_on_when_all_have_come_and_is_done_when_the_handler_knows() -> None:
    zero = Zero()
    zero.time = 3.0
    assert zero.begin_growth() == []
    assert zero.said == [m.Reached(0, 1, Phase.CONNECT), m.Put(1, "r1/source", "here")]
    assert zero.following.until == LIMIT_S + 3.0
    zero.arrived = {3}
    assert (zero.following.stirs(zero.now), zero.look()) == (False, [])
    zero.arrived, zero.time = {3, 4}, 4.0
    assert zero.following.stirs(zero.now)
    assert zero.look() == [f.Join(1, (3, 4))]
    zero.said.clear()
    assert zero.asked(1) == [f.EndTurn()]
    assert zero.said == [m.Done(0, 1, 0, (), {"prepare": 0.25, "connect": 0.5, "commit": 0.25})]
    assert zero.following.epoch == 1
    assert not zero.following.waits


@pytest.mark.parametrize(
    ("news", "why"),
    [
        (m.Withdraw(1), "withdrawn"),
        (m.GroupLost(4, "killed"), "place(4) was lost before it came"),
        (None, "place(4) did not come within 60 s"),
    ],
)
def test_a_growth_that_is_called_off_is_told_to_the_handler(
    news: m.Withdraw | m.GroupLost | None, why: str
) -> None:
    zero = Zero()
    zero.begin_growth()
    zero.arrived = {3}
    zero.time += LIMIT_S if news is None else 1.0
    orders = [each for each in zero.hear(*([news] if news else [])) if not isinstance(each, f.Say | f.Lose)]
    assert orders == [f.TurnAway((3, 4)), f.PostGrow(1, 2)]
    [failed] = zero.said
    assert isinstance(failed, m.Failed)
    assert why in failed.error
    assert zero.asked(1) == [f.EndTurn()]
    assert zero.hear(m.Offer(2, 0, 2, 20.0)) == [f.PreShrink(2, 1, ())]


def test_a_growth_that_is_withdrawn_while_the_handler_prepares_is_told_to_it() -> None:
    zero = Zero()
    zero.hear(m.Offer(1, 0, 4, 20.0, (m.NewGroup(3, "n3", 1),)))
    assert zero.hear(m.Value(1, "r1/joined", f.SIGNATURE)) == [f.PreGrow(1, 1)]
    zero.session.receive(encode(m.Withdraw(1)))
    assert zero.asked(1)[1:] == [f.PostGrow(1, 1)]
    assert zero.said[-1] == m.Failed(0, 1, "withdrawn")


def test_a_handler_that_does_not_want_the_places_that_came_gets_rid_of_them() -> None:
    zero = Zero()
    zero.begin_growth()
    zero.arrived = {3, 4}
    zero.look()
    zero.said.clear()
    assert zero.asked(1, "post_grow raised ValueError: no") == [f.Release((3, 4))]
    assert not zero.said
    zero.leave(3)
    assert zero.look() == []
    zero.time += LIMIT_S
    assert zero.look()[0] == f.Lose(4, "it was not wanted, and did not leave")
    assert zero.said == [m.Failed(0, 1, "post_grow raised ValueError: no")]
    assert zero.members == {0, 1, 2}


def test_a_shrink_is_done_when_the_place_has_left_whatever_the_handler_says_then() -> None:
    zero = Zero()
    zero.begin_shrink()
    assert zero.look() == []
    zero.leave(2)
    zero.time = 2.0
    assert zero.look() == [f.PostShrink(1, 1, (2,))]
    zero.said.clear()
    said, over = zero.asked(1, "post_shrink raised ValueError: no")
    assert said == f.Say("resize 1 is done, but post_shrink raised ValueError: no")
    assert over == f.EndTurn()
    assert zero.said == [m.Done(0, 1, 0, (2,), {"prepare": 0.25, "redistribute": 1.5, "commit": 0.25})]


@pytest.mark.parametrize("withdrawn", [False, True])
def test_a_place_that_does_not_leave_in_time_stays_and_the_handler_knows(withdrawn: bool) -> None:  # noqa: FBT001
    """Also before the limit, if the scheduler takes the shrink back: it would end the job for not answering."""
    zero = Zero()
    zero.begin_shrink()
    zero.time = 5.0 if withdrawn else LIMIT_S
    assert zero.hear(*([m.Withdraw(1)] if withdrawn else [])) == [f.Keep((2,))]
    zero.parting.clear()
    orders = zero.look()
    assert orders[1:] == [f.PostShrink(1, 1, ())]
    [failed] = zero.said
    assert isinstance(failed, m.Failed)
    assert failed.error == "withdrawn" if withdrawn else "place(2) still had tasks 60 s" in failed.error
    assert zero.asked(1) == [f.EndTurn()]


def test_of_two_that_were_to_leave_one_stays_and_the_handler_is_told_which_has_left() -> None:
    zero = Zero()
    zero.hear(m.Offer(1, 0, 1, 20.0))
    zero.asked(1, chosen=(1, 2))
    zero.time = LIMIT_S
    assert zero.look() == [f.Keep((1, 2))]
    zero.parting.discard(1)  # it stays, and the other has said farewell
    assert zero.look() == []
    zero.leave(2)
    assert zero.look()[1:] == [f.PostShrink(1, 2, (2,))]
    zero.asked(1)
    assert zero.members == {0, 1}


def test_a_handler_that_raises_makes_it_fail_and_is_not_asked_again() -> None:
    zero = Zero()
    zero.hear(m.Offer(1, 0, 2, 20.0))
    assert zero.asked(1, "pre_shrink raised ValueError: no") == [
        f.Say("resize 1 has failed: pre_shrink raised ValueError: no"),
        f.EndTurn(),
    ]
    assert zero.said == [m.Accept(0, 1), m.Failed(0, 1, "pre_shrink raised ValueError: no")]


def test_losses_are_passed_on_and_a_wish_waits_for_the_end_of_a_change() -> None:
    zero = Zero()
    zero.begin_shrink()
    zero.said.clear()
    zero.following.want(Bounds(3, 3))
    assert zero.hear(m.GroupLost(1, "killed")) == [f.Lose(1, "its group was lost")]
    zero.leave(2)
    zero.look()
    zero.asked(1)
    assert [type(each) for each in zero.said] == [m.Reached, m.Done, m.Want]


def test_a_place_that_has_died_is_given_back_where_the_scheduler_does_not_know_yet() -> None:
    """It counts by what it knows, and ended the job for giving back too few."""
    zero = Zero()
    zero.members.discard(1)
    assert zero.hear(m.Offer(1, 0, 1, 20.0)) == [f.PreShrink(1, 1, ())]
    zero.asked(1, chosen=(2,))
    zero.leave(2)
    zero.look()
    zero.asked(1)
    [done] = [each for each in zero.said if isinstance(each, m.Done)]
    assert sorted(done.released) == [1, 2]
    assert zero.following.groups == {0}


def test_if_only_the_dead_are_to_leave_nobody_is_asked() -> None:
    zero = Zero()
    zero.members.discard(1)
    assert zero.hear(m.Drain(1, 0, 2, 20.0, (1,))) == [f.EndTurn()]
    assert [each.released for each in zero.said if isinstance(each, m.Done)] == [(1,)]


def test_what_is_open_when_the_handler_goes_comes_to_nothing() -> None:
    zero = Zero()
    zero.hear(m.Offer(1, 0, 2, 20.0))
    zero.said.clear()
    zero.following.end()
    assert zero.said == [m.Failed(0, 1, "the loop has ended", late=True), m.Malleable(0, on=False)]
    assert zero.asked(1, "the program has no malleable handler now") == []


def test_who_has_closed_follows_nothing() -> None:
    zero = Zero()
    zero.following.close()
    assert zero.hear(m.Offer(1, 0, 2, 20.0)) == []
    assert not zero.said


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ((0,), "named place(0)"),
        ((7,), "named place(7), which is not there"),
        ((), "named 0 places"),
        ((1, 1), "named 1"),
    ],
)
def test_whom_a_handler_may_name(chosen: tuple[int, ...], said: str) -> None:
    assert said in objection("pre_shrink", 1, chosen, (0, 1, 2))
    assert not objection("pre_shrink", 1, (2,), (0, 1, 2))
