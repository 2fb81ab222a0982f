"""The ``pliant`` command."""

from __future__ import annotations

import sys

import typer

from pliant.cli import (
    bench,
    bench_agreement,
    bench_live,
    calibrate,
    demo,
    doctor,
    operate,
    policies,
    reproduce,
    run,
    simulate,
)
from pliant.daemon.session import Interrupted
from pliant.launch.descriptors import open_standard
from pliant.model.errors import PliantError

app = typer.Typer(
    name="pliant",
    help="Parallel jobs that change size while they run, and the scheduler that makes use of it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for module in (
    demo,
    run,
    simulate,
    reproduce,
    calibrate,
    policies,
    operate,
    doctor,
    bench,
    bench_live,
    bench_agreement,
):
    module.register(app)


def main() -> None:
    """Run the command; errors that a user can mend are one line, without a traceback."""
    open_standard()
    try:
        app()
    except Interrupted as interruption:
        sys.stderr.write(f"pliant: {interruption}\n")
        sys.exit(128 + interruption.number)
    except PliantError as error:
        sys.stderr.write(f"pliant: {error}\n")
        sys.exit(2)
