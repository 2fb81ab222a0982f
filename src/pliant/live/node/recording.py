"""A machine's inputs and outputs as lines, and the same inputs played to a new machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from pliant.live.node.life import NodeLife
from pliant.live.node.messages import AnyInput, AnyOutput, Home
from pliant.live.played import ReplayDifference, encode, played


class NodeMoment(msgspec.Struct):
    """What happened at once, and what was to be done because of it."""

    now: float
    inputs: list[AnyInput]
    outputs: msgspec.Raw


def head(home: Home) -> bytes:
    """The first line of a recording."""
    return encode(home) + b"\n"


def line(inputs: Sequence[AnyInput], now: float, outputs: Sequence[AnyOutput]) -> bytes:
    """One batch."""
    return encode({"now": now, "inputs": inputs, "outputs": outputs}) + b"\n"


def replay(lines: Iterable[bytes]) -> Iterator[ReplayDifference]:
    """Where an agent of now differs from the recorded one (`live/played.py`)."""

    def begin(home: Home) -> Callable[[NodeMoment], Sequence[AnyOutput]]:
        life = NodeLife(home)
        return lambda batch: life.handle(batch.inputs, batch.now)

    return played(lines, Home, NodeMoment, begin)
