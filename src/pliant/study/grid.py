"""One workload with several shares of malleable jobs, policies, seeds and windows: a row a share and policy, and what
differs between them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from pliant.files.external import at_work
from pliant.files.policy import PolicySpec
from pliant.history.turnarounds import Turnarounds
from pliant.sim.instant import Instant
from pliant.study.confidence import interval
from pliant.study.differences import COMPARED, harm, ratio, turnaround_ratios
from pliant.study.files import Files
from pliant.study.groups import LABELS, in_order
from pliant.study.simulation import simulation
from pliant.study.workers import Task, Workers
from pliant.workloads.sources import Wish

FIGURES = (
    "wait_mean_s",
    "turnaround_mean_s",
    "turnaround_p95_s",
    "turnaround_max_s",
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
    "energy_kwh",
    "off_node_h",
    "boots",
)
"""What a row has the means of."""
NO_FILES = Files()
NOTHING = {"mean": None, "half": None}
"""In place of an interval, where no run has the figure."""


class Against(NamedTuple):
    """With which row each is compared: that of a policy, else its own, at a percentage, else at its own."""

    policy: str = ""
    percent: float | None = None


class Grid(NamedTuple):
    """Every percentage of malleable jobs (None: the workload as it is) under every policy, with ``seeds``
    seeds from the wish's on and in each of its windows. What differs is told for all jobs, and ``by`` groups of them
    (``groups.LABELS``): under several policies from the first at the same percentage, under one from the first
    percentage, or as ``against`` says."""

    wish: Wish
    policies: Sequence[PolicySpec]
    percents: Sequence[float] | None = None
    seeds: int = 1
    instant: Instant = Instant.TOGETHER
    by: Sequence[str] = ()
    against: Against | None = None

    @property
    def windows(self) -> int:
        return self.wish.window.several if self.wish.window is not None else 1

    @property
    def most(self) -> int:
        """How many simulations these are at most: what no seed changes runs once."""
        return len(self.percents or (0,)) * self.seeds * self.windows * len(self.policies)

    @property
    def rows(self) -> list[tuple[float | None, PolicySpec]]:
        """The percentage and the policy of each."""
        shares: Sequence[float | None] = self.percents if self.percents is not None else (None,)
        return [(percent, policy) for percent in shares for policy in self.policies]

    def beside(self, row: int) -> int:
        """The row with which a row is compared, which may be itself."""
        several = len(self.policies)
        share, policy = divmod(row, several)
        if self.against is None:
            return share * several if several > 1 else 0
        named, percent = self.against
        if named:
            policy = [each.name for each in self.policies].index(named)
        if percent is not None:
            share = list(self.percents or ()).index(percent)
        return share * several + policy

    def tasks(
        self, runs: range, files: Files = NO_FILES, varying: Collection[int] | None = None
    ) -> list[Task]:
        """The simulations with the seeds numbered ``runs``, of all rows or those that are ``varying``."""
        kept = Kept(len(self.rows) > 1, tuple(self.by))
        return [
            (
                one,
                (
                    row,
                    self.wish._replace(percent=percent, run=run, cut=cut),
                    policy,
                    self.instant,
                    files,
                    kept,
                ),
            )
            for row, (percent, policy) in enumerate(self.rows)
            if varying is None or row in varying
            for run in runs
            for cut in range(self.windows)
        ]


class Kept(NamedTuple):
    """What is kept of the single jobs of a simulation: their turnarounds, and their groups ``by`` these names."""

    turnarounds: bool = False
    by: tuple[str, ...] = ()


class Cell(NamedTuple):
    """One simulation of a ``row`` of the grid; ``fixed`` says that other seeds would give the same. ``policy`` is what
    its policy is called: of two users' own, it may be the same. ``note``: which jobs were left out, for people. Of each
    job that counts, in order of submission, ``turnarounds`` has the seconds and ``groups`` the name of its group, for
    each of the names by which they are told apart."""

    row: int
    run: int
    cut: int
    percent: float | None
    policy: str
    nodes: int
    fixed: bool
    figures: dict[str, float | None]
    note: str
    turnarounds: Sequence[float]
    groups: dict[str, list[str]]


def one(  # noqa: PLR0913, PLR0917 -- a task has its arguments in order
    row: int, wish: Wish, chosen: PolicySpec, instant: Instant, files: Files, kept: Kept
) -> Cell:
    """A simulation of the workload, in this process."""
    made = simulation(wish, chosen, instant)
    load = made.load
    specs = [job.spec for job in load.counts]
    turns = Turnarounds(specs if kept.turnarounds else [])
    with files.opened(made, wish.text) as (listeners, keep):
        ended = made.run(*listeners, *([turns] if kept.turnarounds else []), keep=keep)
    end = ended.end
    out = {"left_out": load.left_out, "too_wide": len(load.too_wide)}
    figures = {
        key: out[key] if key in out else getattr(end if key in end._fields else ended.metrics, key)
        for key in FIGURES
    }
    return Cell(
        row,
        wish.run,
        wish.cut,
        wish.percent,
        made.policy.name,
        load.nodes,
        load.fixed,
        figures,
        load.note,
        turns.turnarounds,
        {by: [LABELS[by](spec) for spec in specs] for by in kept.by},
    )


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
    the width of their 95 % confidence intervals, None if there was one run; ``differences`` for each row that is
    compared with another (``Grid.beside``), and ``groups`` with the same of groups of jobs. ``note`` is told, at the
    end, which jobs were left out of the first simulation that left some out. PolicyError before anything is
    simulated if a policy is unknown, or its process does not greet.
    """
    for chosen in grid.policies:
        with at_work(chosen.over(PolicySpec("malleable")).make()):
            pass
    with Workers(workers, progress) as several:
        cells: list[Cell] = list(several.each(grid.tasks(range(1), files)))
        varying = {cell.row for cell in cells if not cell.fixed}
        if varying:
            cells += several.each(grid.tasks(range(1, grid.seeds), varying=varying))
    if notes := [cell.note for cell in cells if cell.note]:
        note(notes[0])
    of_rows = [[cell for cell in cells if cell.row == row] for row in range(len(grid.rows))]
    rows = [_row(each) for each in of_rows]
    compared = [
        _pairs(of_rows[grid.beside(row)], each) for row, each in enumerate(of_rows) if grid.beside(row) != row
    ]
    pairs = [each for each in compared if each]
    return {
        "workload": grid.wish.text,
        "nodes": cells[0].nodes,
        "policy": ", ".join(dict.fromkeys(row["policy"] for row in rows)),
        "seed": grid.wish.seed,
        "windows": grid.windows,
        "rows": rows,
        "differences": [_difference(each) for each in pairs],
        "groups": [row for each in pairs for name in grid.by for row in _groups(each, name)],
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


# ---- what differs --------------------------------------------------------------------------------------------

Pairs = list[tuple[Cell, Cell]]
"""Of two rows, the simulations with the same seed and window; what no seed changes stands beside each."""


def _pairs(first: Sequence[Cell], row: Sequence[Cell]) -> Pairs:
    """None if they are not of the same jobs, as those of a generator that makes others for each percentage."""
    before = {(cell.run, cell.cut): cell for cell in first}
    after = {(cell.run, cell.cut): cell for cell in row}
    pairs = [
        (before.get(key) or before[0, key[1]], after.get(key) or after[0, key[1]])
        for key in sorted(before.keys() | after.keys())
    ]
    same = all(len(one.turnarounds) == len(other.turnarounds) for one, other in pairs)
    return pairs if same else []


def _about(pairs: Pairs) -> dict[str, Any]:
    before, after = pairs[0]
    return {
        "malleable_percent": after.percent,
        "policy": after.policy,
        "against": {"malleable_percent": before.percent, "policy": before.policy},
        "pairs": len(pairs),
    }


def _difference(pairs: Pairs) -> dict[str, Any]:
    ratios = {
        key: ratio([(before.figures[key], after.figures[key]) for before, after in pairs]) for key in COMPARED
    }
    return {
        **_about(pairs),
        **ratios,
        **harm([(before.turnarounds, after.turnarounds) for before, after in pairs]),
    }


def _groups(pairs: Pairs, by: str) -> list[dict[str, Any]]:
    """The same of each group of jobs, by what they are in the second of each pair: before, some may be rigid still."""
    names = {name for _, after in pairs for name in after.groups[by]}
    rows: list[dict[str, Any]] = []
    for name in in_order(by, list(names)):
        theirs = []
        for before, after in pairs:
            places = [i for i, each in enumerate(after.groups[by]) if each == name]
            if places:
                theirs.append(
                    ([before.turnarounds[i] for i in places], [after.turnarounds[i] for i in places])
                )
        rows.append(
            {**_about(pairs), "pairs": len(theirs), "by": by, "group": name}
            | turnaround_ratios(theirs)
            | harm(theirs)
        )
    return rows
