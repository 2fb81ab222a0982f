"""The inputs and outputs of an agent's part of a launch tree as lines, and the same inputs played to a new machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from pliant.live.played import ReplayDifference, encode, played
from pliant.live.tree.branch import Branch
from pliant.live.tree.messages import AnyInput, AnyOutput, Seat


class TreeMoment(msgspec.Struct):
    """What happened at once, and what was to be done because of it."""

    inputs: list[AnyInput]
    outputs: msgspec.Raw


def head(seat: Seat) -> bytes:
    """The first line of a recording."""
    return encode(seat) + b"\n"


def line(inputs: Sequence[AnyInput], outputs: Sequence[AnyOutput]) -> bytes:
    """One batch."""
    return encode({"inputs": inputs, "outputs": outputs}) + b"\n"


def replay(lines: Iterable[bytes]) -> Iterator[ReplayDifference]:
    """Where an agent's part of a tree differs, as it is now, from the recorded one (`live/played.py`)."""

    def begin(seat: Seat) -> Callable[[TreeMoment], Sequence[AnyOutput]]:
        branch = Branch(seat)
        return lambda batch: branch.handle(batch.inputs)

    return played(lines, Seat, TreeMoment, begin)
