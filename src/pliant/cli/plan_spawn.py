"""``pliant plan spawn``: which process starts which others, step by step."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.table import Table

from pliant.cli import plan as p
from pliant.cli.outputs import AsJson
from pliant.model.errors import PliantError
from pliant.model.limits import MOST_HOSTS, MOST_NODES
from pliant.model.words import count
from pliant.plan.connect import connection_plan, first_ranks
from pliant.plan.spawn import Method, SpawnPlan, Strategy, spawn_plan
from pliant.plan.spawn_cost import SpawnTimes, predict_spawn
from pliant.terminal.working import Working


def spawn(  # noqa: PLR0913 -- a command has its options as parameters
    *,
    cores: Annotated[
        str, typer.Option(metavar="COUNTS", help="Of the job on each node, as 4,2,8 or 20x8 (8 nodes of 20).")
    ],
    running: Annotated[
        str,
        typer.Option(
            metavar="COUNTS",
            help="Its processes before: on each node, as 20,20; one number fills the nodes in order.",
        ),
    ] = "1",
    method: Annotated[
        Method, typer.Option(help="Start what is missing, or all anew; the old ones then leave.")
    ] = Method.MERGE,
    strategy: Annotated[
        Strategy,
        typer.Option(
            help="One call; node by node; in parallel, as much on each node; or in parallel, any number."
        ),
    ] = Strategy.DIFFUSIVE,
    one: Annotated[
        bool, typer.Option("--one", help="Of those that run one alone starts others (the paper's Single).")
    ] = False,
    oversubscribe: Annotated[int, typer.Option(min=1, max=MOST_NODES, help="Processes a core.")] = 1,
    draw: p.Draw = None,
    predict: p.Predict = False,
    cost: p.Costs = None,
    processors: p.Processors = 0,
    as_json: AsJson = False,
) -> None:
    """Show which process starts which group, in which step. The strategies are those of Martín-Álvarez et al. 2025.
    Single and sequential are what there was before. Hypercube and diffusive start groups in parallel, each node in a
    world of its own, so that it can be given back."""
    costs = p.costs_named(cost or (), predict=predict)
    p.check_picture(draw)
    given = _counts("--cores", cores, "cores")
    try:
        with Working("planning"):
            plan = spawn_plan(
                given, _running(running, given, oversubscribe), method, strategy,
                oversubscription=oversubscribe, one=one,
            )  # fmt: skip
    except ValueError as error:
        raise PliantError(f"--cores, --running: {error}") from None
    times = predict_spawn(plan, costs, processors=processors) if predict else None
    if draw is not None:
        from pliant.charts.plans import spawn_chart

        p.draw(draw, lambda: spawn_chart(plan, times))
    if as_json:
        typer.echo(json.dumps(_told(plan, times)))
        return
    p.show(table(plan, times), _lines(plan, times))


def _counts(option: str, text: str, what: str) -> tuple[int, ...]:
    """``4,2,20x8``; PliantError where it is malformed, or stands for more nodes than any machine has."""
    counts: list[int] = []
    for part in text.split(","):
        each, by, times = part.partition("x")
        where = f"{option} {part}"
        repeated = p.number(where, times, "nodes") if by else 1
        if len(counts) + repeated > MOST_HOSTS:
            raise PliantError(f"{where}: more than {MOST_HOSTS:,} nodes")
        counts += [p.number(where, each, what)] * repeated
    return tuple(counts)


def _running(text: str, cores: tuple[int, ...], oversubscribe: int) -> list[int]:
    """By node. One number is how many there are: they fill the nodes in order."""
    counts = _counts("--running", text, "processes")
    if "," in text or "x" in text:
        return list(counts)
    left, filled = counts[0], []
    for room in cores:
        filled.append(min(left, room * oversubscribe))
        left -= filled[-1]
    if left:
        raise PliantError(
            f"--running {counts[0]}: there is room for {sum(filled):,}; say how many each node has, as 20,20 or 20x1"
        )
    return filled


def table(plan: SpawnPlan, times: SpawnTimes | None) -> Table:
    """A step a row."""
    shown = Table(
        title=f"{plan.method.value}, {plan.strategy.value}: {count(plan.sources, 'process', 'processes')} "
        f"become {plan.targets:,}",
        title_justify="left",
    )
    for heading in ("step", "processes", "spawned", "nodes", "new nodes", "groups"):
        shown.add_column(heading, justify="right")
    if times is not None:
        shown.add_column("takes", justify="right")
    for i, step in enumerate(plan.steps):
        cells = [f"{cell:,}" for cell in step]
        if i == 0:
            cells[2] = cells[4] = cells[5] = "-"
        if times is not None:
            cells.append(p.duration(times.steps[i]) if i else "-")
        shown.add_row(*cells)
    return shown


def _lines(plan: SpawnPlan, times: SpawnTimes | None) -> list[str]:
    worlds = len(plan.calls)
    if not worlds:
        return ["Nothing is to be started: the job has all that it is given."]
    lines = []
    if worlds > 1:
        rounds = connection_plan(worlds, 0).rounds
        lines.append(f"{worlds:,} worlds are connected in {count(len(rounds), 'round')}.")
    if plan.method is Method.BASELINE:
        counted = "not counted" if plan.strategy is Strategy.HYPERCUBE else "counted"
        lines.append(f"The {plan.sources:,} that were there leave at the end; above they are {counted}.")
    if times is not None:
        lines.append(p.times_line(times))
    return lines


def _told(plan: SpawnPlan, times: SpawnTimes | None) -> dict[str, Any]:
    steps = [
        {name: value for name, value in step._asdict().items() if name != "groups"} for step in plan.steps
    ]
    if times is not None:
        steps = [{**step, "seconds": p.rounded(took)} for step, took in zip(steps, times.steps, strict=True)]
    groups = [
        {**group, "first_rank": rank}
        for group, rank in zip(p.told_groups(plan), first_ranks(plan), strict=True)
    ]
    rounds = connection_plan(len(plan.calls), 0).rounds if plan.calls else ()
    told = {
        "method": plan.method.value,
        "strategy": plan.strategy.value,
        "one": plan.one,
        "cores": plan.cores,
        "running": plan.running,
        "steps": steps,
        "groups": groups,
        "connections": [
            {
                "round": each.number,
                "accept_connect": [pair[1:3] for pair in each.connections],
                "skips": each.skips,
            }
            for each in rounds
        ],
    }
    return told if times is None else {**told, "predicted": p.told_times(times)}
