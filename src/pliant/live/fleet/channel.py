"""What a controller and an agent tell each other comes once and in order, whatever is lost, doubled or late: over a
link that breaks, through a tree that heals, or to a controller that has begun anew. Without I/O or clock.

Each message has a number, and names the one ``after`` which it is to be taken. The other end takes it if it has that
one and not this one. A sender keeps a message until it is acknowledged, and tells it again when that takes too long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

import msgspec

from pliant.protocol import codec
from pliant.protocol import launching as t
from pliant.protocol import messages as m

ROOM = 1 << 32
"""For the numbers of one agent."""
_TAKEN: codec.Decoder[t.Taken] = codec.Decoder(t.Taken)

Message = TypeVar("Message")
Envelope = TypeVar("Envelope")


class Numbered(NamedTuple, Generic[Message]):
    """A message on its way: it is to be taken behind the one whose number is ``after``."""

    number: int
    after: int
    message: Message


def is_next(number: int, after: int, heard: int) -> bool:
    """Whether a message is to be taken by an end that has ``heard`` all up to that number: else it has come before, or
    comes too early and will come again."""
    return after <= heard < number


class Sender(Generic[Message]):
    """What one end has told. Numbers begin above ``base``. ``heard``: the other end has all up to this number."""

    def __init__(self, base: int = 0) -> None:
        self.number = self.heard = self._base = self._old = base
        self.kept: dict[int, Message] = {}
        """What may have to be told again: all that the other end has not, and what is kept beyond that."""

    def __iter__(self) -> Iterator[Numbered[Message]]:
        for after, number in pairwise((self._base, *self.kept)):
            yield Numbered(number, after, self.kept[number])

    @property
    def last(self) -> int:
        """The number of the last that is kept, or the base."""
        return next(reversed(self.kept), self._base)

    @property
    def is_heard(self) -> bool:
        """Whether the other end has all that is kept."""
        return self.last <= self.heard

    def tell(self, message: Message) -> Numbered[Message]:
        after = self.last
        self.number += 1
        self.kept[self.number] = message
        return Numbered(self.number, after, message)

    def begin_link(self) -> None:
        """Whoever is at the other end may have none of them."""
        self.heard = self._base

    def was_heard(self, number: int) -> None:
        """The other end has all up to this number."""
        self.heard = max(self.heard, min(number, self.number))

    def drop(self) -> None:
        """Keep nothing that the other end has."""
        while self.kept and (first := next(iter(self.kept))) <= self.heard:
            del self.kept[first]

    def again(self) -> list[Numbered[Message]]:
        """What was told before this was last asked, and has not come: it may have been lost."""
        lost = [each for each in self if self.heard < each.number <= self._old]
        self._old = self.number
        return lost


class ChannelEnd(Generic[Envelope]):
    """One end of the channel between a launch and one of its nodes; ``envelope`` makes one of what is told. Numbers
    begin above ``base``, which grows with each agent that a node has: what an earlier one has left on its way counts as
    old. An envelope without a number is an answer, Taken. It may be lost: what it answers is told again then.

    No more than ``window`` bytes of what has a size are under way at a time, so that nobody has to keep what the
    other end is slow to write.
    """

    def __init__(
        self, envelope: Callable[[Numbered[msgspec.Raw]], Envelope], base: int = 0, window: int = 1 << 18
    ) -> None:
        self._envelope = envelope
        self._window = window
        self._told: Sender[msgspec.Raw] = Sender(base)
        self._last: Numbered[msgspec.Raw] | None = None
        self._heard = base
        self._sent = self._taken = self._written = 0
        """Bytes: told, of those what the other end has written, and what this end has."""

    @property
    def room(self) -> int:
        """How many bytes may be told now; 0 or less is none."""
        return self._window - (self._sent - self._taken)

    @property
    def is_quiet(self) -> bool:
        """Whether all that was told has been taken, and more may be told."""
        return not self._told.kept and self.room > 0

    def tell(self, message: msgspec.Raw, size: int = 0) -> Envelope:
        """The next envelope, with ``size`` bytes that have to be written."""
        self._sent += size
        self._last = self._told.tell(message)
        return self._envelope(self._last)

    def again(self) -> tuple[Envelope, ...]:
        """What may have been lost. Where all has been taken and there is no room, the word that there is some may have
        been: the last one is answered by it again."""
        lost = self._told.again()
        if not lost and self.room <= 0 and self._last is not None and not self._told.kept:
            lost = [self._last]
        return tuple(map(self._envelope, lost))

    def came(self, number: int, after: int, message: msgspec.Raw) -> bool:
        """Whether what has come is to be looked at now; an answer is not. ProtocolError if it cannot be read."""
        if number:
            if taken := is_next(number, after, self._heard):
                self._heard = number
            return taken
        answer = _TAKEN.decode(message)
        self._taken = max(self._taken, min(answer.total, self._sent))
        self._told.was_heard(answer.number)
        self._told.drop()
        return False

    def written(self, size: int) -> None:
        """So many bytes of what has come are where they belong."""
        self._written += size

    def answer(self) -> Envelope:
        """What the other end is to know, after something with a number has come, or was written."""
        return self._envelope(Numbered(0, 0, codec.raw(t.Taken(self._heard, self._written))))


def at_node(node: str, rank: int, window: int = 1 << 18) -> ChannelEnd[m.From]:
    """The end of the agent of ``rank``, on ``node``."""
    return ChannelEnd(lambda told: m.From(node, told.message, told.number, told.after), rank * ROOM, window)


def at_controller(node: str, rank: int) -> ChannelEnd[m.To]:
    """The controller's end of the channel to the agent of ``rank``, on ``node``."""
    return ChannelEnd(lambda told: m.To((node,), told.message, told.number, told.after), rank * ROOM)
