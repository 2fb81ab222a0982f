"""Batches, and what else is described, as files of TOML."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pliant.model.batch import Batch, read_batch
from pliant.model.errors import BatchError
from pliant.model.keys import known, table_of


def read_batch_file(path: Path, nodes: int = 8) -> Batch:
    """The batch in a TOML file, on so many nodes if it does not say; BatchError names the file and what is wrong with
    it."""
    return read_batch(read_tables(path, str(path)), str(path), nodes)


def tables_of(said: Any, kind: str) -> tuple[str, list[Mapping[str, Any]]]:
    """Where they are, for errors, and the tables ``[[kind]]`` of a TOML file, or that a program gives. BatchError if
    there are none, or something else."""
    where, tables = f"{kind}s", said
    if isinstance(said, str | os.PathLike):
        where = f"{kind}s: {os.fspath(said)}"
        data = read_tables(Path(said), where)
        known(data, (kind,), where)
        tables = data.get(kind, [])
    if not isinstance(tables, Sequence) or isinstance(tables, str):
        raise BatchError(f"{where}: {tables!r} is no list of {kind}s")
    if not tables:
        raise BatchError(f"{where}: there are no {kind}s; add at least one [[{kind}]] table")
    return where, [table_of(table, f"{where}: {kind} {number}") for number, table in enumerate(tables, 1)]


def read_tables(path: Path, where: str) -> dict[str, Any]:
    """What a TOML file says; BatchError begins with ``where``, which names it."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise BatchError(f"{where}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise BatchError(f"{where}: is no text in UTF-8: {error}") from None
    except (ValueError, RecursionError) as error:  # numbers of 5,000 digits, and brackets in brackets, too
        raise BatchError(f"{where}: is no TOML: {error}") from None
