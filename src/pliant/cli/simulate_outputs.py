"""What ``pliant simulate`` writes, and the command that it was, in words."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import NamedTuple

import typer

from pliant.cli import simulated
from pliant.cli.outputs import check_output, check_outputs
from pliant.model.errors import BatchError
from pliant.study.files import Files
from pliant.study.grid import Grid

SUFFIXES = {"--records": ".ndjson", "--swf": ".swf", "--convert": ".swf"}
"""By which ``pliant simulate`` knows what it reads."""


class SimulationOutputs(NamedTuple):
    """What a simulation or a study writes, and whether it prints JSON."""

    report: Path | None
    files: Files
    as_json: bool

    def check(self, grid: Grid, inputs: list[str]) -> None:
        """BatchError before anything is simulated, if these are not to be had of ``grid``, could not be written, or
        would overwrite one of the ``inputs``."""
        named = self.files.named()
        for option, path in named:
            if grid.most > 1:
                raise BatchError(
                    f"{option} {path}: it has the jobs of one simulation; name one policy, at most "
                    "one percentage and one window, and no --seeds"
                )
            if (suffix := SUFFIXES.get(option, path.suffix)) != path.suffix:
                raise BatchError(
                    f"{option} {path}: name it FILE{suffix}, so that pliant simulate knows what it is"
                )
        simulated.check_one(self.report, grid)
        pages = [self.report, self.report.with_suffix(".json")] if self.report is not None else []
        check_outputs([*pages, *(path for _, path in named)], [text for text in inputs if text])
        for option, path in named:
            check_output(option, path)


def command_of(context: typer.Context) -> str:
    """The command with what the user has given of it."""
    words = ["pliant simulate"]
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if source is None or source.name != "COMMANDLINE":
            continue
        value = context.params[name]
        if parameter.param_type_name == "argument":
            words.append(shlex.quote(str(value)))
        elif isinstance(value, bool):
            words.append((parameter.opts if value else parameter.secondary_opts)[0])
        else:
            several = value if isinstance(value, (list, tuple)) else [value]
            words += [f"{parameter.opts[0]} {shlex.quote(str(each))}" for each in several]
    return " ".join(words)
