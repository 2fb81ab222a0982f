"""The pliant command, called in this process."""

from __future__ import annotations

from typer.testing import CliRunner

from pliant.cli import made
from pliant.model.errors import PliantError


def command(*arguments: str) -> str:
    """What ``pliant ARGUMENTS`` prints to standard output. An error of Pliant's own is raised as it is."""
    result = CliRunner().invoke(made(), arguments)
    if isinstance(result.exception, PliantError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout
