"""Recordings of machines played again: the same inputs, to a machine of now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

import msgspec

from pliant.model.errors import ProtocolError

encode = msgspec.json.Encoder().encode
Head = TypeVar("Head")


class ReplayMoment(Protocol):
    """What was to be done because of what happened at once."""

    outputs: msgspec.Raw


AnyMoment = TypeVar("AnyMoment", bound=ReplayMoment)


class ReplayDifference(msgspec.Struct, frozen=True):
    """``line`` of a recording (from 1) in which a machine of now asks for other things than the recorded one."""

    line: int
    recorded: bytes
    now: bytes


def played(
    lines: Iterable[bytes],
    head: type[Head],
    moment: type[AnyMoment],
    begin: Callable[[Head], Callable[[AnyMoment], Any]],
) -> Iterator[ReplayDifference]:
    """Where a new machine, which ``begin`` makes of the first line, differs from the recorded one: nowhere, if all is
    well. A torn last line is left out. ProtocolError if another line is none of a recording."""
    handle: Callable[[AnyMoment], Any] | None = None
    decoder = msgspec.json.Decoder(moment)
    for number, text in enumerate(lines, 1):
        if not text.endswith(b"\n"):
            return
        try:
            if handle is None:
                handle = begin(msgspec.json.decode(text, type=head))
                continue
            batch = decoder.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ProtocolError(f"line {number} of the recording: {error}") from error
        recorded, again = bytes(batch.outputs), encode(handle(batch))
        if recorded != again:
            yield ReplayDifference(number, recorded, again)
