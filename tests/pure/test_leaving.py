"""Places that leave, by their machines: what they say arrives when the test says so."""

from __future__ import annotations

from collections import deque

import pytest

from pliant.apgas.errors import BadPlaceException
from pliant.apgas.place.machine import GIVEN_UP, PlaceMachine, Ready
from pliant.apgas.place.messages import AnyMessage, Codec, Hello, LastTask, Leaving, Payload, Staying, Stop


class Net:
    """The machines of ``count`` places, all of them members; ``links`` has what is under way between two."""

    def __init__(self, count: int) -> None:
        self.links: dict[tuple[int, int], deque[tuple[bytes, Payload]]] = {}
        self.machines = [PlaceMachine(here) for here in range(count)]
        self._codec = Codec()
        for machine in self.machines:
            machine.members.join({each: f"p{each}" for each in range(count) if each != machine.here})

    def __getitem__(self, place: int) -> PlaceMachine:
        return self.machines[place]

    def post(self) -> None:
        """What has been said is under way."""
        for machine in self.machines:
            for place, message, payload in machine.out:
                link = self.links.setdefault((machine.here, place), deque())
                link.append((self._codec.encode(message), payload))
            machine.out.clear()

    def arrive(self, sender: int, receiver: int) -> AnyMessage:
        """The next message from one to the other; what follows from it is under way."""
        self.post()
        data, payload = self.links[sender, receiver].popleft()
        message = self._codec.decode(data)
        self[receiver].receive(sender, message, payload)
        self.post()
        return message

    def settle(self) -> None:
        """Everything arrives."""
        self.post()
        while full := [pair for pair, link in self.links.items() if link]:
            self.arrive(*full[0])

    def send(self, sender: int, receiver: int) -> None:
        """A task that counts in no finish."""
        self[sender].send(receiver, "task", None, ())

    def end(self, place: int) -> None:
        task: Ready = self[place].ready.popleft()
        self[place].ended(task)


def test_places_that_leave_together_end_together() -> None:
    net = Net(4)
    net.send(0, 2)
    net.settle()
    net[0].release([1, 2])
    net.settle()
    assert net[1].stopped is None, "it is done, and the other is not"
    assert net[0].parting == {1, 2}
    net.end(2)
    net.settle()
    assert [net[1].stopped, net[2].stopped, net[3].stopped] == ["it was released"] * 2 + [None]
    assert net[0].here_no_more([1, 2])
    assert not net[0].parting


def test_a_place_that_has_left_where_another_stays_is_given_up_so_that_its_loss_is_seen() -> None:
    net = Net(4)
    net.send(0, 2)
    net.settle()
    net[0].release([1, 2])
    net.settle()
    net[0].recall([1, 2])
    assert net[0].undecided([1, 2])
    net.settle()
    assert not net[0].undecided([1, 2])
    assert (net[1].stopped or "").startswith(GIVEN_UP)
    assert net[2].stopped is None
    assert all(net[place].members.places() == (0, 2, 3) for place in (0, 2, 3))
    net.end(2)
    net[0].release([2])
    net.settle()
    assert net[2].stopped == "it was released"


def test_a_farewell_that_crosses_the_word_to_stay_holds() -> None:
    """Nobody sends it tasks before it has said that it stays: they would vanish without a word."""
    net = Net(3)
    net[0].release([2])
    net.post()
    assert isinstance(net.arrive(0, 2), Leaving)
    assert isinstance(net.arrive(0, 2), LastTask)
    assert isinstance(net.arrive(0, 1), Leaving)
    assert isinstance(net.arrive(1, 2), LastTask)  # it says farewell now
    net[0].recall([2])
    with pytest.raises(BadPlaceException):
        net.send(1, 2)
    net.settle()
    assert not net[0].undecided([2])
    assert net[0].here_no_more([2])
    assert net[2].stopped == "it was released"
    assert all(net[place].members.places() == (0, 1) for place in (0, 1))


def test_the_last_word_of_an_earlier_release_is_not_that_of_the_next() -> None:
    net = Net(3)
    net.send(0, 2)
    net.settle()
    net[0].release([2])
    net.post()
    net.arrive(0, 2)
    net.arrive(0, 2)
    net.arrive(0, 1)  # its LastTask is under way for long
    net[0].recall([2])
    net.post()
    assert isinstance(net.arrive(0, 2), Staying)
    assert isinstance(net.arrive(2, 0), Staying)
    assert isinstance(net.arrive(0, 1), Staying)
    home = net[1].open_finish()
    net[1].send(2, "task", home.finish, ())
    net[1].finish_ended(home.finish)
    net.end(2)
    net[0].release([2])
    net.post()
    net.arrive(0, 2)
    net.arrive(0, 2)
    assert isinstance(net.arrive(1, 2), LastTask)
    assert not net[2].stopped
    net.settle()
    assert (home.over, home.lost) == (False, set())
    net.end(2)
    net.settle()
    assert (home.over, home.lost) == (True, set())
    assert net.machines[2].stopped == "it was released"


def test_who_has_died_before_it_could_leave_is_not_waited_for() -> None:
    net = Net(3)
    net.send(0, 1)
    net.settle()
    net[0].lost(2, "it was killed")
    net[0].release([1, 2])
    assert net[0].parting == {1}
    net[0].recall([1, 2])
    net.settle()
    assert net[0].here_no_more([1, 2])
    assert net[0].members.places() == (0, 1)


def test_a_finish_does_not_wait_for_the_word_of_a_place_that_has_said_farewell() -> None:
    """Its home asks it of a death while its farewell is under way: it has told all, and no answer counts any more."""
    net = Net(3)
    home = net[0].open_finish()
    net[0].send(1, "task", home.finish, ())
    net[0].finish_ended(home.finish)
    net[0].release([1, 2])
    net.post()
    for sender, receiver in ((0, 2), (0, 2), (0, 1), (0, 1), (1, 2)):
        net.arrive(sender, receiver)  # now place 2 says farewell
    net[0].lost(1, "it was killed")
    net.settle()
    assert net[0].members.left == {2}
    assert (home.over, home.lost) == (True, {1})


def test_a_place_that_is_lost_while_it_leaves_is_not_waited_for() -> None:
    """It has said farewell, and another has not said that it heard."""
    net = Net(3)
    net[0].release([2])
    net.post()
    for sender, receiver in ((0, 2), (0, 2), (0, 1), (1, 2), (2, 0)):
        net.arrive(sender, receiver)
    assert net[0].parting == {2}
    net[0].lost(2, "it was killed")
    assert not net[0].parting
    net.settle()
    assert (net[2].stopped or "").startswith(GIVEN_UP)


def test_a_new_place_that_is_lost_or_not_wanted_is_forgotten_even_if_it_says_hello() -> None:
    net = Net(1)
    net[0].lost(1, "its group was lost")
    net[0].receive(2, Hello("p2"), ())
    net[0].turn_away([2, 3], "they are not wanted any more")
    assert [(place, type(message)) for place, message, _ in net[0].out] == [(2, Stop)]
    for place in (1, 2, 3):
        net[0].receive(place, Hello(f"p{place}"), ())
    assert not net[0].arrived
    assert not net[0].unfinished
