"""What a job does at a reconfiguring point, and who decides it where there is no scheduler."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple, Protocol

_PACK = struct.Struct("<BxHI")


class Action(IntEnum):
    """``FINISH``: what is left of an expansion whose constant data have moved beside the steps."""

    NO_ACTION = 0
    EXPAND = 1
    SHRINK = 2
    MIGRATE = 3
    SLOTS = 4
    FINISH = 5


class Decision(NamedTuple):
    """What the root decided, the lag of the next check, and the resize it belongs to (0 for none)."""

    action: Action = Action.NO_ACTION
    lag: int = 1
    resize: int = 0

    def pack(self) -> bytes:
        return _PACK.pack(self.action, self.lag, self.resize)

    @classmethod
    def unpack(cls, data: bytes | bytearray) -> Decision:
        action, lag, resize = _PACK.unpack(data)
        return cls(Action(action), lag, resize)


NEVER = -1


class Source(Protocol):
    """Decides where no scheduler does, at steps that every rank knows beforehand."""

    def following(self, step: int) -> int:
        """The first step, from ``step`` on, at which something may be decided; NEVER if there is none."""

    def decide(self, step: int) -> Decision:
        """What all ranks are to do at ``step``; equal on all of them."""


class Nothing:
    """Decides nothing, ever."""

    def following(self, step: int) -> int:  # noqa: ARG002 - a Source
        return NEVER

    def decide(self, step: int) -> Decision:  # noqa: ARG002
        return Decision()


class Known:
    """The reconfiguring points of a job without an agent. As all ranks know them beforehand they need not agree, so
    that no rank waits for another, and a step that is none costs a comparison."""

    def __init__(self, source: Source, step: int) -> None:
        self.due = source.following(step)
        self._source = source

    def read(self) -> Decision:
        """What is decided at the step that is due."""
        return self._source.decide(self.due)

    def post(self, step: int, _lag: int, _decision: Decision) -> None:
        """``step`` has been dealt with."""
        self.due = self._source.following(step + 1)

    def drain(self) -> None:
        """Nothing is ever under way."""
