"""The ``pliant`` command."""

from __future__ import annotations

import errno
import io
import sys
from functools import cache
from importlib import import_module

import typer

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

COMMANDS = (
    "demo", "run", "launch", "simulate", "reproduce", "calibrate", "policies", "plan", "operate", "doctor", "bench",
    "bench_live", "bench_launch", "bench_resize", "bench_agreement", "bench_places", "bench_world", "bench_apgas",
    "bench_scaling", "bench_redistribute", "reproduce_apgas", "reproduce_dmr", "reproduce_launch", "reproduce_spawning",
    "plan_spawn", "plan_shrink", "plan_data",
)  # fmt: skip
"""The modules of this package that add a command, in the order in which help shows them."""
QUICK = "launch"
"""A command that people wait for: the others are not loaded for it."""


@cache
def made(verb: str = "") -> typer.Typer:
    """The command, with all that it has; with one alone if that is the ``verb``."""
    app = typer.Typer(
        name="pliant",
        help="Parallel jobs that change size while they run, and the scheduler that makes use of it.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_verbs)
    for name in [QUICK] if verb == QUICK else COMMANDS:
        import_module(f"pliant.cli.{name}").register(app)
    return app


def _verbs() -> None:
    """Parallel jobs that change size while they run, and the scheduler that makes use of it."""


def main() -> None:
    """Run the command; errors that a user can mend are one line, without a traceback."""
    open_standard()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors=SPELLED)  # names and signs that a terminal has no letters for
    try:
        made("".join(sys.argv[1:2]))()
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
