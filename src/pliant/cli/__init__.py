"""The ``pliant`` command."""

from __future__ import annotations

import errno
import io
import sys
from functools import cache
from typing import Annotated

import typer

import pliant
from pliant.cli.verbs import PANELS, add, loading
from pliant.daemon.directory import current_directory
from pliant.daemon.interrupted import Interrupted
from pliant.launch.descriptors import open_standard
from pliant.model.errors import PliantError
from pliant.terminal.glyphs import SPELLED

SHORTAGES = (
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS,
    errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN,
)  # fmt: skip
"""Of disk, files, memory and processes: no defect of ours."""


def _version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it so
    if wanted:
        typer.echo(f"pliant {pliant.__version__}")
        raise typer.Exit


@cache
def made() -> typer.Typer:
    """The command, with all that it has. Each verb is loaded when it is called."""
    verbs = {name: verb for panel in PANELS for name, verb in panel.verbs.items()}
    app = typer.Typer(
        name="pliant",
        cls=loading(verbs),
        help="Parallel jobs that change size while they run, and the scheduler that makes use of it.",
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
    )
    app.callback()(_pliant)
    for panel in PANELS:
        add(app, panel)
    return app


def _pliant(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Parallel jobs that change size while they run, and the scheduler that makes use of it."""


def main() -> None:
    """Run the command; errors that a user can mend are one line, without a traceback."""
    open_standard()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors=SPELLED)  # names and signs that a terminal has no letters for
    try:
        made()()
    except Interrupted as interruption:
        sys.stderr.write(f"pliant: {interruption}\n")
        sys.exit(128 + interruption.number)
    except (PliantError, OSError, UnicodeEncodeError) as error:
        text = str(error) if isinstance(error, PliantError) else told_by_the_system(error)
        if text is None:
            raise
        sys.stderr.write(f"pliant: {text}\n")
        sys.exit(2)


def told_by_the_system(error: OSError | UnicodeEncodeError) -> str | None:
    """What a user can mend of an error that nobody named better; None for all others, which are defects."""
    if isinstance(error, UnicodeEncodeError):
        return f"{error.object!r} is no text in UTF-8" if error.reason == "surrogates not allowed" else None
    if error.errno in SHORTAGES:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if error.filename is None and isinstance(error, FileNotFoundError):
        try:
            current_directory()
        except PliantError as gone:
            return str(gone)
    return None
