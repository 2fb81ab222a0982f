"""The options of ``pliant simulate``: all that can be asked of a simulation, and those that are the command's own."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from pliant.policy import registry
from pliant.study import simulation_request as request
from pliant.study.groups import LABELS
from pliant.study.simulation_request import MALLEABLE as MALLEABLE_JOBS
from pliant.study.simulation_request import Field
from pliant.workloads.sources import FORMS

F = TypeVar("F", bound=Callable[..., Any])
OUTPUT = "Output"
PANELS = (
    request.WORKLOAD, request.POLICY, MALLEABLE_JOBS, request.MACHINE, request.ELASTISIM, request.STUDY, OUTPUT,
)  # fmt: skip
_workload = partial(typer.Option, rich_help_panel=request.WORKLOAD)
_policy = partial(typer.Option, rich_help_panel=request.POLICY)
_malleable = partial(typer.Option, rich_help_panel=MALLEABLE_JOBS)
_study = partial(typer.Option, rich_help_panel=request.STUDY)
_file = partial(typer.Option, rich_help_panel=OUTPUT)

WORKLOAD = Annotated[str, typer.Argument(help=f"One of: {FORMS}.", show_default=False)]
FROM_RECORDS = Annotated[
    str,
    _workload(
        help="What a live run was given (its records.ndjson), under --policy: what if? Under easy and the like, which "
        "resize nothing, jobs start at their preferred size (--start exact)."
    ),
]
POLICY = Annotated[
    str,
    _policy(
        help=f"One of {', '.join(registry.POLICIES)}, or FILE.py[:CLASS], with options as in "
        "marginal:payback=5, or exec:COMMAND for one in another process (docs/external.md); default: the batch's "
        "own, easy, or with --malleable malleable. Several, as in easy,malleable, are compared."
    ),
]
WEIGHT = Annotated[
    list[str] | None, _policy(help="USER=WEIGHT, for the orders fairshare and weight; repeatable.")
]
MALLEABLE = Annotated[
    str, _malleable(help="Percentages of rigid jobs to make malleable, as in 0,50,100; a row for each.")
]
SEEDS = Annotated[int, _study(min=1, help="Repeat with so many seeds, and show means and 95 % intervals.")]
WORKERS = Annotated[int, _study(min=0, help="Processes for several simulations; 0: one a processor.")]
BY = Annotated[
    str,
    _study(help=f"What differs, for each group of jobs too: {', '.join(LABELS)}, or several of them."),
]
AGAINST = Annotated[
    str,
    _study(
        help="Compare with this: easy at the same percentage, easy@0, or @0 for each policy's own; default: the first "
        "policy, or of one policy the first percentage."
    ),
]
JOBS_CSV = Annotated[
    Path | None, _file(help="Write a line for each job to this file, in order of submission.")
]
RECORDS = Annotated[
    Path | None,
    _file(help="Write the journal of the simulation to this file, FILE.ndjson, as that of a live run."),
]
SWF = Annotated[
    Path | None,
    _file(help="Write the schedule to this file, FILE.swf: a trace in SWF, with its waits."),
]
CONVERT = Annotated[
    Path | None,
    _file(help="Write the jobs as they were simulated to this file, FILE.swf: a workload in SWF."),
]
EVALYS_CSV = Annotated[
    Path | None, _file(help="Write a line for each job to this file, as Batsim does and Evalys reads.")
]
REPORT = Annotated[
    Path | None, _file(help="Write an HTML report of one simulation here, and JSON beside it.")
]
AS_JSON = Annotated[bool, _file("--json", help="Print JSON instead of a table.")]


def taking(*own: str) -> Callable[[F], F]:
    """A command that has all that can be asked of a simulation as options, but for those that are its ``own``. It gets
    them by keyword."""

    def made(command: F) -> F:
        told = inspect.signature(command, eval_str=True)
        parameters = [each for each in told.parameters.values() if each.kind is not each.VAR_KEYWORD]
        parameters += [_parameter(field) for field in request.fields() if field.name not in own]
        parameters.sort(key=lambda each: (each.kind, _panel(each)))
        command.__signature__ = told.replace(parameters=parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {each.name: each.annotation for each in parameters}
        return command

    return made


def _panel(parameter: inspect.Parameter) -> int:
    """Which panel of the help it is in; -1 for what stands before all."""
    for told in getattr(parameter.annotation, "__metadata__", ()):
        if (panel := told.rich_help_panel) is not None:
            return PANELS.index(panel)
    return -1


def _parameter(field: Field) -> inspect.Parameter:
    name, kind, default, option = field
    kind = kind if kind in (int, bool, float | None, float) or _is_choice(kind) else str
    spelt = f"--{field.called}" + (f"/--no-{field.called}" if default is True else "")
    told = typer.Option(spelt, help=option.help, min=option.least, rich_help_panel=option.panel)
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, told]
    )


def _is_choice(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Enum)
