"""The pliant command, called in this process."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner

from pliant.cli import made
from pliant.model.errors import PliantError

ITS_OWN = ("cpu_s", "jobs_per_cpu_s", "peak_mb")
"""What differs from one simulation to the next."""


def command(*arguments: str) -> str:
    """What ``pliant ARGUMENTS`` prints to standard output. An error of Pliant's own is raised as it is."""
    result = CliRunner().invoke(made(), arguments)
    if isinstance(result.exception, PliantError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def simulated(*arguments: str) -> dict[str, Any]:
    """The one run that ``pliant simulate ARGUMENTS --json`` tells of."""
    return run_of(command("simulate", *arguments, "--json"))


def simulate_json(*arguments: str) -> dict[str, Any]:
    """What ``pliant simulate ARGUMENTS --json`` tells, without what differs from one time to the next."""
    found: dict[str, Any] = json.loads(command("simulate", *arguments, "--json"))
    for run in found["runs"]:
        for key in ITS_OWN:
            del run[key]
    return found


def run_of(text: str) -> dict[str, Any]:
    """The one run in what ``pliant simulate --json`` printed."""
    (run,) = json.loads(text)["runs"]
    return dict(run)
