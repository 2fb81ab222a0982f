"""``pliant plan shrink``: which processes end, sleep or are started anew when a job gives nodes back."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, NamedTuple

import typer
from rich.table import Table

from pliant.cli import plan as p
from pliant.cli.outputs import AsJson
from pliant.model.errors import PliantError
from pliant.model.limits import MOST_NODES
from pliant.model.nodes import hostlist, parse_hostlist
from pliant.model.words import count
from pliant.plan.giving_back import NodeChoice, choose_nodes
from pliant.plan.shrink import (
    ShrinkMethod,
    ShrinkPlan,
    SpawnedWorld,
    WorldCase,
    WorldRank,
    awake_on,
    shrink_plan,
    world_over,
)
from pliant.plan.spawn_cost import ShrinkTimes, predict_shrink
from pliant.terminal.working import Working

WORDS = {
    WorldCase.KEPT: "stays as it is",
    WorldCase.TERMINATED: "ends: all of it is given back",
    WorldCase.EMPTIED: "ends: no rank of it would be awake",
    WorldCase.THINNED: "some ranks sleep",
    WorldCase.HELD: "its ranks on nodes that are given back sleep there",
    WorldCase.RESPAWNED: "ends, and is started anew on what stays",
}
CHOICES = {
    NodeChoice.FREE: "the last ones that go together",
    NodeChoice.INITIAL_STAYS: "from later expansions: those that the job began on stay",
    NodeChoice.INITIAL_GOES: "with all those that the job began on",
    NodeChoice.CUT: "a world over several nodes is cut: none go together that are as many",
}
PARTS = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
"""Of a list whose brackets may have commas in them."""


class ShrinkingJob(NamedTuple):
    """Its worlds, whose nodes are places in ``names``."""

    worlds: tuple[SpawnedWorld, ...]
    names: tuple[str, ...]

    def named(self, nodes: Sequence[int]) -> str:
        return hostlist(self.names[node] for node in nodes)


def shrink(  # noqa: PLR0913 -- a command has its options as parameters
    *,
    world: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NODES=RANKS",
            help="A world over nodes, as n[0-1]=20 or n0=4,n1=2+2 (2 awake, 2 asleep); repeat it.",
        ),
    ] = None,
    groups: Annotated[
        list[str] | None,
        typer.Option(metavar="NODES=RANKS", help="Nodes with a world of their own each, behind --world."),
    ] = None,
    give_back: Annotated[
        str,
        typer.Option(metavar="NODES[=SLOTS]", help="What goes, as n[2-3] or n3=1,n4; default: all slots."),
    ] = "",
    nodes: Annotated[
        int | None,
        typer.Option(
            help="In place of --give-back: so many nodes, chosen so that no world goes in part, if that can be."
        ),
    ] = None,
    method: Annotated[
        ShrinkMethod,
        typer.Option(
            help="Of worlds that go in part: start anew what stays, or let ranks sleep; or start all anew."
        ),
    ] = ShrinkMethod.TERMINATION,
    draw: p.Draw = None,
    predict: p.Predict = False,
    cost: p.Costs = None,
    processors: p.Processors = 0,
    as_json: AsJson = False,
) -> None:
    """Show what becomes of each rank when a job gives back nodes or slots. A world whose ranks all leave ends, at
    next to no cost. Where some stay, the others sleep, or all are started anew (Martín-Álvarez et al. 2025,
    sections 4.6 and 4.7)."""
    costs = p.costs_named(cost or (), predict=predict)
    p.check_picture(draw)
    job = _job(world or (), groups or ())
    if bool(give_back) == (nodes is not None):
        raise PliantError("say what is given back, by one of --give-back and --nodes")
    try:
        with Working("planning"):
            if nodes is None:
                choice, slots = None, _slots(give_back, job)
            else:
                choice, slots = choose_nodes(job.worlds, nodes)
            plan = shrink_plan(job.worlds, slots, method)
    except ValueError as error:
        raise PliantError(_with_names(str(error), job.names)) from None
    times = predict_shrink(plan, costs, processors=processors) if predict else None
    if draw is not None:
        from pliant.charts.plans import shrink_chart

        p.draw(draw, lambda: shrink_chart(job.worlds, plan, job.names))
    if as_json:
        typer.echo(json.dumps(_told(job, plan, slots, choice, times)))
        return
    p.show(table(job, plan), _lines(job, plan, slots, choice, times))


# ---- what is said of the job ----------------------------------------------------------------------------


def _job(worlds: Sequence[str], groups: Sequence[str]) -> ShrinkingJob:
    places: dict[str, int] = {}
    made: list[SpawnedWorld] = []
    for text in worlds:
        made.append(_world(len(made), [*_entries("--world", text)], places))
    for text in groups:
        for entry in _entries("--groups", text):
            made.append(_world(len(made), [entry], places))
    if not made:
        raise PliantError("a job has at least one world: say by --world or --groups where its ranks are")
    return ShrinkingJob(tuple(made), tuple(places))


def _entries(option: str, text: str) -> Iterator[tuple[str, str]]:
    """Each node with what is said of it: ``n[0-1]=4,n2=2`` has three."""
    for part in map(str.strip, PARTS.findall(text)):
        nodes, _, value = part.partition("=")
        try:
            names = parse_hostlist(nodes)
        except ValueError as error:
            raise PliantError(f"{option}: {error}") from None
        if not names or PARTS.sub("", text).strip(","):
            raise PliantError(f"{option} {text}: {part!r} names no node; write n0=4 or n[0-3]=4")
        for name in names:
            yield name, value


def _world(number: int, entries: Sequence[tuple[str, str]], places: dict[str, int]) -> SpawnedWorld:
    what = f"world {number}"
    ranks: dict[int, int] = {}
    asleep: list[int] = []
    first = 0
    for name, value in entries:
        node = places.setdefault(name, len(places))
        awake, plus, sleeping = value.partition("+")
        up = p.number(f"{what}: {name}={value}", awake, "ranks")
        down = p.number(f"{what}: {name}={value}", sleeping, "ranks") if plus else 0
        if node in ranks or not up + down:
            raise PliantError(f"{what}: {name}={value}: a world has ranks on each of its nodes, said once")
        if first + up + down > MOST_NODES:
            raise PliantError(f"{what}: more than {MOST_NODES:,} ranks")
        ranks[node] = up + down
        asleep += range(first + up, first + up + down)
        first += up + down
    return world_over(number, ranks, asleep)


def _slots(text: str, job: ShrinkingJob) -> dict[int, int]:
    """What ``--give-back`` says, by node."""
    awake = awake_on(job.worlds)
    found: dict[int, int] = {}
    for name, value in _entries("--give-back", text):
        if name not in job.names:
            raise PliantError(f"--give-back: the job is not on {name}; it is on {hostlist(job.names)}")
        node = job.names.index(name)
        if node in found:
            raise PliantError(f"--give-back: {name} twice; say it once")
        found[node] = p.number(f"--give-back {name}", value, "slots") if value else awake[node]
    return found


def _with_names(text: str, names: Sequence[str]) -> str:
    """The pure rings know nodes by number alone."""
    return re.sub(r"\bnode (\d+)\b", lambda match: f"node {names[int(match[1])]}", text)


# ---- what is told ---------------------------------------------------------------------------------------


def table(job: ShrinkingJob, plan: ShrinkPlan) -> Table:
    """A world a row."""
    shown = Table(title=f"{plan.method.value}: what becomes of worlds", title_justify="left")
    shown.add_column("world", justify="right")
    shown.add_column("nodes", overflow="fold")
    for heading in ("stay", "fall asleep", "sleep on", "end"):
        shown.add_column(heading, justify="right")
    shown.add_column("")
    for world, fate in zip(job.worlds, plan.fates, strict=True):
        ranks = (fate.stays, fate.sleeps, fate.asleep, fate.ends)
        shown.add_row(
            str(world.id),
            job.named(world.nodes),
            *(f"{len(each):,}" if each else "-" for each in ranks),
            WORDS[fate.case],
        )
    return shown


def _lines(
    job: ShrinkingJob,
    plan: ShrinkPlan,
    slots: dict[int, int],
    choice: NodeChoice | None,
    times: ShrinkTimes | None,
) -> Iterator[str]:
    if choice is not None:
        yield f"Given back: {job.named(list(slots))}, {CHOICES[choice]}."
    if plan.respawn is not None:
        started = ", ".join(f"{group.size} on {job.names[group.node]}" for group in plan.respawn.groups[:8])
        more = ", ..." if len(plan.respawn.groups) > 8 else ""
        steps = count(len(plan.respawn.steps) - 1, "step")
        yield f"Started anew, in {steps}, before anybody leaves: {started}{more}."
    yield f"Free afterwards: {job.named(plan.free) or 'no node'}."
    if plan.held:
        yield f"Held by ranks that sleep, until their worlds end: {job.named(plan.held)}."
    if plan.root_leaves:
        yield f"The root, {_process(plan.root_before)}, hands its records to {_process(plan.root_after)}."
    if times is not None:
        later = f"; what goes has ended {p.duration(times.free_s)} later" if times.free_s else ""
        yield f"Expected: the job stands still for {p.duration(times.blocked_s)}{later}."


def _process(process: WorldRank) -> str:
    return f"rank {process.rank} of world {process.world}"


def _told(
    job: ShrinkingJob,
    plan: ShrinkPlan,
    slots: dict[int, int],
    choice: NodeChoice | None,
    times: ShrinkTimes | None,
) -> dict[str, Any]:
    told: dict[str, Any] = {
        "method": plan.method.value,
        "choice": choice,
        "give_back": {job.names[node]: count for node, count in slots.items()},
        "worlds": [fate._asdict() for fate in plan.fates],
        "respawn": None
        if plan.respawn is None
        else {
            "steps": [step._asdict() for step in plan.respawn.steps],
            "groups": p.told_groups(plan.respawn, job.names),
        },
        "after": [
            {
                "world": world.id,
                "nodes": {job.names[node]: ranks for node, ranks in Counter(world.nodes).items()},
                "asleep": sorted(world.asleep),
            }
            for world in plan.after
        ],
        "free": [job.names[node] for node in plan.free],
        "held": [job.names[node] for node in plan.held],
        "root_before": plan.root_before._asdict(),
        "root_after": plan.root_after._asdict(),
    }
    if times is not None:
        told["predicted"] = {
            "blocked_s": p.rounded(times.blocked_s),
            "free_s": p.rounded(times.free_s),
            "total_s": p.rounded(times.total_s),
            "respawn": None if times.respawn is None else p.told_times(times.respawn),
        }
    return told
