"""``pliant bench agreement``: the simulator against live runs of the demonstration's batch."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from pliant.cli import execute
from pliant.cli.demo import demo_batch
from pliant.cli.execute import Variant
from pliant.core import records as r
from pliant.files.journal import read_records
from pliant.history.metrics import measure
from pliant.plan.cost import ResizeCost
from pliant.sim import calibration
from pliant.terminal.working import Working

POLICIES = ("easy", "malleable", "marginal")
LIMIT = 0.05
"""How far a makespan may be off, as a share."""


class Lived(NamedTuple):
    """A live run: under which policy, and its journal."""

    policy: str
    records: Sequence[r.AnyRecord]


def agreement(
    *,
    records: Annotated[
        Path | None,
        typer.Option(
            help="Where a 'pliant demo' left its records; without it the batch runs now (3 minutes)."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Run the demonstration's batch, simulate it, and compare. The simulation takes the resize costs that the
    live runs showed."""
    runs = _recorded(records) if records else _run()
    cost = calibration.cost(calibration.fit(calibration.collect(run.records for run in runs)))
    rows = [_row(run, cost) for run in runs]
    if as_json:
        typer.echo(json.dumps({"cost": msgspec.to_builtins(cost), "runs": rows}))
    else:
        Console().print(_table(rows))
    if any(abs(row["makespan_ratio"] - 1) > LIMIT for row in rows):
        raise typer.Exit(1)


def _recorded(place: Path) -> list[Lived]:
    """The two runs of the demonstration; TraceError if they are not there."""
    runs = []
    for name in ("rigid", "malleable"):
        header, journal = read_records(place / name / "records.ndjson")
        runs.append(Lived(header.policy, journal))
    return runs


def _run() -> list[Lived]:
    batch = demo_batch()
    runs = []
    with Working("running", len(POLICIES), "batches") as progress, tempfile.TemporaryDirectory() as place:
        for policy in POLICIES:
            chosen = msgspec.structs.replace(
                batch, cluster=msgspec.structs.replace(batch.cluster, policy=policy, start=None)
            )
            rigid = policy == "easy"
            execute.whole(Variant(chosen, policy, rigid), output=Path(place) / policy)
            runs.append(Lived(policy, read_records(Path(place) / policy / "records.ndjson")[1]))
            progress.advance()
    return runs


def _row(run: Lived, cost: ResizeCost) -> dict[str, Any]:
    batch = demo_batch()
    rigid = run.policy == "easy"
    cluster = msgspec.structs.replace(
        batch.cluster, policy=run.policy, start=batch.cluster.start if run.policy == "malleable" else None
    )
    simulated = execute.predicted(Variant(msgspec.structs.replace(batch, cluster=cluster), "", rigid, cost))
    live_s = measure(run.records).makespan_s
    order, expected = _starts(run.records), _starts(simulated.records)
    place = {name: i for i, name in enumerate(expected)}
    swapped = [pair for pair in combinations(order, 2) if place[pair[0]] > place[pair[1]]]
    return {
        "policy": run.policy,
        "live_makespan_s": round(live_s, 3),
        "simulated_makespan_s": round(simulated.metrics.makespan_s, 3),
        "makespan_ratio": round(simulated.metrics.makespan_s / live_s, 4),
        "jobs": len(order),
        "same_order": order == expected,
        "swapped": [list(pair) for pair in swapped],
    }


def _starts(records: Sequence[r.AnyRecord | r.Record]) -> list[str]:
    """The names of the jobs in the order in which they were started."""
    names: dict[int, str] = {}
    order = []
    for record in records:
        if isinstance(record, r.JobSubmitted):
            names[record.job] = record.spec.name
        elif isinstance(record, r.JobStarted):
            order.append(names[record.job])
    return order


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table(
        "policy", title="the demonstration's batch, live and simulated with the costs that it showed"
    )
    for title in ("live makespan s", "simulated s", "ratio", "jobs", "order of starts"):
        table.add_column(title, justify="right")
    for row in rows:
        swapped = "; ".join(f"{b} before {a}" for a, b in row["swapped"])
        table.add_row(
            row["policy"],
            f"{row['live_makespan_s']:.2f}",
            f"{row['simulated_makespan_s']:.2f}",
            f"{row['makespan_ratio']:.3f}",
            str(row["jobs"]),
            "the same" if row["same_order"] else f"simulated {swapped}",
        )
    return table
