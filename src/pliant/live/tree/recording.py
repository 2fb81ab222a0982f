"""The inputs and outputs of an agent's part of a launch tree as lines, and the same inputs played to a new machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from pliant.live.node.recording import Difference
from pliant.live.tree.branch import Branch
from pliant.live.tree.messages import AnyInput, AnyOutput, Seat
from pliant.model.errors import ProtocolError

_encoder = msgspec.json.Encoder()


class Moment(msgspec.Struct):
    """What happened at once, and what was to be done because of it."""

    inputs: list[AnyInput]
    outputs: msgspec.Raw


def head(seat: Seat) -> bytes:
    """The first line of a recording."""
    return _encoder.encode(seat) + b"\n"


def line(inputs: Sequence[AnyInput], outputs: Sequence[AnyOutput]) -> bytes:
    """One batch."""
    return _encoder.encode({"inputs": inputs, "outputs": outputs}) + b"\n"


def replay(lines: Iterable[bytes]) -> Iterator[Difference]:
    """Where a new machine that is given a recording's inputs differs from the recorded one: nowhere, if all is well.

    A torn last line is left out. ProtocolError if another line is none of a recording.
    """
    branch: Branch | None = None
    decoder = msgspec.json.Decoder(Moment)
    for number, text in enumerate(lines, 1):
        if not text.endswith(b"\n"):
            return
        try:
            if branch is None:
                branch = Branch(msgspec.json.decode(text, type=Seat))
                continue
            batch = decoder.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ProtocolError(f"line {number} of the recording: {error}") from error
        recorded, again = bytes(batch.outputs), _encoder.encode(branch.handle(batch.inputs))
        if recorded != again:
            yield Difference(number, recorded, again)
