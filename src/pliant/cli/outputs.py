"""Files that a command is told to write at its end: whether they can be is looked at before it begins."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from pliant.daemon.directory import current_directory
from pliant.model.errors import BatchError

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def check_report(report: Path | None, inputs: Sequence[str] = ()) -> None:
    """BatchError before anything starts if the report, or the JSON beside it, could not be written at the
    end, or would take the place of one of the files that are read. Nothing that is there is changed."""
    if report is None:
        return
    if report.suffix == ".json":
        raise BatchError(f"--report {report}: name the HTML file; the JSON is written beside it")
    if not report.is_absolute():
        current_directory()
    try:
        pages = [report, report.with_suffix(".json")]
        check_outputs(pages, inputs)
        for path in pages:
            if path.is_dir():
                raise BatchError(f"--report {report}: {path} is a directory; name a file")
            _check_writable(path.resolve(), f"--report {report}")
    except OSError as error:
        raise unwritable(report, error) from None


def check_output(option: str, path: Path) -> None:
    """BatchError before anything starts if the file that ``option`` names could not be written at the end. Nothing
    that is there is changed."""
    if not path.is_absolute():
        current_directory()
    try:
        if path.is_dir():
            raise BatchError(f"{option} {path}: it is a directory; name a file")
        if path.is_file() or not path.exists():  # no pipe, nor /dev/null
            _check_writable(path.resolve(), f"{option} {path}")
    except OSError as error:
        raise BatchError(
            f"{option} {path}: cannot be written: {error.strerror or error}; choose another place"
        ) from None


def _check_writable(place: Path, what: str) -> None:
    """OSError or BatchError if no file can be written at ``place``, for ``what`` the user has asked."""
    if not place.parent.is_dir():
        raise BatchError(f"{what}: there is no directory {place.parent}")
    if place.exists():
        with place.open("ab"):
            pass
    if place.is_file() or not place.exists():
        with tempfile.TemporaryFile(dir=place.parent):  # where it is drafted
            pass


def check_outputs(outputs: Sequence[Path], inputs: Sequence[str]) -> None:
    """BatchError before anything is done, if an output would take the place of an input or of another output;
    a policy's ``FILE.py:CLASS`` is that file."""
    files = (Path(text.partition(".py:")[0] + ".py" if ".py:" in text else text) for text in inputs)
    read = {file.resolve() for file in files if os.access(file, os.F_OK)}
    written: set[Path] = set()
    for path in outputs:
        place = path.resolve()
        if place in read:
            raise BatchError(f"{path}: it would be written, and is an input; choose another name")
        if place in written:
            raise BatchError(
                f"{path}: two outputs would be written there; choose another name for one of them"
            )
        written.add(place)


def unwritable(report: Path, error: OSError) -> BatchError:
    return BatchError(
        f"--report {report}: cannot be written: {error.strerror or error}; choose another place"
    )
