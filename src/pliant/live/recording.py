"""The inputs, records and outputs of a controller's machine as lines, and the same inputs played to a new one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from pliant.core import records as r
from pliant.core.settings import Settings
from pliant.live.cluster import orders as o
from pliant.live.cluster.cluster import RunContext
from pliant.live.control import Control
from pliant.live.fleet.fleet import Site
from pliant.live.played import ReplayDifference
from pliant.model.errors import ProtocolError
from pliant.policy.view import Policy


class RecordingHead(msgspec.Struct, frozen=True, tag="head"):
    """Where a controller begins: its policy by name, and the wall-clock time, ISO 8601. The run's secret is in
    ``context``. One that goes on has the ``records`` of its journal, which ``head`` puts there."""

    context: RunContext
    settings: Settings
    policy: str
    began: str
    site: Site = Site()
    records: list[msgspec.Raw] | None = None


class ControlMoment(msgspec.Struct, frozen=True, tag="batch"):
    """What happened at once, and what came of it. ``cut``: a pass of the policy was abandoned, or the machine
    failed."""

    now: float
    inputs: list[o.AnyInput]
    records: msgspec.Raw = msgspec.Raw(b"[]")
    outputs: msgspec.Raw = msgspec.Raw(b"[]")
    cut: bool = False


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(RecordingHead | ControlMoment)


def head(begin: RecordingHead, records: Iterable[r.Record] | None = None) -> bytes:
    """The first line of a recording; with the ``records`` of its journal, of a cluster that goes on."""
    if records is not None:
        lines = [msgspec.Raw(r.to_line(record)[:-1]) for record in records]
        begin = msgspec.structs.replace(begin, records=lines)
    return _encoder.encode(begin) + b"\n"


def _begin(head: RecordingHead, policy: Policy) -> Control:
    records = [r.from_line(bytes(line)) for line in head.records or ()]
    return Control.of(policy, head.settings, head.context, head.site, records)


def line(
    inputs: Sequence[o.AnyInput],
    now: float,
    records: Iterable[r.Record] = (),
    outputs: Sequence[o.Output] = (),
    *,
    cut: bool = False,
) -> bytes:
    """One call of ``handle``."""
    lines = b",".join(r.to_line(record)[:-1] for record in records)
    raw = msgspec.Raw(_encoder.encode(outputs))
    return (
        _encoder.encode(ControlMoment(now, list(inputs), msgspec.Raw(b"[" + lines + b"]"), raw, cut)) + b"\n"
    )


def replay(lines: Iterable[bytes], policy: Callable[[RecordingHead], Policy]) -> Iterator[ReplayDifference]:
    """Where new machines that are given a recording's inputs differ from the recorded ones: nowhere, if all is well.

    ``policy`` makes the policy anew. A pass that was abandoned, by a deadline or a signal, depends on the time that
    it took and cannot be played: there the replay of that machine ends. A torn last line is left out. ProtocolError
    if another line is none of a recording.
    """
    control: Control | None = None
    over = False
    for number, text in enumerate(lines, 1):
        if not text.endswith(b"\n"):
            return
        try:
            read = _decoder.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
            raise ProtocolError(f"line {number} of the recording: {error}") from error
        if isinstance(read, RecordingHead):
            control, over = _begin(read, policy(read)), False
            continue
        if control is None:
            raise ProtocolError(f"line {number} of the recording: it does not say what it is a recording of")
        over = over or read.cut
        if over:
            continue
        records, outputs = control.handle(read.inputs, read.now)
        again = line(read.inputs, read.now, records, outputs)
        recorded = _encoder.encode(read) + b"\n"
        if recorded != again:
            yield ReplayDifference(number, recorded, again)
