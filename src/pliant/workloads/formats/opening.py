"""Text as it comes: compressed in some way and with some mark at its head, whatever the file is called."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from pliant.model.errors import TraceError

OPENED_BY: dict[bytes, Callable[[Path], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
}
"""The module that decompresses a file, by the file's first bytes."""
UNPACKED_BY = {b"\x28\xb5\x2f\xfd": "zstd -d", b"PK\x03\x04": "unzip", b"7z\xbc\xaf": "7z x"}
"""Commands for compressions that Pliant does not read."""
MARKS = {b"\xef\xbb\xbf": "latin-1", b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
"""Byte order marks, as editors write them, and how the rest is read: UTF-8 as any other bytes."""
BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError, UnicodeError)
"""Errors of a file that cannot be read, decompressed or decoded."""


@contextmanager
def opened(path: Path) -> Iterator[tuple[TextIO, str]]:
    """The text of ``path``, line by line, and how it begins; TraceError if it cannot be read."""
    try:
        with path.open("rb") as file:
            first = file.read(8)
        for magic, command in UNPACKED_BY.items():
            if first.startswith(magic):
                raise TraceError(
                    f"{path}: is compressed in a way that Pliant does not read; decompress it first: {command} {path}"
                )
        unpacks = next((unpack for magic, unpack in OPENED_BY.items() if first.startswith(magic)), _plain)
        with unpacks(path) as file:
            head = file.peek(4096)
            mark, encoding = next(
                ((mark, how) for mark, how in MARKS.items() if head.startswith(mark)), (b"", "latin-1")
            )
            file.read(len(mark))
            begins = head[len(mark) :].decode(encoding, "ignore")
            with io.TextIOWrapper(file, encoding=encoding) as text:
                yield text, begins
    except BROKEN as error:
        why = (error.strerror if isinstance(error, OSError) else None) or error
        raise TraceError(f"{path}: cannot be read: {why}") from None


def _plain(path: Path) -> io.BufferedReader:
    return path.open("rb")
