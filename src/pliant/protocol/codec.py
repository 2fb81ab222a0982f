"""Newline-delimited JSON: bytes to messages and back, with a bound on the length of a line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import msgspec

from pliant.model.errors import ProtocolError
from pliant.protocol.messages import (
    AgentMessage,
    ControllerMessage,
    Drain,
    From,
    GroupLost,
    JobMessage,
    Message,
    Offer,
    SchedulerMessage,
    To,
    Welcome,
    Withdraw,
)

MAX_LINE = 1 << 20
"""The longest line that is accepted, in bytes; tracebacks and key exchange stay far below."""

WRAPPING = 4096
"""What the envelopes between agent and controller may add to a job's line."""

T = TypeVar("T")
_encoder = msgspec.json.Encoder()


def encode(message: Message) -> bytes:
    """One line, with its newline."""
    return _encoder.encode(message) + b"\n"


def raw(message: Message) -> msgspec.Raw:
    """For a message that travels inside another."""
    return msgspec.Raw(_encoder.encode(message))


def once(message: Message) -> str:
    """What a job's session must not be told twice, by a name; empty if that does no harm."""
    match message:
        case Welcome():
            return "welcome"
        case Offer() | Drain():
            return f"offer {message.resize}"
        case Withdraw():
            return f"withdraw {message.resize}"
        case GroupLost():
            return f"lost {message.group}"
        case _:
            return ""


class Lines:
    """Cuts a stream of bytes into lines."""

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._buffer = bytearray()
        self._limit = limit

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The lines that ``data`` completes; ProtocolError when one grows beyond the limit."""
        self._buffer += data
        while (end := self._buffer.find(b"\n")) >= 0:
            if end > self._limit:
                break
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            if line.strip():
                yield line
        if len(self._buffer) > self._limit:
            raise ProtocolError(f"a line of more than {self._limit} bytes")


class Decoder(Generic[T]):
    """Decodes the messages that one end may receive."""

    def __init__(self, union: Any) -> None:
        self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(union)

    def decode(self, line: bytes | msgspec.Raw) -> T:
        """One message; ProtocolError if the line is none of this end's messages."""
        try:
            return self._decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError) as error:
            shown = bytes(line)[:120].decode(errors="replace")
            raise ProtocolError(f"not a message: {error}: {shown}") from error


def from_job() -> Decoder[JobMessage]:
    return Decoder(JobMessage)


def from_scheduler() -> Decoder[SchedulerMessage]:
    return Decoder(SchedulerMessage)


def from_controller() -> Decoder[ControllerMessage]:
    return Decoder(ControllerMessage)


def from_agent() -> Decoder[AgentMessage]:
    return Decoder(AgentMessage)


def to_agents() -> Decoder[To]:
    """Of the envelopes that an agent gets."""
    return Decoder(To)


def from_nodes() -> Decoder[From]:
    """Of the envelopes that the controller gets."""
    return Decoder(From)
