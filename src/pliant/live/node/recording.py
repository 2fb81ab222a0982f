"""A machine's inputs and outputs as lines, and the same inputs played to a new machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from pliant.live.node.life import NodeLife
from pliant.live.node.messages import AnyInput, AnyOutput, Home
from pliant.model.errors import ProtocolError

_encoder = msgspec.json.Encoder()


class Moment(msgspec.Struct):
    """What happened at once, and what was to be done because of it."""

    now: float
    inputs: list[AnyInput]
    outputs: msgspec.Raw


class Difference(msgspec.Struct, frozen=True):
    """``line`` of a recording (from 1) in which a machine of now asks for other things than the recorded one."""

    line: int
    recorded: bytes
    now: bytes


def head(home: Home) -> bytes:
    """The first line of a recording."""
    return _encoder.encode(home) + b"\n"


def line(inputs: Sequence[AnyInput], now: float, outputs: Sequence[AnyOutput]) -> bytes:
    """One batch."""
    return _encoder.encode({"now": now, "inputs": inputs, "outputs": outputs}) + b"\n"


def replay(lines: Iterable[bytes]) -> Iterator[Difference]:
    """Where a new machine that is given a recording's inputs differs from the recorded one: nowhere, if all is well.

    A torn last line is left out. ProtocolError if another line is none of a recording.
    """
    life: NodeLife | None = None
    decoder = msgspec.json.Decoder(Moment)
    for number, text in enumerate(lines, 1):
        if not text.endswith(b"\n"):
            return
        try:
            if life is None:
                life = NodeLife(msgspec.json.decode(text, type=Home))
                continue
            batch = decoder.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ProtocolError(f"line {number} of the recording: {error}") from error
        recorded, again = bytes(batch.outputs), _encoder.encode(life.handle(batch.inputs, batch.now))
        if recorded != again:
            yield Difference(number, recorded, again)
