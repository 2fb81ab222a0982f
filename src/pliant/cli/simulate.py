"""``pliant simulate``: a trace or a batch under a virtual clock."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from pliant.cli import simulate_options as o
from pliant.cli import simulated
from pliant.cli.simulate_differences import differences_tables
from pliant.cli.simulate_outputs import SimulationOutputs, command_of
from pliant.cli.simulate_tables import simulation_table, study_table
from pliant.core.records import Record
from pliant.files.policy import inputs_of, policy_names, weights_of
from pliant.model.errors import BatchError
from pliant.model.limits import as_number
from pliant.model.words import count
from pliant.page.simulated import Picture, Simulated
from pliant.report.words import plain
from pliant.study.cells import cell
from pliant.study.files import Files
from pliant.study.grid import Grid, study, told
from pliant.study.groups import read_by
from pliant.study.options import against_said, queue_said, wished
from pliant.study.simulation import Sink, simulation
from pliant.study.simulation_request import requested
from pliant.terminal.working import Working
from pliant.workloads.formats.elastisim import named_files
from pliant.workloads.sources import ELASTISIM, JOURNAL
from pliant.workloads.unmapped import refused

READ = ("platform", "cost", "failures", "partitions", "reservations")
"""Options that may name files."""


@o.taking("malleable", "weights")
def simulate_file(  # noqa: PLR0913 -- a command has its options as parameters
    context: typer.Context,
    workload: o.WORKLOAD = "",
    *,
    from_records: o.FROM_RECORDS = "",
    policy: o.POLICY = "",
    weight: o.WEIGHT = None,
    malleable: o.MALLEABLE = "",
    seeds: o.SEEDS = 1,
    workers: o.WORKERS = 0,
    by: o.BY = "",
    against: o.AGAINST = "",
    jobs_csv: o.JOBS_CSV = None,
    evalys_csv: o.EVALYS_CSV = None,
    swf: o.SWF = None,
    convert: o.CONVERT = None,
    records: o.RECORDS = None,
    report: o.REPORT = None,
    as_json: o.AS_JSON = False,
    **options: Any,
) -> None:
    """Simulate a trace, a batch or a generated workload. It shows waits, utilisation and resizes."""
    workload = _workload(workload, from_records)
    shares = percentages(malleable) if malleable else None
    asked = requested(
        "simulate",
        {**options, "weights": weights_of(weight or ()), "malleable": shares[0] if shares else None},
    )
    said = queue_said(workload, asked)
    wish = wished(workload, asked)
    names = policy_names(policy)
    grid = Grid(wish, [said._replace(name=name) for name in names], shares, seeds, asked.instant, read_by(by))
    grid = against_said(against, grid)
    files = Files(jobs_csv, records, swf, convert, evalys_csv, command_of(context))
    outputs = SimulationOutputs(report, files, as_json)
    read = [workload, *(str(options[name]) for name in READ)]
    read += [str(file) for file in named_files(Path(workload))] if workload.endswith(ELASTISIM) else []
    outputs.check(grid, [*read, *(text for name in names for text in inputs_of(name))])
    if report is None and (shares or seeds > 1 or len(names) > 1 or grid.windows > 1):
        _study(grid, workers, outputs)
    else:
        _single(grid, outputs)


def _workload(workload: str, from_records: str) -> str:
    """The one that is named; BatchError."""
    if bool(workload) == bool(from_records):
        raise BatchError(
            "name one workload to simulate, or a journal by --from-records (pliant simulate --help)"
        )
    if from_records and Path(from_records).suffix != JOURNAL:
        raise BatchError(
            f"--from-records {from_records}: a journal is called records.ndjson; name that file, "
            "as pliant-runs/records.ndjson"
        )
    return workload or from_records


def percentages(text: str) -> list[float]:
    """``0,20,100`` as numbers; BatchError for others than 0 .. 100."""
    numbers: list[float] = []
    for part in text.split(","):
        share = as_number(part)
        if not 0 <= share <= 100:
            raise BatchError(f"malleable: {part.strip()!r} is no percentage; write --malleable 0,50,100")
        numbers.append(share)
    return list(dict.fromkeys(numbers))


def _single(grid: Grid, outputs: SimulationOutputs) -> None:
    """One simulation, with all its figures; files get its records too."""
    wish, report = grid.wish, outputs.report
    name = Path(wish.text).name
    with Working(f"reading {name}"):
        made = simulation(wish, grid.policies[0], grid.instant)
    load = made.load
    _note(load.note)
    counted = None if load.counted is None else [job.spec for job in load.counts]
    picture = Picture(len(load.jobs), counted) if report is not None else None
    with outputs.files.opened(made, wish.text) as (listeners, kept):
        keep = kept
        if picture is not None:
            listeners.append(picture.dense)
            keep = _both(kept, picture.keep)
        with Working("simulating", len(load.jobs), "jobs") as progress:
            ended = made.run(*listeners, keep=keep, progress=progress.reach)
        if report is not None and picture is not None:
            facts = simulated.facts(wish, load, grid.policies[0].start, grid.instant, ended.end)
            of = Simulated(name, made.policy.name, load.nodes, facts, load.left_out, len(load.too_wide))
            with Working("drawing the report"):
                simulated.write(report, picture, of, ended.metrics)
    if report is not None:
        said = f"report: {report}, data: {report.with_suffix('.json')}"
        Console(stderr=outputs.as_json).print(said, markup=False)
    _doubt(ended.doubt(load))
    result = told(grid, [cell(0, wish, made, ended)])
    if outputs.as_json:
        typer.echo(json.dumps(result))
    else:
        title = f"{name}: {made.policy.name} on {count(load.nodes, 'node')}"
        Console().print(simulation_table(title, result["runs"][0]))


def _both(one: Sink | None, other: Sink | None) -> Sink | None:
    """What gives each record to both."""
    if one is None or other is None:
        return one or other

    def both(record: Record) -> None:
        one(record)
        other(record)

    return both


def _note(text: str) -> None:
    """Say which jobs were left out, and what is not simulated, if there is something."""
    if text:
        said = "\n".join(plain(line) for line in refused(text, "--strict").splitlines())
        typer.echo(f"pliant simulate: {said}", err=True)


def _doubt(text: str) -> None:
    """Say why figures are doubtful, if they are."""
    if text:
        typer.echo(f"pliant simulate: {plain(text)}", err=True)


def _study(grid: Grid, workers: int, outputs: SimulationOutputs) -> None:
    """Several simulations, and a row for each share of malleable jobs and policy."""
    with Working("simulating", grid.most, "simulations") as progress:
        result = study(
            grid, workers=workers, files=outputs.files, progress=progress.reach, note=_note, doubt=_doubt
        )
    if outputs.as_json:
        typer.echo(json.dumps(result))
    else:
        console = Console()
        for table in (study_table(result, console), *differences_tables(result, console)):
            console.print(table)
