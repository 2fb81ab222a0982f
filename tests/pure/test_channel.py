"""What the controller and a node tell each other comes once and in order, whatever happens to it between them."""

from __future__ import annotations

from random import Random

import pytest
from drawing import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from pliant.live.fleet.channel import ChannelEnd, at_controller, at_node
from pliant.model.errors import ProtocolError
from pliant.protocol import codec
from pliant.protocol import launching as t
from pliant.protocol import messages as m

READS: codec.Decoder[t.Read] = codec.Decoder(t.Read)
WINDOW = 100


def number_of(envelope: m.To | m.From) -> int:
    return envelope.id if isinstance(envelope, m.To) else envelope.number


class Side:
    """One end, what it has to tell, and what has come."""

    def __init__(self, end: ChannelEnd[m.To] | ChannelEnd[m.From], sizes: list[int]) -> None:
        self.end = end
        self.sizes = sizes
        self.next = 0
        self.came: list[int] = []
        self.under_way: list[m.To | m.From] = []

    def tell(self) -> None:
        while self.next < len(self.sizes) and self.end.room > 0:
            self.under_way.append(self.end.tell(codec.raw(t.Read(self.next)), self.sizes[self.next]))
            self.next += 1

    def hear(self, envelope: m.To | m.From, sizes: list[int]) -> None:
        number = number_of(envelope)
        if self.end.came(number, envelope.after, envelope.message):
            self.came.append(READS.decode(envelope.message).total)
            self.end.written(sizes[self.came[-1]])
        if number:
            self.under_way.append(self.end.answer())

    @property
    def is_over(self) -> bool:
        return self.next == len(self.sizes) and self.end.is_quiet


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.integers(0, 90), max_size=40),
    st.lists(st.integers(0, 90), max_size=40),
    st.randoms(use_true_random=False),
)
@pytest.mark.long
def test_what_is_lost_on_its_way_comes_again_and_once(up: list[int], down: list[int], draw: Random) -> None:
    """Whatever is lost, doubled or late of it, and of what is answered, in both directions."""
    node, root = Side(at_node("n0", 1, WINDOW), up), Side(at_controller("n0", 1), down)
    for _ in range(8000):
        if node.is_over and root.is_over:
            break
        for here, there in ((node, root), (root, node)):
            here.tell()
            if here is node:
                assert sum(up[: len(root.came)]) >= sum(up[: node.next]) - WINDOW - 90, "no more is under way"
            if here.under_way and draw.random() < 0.7:
                at = int(draw.random() * len(here.under_way)) if draw.random() < 0.1 else 0
                envelope = here.under_way.pop(at)
                for _ in range(draw.choice((0, 1, 1, 1, 1, 2))):
                    there.hear(envelope, here.sizes)
            if draw.random() < 0.1:
                here.under_way += here.end.again()
    assert root.came == list(range(len(up)))
    assert node.came == list(range(len(down)))


def test_only_what_is_old_is_told_again() -> None:
    end = at_controller("n0", 1)
    first = end.tell(codec.raw(m.Shutdown()))
    assert end.again() == ()
    second = end.tell(codec.raw(m.Shutdown()))
    assert end.again() == (first,)
    assert end.again() == (first, second)
    end.came(0, 0, codec.raw(t.Taken(second.id, 0)))
    assert (end.again(), end.is_quiet) == ((), True)


def test_what_an_agent_has_left_on_its_way_is_not_taken_for_its_successors() -> None:
    """A node that was given back may be started again, in another place of the tree."""
    old, new = at_node("n0", 3), at_node("n0", 9)
    root = at_controller("n0", 9)
    late = [old.tell(codec.raw(t.Read(number))) for number in range(3)]
    assert not any(root.came(each.number, each.after, each.message) for each in late)
    mine = new.tell(codec.raw(t.Read(7)))
    assert not any(root.came(each.number, each.after, each.message) for each in late)
    assert root.came(mine.number, mine.after, mine.message)
    order = root.tell(codec.raw(m.Shutdown()))
    root.came(0, 0, old.answer().message)
    assert root.again() == ()
    assert root.again() == (order,), "an old answer takes nothing"


def test_an_answer_that_cannot_be_read_is_told() -> None:
    with pytest.raises(ProtocolError, match="not a message"):
        at_controller("n0", 1).came(0, 0, codec.raw(t.Read(3)))


def test_a_lost_word_that_there_is_room_again_is_asked_for() -> None:
    """All has come and the answer too; what was said when it had been written is lost."""
    node, head = at_node("n0", 1, WINDOW), at_controller("n0", 1)
    envelope = node.tell(codec.raw(t.Read(0)), WINDOW)
    assert head.came(envelope.number, envelope.after, envelope.message)
    node.came(0, 0, head.answer().message)
    head.written(WINDOW)
    head.answer()  # lost
    assert (node.room, node.is_quiet) == (0, False)
    assert node.again() == (envelope,)
    assert not head.came(envelope.number, envelope.after, envelope.message), "it is looked at once"
    node.came(0, 0, head.answer().message)
    assert (node.room, node.is_quiet, node.again()) == (WINDOW, True, ())
