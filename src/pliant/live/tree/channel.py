"""What the controller and one node tell each other through the tree: in both directions under numbers, so that each
message comes once and in order, whatever is lost or doubled on its way while the tree heals. Without I/O or clock.

An envelope without a number is an answer, Taken. It may be lost: what it answers is told again then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from pliant.protocol import codec
from pliant.protocol import launching as t
from pliant.protocol import messages as m

AGAIN_S = 1.0
"""So often is told again what was told before that time and has not been taken."""
ROOM = 1 << 32
"""For the numbers of one agent."""
_TAKEN: codec.Decoder[t.Taken] = codec.Decoder(t.Taken)

Envelope = TypeVar("Envelope")


class End(Generic[Envelope]):
    """One end of a channel; ``envelope`` makes one of a message and its number. Numbers begin above ``base``, which
    grows with each agent that a node has, so that what an earlier one has left on its way counts as old.

    No more than ``window`` bytes of what has a size are under way at a time, so that nobody has to keep what the
    other end is slow to write.
    """

    def __init__(
        self, envelope: Callable[[msgspec.Raw, int], Envelope], base: int = 0, window: int = 1 << 18
    ) -> None:
        self._envelope = envelope
        self._window = window
        self._told: deque[tuple[int, Envelope]] = deque()
        self._last: Envelope | None = None
        self._number = self._heard = self._old = base
        """The last ones that were told, heard, and told when ``again`` was asked."""
        self._sent = self._taken = self._written = 0
        """Bytes: told, of those what the other end has written, and what this end has."""

    @property
    def room(self) -> int:
        """How many bytes may be told now; 0 or less is none."""
        return self._window - (self._sent - self._taken)

    @property
    def is_quiet(self) -> bool:
        """Whether all that was told has been taken, and more may be told."""
        return not self._told and self.room > 0

    def tell(self, message: msgspec.Raw, size: int = 0) -> Envelope:
        """The next envelope, with ``size`` bytes that have to be written."""
        self._number += 1
        self._sent += size
        envelope = self._envelope(message, self._number)
        self._told.append((self._number, envelope))
        self._last = envelope
        return envelope

    def again(self) -> tuple[Envelope, ...]:
        """What was told before this was last asked, and has not been taken: it may have been lost. Where all has been
        taken and there is no room, the word that there is some may have been: the last one is answered by it again."""
        lost = tuple(envelope for number, envelope in self._told if number <= self._old)
        self._old = self._number
        if not self._told and self.room <= 0 and self._last is not None:
            return (self._last,)
        return lost

    def came(self, number: int, message: msgspec.Raw) -> bool:
        """Whether what has come is to be looked at now. An answer is not, nor what has come before; what has come
        before its turn will come again. ProtocolError if it cannot be read."""
        if number:
            is_next = number == self._heard + 1
            self._heard += is_next
            return is_next
        taken = _TAKEN.decode(message)
        self._taken = max(self._taken, min(taken.total, self._sent))
        while self._told and self._told[0][0] <= taken.number:
            self._told.popleft()
        return False

    def written(self, size: int) -> None:
        """So many bytes of what has come are where they belong."""
        self._written += size

    def answer(self) -> Envelope:
        """What the other end is to know, after something with a number has come, or was written."""
        return self._envelope(codec.raw(t.Taken(self._heard, self._written)), 0)


def at_node(node: str, rank: int, window: int = 1 << 18) -> End[m.From]:
    """The end of the agent of ``rank``, on ``node``."""
    return End(lambda message, number: m.From(node, message, number), rank * ROOM, window)


def at_controller(node: str, rank: int) -> End[m.To]:
    """The controller's end of the channel to the agent of ``rank``, on ``node``."""
    return End(lambda message, number: m.To((node,), message, number), rank * ROOM)
