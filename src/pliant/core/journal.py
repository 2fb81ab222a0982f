"""The form of a journal: a header, and a record a line. What is needed to fold the records is in it, and nothing else
is: settings, nodes, groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from pliant.core import records as r
from pliant.core.settings import Settings
from pliant.model.nodes import NodeSet

SCHEMA = 2


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The first line. ``began`` is wall-clock time, ISO 8601; ``settings`` are what the records are folded with."""

    began: str
    policy: str
    settings: Settings = Settings()
    schema: int = SCHEMA


class _Schema(msgspec.Struct):
    """What every version's header has."""

    schema: int
    began: str


class Journal(NamedTuple):
    """A journal as it was read. ``torn``: its last line was not complete, and is left out."""

    header: Header
    records: list[r.AnyRecord]
    torn: bool = False


class JournalError(Exception):
    """A line of a journal is none; ``line`` is its number, from 1."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}")
        self.line = line


def header_line(header: Header) -> bytes:
    return msgspec.json.encode(header) + b"\n"


def read_header(line: bytes) -> Header:
    """The header; JournalError if the line is none, or of another schema."""
    try:
        schema = msgspec.json.decode(line, type=_Schema).schema
        if schema != SCHEMA:
            raise JournalError(
                1, f"the journal has schema {schema}; this version of Pliant reads schema {SCHEMA}"
            )
        return msgspec.json.decode(line, type=Header)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise JournalError(1, f"no header of a journal: {error}") from None


def began_of(line: bytes) -> str:
    """When the run of a journal of any schema began, by its first line; JournalError if that is no header."""
    try:
        return msgspec.json.decode(line, type=_Schema).began
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise JournalError(1, f"no header of a journal: {error}") from None


def read(lines: Sequence[bytes]) -> Journal:
    """A journal from its lines, as a file that was opened for reading bytes yields them.

    A last line without its end was being written when the writer ended: it does not count. JournalError where
    another line is no record.
    """
    header = read_header(lines[0] if lines else b"")
    torn = not lines[-1].endswith(b"\n")
    whole = lines[1:-1] if torn else lines[1:]
    return Journal(header, list(_records(whole)), torn)


def _records(lines: Iterable[bytes]) -> Iterator[r.AnyRecord]:
    for number, line in enumerate(lines, 2):
        try:
            yield r.from_line(line)
        except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
            raise JournalError(number, f"no record: {error}") from None


def by_name(records: Sequence[r.Record]) -> tuple[tuple[str, ...], Sequence[r.Record]]:
    """The names of all nodes that the records grant, by number, and the records with one number for each of them.

    A journal may give the number of a node that was returned to one of another name; such a node gets a number of its
    own here, and one that comes again the number that it had. The numbers of a job's groups do not follow those of its
    nodes then. Where no number was used again these are the same records. A node without a name is called ``n`` and its
    number.
    """
    numbers: dict[str, int] = {}
    known: dict[int, int] = {}
    again: list[r.Record] = []
    differ = False
    for record in records:
        if isinstance(record, r.NodesGranted):
            taken = set(numbers.values())
            for node, name in zip(record.nodes, _names(record), strict=True):
                if name not in numbers:
                    numbers[name] = node if node not in taken else max(taken) + 1
                    taken.add(numbers[name])
                known[node] = numbers[name]
            differ = differ or any(a != b for a, b in known.items())
        again.append(_with(record, known) if differ else record)
    names = {number: name for name, number in numbers.items()}
    return tuple(names.get(number, f"n{number}") for number in range(max(names, default=-1) + 1)), again


def _names(record: r.NodesGranted) -> tuple[str, ...]:
    return record.names or tuple(f"n{node}" for node in record.nodes)


def _with(record: r.Record, numbers: Mapping[int, int]) -> r.Record:
    """The record of nodes that have these ``numbers``."""
    if isinstance(record, r.NodesGranted):
        new = [numbers[node] for node in record.nodes]
        order = sorted(range(len(new)), key=new.__getitem__)
        names, slots, labels = (
            tuple(each[i] for i in order if each) for each in (_names(record), record.slots, record.labels)
        )
        return msgspec.structs.replace(record, nodes=NodeSet.of(new), names=names, slots=slots, labels=labels)
    changed: dict[str, object] = {}
    for field in record.__struct_fields__:
        value = getattr(record, field)
        if isinstance(value, NodeSet) and value:
            changed[field] = NodeSet.of(numbers[node] for node in value)
    if isinstance(record, r.ResizeOffered) and record.arriving:
        changed["arriving"] = tuple(
            msgspec.structs.replace(group, node=numbers[group.node]) for group in record.arriving
        )
    return msgspec.structs.replace(record, **changed) if changed else record
