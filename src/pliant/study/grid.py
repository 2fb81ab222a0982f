"""One workload with several shares of malleable jobs, policies and seeds: a row a share and policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pliant.files.external import at_work
from pliant.files.policy import PolicySpec
from pliant.sim.instant import Instant
from pliant.study.confidence import interval
from pliant.study.files import Files
from pliant.study.simulation import simulation
from pliant.study.workers import Task, Workers
from pliant.workloads.sources import Wish

FIGURES = (
    "wait_mean_s",
    "turnaround_mean_s",
    "bounded_slowdown_mean",
    "bounded_slowdown_preferred_mean",
    "malleable_to_rigid_turnaround",
    "makespan_s",
    "utilisation",
    "expands",
    "shrinks",
    "resizes_withdrawn",
    "resizes_declined",
    "resizes_failed",
    "left_out",
    "too_wide",
    "failed",
    "node_failures",
    "requeued",
    "lost_node_s",
)
"""What a row has the means of."""
NO_FILES = Files()
NOTHING = {"mean": None, "half": None}
"""In place of an interval, where no run has the figure."""


class Grid(NamedTuple):
    """Every percentage of malleable jobs (None: the workload as it is) under every policy, with ``seeds``
    seeds from the wish's on."""

    wish: Wish
    policies: Sequence[PolicySpec]
    percents: Sequence[float] | None = None
    seeds: int = 1
    instant: Instant = Instant.TOGETHER

    @property
    def most(self) -> int:
        """How many simulations these are at most: what no seed changes runs once."""
        return len(self.percents or (0,)) * self.seeds * len(self.policies)

    def tasks(self, runs: range, files: Files = NO_FILES) -> list[Task]:
        """The simulations with the seeds numbered ``runs``."""
        shares: Sequence[float | None] = self.percents if self.percents is not None else (None,)
        return [
            (one, (self.wish._replace(percent=percent, run=run), policy, self.instant, files))
            for percent in shares
            for policy in self.policies
            for run in runs
        ]


class Cell(NamedTuple):
    """One simulation; ``fixed`` says that other seeds would give the same. ``policy`` is what ``chosen`` is
    called: of two users' own, it may be the same. ``note``: which jobs were left out, for people."""

    percent: float | None
    chosen: PolicySpec
    fixed: bool
    nodes: int
    policy: str
    figures: dict[str, float | None]
    note: str = ""


def one(wish: Wish, chosen: PolicySpec, instant: Instant, files: Files = NO_FILES) -> Cell:
    """A simulation of the workload, in this process."""
    made = simulation(wish, chosen, instant)
    with files.opened(made, wish.text) as (listeners, keep):
        ended = made.run(*listeners, keep=keep)
    end, load = ended.end, made.load
    out = {"left_out": load.left_out, "too_wide": len(load.too_wide)}
    figures = {
        key: out[key] if key in out else getattr(end if key in end._fields else ended.metrics, key)
        for key in FIGURES
    }
    return Cell(wish.percent, chosen, load.fixed, load.nodes, made.policy.name, figures, load.note)


def study(
    grid: Grid,
    *,
    workers: int = 0,
    files: Files = NO_FILES,
    progress: Callable[[int], None] = lambda _done: None,
    note: Callable[[str], None] = lambda _text: None,
) -> dict[str, Any]:
    """Its simulations in ``workers`` processes (0: one a processor). ``files`` are for a grid of one.

    What no seed changes runs once. The result has a row for each percentage and policy, with means and half
    the width of their 95 % confidence intervals, None if there was one run. ``note`` is told, at the end, which jobs
    were left out of the first simulation that left some out. PolicyError before anything is
    simulated if a policy is unknown, or its process does not greet.
    """
    for chosen in grid.policies:
        with at_work(chosen.over(PolicySpec("malleable")).make()):
            pass
    with Workers(workers, progress) as several:
        cells: list[Cell] = list(several.each(grid.tasks(range(1), files)))
        firsts = [(cell.percent, cell.chosen) for cell in cells]
        vary = {cell.percent for cell in cells if not cell.fixed}
        if vary:
            shares = None if grid.percents is None else [each for each in grid.percents if each in vary]
            cells += several.each(grid._replace(percents=shares).tasks(range(1, grid.seeds)))
    if notes := [cell.note for cell in cells if cell.note]:
        note(notes[0])
    rows = [_row([cell for cell in cells if (cell.percent, cell.chosen) == first]) for first in firsts]
    return {
        "workload": grid.wish.text,
        "nodes": cells[0].nodes,
        "policy": ", ".join(dict.fromkeys(row["policy"] for row in rows)),
        "seed": grid.wish.seed,
        "rows": rows,
    }


def _row(cells: Sequence[Cell]) -> dict[str, Any]:
    """Of the simulations of one percentage under one policy, in the order of their seeds."""
    row: dict[str, Any] = {
        "malleable_percent": cells[0].percent,
        "policy": cells[0].policy,
        "runs": len(cells),
    }
    for key in FIGURES:
        values = [value for cell in cells if (value := cell.figures[key]) is not None]
        row[key] = interval([float(value) for value in values])._asdict() if values else NOTHING
    return row
