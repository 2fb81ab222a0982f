"""What places say to each other. Each goes with a payload: frames of bytes, of which the first is pickled and the
others are its buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec


class FinishId(NamedTuple):
    """A finish by the place that waits for it and a number there."""

    home: int
    number: int


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """One message between two places. What one place sends another arrives in order, once, or never."""


class Task(Message, frozen=True):
    """Run the payload, a pickled call. It counts in ``finish``, or nowhere where that is None. Whoever waits for its
    value has given it the number ``call``, else that is 0; ``urgent`` ones wait for no worker."""

    name: str
    finish: FinishId | None = None
    call: int = 0
    urgent: bool = False


class Answer(Message, frozen=True):
    """The value of a call, or the exception that it raised, is the payload."""

    call: int
    raised: bool = False


class Tally(Message, frozen=True):
    """No task of ``finish`` is left at the sender. What it has sent to and received from each place since it last said
    so; ``deaths`` of places it knew of. The payload has the exceptions of its tasks."""

    finish: FinishId
    sent: dict[int, int]
    received: dict[int, int]
    deaths: int


class Probe(Message, frozen=True):
    """A place has died: tell of ``finish``, once no task of it is left there, knowing of so many ``deaths``."""

    finish: FinishId
    deaths: int


class Over(Message, frozen=True):
    """``finish`` is over, and can be forgotten."""

    finish: FinishId


class Hello(Message, frozen=True):
    """A new place to place 0: where others reach it."""

    address: str


class World(Message, frozen=True):
    """Place 0 to a new place: all others, and how many have died."""

    addresses: dict[int, str]
    deaths: int


class Joined(Message, frozen=True):
    """New places are there."""

    addresses: dict[int, str]


class Leaving(Message, frozen=True):
    """``places`` are to leave: send them no tasks from now on. It is the ``attempt``-th time that some are to."""

    places: list[int]
    attempt: int


class Staying(Message, frozen=True):
    """``place`` does not leave after all. It is told so first, and says the same if it has not said farewell; from then
    on tasks may be sent to it again, and the others are told."""

    place: int


class LastTask(Message, frozen=True):
    """To a place that leaves in this ``attempt``: no task comes after this."""

    attempt: int


class Farewell(Message, frozen=True):
    """Of a place that leaves: nothing comes after this."""


class Parted(Message, frozen=True):
    """To place 0: ``place`` has said farewell."""

    place: int


class Lost(Message, frozen=True):
    """To place 0: the connection with ``place`` has failed."""

    place: int
    why: str


class Dead(Message, frozen=True):
    """``place`` is dead, the ``number``-th to die."""

    place: int
    number: int
    why: str


class Stop(Message, frozen=True):
    """The program is over, or this place is: end."""

    why: str = ""


AnyMessage = (
    Task
    | Answer
    | Tally
    | Probe
    | Over
    | Hello
    | World
    | Joined
    | Leaving
    | Staying
    | LastTask
    | Farewell
    | Parted
    | Lost
    | Dead
    | Stop
)

Buffer = bytes | bytearray | memoryview
Payload = Sequence[Buffer]


class Codec:
    """Messages to bytes and back."""

    def __init__(self) -> None:
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder: msgspec.msgpack.Decoder[AnyMessage] = msgspec.msgpack.Decoder(AnyMessage)

    def encode(self, message: AnyMessage) -> bytes:
        return self._encoder.encode(message)

    def decode(self, data: Buffer) -> AnyMessage:
        """msgspec.DecodeError (a ValueError) if it is no message."""
        return self._decoder.decode(data)
