"""What the plans of ``pliant plan`` expect of the resizes that were measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from pliant.plan.shrink import ShrinkMethod, shrink_plan, world_over
from pliant.plan.spawn import spawn_plan
from pliant.plan.spawn_cost import SpawnCosts, predict_shrink, predict_spawn
from pliant_lab.measure.resizing import Cell, Setting
from pliant_lab.measure.trials import Surface
from pliant_lab.measure.ways import WAYS, Leave, Spawn
from pliant_lab.reproduce.spawning.rows import Table

GROWS = ("process_s", "call_s", "connect_s", "launch_s")
SHRINKS = ("turn_s", "part_each_s")
"""The coefficients that are fitted."""
PARTING = ("TS", "ZS")
SWEEPS = 100
LEAST_S = 1e-6


def predicted(way: str, cell: Cell, slots: Sequence[int], costs: SpawnCosts, processors: int) -> float | None:
    """Seconds until the job goes on, on nodes that share ``processors``; None if no plan is of this way."""
    [found] = [each for each in WAYS if each.name == way]
    setting = Setting((), tuple(slots), Surface(), 0.0)
    nodes = max(cell)
    match found:
        case Spawn():
            plan = spawn_plan(
                setting.fill(cell.after, nodes),
                setting.fill(cell.before, nodes),
                found.method,
                found.strategy,
            )
            return predict_spawn(plan, costs, processors=processors).total_s
        case Leave():
            ranks = dict(enumerate(setting.fill(nodes, nodes)))
            if found.grown:
                worlds = [world_over(node, {node: here}) for node, here in ranks.items()]
            else:
                worlds = [world_over(0, ranks)]
            goes = {node: here for node, here in ranks.items() if node >= cell.after}
            leave = shrink_plan(
                worlds, goes, ShrinkMethod.TERMINATION if found.grown else ShrinkMethod.ZOMBIE
            )
            return predict_shrink(leave, costs, processors=processors).blocked_s
        case _:
            return None


class Fit(NamedTuple):
    """Coefficients, and the times that they were fitted to: all others are a check."""

    costs: SpawnCosts
    points: frozenset[tuple[Cell, str]]


def fitted(table: Table, processors: int) -> Fit:
    """The default coefficients, but for those of GROWS and SHRINKS, with which the plans come as near as they can to
    the ways of every other pair of sizes; where there is one pair, to its first way. A respawn is fitted to nothing:
    it is a growth."""
    costs, points = SpawnCosts(), frozenset[tuple[Cell, str]]()
    for grows, names in ((True, GROWS), (False, SHRINKS)):
        cells = table.cells(grows=grows)
        ways = [way for way in table.ways(grows=grows) if grows or way in PARTING]
        some = [
            (cell, way)
            for cell in cells[::2]
            for way in ways
            if (table.total(cell, way) or 0.0) > 0.0
            and predicted(way, cell, table.slots, costs, processors) is not None
        ]
        some = some if len(cells) > 1 else some[:1]
        costs = _fit(table, processors, costs, names, some)
        points |= frozenset(some)
    return Fit(costs, points)


def _fit(
    table: Table,
    processors: int,
    costs: SpawnCosts,
    names: Sequence[str],
    points: Sequence[tuple[Cell, str]],
) -> SpawnCosts:
    """By the least squares of how many times too much or too little a plan says: one coefficient after the other, none
    below 0, until nothing changes. What a plan says is a sum in which each coefficient counts as often as it counts."""

    def says(**values: float) -> list[float]:
        those = replace(costs, **dict.fromkeys(names, 0.0) | values)
        return [predicted(way, cell, table.slots, those, processors) or 0.0 for cell, way in points]

    told = [table.total(cell, way) or 0.0 for cell, way in points]
    base = says()
    counts = {
        name: [one - none for one, none in zip(says(**{name: 1.0}), base, strict=True)] for name in names
    }
    values: dict[str, float] = {name: getattr(costs, name) for name in names}
    for _ in range(SWEEPS):
        for name, count in counts.items():
            said = says(**values)
            # Near the truth (said - told)^2 / (said told) is the square of the logarithm of said / told.
            weights = [1.0 / (max(say, LEAST_S) * tell) for say, tell in zip(said, told, strict=True)]
            below = sum(w * each * each for w, each in zip(weights, count, strict=True))
            if below:
                off = [
                    tell - say + values[name] * each
                    for tell, say, each in zip(told, said, count, strict=True)
                ]
                above = sum(w * each * rest for w, each, rest in zip(weights, count, off, strict=True))
                values[name] = max(0.0, round(above / below, 9))
    return replace(costs, **values)
