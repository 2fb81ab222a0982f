"""The form of a journal: a header, and a record a line. What is needed to fold the records is in it, and nothing else
is: settings, nodes, groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from pliant.core import records as r
from pliant.core.settings import Settings

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


def names_of(records: Iterable[r.Record]) -> tuple[str, ...]:
    """The names of all nodes that the records grant, by number; a node without one goes by ``n`` and its number."""
    names: dict[int, str] = {}
    for record in records:
        if isinstance(record, r.NodesGranted):
            given = record.names or tuple(f"n{node}" for node in record.nodes)
            names.update(zip(record.nodes, given, strict=True))
    return tuple(names.get(node, f"n{node}") for node in range(max(names, default=-1) + 1))
